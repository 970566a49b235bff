-- Purpose: which jobs a claim_sweep of one job would begin with: one of a claim, and one with a lease of its own.
-- Parameters: $1 int8 the low mark of the ledger, as $4 of claim_sweep
-- Rows: at most two: token uuid, id int8
-- Locks: a claim and a lease, for a moment, skipping what others hold, as the sweep does
-- Index: claim_seq from the low mark; held is read whole (it is tiny); claim_pkey
-- Roles: worker
WITH expired AS MATERIALIZED (
    SELECT c.token, c.job_ids[1] AS id
    FROM pawl.claim AS c
    WHERE c.seq >= $1::int8 AND c.lease_until < pg_catalog.clock_timestamp() AND pg_catalog.cardinality(c.job_ids) > 0
    ORDER BY coalesce(c.swept_at, c.lease_until), c.token
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), overdue AS MATERIALIZED (
    SELECT h.token, h.job_id AS id
    FROM pawl.held AS h
    WHERE h.lease_until < pg_catalog.clock_timestamp()
      AND (h.let_go
           OR (SELECT true FROM pawl.claim AS c
               WHERE c.token = h.token AND c.lease_until >= pg_catalog.clock_timestamp()) IS NULL)
    ORDER BY h.lease_until
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
SELECT token, id FROM expired
UNION ALL
SELECT token, id FROM overdue
