-- Purpose: tells the workers who sleep on the queues that job_copy has filled.
-- Parameters: $1 text[] queues; none: too many to name, so all who sleep
-- Rows: one, without meaning
-- Locks: none
-- Index: sleeper_pkey
-- Roles: all
SELECT pg_catalog.count(pg_catalog.pg_notify('pawl_wake', q.queue)) AS woken
FROM (SELECT DISTINCT s.queue
      FROM pawl.sleeper AS s
      WHERE s.asleep AND (pg_catalog.cardinality($1::text[]) = 0 OR s.queue = ANY ($1::text[]))) AS q
