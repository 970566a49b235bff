-- Purpose: the marks of a worker behind which no job of its kinds is due, for those that start after it.
-- Parameters: $1 text queue, $2 text[] kinds, $3 timestamptz[] and $4 int8[]: due time and id, for jobs in no lane by priority, 0
--             to 9, then for jobs in lanes
-- Rows: none
-- Locks: the row, skipping it if another holds it: the next time is soon. Rows that nobody has stored for a month are removed
-- Index: mark_pkey; mark is read whole (it is tiny)
-- Roles: worker
WITH old AS MATERIALIZED (
    SELECT m.queue, m.kinds FROM pawl.mark AS m
    WHERE m.stored_at < pg_catalog.clock_timestamp() - interval '30 days'
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM pawl.mark AS m USING old AS o WHERE m.queue = o.queue AND m.kinds = o.kinds
), mine AS MATERIALIZED (
    SELECT $1::text AS queue,
           pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
               (SELECT pg_catalog.string_agg(k.name, ',' ORDER BY k.name COLLATE "C") FROM pg_catalog.unnest($2::text[]) AS k(name)),
               'UTF8')), 'hex') AS kinds
), free AS MATERIALIZED (
    SELECT m.queue FROM pawl.mark AS m JOIN mine AS i ON m.queue = i.queue AND m.kinds = i.kinds FOR UPDATE OF m SKIP LOCKED
)
INSERT INTO pawl.mark AS m (queue, kinds, due_at, id)
SELECT i.queue, i.kinds, $3::timestamptz[], $4::int8[]
FROM mine AS i
WHERE EXISTS (SELECT FROM free)
   OR (SELECT true FROM pawl.mark AS k WHERE k.queue = i.queue AND k.kinds = i.kinds) IS NULL
ON CONFLICT (queue, kinds) DO UPDATE
SET due_at = excluded.due_at, id = excluded.id, stored_at = pg_catalog.clock_timestamp()
