-- Purpose: changes settings of a kind; what is left out stays as it is, or takes the default for a new one. A base above
--          the cap lifts the cap, and a cap below the base lowers the base. Retry by a table that is neither given nor stored
--          violates kind_retry_table.
-- Parameters: $1 text kind, $2 text retry (exponential, quadratic, table) or NULL, $3 int4 base in ms (0: left out),
--             $4 int4 cap in ms (0: left out), $5 int4[] table in ms (empty: left out),
--             $6 int2 park: 1 yes, 0 no, -1 left out
-- Rows: none
-- Locks: the kind's row
-- Index: kind_pkey
-- Roles: server
INSERT INTO pawl.kind AS k (name, retry, retry_base_ms, retry_cap_ms, retry_table_ms, park)
VALUES ($1::text,
        coalesce($2::text::pawl.retry, 'exponential'),
        coalesce(nullif($3::int4, 0), least(1000, nullif($4::int4, 0))),
        greatest(coalesce(nullif($4::int4, 0), 3600000), nullif($3::int4, 0)),
        -- A new row is checked before it is found that there is one already, so it has the table of that one. An empty table
        -- is refused by the check; none at all, which is NULL, would pass.
        coalesce(nullif($5::int4[], '{}'), (SELECT o.retry_table_ms FROM pawl.kind AS o WHERE o.name = $1::text),
                 CASE WHEN $2::text = 'table' THEN '{}'::int4[] END),
        $6::int2 = 1)
ON CONFLICT (name) DO UPDATE
SET retry = coalesce($2::text::pawl.retry, k.retry),
    retry_base_ms = coalesce(nullif($3::int4, 0), least(k.retry_base_ms, nullif($4::int4, 0))),
    retry_cap_ms = greatest(coalesce(nullif($4::int4, 0), k.retry_cap_ms), nullif($3::int4, 0)),
    retry_table_ms = coalesce(nullif($5::int4[], '{}'), k.retry_table_ms),
    park = CASE WHEN $6::int2 = -1 THEN k.park ELSE $6::int2 = 1 END
