-- grants: nothing for PUBLIC; each role what its work needs and no more (tests/db/roles_test.c holds the matrix).

REVOKE ALL ON ALL TABLES IN SCHEMA pawl FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;
REVOKE ALL ON TYPE pawl.state, pawl.wait, pawl.outcome, pawl.retry, pawl.machine_seen, pawl.queue_name, pawl.kind_name, pawl.priority,
    pawl.max_attempts, pawl.timeout_ms, pawl.payload, pawl.signal_name, pawl.signal_key, pawl.signal_payload FROM PUBLIC;

GRANT USAGE ON SCHEMA pawl TO pawl_enqueuer; -- the other roles: sql/bootstrap.sql
GRANT SELECT ON pawl.migration TO pawl_enqueuer;

-- === those who enqueue ==================================================================================================

GRANT INSERT (queue, kind, priority, due_at, max_attempts, timeout_ms, payload, lane, parent_id, meta, deadline_at, has_options),
    SELECT (id, queue) ON pawl.job TO pawl_producer, pawl_enqueuer;
GRANT SELECT ON pawl.sleeper TO pawl_producer, pawl_enqueuer;
GRANT SELECT (hash, job_id) ON pawl.guard TO pawl_producer;
GRANT SELECT ON pawl.queue_producer TO pawl_enqueuer;
GRANT INSERT (job_id, name, key, payload), SELECT (job_id, name, key) ON pawl.signal TO pawl_producer, pawl_enqueuer;
GRANT INSERT (job_id) ON pawl.watcher TO pawl_producer, pawl_enqueuer;
GRANT USAGE ON TYPE pawl.retry TO pawl_producer, pawl_enqueuer;
GRANT EXECUTE ON FUNCTION
    pawl.enqueue, pawl.enqueue_many(text, jsonb[], text, integer, interval, timestamptz, integer, interval),
    pawl.enqueue_many(jsonb), pawl.enqueue_options, pawl.enqueue_plain, pawl.enqueue_row, pawl.guard_take, pawl.retry_put, pawl.unique_hash,
    pawl.name_check, pawl.interval_ms, pawl.due_time, pawl.job_check, pawl.assert_claim, pawl.watch, pawl.signal,
    pawl.signal_all, pawl.correlated, pawl.raise_unseen TO pawl_producer, pawl_enqueuer;

-- A member of pawl_enqueuer sees and fills the queues that it was given (pawl queue allow).
ALTER TABLE pawl.job ENABLE ROW LEVEL SECURITY;
CREATE POLICY job_producer_insert ON pawl.job FOR INSERT TO pawl_producer WITH CHECK (true);
CREATE POLICY job_producer_select ON pawl.job FOR SELECT TO pawl_producer USING (true);
CREATE POLICY job_worker ON pawl.job TO pawl_worker USING (true) WITH CHECK (true);
CREATE POLICY job_reader ON pawl.job FOR SELECT TO pawl_reader USING (true);
CREATE POLICY job_enqueuer_insert ON pawl.job FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue::text AND pg_catalog.pg_has_role(p.role, 'USAGE')));
CREATE POLICY job_enqueuer_select ON pawl.job FOR SELECT TO pawl_enqueuer USING (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue::text AND pg_catalog.pg_has_role(p.role, 'USAGE')));

ALTER TABLE pawl.signal ENABLE ROW LEVEL SECURITY;
CREATE POLICY signal_worker ON pawl.signal TO pawl_worker USING (true) WITH CHECK (true);
CREATE POLICY signal_reader ON pawl.signal FOR SELECT TO pawl_reader USING (true);
CREATE POLICY signal_producer_insert ON pawl.signal FOR INSERT TO pawl_producer WITH CHECK (true);
CREATE POLICY signal_producer_select ON pawl.signal FOR SELECT TO pawl_producer USING (true);
CREATE POLICY signal_enqueuer_insert ON pawl.signal FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.job AS j WHERE j.id = signal.job_id));
CREATE POLICY signal_enqueuer_select ON pawl.signal FOR SELECT TO pawl_enqueuer USING (
    EXISTS (SELECT FROM pawl.job AS j WHERE j.id = signal.job_id));

ALTER TABLE pawl.watcher ENABLE ROW LEVEL SECURITY;
CREATE POLICY watcher_insert ON pawl.watcher FOR INSERT TO pawl_reader, pawl_producer WITH CHECK (true);
CREATE POLICY watcher_enqueuer_insert ON pawl.watcher FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.job AS j WHERE j.id = watcher.job_id));

-- === workers ============================================================================================================

