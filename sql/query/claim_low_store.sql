-- Purpose: a low mark of the ledger for workers that start later. It only rises.
-- Parameters: $1 int8 seq
-- Rows: none
-- Locks: the row, skipping it if another holds it: the next time is soon
-- Index: claim_low_pkey
-- Roles: worker
WITH free AS MATERIALIZED (
    SELECT l.one FROM pawl.claim_low AS l WHERE l.one AND l.seq < $1::int8 FOR UPDATE SKIP LOCKED
)
UPDATE pawl.claim_low AS l SET seq = $1::int8 FROM free AS f WHERE l.one = f.one
