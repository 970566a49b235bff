-- Purpose: jobs that were committed late: due, claimed by nobody, and behind the marks of a worker.
-- Parameters: $1 text queue, $2 text[] kinds, $3 int2[] priorities, $4 bool[] in a lane, $5 timestamptz[] and $6 int8[]: for each
--             of them the due time and id to start from, $7 timestamptz[] and $8 int8[]: and before which to end,
--             $9 int4 how many of each are counted at most; $10 text and $11 text: the first and the last of $2 in the
--             order of bytes, which the index checks
-- Rows: for each that has some: n int8 its position in the input, from 1, due_at timestamptz and id int8 of the first, jobs int4
-- Locks: none
-- Index: job_pick, job_pick_lane, one range for each
-- Roles: reader, worker
SELECT level.n, p.due_at, p.id, p.jobs
FROM ROWS FROM (pg_catalog.unnest($3::int2[]), pg_catalog.unnest($4::bool[]), pg_catalog.unnest($5::timestamptz[]),
                pg_catalog.unnest($6::int8[]), pg_catalog.unnest($7::timestamptz[]), pg_catalog.unnest($8::int8[]))
     WITH ORDINALITY AS level(priority, in_lane, due_at, id, end_due_at, end_id, n)
CROSS JOIN LATERAL (
    SELECT (pg_catalog.array_agg(f.due_at))[1] AS due_at, (pg_catalog.array_agg(f.id))[1] AS id,
           pg_catalog.count(*)::int4 AS jobs
    FROM (
        (SELECT c.due_at, c.id
         FROM pawl.job AS c
         WHERE NOT level.in_lane
           AND c.lane IS NULL
           AND c.queue = $1::text
           AND c.priority = level.priority
           AND c.due_at <= pg_catalog.now()
           AND (c.due_at, c.id) >= (level.due_at, level.id)
           AND (c.due_at, c.id) < (level.end_due_at, level.end_id)
           AND c.token IS NULL
           AND c.kind >= $10::text COLLATE "C"
           AND c.kind <= $11::text COLLATE "C"
           AND c.kind = ANY ($2::text[])
         ORDER BY c.due_at, c.id
         LIMIT $9::int4)
        UNION ALL
        (SELECT c.due_at, c.id
         FROM pawl.job AS c
         WHERE level.in_lane
           AND c.lane IS NOT NULL
           AND c.queue = $1::text
           AND c.priority = level.priority
           AND c.due_at <= pg_catalog.now()
           AND (c.due_at, c.id) >= (level.due_at, level.id)
           AND (c.due_at, c.id) < (level.end_due_at, level.end_id)
           AND c.token IS NULL
           AND c.kind >= $10::text COLLATE "C"
           AND c.kind <= $11::text COLLATE "C"
           AND c.kind = ANY ($2::text[])
         ORDER BY c.due_at, c.id
         LIMIT $9::int4)
    ) AS f
) AS p
WHERE p.jobs > 0
  AND NOT EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN ($1::text, '*') AND q.paused_at IS NOT NULL)
