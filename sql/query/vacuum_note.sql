-- Purpose: a vacuum of these tables began when this held rows back, and is over.
-- Parameters: $1 text part as in vacuum_due, $2 int8 horizon
-- Rows: one: dead int8: dead rows that it left
-- Locks: the rows
-- Index: vacuumed_pkey
-- Roles: worker
WITH done AS MATERIALIZED (
    SELECT t.relname::text AS relation, t.n_dead_tup AS dead
    FROM pg_catalog.pg_stat_user_tables AS t
    WHERE t.schemaname = 'pawl'
      AND CASE WHEN $1::text = 'side' THEN t.relname IN ('held', 'sleeper', 'worker', 'guard', 'job_option', 'machine', 'lane', 'lane_stir', 'signal',
                                                         'child', 'stop', 'orphan', 'mark', 'claim_low', 'vacuumed')
               ELSE t.relname = $1::text END
), noted AS (
    INSERT INTO pawl.vacuumed AS v (relation, at, horizon)
    SELECT d.relation, pg_catalog.clock_timestamp(), $2::int8 FROM done AS d ORDER BY d.relation
    ON CONFLICT (relation) DO UPDATE SET at = excluded.at, horizon = excluded.horizon
)
SELECT coalesce(pg_catalog.sum(d.dead), 0)::int8 AS dead FROM done AS d
