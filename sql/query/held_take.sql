-- Purpose: workers say by a server that did not claim them which jobs they still run: those whose tickets are good are
--          theirs, with a lease of their own from now on, beside that of the claim if its server has not let go of them.
-- Parameters: $1 int8[] ids, $2 bytea[] tickets, $3 text[] workers, $4 int8 lease in ms,
--             $5 text[] how far they are, or NULL
-- Rows: n int8: the position in the input, from 1, of each that is theirs; cancelled bool: its end was asked for.
--       What is missing was lost
-- Locks: the jobs, against the sweep alone (no sender of a signal is in the way); the rows
-- Index: job_pkey, held_pkey
-- Roles: worker
WITH mine AS MATERIALIZED (
    SELECT i.n, i.worker, i.progress, j.id, j.token, j.cancel_by IS NOT NULL AS cancelled
    FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::bytea[]), pg_catalog.unnest($3::text[]),
                    pg_catalog.unnest($5::text[])) WITH ORDINALITY AS i(id, ticket, worker, progress, n)
    JOIN pawl.job AS j ON j.id = i.id
    WHERE j.token IS NOT NULL
      AND pg_catalog.substr(i.ticket, 4) = pawl.ticket(j.token, j.id, j.step)
    FOR KEY SHARE OF j
), noted AS (
    UPDATE pawl.job AS j SET progress = m.progress FROM mine AS m WHERE j.id = m.id AND m.progress IS NOT NULL
), put AS (
    INSERT INTO pawl.held AS h (job_id, token, worker, lease_until)
    SELECT DISTINCT ON (m.id) m.id, m.token, m.worker,
           pg_catalog.clock_timestamp() + $4::int8::float8 * interval '1 millisecond'
    FROM mine AS m
    ORDER BY m.id
    ON CONFLICT (job_id) DO UPDATE
    SET token = excluded.token, worker = excluded.worker, lease_until = excluded.lease_until,
        let_go = h.let_go AND h.token = excluded.token
)
SELECT n, cancelled FROM mine
