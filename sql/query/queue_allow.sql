-- Purpose: lets a role, if it is a member of pawl_enqueuer, enqueue into a queue.
-- Parameters: $1 text queue, $2 text role
-- Rows: none when there is no such role; else one: member bool: it can make use of it
-- Locks: the new row
-- Index: queue_producer_pkey
-- Roles: server
WITH who AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = $2::name
), added AS (
    INSERT INTO pawl.queue_producer (queue, role)
    SELECT $1::text, who.oid FROM who
    ON CONFLICT DO NOTHING
)
SELECT pg_catalog.pg_has_role(who.oid, 'pawl_enqueuer', 'USAGE') AS member FROM who
