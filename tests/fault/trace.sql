-- trace: what the database itself saw of every job, its side rows, claim, lease of a single job, finished job and signal, and of the
-- ledger's low mark, for the checker; and knobs. Runs after the migrations, in the soak test's own database. A trace row is written by the transaction it is about, so it is there
-- exactly when that was committed; rows of one job are in the order of their commits, because the job is locked meanwhile.
CREATE SCHEMA soak;

CREATE TABLE soak.trace (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    began       timestamptz NOT NULL DEFAULT statement_timestamp(), -- its snapshot is later
    since       timestamptz NOT NULL DEFAULT transaction_timestamp(), -- what now() is in it
    xid         xid NOT NULL DEFAULT pg_current_xact_id()::xid,
    statement   text,
    what        text NOT NULL, -- job, machine, option, claim, held, history, signal, lane, orphan, low
    op          text NOT NULL, -- INSERT, UPDATE, DELETE
    id          bigint,
    token       uuid,
    old_token   uuid,
    attempt     integer,
    old_attempt integer,
    state       text,
    lease_until timestamptz,
    old_lease   timestamptz,
    -- of jobs that are more than plain
    queue       text,
    lane        text,
    guard       uuid,
    parent_id   bigint,
    joins       integer,     -- how often it spawned
    due_at      timestamptz,
    wait_until  timestamptz,
    awaits      text[],
    step        text,
    waits_for   text,
    deadline_at timestamptz,
    join_of     integer,     -- of a child: which spawn of its parent made it
    kids        integer,     -- of a parent: children that are left, and how many may be when it goes on
    join_at     integer,
    join_flags  integer,     -- 1 the first failure ends the join, 2 the rest is cancelled
    let_go      boolean,     -- of a lease of its own: that of the claim does not count any more
    holders     bigint[],    -- of a lane with a rate: who has a place
    priority    smallint,
    ledger      bigint,      -- of a claim: its place in the ledger; of the low mark: where it is
    -- of signals; id is that of the machine
    signal_id   bigint,
    name        text,
    shown       boolean,
    consumed    boolean
);

-- Functions of the schema pawl run as its owner, who has no rights here: hence the triggers are security definers.
-- Every statement of ours begins with its name in a comment. job_settle ends jobs, and lets machines go on: what it does for
-- the latter is told apart, as job_settle_step.
CREATE FUNCTION soak.statement() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    name  constant text := substring(current_query() FROM '^/\* pawl\.([a-z_]+) \*/');
    stack text;
BEGIN
    IF name = 'job_settle' THEN
        GET DIAGNOSTICS stack = PG_CONTEXT;
        IF stack LIKE '%machines_settle(%' THEN
            RETURN 'job_settle_step';
        END IF;
    END IF;
    RETURN name;
END
$$;

CREATE FUNCTION soak.trace_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    j pawl.job;
BEGIN
    j := CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
    INSERT INTO soak.trace (statement, what, op, id, token, old_token, attempt, old_attempt, queue, lane, parent_id, due_at,
                            waits_for, deadline_at, join_of, priority)
    VALUES (soak.statement(), 'job', tg_op, j.id, new.token, old.token, new.attempt, old.attempt, j.queue, j.lane,
            j.parent_id, j.due_at, j.waits_for, j.deadline_at, j.join_of, j.priority);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.job
    FOR EACH ROW EXECUTE FUNCTION soak.trace_job();

-- The side rows of a job. history.py puts what they say into the rows of their job; a machine that goes on at once changes
-- nothing else, so the job as it is then is written here, too. Whoever changes one of them has locked the job.
CREATE FUNCTION soak.trace_machine() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    m pawl.machine;
    j pawl.job;
BEGIN
    m := CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = m.job_id;
    INSERT INTO soak.trace (statement, what, op, id, token, old_token, attempt, old_attempt, queue, lane, parent_id, due_at,
                            waits_for, deadline_at, join_of,
                            joins, wait_until, awaits, step, kids, join_at, join_flags)
    VALUES (soak.statement(), 'machine', tg_op, m.job_id, j.token, j.token, j.attempt, j.attempt, j.queue, j.lane,
            j.parent_id, j.due_at, j.waits_for, j.deadline_at, j.join_of,
            nullif(m.joins, 0), m.wait_until, m.awaits, m.step, m.children_left, m.join_at,
            m.fail_fast::integer + 2 * m.cancel_rest::integer);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.machine
    FOR EACH ROW EXECUTE FUNCTION soak.trace_machine();

CREATE FUNCTION soak.trace_option() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, guard)
    VALUES (soak.statement(), 'option', tg_op, coalesce(new.job_id, old.job_id), coalesce(new.guard, old.guard));
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.job_option
    FOR EACH ROW EXECUTE FUNCTION soak.trace_option();

CREATE FUNCTION soak.trace_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, token, lease_until, old_lease, ledger)
    VALUES (soak.statement(), 'claim', tg_op, coalesce(new.token, old.token), new.lease_until, old.lease_until,
            coalesce(new.seq, old.seq));
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.claim
    FOR EACH ROW EXECUTE FUNCTION soak.trace_claim();

CREATE FUNCTION soak.trace_low() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, ledger) VALUES (soak.statement(), 'low', tg_op, new.seq);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER UPDATE ON pawl.claim_low FOR EACH ROW EXECUTE FUNCTION soak.trace_low();

