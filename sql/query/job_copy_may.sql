-- Purpose: whether the caller may use job_copy, and the time from which delays count; after job_copy_lock it is asked for the time.
-- Parameters: none
-- Rows: one: may bool, now int8 in µs since 1970
-- Locks: none
-- Index: none
-- Roles: all
SELECT NOT pg_catalog.row_security_active('pawl.job') AND pg_catalog.has_table_privilege('pawl.job', 'INSERT') AS may,
       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::int8 AS now
