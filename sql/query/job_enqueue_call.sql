-- Purpose: accepts one plain job, as job_enqueue_one, by a function whose plans stay with the session: for connections of others, on
--          which nothing is prepared.
-- Parameters: $1 text queue, $2 text kind, $3 bytea payload, $4 int2 priority, $5 int8 delay in ms,
--             $6 int8 due time in µs since 1970 (0: use the delay), $7 int4 max attempts, $8 int4 timeout in ms (0: none)
-- Rows: id int8
-- Locks: the new row
-- Index: sleeper_pkey
-- Roles: producer, enqueuer
SELECT pawl.enqueue_plain($1::text, $2::text, $3::bytea, $4::int2, $5::int8, $6::int8, $7::int4, $8::int4) AS id
