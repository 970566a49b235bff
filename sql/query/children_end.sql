-- Purpose: children of jobs that are over, or about to go on from a join that did not wait for all of them, are nobody's
--          children now.
-- Parameters: $1 int8[] ids of the parents, $2 text[] tokens of those that go on (NULL: the parent must be over),
--             $3 bool[] cancel what is left
-- Rows: none that mean anything
-- Locks: the parents, then the children, skipping those that others hold
-- Index: job_parent, child_pkey, job_pkey
-- Roles: worker
SELECT
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bool[]))
     AS i(id, token, cancel)
WHERE pawl.children_end(i.id, i.token::uuid, i.cancel)
