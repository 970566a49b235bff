-- Purpose: locks pawl.job as job_copy will, before job_copy_may is asked again for the time from which delays count: no due time is earlier
--          than the lock. Only in a transaction.
-- Parameters: none
-- Rows: none
-- Locks: pawl.job, as an INSERT does, until the transaction ends; no row
-- Index: none
-- Roles: worker, server
LOCK TABLE pawl.job IN ROW EXCLUSIVE MODE
