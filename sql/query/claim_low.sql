-- Purpose: the first claim of a part of the ledger, of which no transaction can commit any more: below it the low mark may rise.
-- Parameters: $1 int8 the low mark, $2 int8 the end of that part
-- Rows: one: seq int8; NULL: none is left in it
-- Locks: none
-- Index: claim_seq
-- Roles: reader, worker
SELECT pg_catalog.min(c.seq) AS seq FROM pawl.claim AS c WHERE c.seq >= $1::int8 AND c.seq <= $2::int8
