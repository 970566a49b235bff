-- Purpose: puts a signal into the inbox of a machine and wakes it if it waits for it, with the caller's transaction.
-- Parameters: $1 int8 job, $2 text name, $3 text payload (JSON), $4 text key or NULL
-- Rows: one: sent bool; false: one with this name and key was sent before. written: without meaning
-- Locks: the new signal; the job at the commit
-- Index: job_pkey, signal_key
-- Roles: producer, enqueuer
-- The answer that a signal was sent before must last as long as that signal: see tx_confirm.
SELECT s.sent,
       CASE WHEN NOT s.sent THEN pg_catalog.pg_logical_emit_message(true, 'pawl', '') IS NOT NULL END AS written
FROM (SELECT pawl.signal($1::int8, $2::text, $3::text::pg_catalog.jsonb, $4::text) AS sent) AS s
