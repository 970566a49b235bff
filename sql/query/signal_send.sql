-- Purpose: puts a signal into the inbox of a machine and wakes it if it waits for it, with the caller's transaction.
-- Parameters: $1 int8 job, $2 text name, $3 text payload (JSON), $4 text key or NULL
-- Rows: one: sent bool; false: one with this name and key was sent before
-- Locks: the new signal; the job at the commit
-- Index: job_pkey, signal_key
-- Roles: producer, enqueuer
SELECT pawl.signal($1::int8, $2::text, $3::text::pg_catalog.jsonb, $4::text) AS sent
