-- Purpose: who is writing to pawl.job and to pawl.claim at this moment, and the last number in the ledger of claims. A job can be
--          committed behind a worker's marks, and a claim below the low mark, only by a transaction that holds such a lock.
-- Parameters: none
-- Rows: one: jobs text, claims text: virtual transactions with spaces between them, or NULL; seq int8
-- Locks: none
-- Index: none
-- Roles: all
-- A transaction that still waits for the lock counts, too: it may have taken the time before.
SELECT pg_catalog.string_agg(l.virtualtransaction, ' ') FILTER (WHERE l.relation = 'pawl.job'::regclass) AS jobs,
       pg_catalog.string_agg(l.virtualtransaction, ' ') FILTER (WHERE l.relation = 'pawl.claim'::regclass) AS claims,
       coalesce(pg_catalog.pg_sequence_last_value('pawl.claim_seq_seq'), 0) AS seq
FROM pg_catalog.pg_locks AS l
WHERE l.locktype = 'relation'
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
  AND l.relation IN ('pawl.job'::regclass, 'pawl.claim'::regclass)
  AND l.mode = 'RowExclusiveLock'
  AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
