-- Purpose: signal_send, and whether the job waited for it.
-- Parameters: $1 int8 job, $2 text name, $3 text payload (JSON), $4 text key or NULL
-- Rows: one: sent bool; false: one with this name and key was sent before; waited bool: the job was waiting for it;
--       written: without meaning
-- Locks: the new signal; the job at the commit
-- Index: job_pkey, machine_pkey, signal_key
-- Roles: server
WITH before AS MATERIALIZED (
    SELECT j.token IS NULL AND j.waits_for = 'signal' AND $2::text = ANY (m.awaits) AS waited
    FROM pawl.job AS j
    JOIN pawl.machine AS m ON m.job_id = j.id
    WHERE j.id = $1::int8
)
-- The answer that a signal was sent before must last as long as that signal: see tx_confirm.
SELECT s.sent, coalesce((SELECT before.waited FROM before), false) AS waited,
       CASE WHEN NOT s.sent THEN pg_catalog.pg_logical_emit_message(true, 'pawl', '') IS NOT NULL END AS written
FROM (SELECT pawl.signal($1::int8, $2::text, $3::text::pg_catalog.jsonb, $4::text) AS sent) AS s
