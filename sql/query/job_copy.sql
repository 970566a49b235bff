-- Purpose: accepts very many plain jobs, as fast as PostgreSQL takes rows. Tells no ids and nobody who sleeps: job_copy_wake.
-- Parameters: none; the rows follow in COPY's binary format
-- Rows: none
-- Locks: the new rows
-- Index: none
-- Roles: owner
-- 1.4 times the rate of pawl.enqueue_many of 1000 before 0019_enqueue (208 k and 152 k rows a second); not measured again since.
-- PostgreSQL refuses it to those whose rows are checked by a policy: job_copy_may.
COPY pawl.job (queue, kind, payload, priority, due_at, max_attempts, timeout_ms) FROM STDIN (FORMAT binary)
