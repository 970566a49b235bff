-- history: finished work, append only.

-- A partition holds what may be forgotten on one day, so queues that are kept for different times still only ever need
-- whole partitions dropped.
CREATE TABLE pawl.history (
    id           bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    started_at   timestamptz NOT NULL, -- of the last attempt
    finished_at  timestamptz NOT NULL,
    expires_on   date NOT NULL,
    state        pawl.state NOT NULL,
    attempt      integer NOT NULL,
    max_attempts integer NOT NULL,
    priority     smallint NOT NULL,
    queue        text NOT NULL,
    kind         text NOT NULL,
    worker       text,
    payload      bytea NOT NULL,
    result       bytea,
    errors       jsonb,
    lane         text,
    parent_id    bigint,
    meta         jsonb,
    cancel_by    text,
    step         text,  -- of a machine: where it was
    last_state   bytea, -- of a machine that is not done: to start it again from
    timeline     text,
    -- The ticket under which it ended, where the attempt does not tell a report that is repeated from one that came too
    -- late: of a machine, whose attempts begin anew with each step, and of what did not end as done.
    ticket       bytea
) PARTITION BY RANGE (expires_on);
COMMENT ON TABLE pawl.history IS 'Finished jobs, partitioned by the day on which they are forgotten';

CREATE INDEX history_id ON pawl.history (id);
-- What an operator asks for first; nearly empty on a healthy day, so it costs a settle nothing.
CREATE INDEX history_trouble ON pawl.history (id) WHERE state <> 'done';

-- Catches rows for a day without a partition, so that a settle never fails for want of one.
CREATE TABLE pawl.history_default PARTITION OF pawl.history DEFAULT;

-- Makes the partitions that will be needed in the next days and drops those whose day has passed. Any process may call
-- it at any time; one of them works, the others return at once. Returns how many partitions it made and dropped.
CREATE FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET lock_timeout = '2s'
AS $$
DECLARE
    day date;
    part text;
BEGIN
    made := 0;
    dropped := 0;
    -- 0x7061776C is "pawl" in ASCII; 2 is this duty (1 is migration).
    IF NOT pg_try_advisory_xact_lock(x'7061776C'::integer, 2) THEN
        RETURN;
    END IF;

    FOR day IN
        SELECT DISTINCT current_date + keep.days + ahead.days
        FROM (SELECT 7 AS days UNION SELECT keep_days FROM pawl.queue WHERE keep_days > 0) AS keep,
             generate_series(0, 3) AS ahead(days)
        ORDER BY 1
    LOOP
        part := 'history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('pawl.' || part) IS NOT NULL;
        EXECUTE format('CREATE TABLE pawl.%I (LIKE pawl.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        -- What landed in the default partition meanwhile moves to where it belongs, or attaching would be refused.
        EXECUTE format('WITH moved AS (DELETE FROM pawl.history_default WHERE expires_on = %L RETURNING *)
                        INSERT INTO pawl.%I SELECT * FROM moved', day, part);
        -- Attaching takes a weaker lock on pawl.history than creating a partition in place would.
        EXECUTE format('ALTER TABLE pawl.history ATTACH PARTITION pawl.%I FOR VALUES FROM (%L) TO (%L)',
                       part, day, day + 1);
        made := made + 1;
    END LOOP;

    FOR part IN
        SELECT c.relname
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'pawl.history'::regclass
          AND c.relname ~ '^history_[0-9]{8}$'
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < current_date
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE pawl.%I', part);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM pawl.history_default WHERE expires_on < current_date;
END
$$;

-- Every job there is, live or finished, as people speak of it. Written so that the planner takes it apart into plain
-- scans (no joins, nothing volatile): the newest few then come off the ends of the indexes, however many jobs wait.
-- statement_timestamp(): a job that this very transaction enqueued is due later than now().
CREATE VIEW pawl.jobs AS
    SELECT j.id,
           (CASE WHEN j.token IS NOT NULL THEN 'running'
                 WHEN j.waits_for = 'operator' THEN 'parked'
                 WHEN j.waits_for IS NOT NULL AND j.due_at > pg_catalog.statement_timestamp() THEN 'waiting'
                 WHEN j.due_at <= pg_catalog.statement_timestamp() THEN 'ready'
                 WHEN j.attempt > 0 THEN 'retrying'
                 ELSE 'scheduled' END)::pawl.state AS state,
           j.queue::text AS queue, j.kind::text AS kind, j.priority::smallint AS priority, j.attempt,
           j.max_attempts::integer AS max_attempts, j.created_at, j.due_at,
           (SELECT c.claimed_at FROM pawl.claim AS c WHERE c.token = j.token) AS started_at,
           NULL::timestamptz AS finished_at,
           (SELECT w.name FROM pawl.claim AS c JOIN pawl.worker AS w ON w.id = c.worker
            WHERE c.token = j.token) AS worker,
           j.payload::bytea AS payload, NULL::bytea AS result, j.errors, j.timeout_ms::integer AS timeout_ms,
           j.lane, j.parent_id, j.meta, j.cancel_by,
           CASE WHEN j.has_options THEN (SELECT o.progress FROM pawl.job_option AS o WHERE o.job_id = j.id) END AS progress
    FROM pawl.job AS j
    UNION ALL
    SELECT h.id, h.state, h.queue, h.kind, h.priority, h.attempt, h.max_attempts,
           h.created_at, h.due_at, h.started_at, h.finished_at, h.worker, h.payload, h.result, h.errors,
           NULL::integer, h.lane, h.parent_id, h.meta, h.cancel_by, NULL::text
    FROM pawl.history AS h;
COMMENT ON VIEW pawl.jobs IS 'All jobs, live and finished, with their state in words';
