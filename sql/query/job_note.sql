-- Purpose: what handlers said last about how far they are, for many jobs.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 text[] progress
-- Rows: none
-- Locks: the jobs, skipping those that others hold: the next word gets through
-- Index: job_pkey, job_option_pkey
-- Roles: worker
WITH free AS MATERIALIZED (
    SELECT j.id, j.token, j.has_options, i.progress
    FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::text[]))
         AS i(id, token, progress)
    CROSS JOIN LATERAL (SELECT x.id, x.token, x.has_options FROM pawl.job AS x
                        WHERE x.id = i.id AND x.token = i.token FOR NO KEY UPDATE SKIP LOCKED) AS j
), marked AS (
    UPDATE pawl.job AS j SET has_options = true
    WHERE j.id = ANY (ARRAY(SELECT f.id FROM free AS f WHERE f.has_options IS NULL))
)
INSERT INTO pawl.job_option AS o (job_id, progress)
SELECT f.id, f.progress FROM free AS f
ON CONFLICT (job_id) DO UPDATE SET progress = excluded.progress
