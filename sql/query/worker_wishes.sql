-- Purpose: what operators want of workers.
-- Parameters: none
-- Rows: worker text, drain bool, credits int4 (0: as the worker asked for), per_1000_s int8: jobs in 1000 seconds (0: no limit)
-- Locks: none
-- Index: worker_wish is read whole (it is tiny)
-- Roles: reader
SELECT worker, drain, coalesce(credits, 0) AS credits, coalesce(rate_per_s * 1000, 0)::int8 AS per_1000_s
FROM pawl.worker_wish
ORDER BY at DESC
LIMIT 10000
