-- Purpose: which of the hot tables a vacuum would gain something in, and whether this role may.
-- Parameters: none
-- Rows: for job, claim and all others together (side), if it is worth it: part text, may bool, truncate bool: far larger than its
--       rows need; dead int8 rows, horizon int8: the oldest transaction that a snapshot somewhere sees as running; 0: hidden
-- Locks: none
-- Index: none
-- Roles: reader, worker
-- Not again within 5 s, whoever did it, and not while what held rows back the last time still does: that would read the whole
-- table for nothing. A role that may not see the snapshots of others does without the second; the caller then judges by effect.
WITH horizon AS MATERIALIZED (
    SELECT CASE WHEN pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
                THEN pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::int8
                     - coalesce(pg_catalog.max(pg_catalog.age(o.xmin)), 0)
                ELSE 0 END AS xid
    FROM (SELECT a.backend_xmin AS xmin FROM pg_catalog.pg_stat_activity AS a WHERE a.pid <> pg_catalog.pg_backend_pid()
          UNION ALL
          SELECT pg_catalog.unnest(ARRAY[s.xmin, s.catalog_xmin]) FROM pg_catalog.pg_replication_slots AS s
          UNION ALL
          SELECT p.transaction FROM pg_catalog.pg_prepared_xacts AS p
          UNION ALL
          SELECT r.backend_xmin FROM pg_catalog.pg_stat_replication AS r) AS o
    WHERE o.xmin IS NOT NULL
), hot AS MATERIALIZED (
    SELECT CASE WHEN t.relname IN ('job', 'claim') THEN t.relname::text ELSE 'side' END AS part,
           pg_catalog.pg_has_role(c.relowner, 'USAGE')
           OR CASE WHEN pg_catalog.current_setting('server_version_num')::int4 >= 170000
                   THEN pg_catalog.has_table_privilege(c.oid, 'MAINTAIN') ELSE false END AS may,
           t.n_dead_tup AS dead,
           t.n_dead_tup >= 500 + t.n_live_tup / 10 AS many,
           coalesce(greatest(t.last_vacuum, v.at) < pg_catalog.clock_timestamp() - interval '5 seconds', true) AS rested,
           h.xid AS horizon,
           h.xid = 0 OR coalesce(h.xid > v.horizon, true) AS moved,
           pg_catalog.pg_relation_size(c.oid) > greatest(67108864, 4 * 300 * t.n_live_tup) AS swollen
    FROM pg_catalog.pg_stat_user_tables AS t
    JOIN pg_catalog.pg_class AS c ON c.oid = t.relid
    CROSS JOIN horizon AS h
    LEFT JOIN pawl.vacuumed AS v ON v.relation = t.relname
    WHERE t.schemaname = 'pawl'
      AND t.relname IN ('job', 'claim', 'held', 'sleeper', 'worker', 'guard', 'job_option', 'machine', 'lane', 'lane_stir', 'signal',
                        'child', 'stop', 'orphan', 'mark', 'claim_low', 'vacuumed')
)
SELECT h.part, pg_catalog.bool_and(h.may) AS may, pg_catalog.bool_or(h.swollen) AS truncate, pg_catalog.sum(h.dead)::int8 AS dead,
       pg_catalog.max(h.horizon) AS horizon
FROM hot AS h
GROUP BY h.part
HAVING pg_catalog.bool_or(h.many AND h.rested AND h.moved)
ORDER BY h.part
