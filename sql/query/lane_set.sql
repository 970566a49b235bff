-- Purpose: the limits of the lanes that a pattern fits, or back to the default.
-- Parameters: $1 text queue, or * for all, $2 text pattern, $3 int4 at most so many at a time (0: the rule goes),
--             $4 text starts per second ('': no limit), $5 int4 burst, $6 bool strict, $7 bool hold
-- Rows: none that mean anything
-- Locks: the rule's row
-- Index: lane_rule_pkey
-- Roles: server
SELECT pawl.lane_set($1::text, $2::text, nullif($3::int4, 0), nullif($4::text, '')::float8, $5::int4::float8, $6::bool, $7::bool)
