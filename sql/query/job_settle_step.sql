-- Purpose: what steps of many machines came to that go on: next, await, spawn, and back to a wait that was interrupted for
--          nothing. Each row is guarded by its token; consumed signals and new children hang off what the guard let through.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 int2[] outcomes: 8 next, 9 await, 10 spawn, 11 wait on (core/job.h),
--             $4 text[] steps to go on with, $5 bytea[] states (NULL: as it is),
--             $6 int8[] ms until it is due (next) or the wait is over (await; -1: never),
--             $7 text[] names that are awaited, with commas between them, $8 int8[] signals that had come when it was claimed,
--             $9 text[] ids of signals that the step was shown, with commas, or NULL,
--             $10 bool[] progress: the step is another one, so what it was shown is consumed,
--             $11 bool[] sticky: the worker keeps its claim and runs the next step at once,
--             $12 text[] lines for the timeline, without the time, $13 int4[] children that may be left when a join ends,
--             $14 int2[] join flags, $15 uuid[] tokens of claims of which no job is left;
--             and the children: $16 int4[] the position of their parent in the input, from 1, $17 text[] queues,
--             $18 text[] kinds, $19 bytea[] payloads, $20 int2[] priorities, $21 int4[] max attempts;
--             $22 int4[] how many children each of the input has
-- Rows: n int8: the position in the input, from 1, of each that went on; cancelled bool: its end was asked for;
--       due_ms int8: until it is due, NULL while it waits for something else than time; tid tid: where its row is now
-- Locks: the jobs, their signals, then the claims that end, skipping those that others hold
-- Index: job_pkey, signal_pkey, child_pkey, claim_pkey, sleeper_pkey
-- Roles: worker
-- A signal that is sent at this very moment locks the machine's row too, and is counted there (inbox): whichever is first,
-- either this sees that more came than the step knows of and the machine is due at once, or the sender sees that it waits.
-- What came before this statement began is found in the inbox itself. Numbers of signals would not do: they are committed in
-- any order.
-- A job whose end was asked for waits for nothing any more: it is due at once, and whoever claims it cancels it.
WITH input AS MATERIALIZED (
    SELECT i.*
    FROM ROWS FROM (
             pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::int2[]),
             pg_catalog.unnest($4::text[]), pg_catalog.unnest($5::bytea[]), pg_catalog.unnest($6::int8[]),
             pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::int8[]), pg_catalog.unnest($9::text[]),
             pg_catalog.unnest($10::bool[]), pg_catalog.unnest($11::bool[]), pg_catalog.unnest($12::text[]),
             pg_catalog.unnest($13::int4[]), pg_catalog.unnest($14::int2[]), pg_catalog.unnest($22::int4[])
         ) WITH ORDINALITY AS i(id, token, outcome, step, state, ms, awaits, seen, shown, progress, sticky, line, join_at,
                                join_flags, kids, n)
    JOIN pawl.job AS j ON j.id = i.id AND j.token = i.token
    FOR UPDATE OF j -- as assert_claim expects of all who end a claim. An update alone would not wait for it
), kids AS MATERIALIZED (
    SELECT k.*
    FROM ROWS FROM (
             pg_catalog.unnest($16::int4[]), pg_catalog.unnest($17::text[]), pg_catalog.unnest($18::text[]),
             pg_catalog.unnest($19::bytea[]), pg_catalog.unnest($20::int2[]), pg_catalog.unnest($21::int4[])
         ) AS k(n, queue, kind, payload, priority, max_attempts)
), moved AS (
    UPDATE pawl.job AS j
    SET token = CASE WHEN i.sticky THEN j.token END,
        attempt = CASE WHEN i.outcome = 11 THEN j.attempt - 1 WHEN i.sticky THEN 1 ELSE 0 END,
        riders = coalesce(j.riders, 0::int2) | CASE i.outcome WHEN 10 THEN 48::int2 ELSE 16::int2 END,
        step = CASE WHEN i.outcome = 11 THEN j.step ELSE i.step END,
        state = coalesce(i.state, j.state),
        waits_for = CASE WHEN i.outcome = 8 OR j.cancel_by IS NOT NULL THEN NULL::int2
                         WHEN i.outcome = 10 THEN 4::int2 ELSE 3::int2 END,
        awaits = CASE i.outcome WHEN 9 THEN pg_catalog.string_to_array(i.awaits, ',') WHEN 11 THEN j.awaits END,
        wait_since = CASE i.outcome WHEN 8 THEN NULL WHEN 11 THEN j.wait_since ELSE t.now END,
        wait_until = CASE WHEN i.outcome = 9 AND i.ms >= 0 THEN t.now + i.ms::float8 * interval '1 millisecond'
                          WHEN i.outcome = 11 THEN j.wait_until END,
        children_left = CASE WHEN i.outcome = 10 THEN i.kids WHEN i.outcome = 11 THEN j.children_left END,
        joins = CASE WHEN i.outcome = 10 THEN coalesce(j.joins, 0) + 1 ELSE j.joins END,
        lane_due_at = CASE WHEN i.sticky THEN j.lane_due_at END,
        join_at = CASE WHEN i.outcome = 10 THEN i.join_at END,
        join_flags = CASE WHEN i.outcome = 10 THEN i.join_flags ELSE j.join_flags END,
        due_at = CASE WHEN i.sticky THEN j.due_at
                      WHEN j.cancel_by IS NOT NULL THEN t.now
                      WHEN i.outcome = 8
                      THEN least(coalesce(j.deadline_at, 'infinity'), t.now + i.ms::float8 * interval '1 millisecond')
                      WHEN i.outcome = 10
                      THEN CASE WHEN i.kids > i.join_at THEN coalesce(j.deadline_at, 'infinity') ELSE t.now END
                      WHEN coalesce(j.inbox, 0) > i.seen
                        OR EXISTS (
                               SELECT FROM pawl.signal AS s
                               WHERE s.job_id = i.id
                                 AND s.name = ANY (CASE i.outcome WHEN 9 THEN pg_catalog.string_to_array(i.awaits, ',')
                                                                  ELSE j.awaits END)
                                 AND NOT s.shown AND NOT s.consumed
                                 AND s.id <> ALL (coalesce(pg_catalog.string_to_array(i.shown, ',')::int8[], '{}')))
                      THEN t.now
                      ELSE least(coalesce(j.deadline_at, 'infinity'),
                                 CASE WHEN i.outcome = 11 THEN coalesce(j.wait_until, 'infinity')
                                      WHEN i.ms >= 0 THEN t.now + i.ms::float8 * interval '1 millisecond'
                                      ELSE 'infinity' END)
                 END,
        timeline = CASE WHEN i.line IS NULL THEN j.timeline
                        ELSE CASE WHEN pg_catalog.octet_length(j.timeline) > 6000
                                  THEN pg_catalog.substr(j.timeline,
                                           2000 + pg_catalog.strpos(pg_catalog.substr(j.timeline, 2000), E'\n'))
                                  ELSE coalesce(j.timeline, '') END
                             || (pg_catalog.date_part('epoch', t.now) * 1000000)::int8 || E'\t' || i.line || E'\n' END
    FROM input AS i
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    WHERE j.id = i.id
      AND j.token = i.token
    RETURNING i.n, i.id, i.outcome, i.shown, i.progress, j.riders, j.joins, j.cancel_by IS NOT NULL AS cancelled,
              CASE WHEN j.due_at < 'infinity'
                   THEN (pg_catalog.date_part('epoch', j.due_at - pg_catalog.clock_timestamp()) * 1000::float8)::int8
              END AS due_ms, j.ctid AS tid
), used AS MATERIALIZED (
    SELECT m.id AS job_id, ids.id, m.progress
    FROM moved AS m
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.string_to_array(m.shown, ',')::int8[]) AS ids(id)
    WHERE m.shown IS NOT NULL
), eaten AS (
    DELETE FROM pawl.signal AS s
    USING used AS u
    WHERE s.job_id = u.job_id AND s.id = u.id AND u.progress AND s.key IS NULL
), marked AS (
    UPDATE pawl.signal AS s
    SET shown = true, consumed = s.consumed OR u.progress
    FROM used AS u
    WHERE s.job_id = u.job_id AND s.id = u.id AND NOT (u.progress AND s.key IS NULL)
), forgotten AS (
    DELETE FROM pawl.child AS c
    USING moved AS m
    WHERE m.progress AND m.riders & 32 <> 0 AND m.outcome <> 11 AND c.parent_id = m.id
), spawned AS (
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, max_attempts, parent_id, join_of, riders)
    SELECT k.queue, k.kind, k.payload, k.priority, k.max_attempts, m.id, m.joins, 4
    FROM kids AS k
    JOIN moved AS m ON m.n = k.n AND m.outcome = 10
    RETURNING CASE WHEN (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = j.queue)
                   THEN pg_catalog.pg_notify('pawl_wake', j.queue) END
), over AS MATERIALIZED (
    SELECT c.token FROM pawl.claim AS c WHERE c.token = ANY ($15::uuid[]) FOR UPDATE SKIP LOCKED
), ended AS (
    DELETE FROM pawl.claim AS c USING over AS o WHERE c.token = o.token
)
SELECT n, cancelled, due_ms, tid FROM moved