GRANT SELECT, DELETE,
    INSERT (queue, kind, payload, priority, max_attempts, parent_id, join_of),
    UPDATE (due_at, token, attempt, waits_for, errors, lane_due_at, cancel_by, has_options, is_machine)
    ON pawl.job TO pawl_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.job_option, pawl.machine, pawl.signal, pawl.child, pawl.claim, pawl.held,
    pawl.worker, pawl.sleeper, pawl.lane TO pawl_worker;
GRANT SELECT, UPDATE, DELETE ON pawl.guard TO pawl_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.mark, pawl.vacuumed TO pawl_worker;
GRANT SELECT, UPDATE ON pawl.claim_low TO pawl_worker;
GRANT USAGE, SELECT ON SEQUENCE pawl.claim_seq_seq TO pawl_worker;
GRANT SELECT, INSERT ON pawl.lane_stir, pawl.orphan TO pawl_worker;
GRANT SELECT ON pawl.queue, pawl.kind, pawl.lane_rule, pawl.stop TO pawl_worker;
GRANT INSERT ON pawl.history TO pawl_worker;
GRANT USAGE ON TYPE pawl.state, pawl.wait, pawl.outcome TO pawl_worker;
GRANT EXECUTE ON FUNCTION
    pawl.retry_delay_ms(text, integer), pawl.retry_ms, pawl.errors_add, pawl.claim_turn, pawl.claim_try, pawl.job_park,
    pawl.is_held, pawl.ticket, pawl.assert_claim, pawl.machine_view, pawl.machine_waits_for, pawl.timeline_add,
    pawl.bytes_text, pawl.machines_settle, pawl.children_let_go, pawl.jobs_settle, pawl.jobs_end, pawl.claims_end,
    pawl.claims_sweep, pawl.orphans_end, pawl.lane_limits, pawl.lane_tokens, pawl.lane_room,
    pawl.waits_behind, pawl.keeps_place, pawl.lanes_clock, pawl.lanes_make, pawl.lanes_move, pawl.claim_lanes, pawl.lanes_call, pawl.lanes_leave, pawl.lanes_mend,
    pawl.history_maintain, pawl.guard_maintain, pawl.lanes_maintain, pawl.serve_maintain, pawl.stop_maintain TO pawl_worker;

-- From PostgreSQL 17 on a worker may be given the right to vacuum without owning the table.
DO $$
BEGIN
    IF pg_catalog.current_setting('server_version_num')::integer >= 170000 THEN
        EXECUTE 'GRANT MAINTAIN ON pawl.job, pawl.job_option, pawl.machine, pawl.claim, pawl.held, pawl.sleeper, pawl.worker,
                                   pawl.guard, pawl.lane, pawl.lane_stir, pawl.signal, pawl.child, pawl.stop, pawl.orphan,
                                   pawl.mark, pawl.claim_low, pawl.vacuumed
                 TO pawl_worker';
    END IF;
END
$$;

-- === those who look =====================================================================================================

GRANT SELECT ON pawl.job, pawl.job_option, pawl.machine, pawl.claim, pawl.held, pawl.worker, pawl.queue, pawl.kind,
    pawl.history, pawl.jobs, pawl.sleeper, pawl.guard, pawl.queue_producer, pawl.signal, pawl.child, pawl.lane,
    pawl.lane_stir, pawl.lane_rule, pawl.stop, pawl.orphan, pawl.worker_wish, pawl.mark, pawl.claim_low, pawl.vacuumed
    TO pawl_reader;
GRANT INSERT (job_id) ON pawl.watcher TO pawl_reader;
GRANT EXECUTE ON FUNCTION pawl.watch TO pawl_reader;

-- === servers, and those who rule: all of the above and =================================================================

GRANT INSERT, UPDATE ON pawl.queue, pawl.kind TO pawl_server;
GRANT INSERT, DELETE ON pawl.queue_producer TO pawl_server;
GRANT INSERT, UPDATE, DELETE ON pawl.lane_rule TO pawl_server;
GRANT INSERT ON pawl.lane_stir, pawl.stop TO pawl_server;
GRANT INSERT (is_machine), UPDATE (deadline_at) ON pawl.job TO pawl_server;
GRANT SELECT, INSERT, UPDATE ON pawl.access, pawl.enqueue_key TO pawl_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.worker_wish TO pawl_server;
GRANT EXECUTE ON FUNCTION
    pawl.cancel, pawl.cancel_idle, pawl.cancel_many, pawl.retry(bigint), pawl.history_again, pawl.wake, pawl.raise_not_live,
    pawl.machine_restart, pawl.job_start_at, pawl.lane_set, pawl.lanes_mend, pawl.orphans_end TO pawl_server;

-- Until a table is analysed PostgreSQL takes it for ten pages, and plans the look at who sleeps for that.
ANALYZE pawl.sleeper;

DO $$ BEGIN PERFORM pawl.history_maintain(); END $$;