CREATE FUNCTION soak.trace_held() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, token, old_token, lease_until, old_lease, let_go)
    VALUES (soak.statement(), 'held', tg_op, coalesce(new.job_id, old.job_id), new.token, old.token, new.lease_until,
            old.lease_until, coalesce(new.let_go, old.let_go));
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.held
    FOR EACH ROW EXECUTE FUNCTION soak.trace_held();

CREATE FUNCTION soak.trace_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, attempt, state)
    VALUES (soak.statement(), 'history', tg_op, coalesce(new.id, old.id), new.attempt, new.state);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.history
    FOR EACH ROW EXECUTE FUNCTION soak.trace_history();

CREATE FUNCTION soak.trace_signal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    s pawl.signal;
BEGIN
    s := CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
    INSERT INTO soak.trace (statement, what, op, id, signal_id, name, shown, consumed, state)
    VALUES (soak.statement(), 'signal', tg_op, s.job_id, s.id, s.name, s.shown, s.consumed, s.payload ->> 'n');
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.signal
    FOR EACH ROW EXECUTE FUNCTION soak.trace_signal();

-- Whoever has a place in a lane enters without a token of its rate.
CREATE FUNCTION soak.trace_lane() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, queue, lane, holders)
    VALUES (soak.statement(), 'lane', tg_op, new.queue, new.name, new.holders);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE ON pawl.lane
    FOR EACH ROW WHEN (new.rate_per_s IS NOT NULL) EXECUTE FUNCTION soak.trace_lane();

CREATE FUNCTION soak.trace_orphan() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, parent_id)
    VALUES (soak.statement(), 'orphan', tg_op, coalesce(new.child_id, old.child_id), coalesce(new.parent_id, old.parent_id));
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR DELETE ON pawl.orphan
    FOR EACH ROW EXECUTE FUNCTION soak.trace_orphan();

-- Lanes are for one at a time, but for the wide ones. In a row and in a tail the order counts; whoever is to be tried again
-- lets others pass in a row, and holds them up in a tail. The checker knows these numbers (lanes.py).
SELECT pawl.lane_set('*', 'wide*', 3);
SELECT pawl.lane_set('*', 'row*', 1, strict => true);
SELECT pawl.lane_set('*', 'tail*', 1, strict => true, hold => true);
SELECT pawl.lane_set('*', 'trickle*', 100, rate_per_s => 8, burst => 3);

-- The share of claims and settles that succeed and then cannot be committed; and how long a sweep takes for each job, in s.
CREATE TABLE soak.knob (refuse_commits double precision NOT NULL, slow_sweeps double precision NOT NULL);
INSERT INTO soak.knob VALUES (0, 0);

CREATE FUNCTION soak.refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF random() < (SELECT refuse_commits FROM soak.knob) THEN
        RAISE EXCEPTION 'refused by the soak test' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR DELETE ON pawl.claim
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION soak.refuse();
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON pawl.job
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION soak.refuse();
CREATE CONSTRAINT TRIGGER refuse_step AFTER UPDATE ON pawl.machine
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (old.step IS DISTINCT FROM new.step) EXECUTE FUNCTION soak.refuse();

-- A sender takes its time between the delivery, when it has locked the machine's row, and its commit: a step that parks the
-- machine meanwhile sees the row and not the signal. By its name it comes after the delivery.
CREATE FUNCTION soak.slow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM pg_sleep(coalesce(tg_argv[0]::float8, 0.006) * random());
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON pawl.signal
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION soak.slow();
-- So does a child that ends, now and then, when it has locked its parent's row.
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON pawl.child
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.child_id % 4 = 0) EXECUTE FUNCTION soak.slow('0.03');

-- A producer takes its time to commit, now and then longer than two polls of the workers: by then the marks of its queue are past
-- its jobs (moments.py).
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON pawl.job
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.id % 500 = 0 AND new.parent_id IS NULL) EXECUTE FUNCTION soak.slow('3');

-- Only a sweep that takes fewer jobs after a timeout gets to its end then.
CREATE FUNCTION soak.slow_sweep() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF soak.statement() = 'claim_sweep' THEN
        PERFORM pg_sleep(k.slow_sweeps) FROM soak.knob AS k WHERE k.slow_sweeps > 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER slow_sweep AFTER UPDATE OR DELETE ON pawl.job
    FOR EACH ROW WHEN (old.token IS NOT NULL) EXECUTE FUNCTION soak.slow_sweep();

-- A run of minutes has no hours to wait for an exhausted job.
CREATE OR REPLACE FUNCTION pawl.retry_ms(
    attempt integer, retry pawl.retry, base_ms integer, cap_ms integer,
    kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]
) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT CASE WHEN retry IS NULL AND base_ms IS NULL AND cap_ms IS NULL
                THEN (least(500, 25 * power(2, least(attempt, 10))) * (0.8 + 0.4 * random()))::bigint
                ELSE (least(coalesce(cap_ms, 3600000)::float8, coalesce(base_ms, 1000)::float8
                            * (CASE retry WHEN 'quadratic' THEN attempt::float8 * attempt
                                          ELSE power(2, least(attempt, 40) - 1) END))
                      * (0.8 + 0.4 * random()))::bigint END
$$;
