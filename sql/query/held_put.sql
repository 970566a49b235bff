-- Purpose: jobs whose workers went away from the server that claimed them, or said nothing to it for a lease, get leases of their
--          own: the server lets go of them.
-- Parameters: $1 int8[] ids, none twice, $2 uuid[] tokens, $3 text[] workers, $4 int8[] ms that are left of each lease
-- Rows: id int8 of each whose lease is not over, 0 for one whose is; negative for one that somebody else holds, for which nothing
--       was done; none for one that does not run any more
-- Locks: the jobs, against the sweep alone, and the rows; skipping what others hold
-- Index: job_pkey, held_pkey
-- Roles: worker
-- Its worker may have been faster, at another server: then the longer lease stays.
WITH mine AS MATERIALIZED (
    SELECT j.id, j.token, i.worker, i.ms
    FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::text[]),
                    pg_catalog.unnest($4::int8[])) AS i(id, token, worker, ms)
    CROSS JOIN LATERAL (SELECT x.id, x.token FROM pawl.job AS x WHERE x.id = i.id AND x.token = i.token OFFSET 0) AS j
), safe AS MATERIALIZED (
    SELECT j.id
    FROM mine AS m
    CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                        WHERE x.id = m.id AND x.token = m.token FOR KEY SHARE SKIP LOCKED) AS j
), free AS MATERIALIZED (
    SELECT h.job_id
    FROM mine AS m
    CROSS JOIN LATERAL (SELECT x.job_id FROM pawl.held AS x WHERE x.job_id = m.id FOR UPDATE SKIP LOCKED) AS h
), ready AS MATERIALIZED (
    SELECT m.*
    FROM mine AS m
    WHERE m.id IN (SELECT s.id FROM safe AS s)
      AND (m.id IN (SELECT f.job_id FROM free AS f) OR (SELECT true FROM pawl.held AS k WHERE k.job_id = m.id) IS NULL)
), put AS (
    INSERT INTO pawl.held AS h (job_id, token, worker, lease_until, let_go)
    SELECT r.id, r.token, r.worker, pg_catalog.clock_timestamp() + r.ms::float8 * interval '1 millisecond', true
    FROM ready AS r
    ON CONFLICT (job_id) DO UPDATE
    SET token = excluded.token,
        worker = excluded.worker,
        lease_until = CASE WHEN h.token = excluded.token THEN greatest(h.lease_until, excluded.lease_until)
                           ELSE excluded.lease_until END,
        let_go = true
    RETURNING CASE WHEN h.lease_until > pg_catalog.clock_timestamp() THEN h.job_id ELSE 0 END AS id
)
SELECT p.id FROM put AS p
UNION ALL
SELECT -m.id FROM mine AS m WHERE m.id NOT IN (SELECT r.id FROM ready AS r)
