-- Purpose: session.sql for the connection that settles, which waits for no lock longer than half a second.
-- Parameters: $1 bool only for this transaction
-- Rows: one, without meaning
-- Locks: none
-- Index: none
-- Roles: all
-- Half a second: settles of other workers, which hold a parent or a lane for some milliseconds, are waited for in turn; a lock that lasts
-- longer belongs to another program (settle_aside.h).
SELECT pg_catalog.set_config('jit', 'off', $1::bool) AS jit,
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', $1::bool) AS plan_cache_mode,
       pg_catalog.set_config('enable_seqscan', 'off', $1::bool) AS enable_seqscan,
       pg_catalog.set_config('enable_mergejoin', 'off', $1::bool) AS enable_mergejoin,
       pg_catalog.set_config('client_min_messages', 'warning', $1::bool) AS client_min_messages,
       pg_catalog.set_config('lock_timeout', '500ms', $1::bool) AS lock_timeout
