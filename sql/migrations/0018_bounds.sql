-- 0018_bounds: one job cannot stop a queue. What a claim sends for a machine is bounded in bytes of the text that is sent, an
-- inbox is bounded when a signal is stored, and a job whose claim fails is found and parked.

-- How many bytes a signal has when a step is shown it, and what the inbox holds with it. The last two are upper bounds: what is
-- consumed is not subtracted, and a count is made only when a bound is reached. NULL: stored before this migration.
ALTER TABLE pawl.signal
    ADD bytes       integer,
    ADD inbox_count integer,
    ADD inbox_bytes integer;

-- The bytes of a signal in the array that a step is shown: {"id": …, "name": …, "payload": …} and a comma.
CREATE FUNCTION pawl.signal_bytes(name text, payload jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 54 + octet_length(name) + octet_length(payload::text)
$$;

UPDATE pawl.signal AS s SET bytes = pawl.signal_bytes(s.name, s.payload);

-- Refuses a signal to an inbox that is full: 10 000 signals, or 8 MiB of them, that are not consumed. The newest signal knows what the inbox
-- held at most, so a send reads one row; where that reaches a bound, the inbox is counted. Senders that commit at the same moment do not see
-- each other, and may exceed the bound by what they send together.
CREATE FUNCTION pawl.signal_accept() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most       constant integer := 10000;
    most_bytes constant integer := 8388608;
    held       integer;
    held_bytes bigint;
BEGIN
    new.bytes := pawl.signal_bytes(new.name, new.payload);
    SELECT s.inbox_count, s.inbox_bytes INTO held, held_bytes
    FROM pawl.signal AS s
    WHERE s.job_id = new.job_id
    ORDER BY s.id DESC
    LIMIT 1;
    IF NOT FOUND THEN
        held := 0;
        held_bytes := 0;
    ELSIF held IS NULL OR held >= most OR held_bytes + new.bytes > most_bytes THEN
        SELECT count(*), coalesce(sum(coalesce(s.bytes, pawl.signal_bytes(s.name, s.payload))), 0) INTO held, held_bytes
        FROM pawl.signal AS s
        WHERE s.job_id = new.job_id AND NOT s.consumed;
        IF held >= most OR held_bytes + new.bytes > most_bytes THEN
            -- One that is there already is not sent again, and that is no error.
            IF new.key IS NOT NULL AND EXISTS (SELECT FROM pawl.signal AS s
                                               WHERE s.job_id = new.job_id AND s.name = new.name AND s.key = new.key) THEN
                RETURN NULL;
            END IF;
            -- A trigger comes before the policies. Who may not know of the job is refused in their words, full or not.
            IF pg_has_role(pawl.session_role(), 'pawl_enqueuer', 'USAGE')
               AND NOT pawl.queue_known((SELECT j.queue FROM pawl.job AS j WHERE j.id = new.job_id)) THEN
                RAISE EXCEPTION 'new row violates row-level security policy for table "signal"' USING ERRCODE = '42501';
            END IF;
            RAISE EXCEPTION 'the inbox of job % is full', new.job_id
                USING ERRCODE = 'PW005',
                      DETAIL = format('It holds %s signals of %s bytes, and this one has %s; the limits are %s signals and %s bytes.',
                                      held, held_bytes, new.bytes, most, most_bytes),
                      HINT = 'Send again when the job has taken some of them: it does so when a step that awaits them goes on'
                             ' ("pawl signal list" shows them). Keep large data elsewhere and send where it is.';
        END IF;
    END IF;
    new.inbox_count := held + 1;
    new.inbox_bytes := held_bytes + new.bytes;
    RETURN new;
END
$$;
CREATE TRIGGER signal_accept BEFORE INSERT ON pawl.signal FOR EACH ROW EXECUTE FUNCTION pawl.signal_accept();

-- Bytes as the text of a JSON value: JSON as it is, whatever its numbers would expand to, with blanks for line ends and tabs; else a
-- text, else base64. Nothing becomes more than six times as long.
CREATE FUNCTION pawl.bytes_text(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN translate(convert_from(bytes, 'UTF8')::json::text, E'\t\n\r', '   ');
EXCEPTION WHEN others THEN
    BEGIN
        RETURN to_json(convert_from(bytes, 'UTF8'))::text;
    EXCEPTION WHEN others THEN
        RETURN to_json(encode(bytes, 'base64'))::text;
    END;
END
$$;

-- As before, but bounded by the bytes that are sent. Signals: 1000 and 1 MiB, at least one, in the order in which they came; those that a
-- step has not seen before those that it waited on with, or it would be woken again and again for one that it is never shown. Children:
-- 8 MiB; from there on without result and error.
CREATE OR REPLACE FUNCTION pawl.machine_line(
    job bigint, step text, awaits text[], waits_for smallint, wait_until timestamptz, deadline_at timestamptz,
    children_left integer, cancel_by text, join_flags smallint, inbox bigint
) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shown   text; -- ids of the signals
    signals text;
    kids    text;
BEGIN
    IF awaits IS NOT NULL THEN
        SELECT string_agg(s.id::text, ',' ORDER BY s.id),
               '[' || string_agg('{"id": ' || s.id::text || ', "name": ' || to_json(s.name::text)::text || ', "payload": '
                                 || s.payload::text || '}', ', ' ORDER BY s.id) || ']'
        INTO shown, signals
        FROM (SELECT i.id, i.name, i.payload, row_number() OVER w AS n,
                     sum(coalesce(i.bytes, pawl.signal_bytes(i.name, i.payload))) OVER w AS upto
              FROM pawl.signal AS i
              WHERE i.job_id = job AND i.name = ANY (awaits) AND NOT i.consumed
              WINDOW w AS (ORDER BY i.shown, i.id)) AS s
        WHERE s.n = 1 OR s.n <= 1000 AND s.upto <= 1048576;
    END IF;
    IF children_left IS NOT NULL THEN
        SELECT '[' || coalesce(string_agg(
                          '{"id": ' || c.child_id::text || ', "kind": ' || c.kind
                          || CASE WHEN c.upto <= 8388608 THEN c.error || ', "state": "' || c.state || '"' || c.result
                                  ELSE ', "state": "' || c.state || '"' END
                          || '}', ', '), '') || ']'
        INTO kids
        FROM (SELECT k.child_id, k.kind, k.state, k.error, k.result,
                     sum(70 + octet_length(k.kind) + octet_length(k.error) + octet_length(k.result))
                         OVER (ORDER BY k.child_id ROWS UNBOUNDED PRECEDING) AS upto
              FROM (SELECT o.child_id, to_json(o.kind)::text AS kind, o.state::text AS state,
                           CASE WHEN o.error IS NULL THEN '' ELSE ', "error": ' || to_json(o.error)::text END AS error,
                           CASE WHEN octet_length(o.result) <= 65536 THEN ', "result": ' || pawl.bytes_text(o.result)
                                ELSE '' END AS result
                    FROM pawl.child AS o
                    WHERE o.parent_id = job
                    ORDER BY o.child_id
                    LIMIT 10000) AS k) AS c;
    END IF;
    RETURN coalesce(step, '') || E'\t'
           || coalesce(inbox, 0) || E'\t'
           || CASE WHEN waits_for = 3 THEN 1 ELSE 0 END + CASE WHEN shown IS NULL AND wait_until <= now() THEN 2 ELSE 0 END
              + CASE WHEN deadline_at <= now() THEN 4 ELSE 0 END + CASE WHEN cancel_by IS NULL THEN 0 ELSE 8 END
              + coalesce(join_flags & 2, 0) * 8 || E'\t'
           || coalesce(children_left, 0) || E'\t'
           || coalesce(shown, '') || E'\t'
           || coalesce(signals, '') || E'\t'
           || coalesce(kids, '');
END
$$;

-- Parks a job that nobody holds, with the reason. What may be damaged is not read: errors that cannot be read are replaced.
CREATE FUNCTION pawl.job_park(job bigint, reason text, worker text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    of_queue text;
    of_lane  text;
BEGIN
    BEGIN
        UPDATE pawl.job AS j
        SET waits_for = 1, due_at = 'infinity', lane_due_at = NULL, attempt = j.attempt + 1,
            errors = pawl.errors_add(j.errors, j.attempt + 1, 'unclaimable', reason, worker, 0)
        WHERE j.id = job AND j.token IS NULL
        RETURNING j.queue, j.lane INTO of_queue, of_lane;
    EXCEPTION WHEN data_exception OR data_corrupted OR index_corrupted OR internal_error OR program_limit_exceeded THEN
        UPDATE pawl.job AS j
        SET waits_for = 1, due_at = 'infinity', lane_due_at = NULL, attempt = j.attempt + 1,
            errors = pawl.errors_add(NULL, j.attempt + 1, 'unclaimable', reason, worker, 0)
        WHERE j.id = job AND j.token IS NULL
        RETURNING j.queue, j.lane INTO of_queue, of_lane;
    END;
    -- It may have been the one that was called: the next of its lane is.
    IF of_lane IS NOT NULL THEN
        INSERT INTO pawl.lane_stir (queue, name) VALUES (of_queue, of_lane);
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
    RETURN of_queue IS NOT NULL;
END
$$;

-- A claim of this job alone has failed, or of one that was claimed in its place: whether a claim of it does fail, found out by claiming it
-- and taking that back; if so it is parked. The caller has locked the job. known: why, if the caller is sure (it may fail where this does
-- not look: at the commit, or on the way to the client). Returns why it was parked; NULL: it was not.
-- What may go away by itself, or is about the server, is raised.
CREATE FUNCTION pawl.claim_try(job bigint, known text, worker text) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    reason text := known;
    size   bigint;
BEGIN
    IF reason IS NULL THEN
        BEGIN
            UPDATE pawl.job AS j
            SET token = gen_random_uuid(), attempt = j.attempt + 1
            WHERE j.id = job AND j.token IS NULL
            -- As job_claim does, and all of it is read.
            RETURNING octet_length(sha256(j.payload)) + coalesce(octet_length(sha256(j.state)), 0)
                      + coalesce(octet_length(j.meta ->> 'trace'), 0)
                      + CASE WHEN j.riders >= 16
                             THEN octet_length(pawl.machine_line(j.id, j.step, j.awaits, j.waits_for, j.wait_until,
                                                                 j.deadline_at, j.children_left, j.cancel_by,
                                                                 j.join_flags, j.inbox))
                             ELSE 0 END
            INTO size;
            RAISE EXCEPTION 'taken back' USING ERRCODE = 'PW000';
        EXCEPTION
            WHEN SQLSTATE 'PW000' THEN
                RETURN NULL;
            WHEN transaction_rollback OR disk_full OR operator_intervention OR system_error
                 OR syntax_error_or_access_rule_violation OR invalid_transaction_state OR lock_not_available OR object_in_use THEN
                RAISE;
            WHEN others THEN
                reason := format('%s (%s)', SQLERRM, SQLSTATE);
        END;
    END IF;
    reason := 'it cannot be claimed: ' || reason;
    RETURN CASE WHEN pawl.job_park(job, reason, worker) THEN reason END;
END
$$;

REVOKE ALL ON FUNCTION pawl.signal_bytes(text, jsonb), pawl.signal_accept(), pawl.bytes_text(bytea),
    pawl.job_park(bigint, text, text), pawl.claim_try(bigint, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.signal_bytes(text, jsonb), pawl.bytes_text(bytea), pawl.job_park(bigint, text, text),
    pawl.claim_try(bigint, text, text) TO pawl_worker;
