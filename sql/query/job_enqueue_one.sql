-- Purpose: accepts one plain job: job_enqueue for one. For connections that prepare their statements; others use job_enqueue_call.
-- Parameters: $1 text queue, $2 text kind, $3 bytea payload, $4 int2 priority, $5 int8 delay in ms,
--             $6 int8 due time in µs since 1970 (0: use the delay), $7 int4 max attempts, $8 int4 timeout in ms (0: none)
-- Rows: id int8; and a column without meaning
-- Locks: the new row
-- Index: sleeper_pkey
-- Roles: producer, enqueuer
-- The look at who sleeps is for whole lists of sleepers, as in job_enqueue, so that the planner does not hope for an early one. A list that
-- is not empty is found with a quarter less than an aggregate of them, which has to be set up for each statement.
INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
VALUES ($1::text, $2::text, $3::bytea, $4::int2,
        CASE WHEN $6::int8 <> 0 THEN timestamptz 'epoch' + $6::int8::float8 * interval '1 microsecond'
             ELSE pg_catalog.now() + $5::int8::float8 * interval '1 millisecond' END,
        $7::int4, nullif($8::int4, 0))
RETURNING j.id,
          CASE WHEN ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue = $1::text AND s.asleep) <> '{}'
               THEN pg_catalog.pg_notify('pawl_wake', $1::text) END
