-- Purpose: a worker says good-bye.
-- Parameters: $1 uuid worker
-- Rows: none
-- Locks: the worker's row
-- Index: worker_pkey
-- Roles: worker
DELETE FROM pawl.worker WHERE id = $1::uuid
