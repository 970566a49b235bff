-- Purpose: how long until the next job of these queues is due, so that a worker that sleeps wakes in time for it.
-- Parameters: $1 text[] queues
-- Rows: ms int8 or NULL: NULL when nothing is scheduled
-- Locks: none
-- Index: job_pick, job_pick_lane, one probe for each queue and priority
-- Roles: reader, worker
SELECT (pg_catalog.date_part('epoch', pg_catalog.min(p.due_at) - pg_catalog.clock_timestamp())
        * 1000::float8)::int8 AS ms
FROM pg_catalog.unnest($1::text[]) AS q(name)
CROSS JOIN pg_catalog.generate_series(0, 9) AS level(priority)
CROSS JOIN LATERAL (
    (SELECT c.due_at
     FROM pawl.job AS c
     WHERE c.queue = q.name
       AND c.lane IS NULL
       AND c.priority = level.priority::int2
       AND c.due_at > pg_catalog.now()
       AND c.due_at < 'infinity'
       AND c.token IS NULL
     ORDER BY c.due_at, c.id
     LIMIT 1)
    UNION ALL
    (SELECT c.due_at
     FROM pawl.job AS c
     WHERE c.queue = q.name
       AND c.lane IS NOT NULL
       AND c.priority = level.priority::int2
       AND c.due_at > pg_catalog.now()
       AND c.due_at < 'infinity'
       AND c.token IS NULL
     ORDER BY c.due_at, c.id
     LIMIT 1)
) AS p
