-- Purpose: every queue that has live jobs or settings, with its counts. Finds the queues by hopping from one to the next in
--          the index, and counts at most $1 jobs of each, so that a huge backlog does not make it slow.
-- Parameters: $1 int8 count at most
-- Rows: name text, ready int8, scheduled int8, running int8, parked int8, oldest_due_at timestamptz or NULL (of the ready),
--       paused_at timestamptz or NULL, paused_by text or NULL (its own pause, else that of all queues, the row *),
--       keep_days int4, capped bool: the counts stopped at the limit, retrying int8, waiting int8, now timestamptz
-- Locks: none
-- Index: job_pick, job_pick_lane
-- Roles: reader, worker
WITH RECURSIVE hop AS (
    -- least() passes over a NULL.
    SELECT least((SELECT j.queue FROM pawl.job AS j WHERE j.lane IS NULL ORDER BY j.queue LIMIT 1),
                 (SELECT j.queue FROM pawl.job AS j WHERE j.lane IS NOT NULL ORDER BY j.queue LIMIT 1)) AS queue
    UNION ALL
    SELECT least((SELECT j.queue FROM pawl.job AS j WHERE j.lane IS NULL AND j.queue > hop.queue ORDER BY j.queue LIMIT 1),
                 (SELECT j.queue FROM pawl.job AS j WHERE j.lane IS NOT NULL AND j.queue > hop.queue ORDER BY j.queue LIMIT 1))
    FROM hop
    WHERE hop.queue IS NOT NULL
)
SELECT n.name,
       c.ready, c.scheduled, c.running, c.parked, c.oldest_due_at,
       coalesce(q.paused_at, every.paused_at) AS paused_at,
       CASE WHEN q.paused_at IS NULL THEN every.paused_by ELSE q.paused_by END AS paused_by,
       coalesce(q.keep_days, 7) AS keep_days,
       c.n >= $1::int8 AS capped,
       c.retrying, c.waiting, pg_catalog.clock_timestamp() AS now
FROM (SELECT queue AS name FROM hop WHERE queue IS NOT NULL UNION SELECT name FROM pawl.queue) AS n
LEFT JOIN pawl.queue AS q ON q.name = n.name
LEFT JOIN pawl.queue AS every ON every.name = '*'
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS n,
           pg_catalog.count(*) FILTER (WHERE s.token IS NULL AND s.due_at <= pg_catalog.now()) AS ready,
           pg_catalog.count(*) FILTER (WHERE s.token IS NULL AND s.due_at > pg_catalog.now()
                                         AND s.waits_for IS NULL AND s.attempt = 0) AS scheduled,
           pg_catalog.count(*) FILTER (WHERE s.token IS NULL AND s.due_at > pg_catalog.now()
                                         AND s.waits_for IS NULL AND s.attempt > 0) AS retrying,
           pg_catalog.count(*) FILTER (WHERE s.token IS NOT NULL) AS running,
           pg_catalog.count(*) FILTER (WHERE s.token IS NULL AND s.waits_for = 'operator') AS parked,
           pg_catalog.count(*) FILTER (WHERE s.token IS NULL AND s.waits_for <> 'operator'
                                         AND s.due_at > pg_catalog.now()) AS waiting,
           pg_catalog.min(s.due_at) FILTER (WHERE s.token IS NULL AND s.due_at <= pg_catalog.now()) AS oldest_due_at
    FROM (SELECT u.* FROM (
              SELECT j.token, j.due_at, j.waits_for, j.attempt FROM pawl.job AS j WHERE j.lane IS NULL AND j.queue = n.name
              UNION ALL
              SELECT j.token, j.due_at, j.waits_for, j.attempt FROM pawl.job AS j WHERE j.lane IS NOT NULL AND j.queue = n.name
          ) AS u LIMIT $1::int8) AS s
) AS c
ORDER BY n.name
