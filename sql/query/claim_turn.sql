-- Purpose: before job_claim, in its transaction: waits for its turn among those who claim from the queue, if there are many to claim.
-- Parameters: $1 text queue
-- Rows: turn bool: whether it is our turn; if not, somebody else's took too long
-- Locks: advisory, for the transaction
-- Index: none
-- Roles: worker
SELECT pawl.claim_turn($1::text) AS turn
