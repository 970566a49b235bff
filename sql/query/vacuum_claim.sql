-- Purpose: vacuums the ledger of claims. Alone in its transaction.
-- Parameters: none
-- Rows: none
-- Locks: SHARE UPDATE EXCLUSIVE on one table after the other, skipping what others vacuum or change
-- Index: all of the table's
-- Roles: owner
VACUUM (SKIP_LOCKED, TRUNCATE off, PARALLEL 0)
    pawl.claim
