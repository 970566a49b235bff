-- trace: what the database itself saw of every job, claim and finished job, for the checker; and two knobs. Runs after the
-- migrations, in the soak test's own database. A trace row is written by the transaction it is about, so it is there
-- exactly when that was committed; rows of one job are in the order of their commits, because the job is locked meanwhile.
CREATE SCHEMA soak;

CREATE TABLE soak.trace (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    xid         xid NOT NULL DEFAULT pg_current_xact_id()::xid,
    statement   text,
    what        text NOT NULL, -- job, claim, history
    op          text NOT NULL, -- INSERT, UPDATE, DELETE
    id          bigint,
    token       uuid,
    old_token   uuid,
    attempt     integer,
    old_attempt integer,
    state       text,
    lease_until timestamptz,
    old_lease   timestamptz
);

-- Every statement of ours begins with its name in a comment.
CREATE FUNCTION soak.statement() RETURNS text LANGUAGE sql AS $$
    SELECT substring(current_query() FROM '^/\* pawl\.([a-z_]+) \*/')
$$;

CREATE FUNCTION soak.trace_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, token, old_token, attempt, old_attempt)
    VALUES (soak.statement(), 'job', tg_op, coalesce(new.id, old.id), new.token, old.token, new.attempt, old.attempt);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.job
    FOR EACH ROW EXECUTE FUNCTION soak.trace_job();

CREATE FUNCTION soak.trace_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, token, lease_until, old_lease)
    VALUES (soak.statement(), 'claim', tg_op, coalesce(new.token, old.token), new.lease_until, old.lease_until);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.claim
    FOR EACH ROW EXECUTE FUNCTION soak.trace_claim();

CREATE FUNCTION soak.trace_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO soak.trace (statement, what, op, id, attempt, state)
    VALUES (soak.statement(), 'history', tg_op, coalesce(new.id, old.id), new.attempt, new.state);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace AFTER INSERT OR UPDATE OR DELETE ON pawl.history
    FOR EACH ROW EXECUTE FUNCTION soak.trace_history();

-- The share of claims and settles that succeed and then cannot be committed.
CREATE TABLE soak.knob (refuse_commits double precision NOT NULL);
INSERT INTO soak.knob VALUES (0);

CREATE FUNCTION soak.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- A run of minutes has no hours to wait for an exhausted job.
CREATE OR REPLACE FUNCTION pawl.retry_delay_ms(kind text, attempt integer) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT (least(500, 25 * power(2, least(attempt, 10))) * (0.8 + 0.4 * random()))::bigint
$$;
