-- Purpose: what operators want of workers.
-- Parameters: none
-- Rows: worker text, drain bool, credits int4 (0: as the worker asked for)
-- Locks: none
-- Index: worker_wish is read whole (it is tiny)
-- Roles: reader
SELECT worker, drain, coalesce(credits, 0) AS credits
FROM pawl.worker_wish
ORDER BY at DESC
LIMIT 10000
