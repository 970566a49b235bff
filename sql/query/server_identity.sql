-- Purpose: which server answers, so that all connections of a process are on one timeline of one database system.
-- Parameters: none
-- Rows: one: standby (or read-only), system identifier, timeline (NULL on a standby), process id of the session
-- Locks: none
-- Index: none
-- Roles: all
-- The timeline is that of the WAL being written: the one in the control file is the last checkpoint's, and stays behind after a promotion.
SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only') = 'on' AS standby,
       (SELECT system_identifier FROM pg_catalog.pg_control_system()) AS system,
       CASE WHEN NOT pg_catalog.pg_is_in_recovery()
            THEN ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8))::bit(32)::bigint
       END AS timeline,
       pg_catalog.pg_backend_pid() AS backend
