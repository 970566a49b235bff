-- Purpose: vacuums the jobs, and gives empty pages at its end back. Alone in its transaction.
-- Parameters: none
-- Rows: none
-- Locks: SHARE UPDATE EXCLUSIVE on one table after the other, skipping what others vacuum or change; ACCESS EXCLUSIVE for a moment, if nobody holds or wants another
-- Index: all of the table's
-- Roles: owner
VACUUM (SKIP_LOCKED, TRUNCATE on, PARALLEL 0)
    pawl.job
