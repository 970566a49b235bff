-- Purpose: children of machines that are about to go on from a join that did not wait for all of them are nobody's children
--          now. Before the settle and in its transaction.
-- Parameters: $1 int8[] ids of the parents, $2 uuid[] their tokens, $3 bool[] cancel what is left
-- Rows: none that mean anything
-- Locks: the parents, the highest id first, as settles do; the children of each, skipping those that others hold
-- Index: job_parent, child_pkey, job_pkey
-- Roles: worker
SELECT
FROM (SELECT p.id, p.token, p.cancel
      FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::bool[]))
           AS p(id, token, cancel)
      ORDER BY p.id DESC
      OFFSET 0) AS i
WHERE pawl.children_let_go(i.id, i.token, i.cancel)
