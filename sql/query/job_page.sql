-- Purpose: a page of jobs that match, newest first: job_list for clients of the server.
-- Parameters: $1 text queue or NULL, $2 text kind or NULL, $3 text[] states (none: all), $4 int8 only ids below this,
--             $5 int4 limit, $6 text[] tags, all of which it has (none: any)
-- Rows: as job_list up to worker text; then error text: the newest, as a JSON object, or NULL; now timestamptz,
--       lane text or NULL, parent_id int8 or NULL, tags text (a JSON array) or NULL
-- Locks: none
-- Index: job_pkey and history_id (history_trouble for failed ones), backwards, until the limit is reached; job_parked where
--        only parked jobs are asked for
-- Roles: reader
(SELECT j.id, j.state::text AS state, j.queue, j.kind, j.priority, j.attempt, j.max_attempts,
        j.created_at, j.due_at, j.started_at, j.finished_at, j.worker,
        (j.errors -> -1)::text AS error, pg_catalog.clock_timestamp() AS now,
        j.lane, j.parent_id, j.meta ->> 'tags' AS tags
 FROM pawl.jobs AS j
 WHERE $3::text[] IS DISTINCT FROM '{parked}'
   AND j.id < $4::int8
   AND ($1::text IS NULL OR j.queue = $1::text)
   AND ($2::text IS NULL OR j.kind = $2::text)
   AND (coalesce(pg_catalog.cardinality($3::text[]), 0) = 0 OR j.state = ANY ($3::text[]::pawl.state[]))
   AND (coalesce(pg_catalog.cardinality($6::text[]), 0) = 0 OR (j.meta -> 'tags') ?& $6::text[])
 ORDER BY j.id DESC
 LIMIT $5::int4)
UNION ALL
(SELECT j.id, 'parked', j.queue, j.kind, j.priority, j.attempt, j.max_attempts,
        j.created_at, j.due_at, NULL, NULL, NULL,
        (j.errors -> -1)::text AS error, pg_catalog.clock_timestamp() AS now,
        j.lane, j.parent_id, j.meta ->> 'tags' AS tags
 FROM pawl.job AS j
 WHERE $3::text[] = '{parked}'
   AND j.waits_for = 'operator'
   AND j.id < $4::int8
   AND ($1::text IS NULL OR j.queue = $1::text)
   AND ($2::text IS NULL OR j.kind = $2::text)
   AND (coalesce(pg_catalog.cardinality($6::text[]), 0) = 0 OR (j.meta -> 'tags') ?& $6::text[])
 ORDER BY j.id DESC
 LIMIT $5::int4)
