-- Purpose: the same signal to every live job that was enqueued with a correlation key.
-- Parameters: $1 text correlation key, $2 text name, $3 text payload (JSON), $4 text key of the signal or NULL
-- Rows: one: jobs int8 that got it. written: without meaning
-- Locks: the new signals; the jobs at the commit
-- Index: job_correlation, signal_key
-- Roles: producer, enqueuer
-- With a key some may have got it before, which must last as well: see tx_confirm.
SELECT pawl.signal_all($1::text, $2::text, $3::text::pg_catalog.jsonb, $4::text) AS jobs,
       CASE WHEN $4::text IS NOT NULL THEN pg_catalog.pg_logical_emit_message(true, 'pawl', '') IS NOT NULL END AS written
