-- Purpose: what the statements of the engine need of their session: one plan for good, by indexes, no compiler, and warnings.
-- Parameters: $1 bool only for this transaction
-- Rows: one, without meaning
-- Locks: none
-- Index: none
-- Roles: all
-- The planner takes a LIMIT that is a parameter for a tenth of the table. So with a long queue it hopes to do better by planning every
-- claim anew, and believes the plan of a claim in lanes to be so costly that it is compiled first: 300 ms for a claim of 5.
-- A commit that gave up waiting for a synchronous standby says so in a warning, which must get through.
-- A plan that was made for good while a table was small must not be one that reads it all.
SELECT pg_catalog.set_config('jit', 'off', $1::bool) AS jit,
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', $1::bool) AS plan_cache_mode,
       pg_catalog.set_config('enable_seqscan', 'off', $1::bool) AS enable_seqscan,
       pg_catalog.set_config('enable_mergejoin', 'off', $1::bool) AS enable_mergejoin,
       pg_catalog.set_config('client_min_messages', 'warning', $1::bool) AS client_min_messages
