-- Purpose: what handlers said last about how far they are, for many jobs.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 text[] progress
-- Rows: none
-- Locks: the jobs, skipping those that others hold: the next word gets through
-- Index: job_pkey
-- Roles: worker
WITH free AS MATERIALIZED (
    SELECT j.id, j.token, i.progress
    FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::text[]))
         AS i(id, token, progress)
    JOIN pawl.job AS j ON j.id = i.id AND j.token = i.token
    FOR NO KEY UPDATE OF j SKIP LOCKED
)
UPDATE pawl.job AS j
SET progress = f.progress
FROM free AS f
WHERE j.id = f.id AND j.token = f.token
