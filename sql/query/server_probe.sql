-- Purpose: finds out whether anything can be committed, by what a commit needs: a row is written, and a sort is made to spill so
--          that space is taken on the disk. The row alone would not tell: on a full disk it is rewritten in its own page.
-- Parameters: $1 uuid worker: the server's own row
-- Rows: none
-- Locks: the worker's row
-- Index: worker_pkey
-- Roles: worker
WITH spilled AS (
    SELECT pg_catalog.count(*) AS n
    FROM (
        SELECT pg_catalog.md5(i::text) AS word
        FROM pg_catalog.generate_series(1, 4000) AS i
        ORDER BY word
        OFFSET 1
    ) AS sorted
)
UPDATE pawl.worker AS w
SET beat_at = pg_catalog.clock_timestamp()
FROM spilled
WHERE w.id = $1::uuid AND spilled.n > 0
