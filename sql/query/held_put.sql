-- Purpose: jobs whose workers went away from the server that claimed them, or said nothing to it for a lease, get leases of their
--          own: the server lets go of them.
-- Parameters: $1 int8[] ids, none twice, $2 uuid[] tokens, $3 text[] workers, $4 int8[] ms that are left of each lease
-- Rows: id int8 of each whose lease is not over, 0 for one whose is; none for one that does not run any more
-- Locks: the jobs, against the sweep alone; the rows
-- Index: job_pkey, held_pkey
-- Roles: worker
-- Its worker may have been faster, at another server: then the longer lease stays.
INSERT INTO pawl.held AS h (job_id, token, worker, lease_until, let_go)
SELECT j.id, j.token, i.worker, pg_catalog.clock_timestamp() + i.ms::float8 * interval '1 millisecond', true
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::text[]),
                pg_catalog.unnest($4::int8[])) AS i(id, token, worker, ms)
JOIN pawl.job AS j ON j.id = i.id AND j.token = i.token
FOR KEY SHARE OF j
ON CONFLICT (job_id) DO UPDATE
SET token = excluded.token,
    worker = excluded.worker,
    lease_until = CASE WHEN h.token = excluded.token THEN greatest(h.lease_until, excluded.lease_until)
                       ELSE excluded.lease_until END,
    let_go = true
RETURNING CASE WHEN h.lease_until > pg_catalog.clock_timestamp() THEN h.job_id ELSE 0 END AS id
