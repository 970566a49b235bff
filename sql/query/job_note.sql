-- Purpose: what handlers said last about how far they are, for many jobs.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 text[] progress
-- Rows: none
-- Locks: the jobs
-- Index: job_pkey
-- Roles: worker
UPDATE pawl.job AS j
SET progress = i.progress
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::text[]))
     AS i(id, token, progress)
WHERE j.id = i.id AND j.token = i.token
