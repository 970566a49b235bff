-- Purpose: workers say by a server that did not claim them which jobs they still run: those whose tickets are good are
--          theirs, with a lease of their own from now on, beside that of the claim if its server has not let go of them.
-- Parameters: $1 int8[] ids, $2 bytea[] tickets, $3 text[] workers, $4 int8 lease in ms,
--             $5 text[] how far they are, or NULL
-- Rows: n int8: the position in the input, from 1, of each that is theirs; cancelled bool: its end was asked for.
--       What is missing was lost. One that somebody else holds is theirs too, and its lease is as it was: the next word tells
-- Locks: the jobs, against the sweep alone (no sender of a signal is in the way), and the rows; skipping what others hold
-- Index: job_pkey, held_pkey, machine_pkey, job_option_pkey
-- Roles: worker
WITH mine AS MATERIALIZED (
    SELECT i.n, i.worker, i.progress, j.id, j.token, j.has_options, j.cancel_by IS NOT NULL AS cancelled
    FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::bytea[]), pg_catalog.unnest($3::text[]),
                    pg_catalog.unnest($5::text[])) WITH ORDINALITY AS i(id, ticket, worker, progress, n)
    CROSS JOIN LATERAL (SELECT x.id, x.token, x.has_options, x.cancel_by, x.is_machine
                        FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
    LEFT JOIN LATERAL (SELECT x.step FROM pawl.machine AS x WHERE x.job_id = j.id OFFSET 0) AS s ON j.is_machine
    WHERE j.token IS NOT NULL
      AND pg_catalog.substr(i.ticket, 4) = pawl.ticket(j.token, j.id, s.step)
), safe AS MATERIALIZED (
    SELECT j.id
    FROM mine AS m
    CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                        WHERE x.id = m.id AND x.token = m.token FOR KEY SHARE SKIP LOCKED) AS j
), heard AS MATERIALIZED (
    SELECT j.id, j.has_options, m.progress
    FROM mine AS m
    CROSS JOIN LATERAL (SELECT x.id, x.has_options FROM pawl.job AS x
                        WHERE x.id = m.id AND x.token = m.token FOR NO KEY UPDATE SKIP LOCKED) AS j
    WHERE m.progress IS NOT NULL
), marked AS (
    UPDATE pawl.job AS j SET has_options = true
    WHERE j.id = ANY (ARRAY(SELECT h.id FROM heard AS h WHERE h.has_options IS NULL))
), noted AS (
    INSERT INTO pawl.job_option AS o (job_id, progress)
    SELECT DISTINCT ON (h.id) h.id, h.progress FROM heard AS h ORDER BY h.id
    ON CONFLICT (job_id) DO UPDATE SET progress = excluded.progress
), free AS MATERIALIZED (
    SELECT h.job_id
    FROM mine AS m
    CROSS JOIN LATERAL (SELECT x.job_id FROM pawl.held AS x WHERE x.job_id = m.id FOR UPDATE SKIP LOCKED) AS h
), put AS (
    INSERT INTO pawl.held AS h (job_id, token, worker, lease_until)
    SELECT DISTINCT ON (m.id) m.id, m.token, m.worker,
           pg_catalog.clock_timestamp() + $4::int8::float8 * interval '1 millisecond'
    FROM mine AS m
    WHERE m.id IN (SELECT s.id FROM safe AS s)
      AND (m.id IN (SELECT f.job_id FROM free AS f) OR (SELECT true FROM pawl.held AS k WHERE k.job_id = m.id) IS NULL)
    ORDER BY m.id
    ON CONFLICT (job_id) DO UPDATE
    SET token = excluded.token, worker = excluded.worker, lease_until = excluded.lease_until,
        let_go = h.let_go AND h.token = excluded.token
)
SELECT n, cancelled FROM mine
