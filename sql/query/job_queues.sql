-- Purpose: which queues jobs belong to, for clients that may not see all of them.
-- Parameters: $1 int8[] ids
-- Rows: id int8, queue text: of those that exist
-- Locks: none
-- Index: job_pkey, history_id in each partition
-- Roles: reader
SELECT j.id, j.queue FROM pawl.jobs AS j WHERE j.id = ANY ($1::int8[])
