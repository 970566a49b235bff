-- Purpose: which of these jobs cannot be settled just now, because another transaction holds a row that their settle changes: the
--          job, its parent, its lane, its signals or the results of its children. It waits for nobody.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens
-- Rows: n int8: the position in the input, from 1, of each that is held up. One whose token is stale is not: its settle says so
-- Locks: all of these rows, skipping those that others hold; only to see whether they can be had, so the transaction ends at once
-- Index: job_pkey, lane_pkey, signal_pkey, child_pkey
-- Roles: worker
SELECT i.n
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[])) WITH ORDINALITY AS i(id, token, n)
CROSS JOIN LATERAL (SELECT x.* FROM pawl.job AS x WHERE x.id = i.id AND x.token = i.token OFFSET 0) AS j
LEFT JOIN LATERAL (
    SELECT true AS had FROM pawl.job AS o WHERE o.id = j.id FOR UPDATE SKIP LOCKED
) AS own ON true
LEFT JOIN LATERAL (
    SELECT true AS had FROM pawl.job AS p WHERE p.id = j.parent_id AND j.join_of IS NOT NULL FOR UPDATE SKIP LOCKED
) AS parent ON true
LEFT JOIN LATERAL (
    SELECT true AS had FROM pawl.lane AS l WHERE l.queue = j.queue AND l.name = j.lane FOR UPDATE SKIP LOCKED
) AS lane ON true
LEFT JOIN LATERAL (
    SELECT pg_catalog.count(*) AS n
    FROM (SELECT FROM pawl.signal AS s WHERE s.job_id = j.id AND j.is_machine FOR UPDATE SKIP LOCKED) AS g
) AS signals ON true
LEFT JOIN LATERAL (
    SELECT pg_catalog.count(*) AS n
    FROM (SELECT FROM pawl.child AS c WHERE c.parent_id = j.id AND j.is_machine FOR UPDATE SKIP LOCKED) AS g
) AS results ON true
WHERE own.had IS NULL
   OR parent.had IS NULL AND j.join_of IS NOT NULL AND EXISTS (SELECT FROM pawl.job AS p WHERE p.id = j.parent_id)
   OR lane.had IS NULL AND EXISTS (SELECT FROM pawl.lane AS l WHERE l.queue = j.queue AND l.name = j.lane)
   OR signals.n < (SELECT pg_catalog.count(*) FROM pawl.signal AS s WHERE s.job_id = j.id AND j.is_machine)
   OR results.n < (SELECT pg_catalog.count(*) FROM pawl.child AS c WHERE c.parent_id = j.id AND j.is_machine)
