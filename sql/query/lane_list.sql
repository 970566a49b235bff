-- Purpose: lanes with something in them, and the rules.
-- Parameters: $1 text queue or NULL, $2 int4 limit, $3 int8 jobs that are counted in a lane at most
-- Rows: queue text, lane text (or the pattern of a rule), rule bool, running int4, waiting int8, max_running int4,
--       rate_per_s text or NULL, burst text, strict bool, hold bool; rules first
-- Locks: none
-- Index: lane_rule is read whole; lane_pkey, job_lane
-- Roles: reader, worker
(SELECT r.queue, r.pattern AS lane, true AS rule, 0 AS running, 0::int8 AS waiting, r.max_running, r.rate_per_s::text, r.burst::text,
        r.strict, r.hold
 FROM pawl.lane_rule AS r
 WHERE $1::text IS NULL OR r.queue IN ($1::text, '*')
 ORDER BY r.queue, r.pattern)
UNION ALL
(SELECT l.queue, l.name, false, least(pg_catalog.cardinality(l.holders), l.max_running), w.n, l.max_running, l.rate_per_s::text, l.burst::text, l.strict,
        l.hold
 FROM pawl.lane AS l
 CROSS JOIN LATERAL (
     SELECT pg_catalog.count(*) AS n
     FROM (SELECT FROM pawl.job AS j
           WHERE j.queue = l.queue AND j.lane = l.name AND j.token IS NULL LIMIT $3::int8) AS s
 ) AS w
 WHERE ($1::text IS NULL OR l.queue = $1::text) AND (w.n > 0 OR l.holders <> '{}')
 ORDER BY l.queue, l.name
 LIMIT $2::int4)
