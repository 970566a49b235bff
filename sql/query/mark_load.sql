-- Purpose: where a worker that starts begins to claim, as another that claims the same kinds has stored it.
-- Parameters: $1 text queue, $2 text[] kinds
-- Rows: if there are marks, for jobs in no lane by priority, 0 to 9, then for jobs in lanes: n int8 from 1, due_at timestamptz,
--       id int8
-- Locks: none
-- Index: mark_pkey
-- Roles: reader, worker
SELECT level.n, level.due_at, level.id
FROM pawl.mark AS m
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(m.due_at), pg_catalog.unnest(m.id)) WITH ORDINALITY AS level(due_at, id, n)
WHERE m.queue = $1::text
  AND m.kinds = pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
               (SELECT pg_catalog.string_agg(k.name, ',' ORDER BY k.name COLLATE "C") FROM pg_catalog.unnest($2::text[]) AS k(name)),
               'UTF8')), 'hex')
