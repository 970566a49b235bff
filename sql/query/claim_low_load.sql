-- Purpose: where a sweep begins to read the ledger, as other workers have found out.
-- Parameters: none
-- Rows: one: seq int8
-- Locks: none
-- Index: claim_low_pkey
-- Roles: reader, worker
SELECT l.seq FROM pawl.claim_low AS l WHERE l.one
