-- Purpose: a worker says good-bye.
-- Parameters: $1 uuid worker
-- Rows: none
-- Locks: the worker's rows
-- Index: worker_pkey; sleeper is read whole (it is tiny)
-- Roles: worker
WITH awake AS (
    DELETE FROM pawl.sleeper WHERE worker = $1::uuid
)
DELETE FROM pawl.worker WHERE id = $1::uuid
