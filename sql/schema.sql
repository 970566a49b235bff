-- What sql/migrations come to. Made by tools/dump-schema; do not edit.

CREATE SCHEMA pawl;

ALTER SCHEMA pawl OWNER TO pawl_owner;

CREATE DOMAIN pawl.kind_name AS text;

ALTER DOMAIN pawl.kind_name OWNER TO pawl_owner;

CREATE DOMAIN pawl.max_attempts AS integer;

ALTER DOMAIN pawl.max_attempts OWNER TO pawl_owner;

CREATE DOMAIN pawl.payload AS bytea;

ALTER DOMAIN pawl.payload OWNER TO pawl_owner;

CREATE DOMAIN pawl.priority AS smallint;

ALTER DOMAIN pawl.priority OWNER TO pawl_owner;

CREATE DOMAIN pawl.queue_name AS text;

ALTER DOMAIN pawl.queue_name OWNER TO pawl_owner;

CREATE TYPE pawl.retry AS ENUM (
    'exponential',
    'quadratic',
    'table'
);

ALTER TYPE pawl.retry OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_key AS text;

ALTER DOMAIN pawl.signal_key OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_name AS text;

ALTER DOMAIN pawl.signal_name OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_payload AS jsonb;

ALTER DOMAIN pawl.signal_payload OWNER TO pawl_owner;

CREATE TYPE pawl.state AS ENUM (
    'ready',
    'scheduled',
    'retrying',
    'running',
    'parked',
    'done',
    'failed',
    'cancelled',
    'waiting'
);

ALTER TYPE pawl.state OWNER TO pawl_owner;

CREATE DOMAIN pawl.timeout_ms AS integer;

ALTER DOMAIN pawl.timeout_ms OWNER TO pawl_owner;

CREATE FUNCTION pawl.access_changed() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_notify('pawl_access', '');
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.access_changed() OWNER TO pawl_owner;

CREATE FUNCTION pawl.assert_claim(job bigint, token uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM pawl.job AS j WHERE j.id = job AND j.token = assert_claim.token FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of job % is no longer valid', job
            USING ERRCODE = 'PW003', HINT = 'Roll back: another worker may own the job.';
    END IF;
END
$$;

ALTER FUNCTION pawl.assert_claim(job bigint, token uuid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.bytes_json(bytes bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8')::jsonb;
EXCEPTION WHEN others THEN
    BEGIN
        RETURN to_jsonb(convert_from(bytes, 'UTF8'));
    EXCEPTION WHEN others THEN
        RETURN to_jsonb(encode(bytes, 'base64'));
    END;
END
$$;

ALTER FUNCTION pawl.bytes_json(bytes bytea) OWNER TO pawl_owner;

CREATE FUNCTION pawl.bytes_text(bytes bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.bytes_text(bytes bytea) OWNER TO pawl_owner;

CREATE FUNCTION pawl.cancel(job bigint, by_whom text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held uuid;
    runs boolean;
    who text := coalesce(by_whom, session_user);
BEGIN
    FOR look IN 1 .. 100 LOOP
        SELECT j.token INTO held FROM pawl.job AS j WHERE j.id = job;
        IF NOT FOUND THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        IF held IS NOT NULL THEN
            BEGIN
                PERFORM FROM pawl.job AS j WHERE j.id = job AND j.token = held FOR KEY SHARE;
                runs := FOUND;
                RAISE SQLSTATE 'PW000';
            EXCEPTION WHEN SQLSTATE 'PW000' THEN
                CONTINUE WHEN NOT runs;
            END;
            INSERT INTO pawl.stop (job_id, token, by_whom) VALUES (job, held, who) ON CONFLICT DO NOTHING;
            RETURN 'cancelling';
        END IF;
        -- Not while somebody claims or settles it: then it is something else in a moment.
        IF pawl.job_end(job, 'cancelled', who) THEN
            RETURN 'cancelled';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % changes too fast', job USING ERRCODE = '40001', HINT = 'Try again.';
END
$$;

ALTER FUNCTION pawl.cancel(job bigint, by_whom text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) RETURNS TABLE(job bigint, result text, state text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    FOR job IN SELECT DISTINCT u.id FROM unnest(jobs) AS u(id) ORDER BY 1 LOOP
        state := NULL;
        BEGIN
            result := pawl.cancel(job, by_whom);
        EXCEPTION
            WHEN SQLSTATE 'PW001' THEN
                result := 'missing';
            WHEN SQLSTATE 'PW002' THEN
                result := 'finished';
                SELECT h.state::text INTO state FROM pawl.history AS h WHERE h.id = cancel_many.job LIMIT 1;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;

ALTER FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.child_ended(parent bigint, of_join integer, child bigint, kind text, as_state pawl.state, error text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    woken text;
BEGIN
    UPDATE pawl.job AS p
    SET children_left = p.children_left - 1,
        due_at = CASE WHEN p.waits_for = 4 AND p.token IS NULL
                       AND (p.children_left - 1 <= p.join_at OR p.join_flags & 1 <> 0 AND as_state <> 'done')
                      THEN least(p.due_at, clock_timestamp()) ELSE p.due_at END
    WHERE p.id = parent AND p.joins = of_join AND p.children_left IS NOT NULL
    RETURNING CASE WHEN p.waits_for = 4 AND p.due_at <= clock_timestamp() THEN p.queue END INTO woken;
    IF FOUND THEN
        INSERT INTO pawl.child (parent_id, child_id, kind, state, error)
        VALUES (parent, child, child_ended.kind, as_state, child_ended.error) ON CONFLICT DO NOTHING;
    END IF;
    IF woken IS NOT NULL AND (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = woken) THEN
        PERFORM pg_notify('pawl_wake', woken);
    END IF;
END
$$;

ALTER FUNCTION pawl.child_ended(parent bigint, of_join integer, child bigint, kind text, as_state pawl.state, error text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.children_end(parent bigint, token uuid, cancel boolean) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    left_over bigint[];
BEGIN
    PERFORM FROM pawl.job AS j
    WHERE j.id = parent AND j.token IS NOT DISTINCT FROM children_end.token FOR UPDATE;
    IF FOUND <> (token IS NOT NULL) OR token IS NULL AND EXISTS (SELECT FROM pawl.job AS j WHERE j.id = parent) THEN
        RETURN false;
    END IF;
    DELETE FROM pawl.child AS c WHERE c.parent_id = parent;
    IF cancel THEN
        SELECT array_agg(k.id) INTO left_over
        FROM (SELECT j.id FROM pawl.job AS j
              WHERE j.parent_id = parent AND j.join_of IS NOT NULL
              ORDER BY j.id FOR UPDATE SKIP LOCKED) AS k;
        UPDATE pawl.job AS j SET join_of = NULL WHERE j.id = ANY (left_over);
        PERFORM pawl.cancel(k.id, 'parent ' || parent) FROM unnest(left_over) AS k(id);
        INSERT INTO pawl.orphan (child_id, parent_id)
        SELECT j.id, parent FROM pawl.job AS j WHERE j.parent_id = parent AND j.join_of IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN true;
END
$$;

ALTER FUNCTION pawl.children_end(parent bigint, token uuid, cancel boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claim_try(job bigint, known text, worker text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.claim_try(job bigint, known text, worker text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claim_turn(queue text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '200ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('pawl.claim ' || claim_turn.queue, 0));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

ALTER FUNCTION pawl.claim_turn(queue text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.correlated(correlation text) RETURNS SETOF bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT j.id
    FROM pawl.job AS j
    WHERE j.meta ->> 'correlation' = correlated.correlation
      AND (NOT pg_has_role(pawl.session_role(), 'pawl_enqueuer', 'USAGE') OR pawl.queue_known(j.queue))
    ORDER BY j.id
$$;

ALTER FUNCTION pawl.correlated(correlation text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF delay IS NOT NULL AND due_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and due_at cannot both be given' USING ERRCODE = '22023';
    ELSIF delay < interval '0' THEN
        RAISE EXCEPTION 'delay % is negative', delay USING ERRCODE = '22023';
    ELSIF NOT isfinite(due_at) THEN
        RAISE EXCEPTION 'due_at must be finite' USING ERRCODE = '22023';
    END IF;
    RETURN coalesce(due_at, now() + delay, now());
END
$$;

ALTER FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue(kind text, payload jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, priority integer DEFAULT 4, delay interval DEFAULT NULL::interval, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, retry_base interval DEFAULT NULL::interval, retry_cap interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, unique_scope text DEFAULT 'kind'::text, unique_states text[] DEFAULT '{waiting,running,parked}'::text[], unique_for interval DEFAULT NULL::interval, on_conflict text DEFAULT 'keep'::text, lane text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], parent bigint DEFAULT NULL::bigint, trace text DEFAULT NULL::text, bytes bytea DEFAULT NULL::bytea, correlation text DEFAULT NULL::text, deadline interval DEFAULT NULL::interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    states integer := 0;
    mode integer := array_position(ARRAY['keep', 'replace', 'reschedule', 'refuse'], on_conflict) - 1;
    body bytea := coalesce(bytes, convert_to(coalesce(payload, 'null')::text, 'UTF8'));
    word text;
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, octet_length(body));
    IF lane IS NOT NULL THEN PERFORM pawl.name_check('lane', lane); END IF;
    PERFORM pawl.name_check('tag', t) FROM unnest(tags) AS t;
    IF cardinality(tags) > 32 THEN
        RAISE EXCEPTION 'a job has at most 32 tags, not %', cardinality(tags) USING ERRCODE = '54000';
    ELSIF octet_length(trace) > 1024 THEN
        RAISE EXCEPTION 'trace has more than 1024 bytes' USING ERRCODE = '54000';
    ELSIF octet_length(correlation) > 1024 THEN
        RAISE EXCEPTION 'correlation has more than 1024 bytes' USING ERRCODE = '54000';
    ELSIF correlation = '' THEN
        RAISE EXCEPTION 'correlation is empty' USING ERRCODE = '22023', HINT = 'NULL is none.';
    ELSIF octet_length(unique_key) > 65536 THEN
        RAISE EXCEPTION 'unique_key has more than 65536 bytes' USING ERRCODE = '54000';
    ELSIF unique_key = '' THEN
        RAISE EXCEPTION 'unique_key is empty' USING ERRCODE = '22023', HINT = 'NULL is no key.';
    ELSIF retry IS NOT NULL AND retry NOT IN ('exponential', 'quadratic') THEN
        RAISE EXCEPTION 'retry "%" is neither exponential nor quadratic', retry USING ERRCODE = '22023',
            HINT = 'A table of delays belongs to a kind: pawl kind set.';
    ELSIF mode IS NULL THEN
        RAISE EXCEPTION 'on_conflict "%" is none of keep, replace, reschedule, refuse', on_conflict USING ERRCODE = '22023';
    ELSIF unique_scope IS NULL OR unique_scope NOT IN ('kind', 'queue', 'global') THEN
        RAISE EXCEPTION 'unique_scope "%" is none of kind, queue, global', unique_scope USING ERRCODE = '22023';
    END IF;
    FOREACH word IN ARRAY coalesce(unique_states, '{waiting,running,parked}') LOOP
        states := states | CASE word WHEN 'waiting' THEN 1 WHEN 'running' THEN 2 WHEN 'parked' THEN 4 END;
        IF states IS NULL THEN
            RAISE EXCEPTION 'unique_states: "%" is none of waiting, running, parked', word USING ERRCODE = '22023';
        END IF;
    END LOOP;
    RETURN (SELECT r.id FROM pawl.enqueue_row(
        queue, kind, body, coalesce(priority, 4)::smallint, pawl.due_time(delay, due_at), coalesce(max_attempts, 20),
        pawl.interval_ms('timeout', timeout)::integer, retry::pawl.retry,
        pawl.interval_ms('retry_base', retry_base)::integer, pawl.interval_ms('retry_cap', retry_cap)::integer,
        unique_key, unique_scope, states, coalesce(pawl.interval_ms('unique_for', unique_for), 0), mode,
        lane, parent,
        CASE WHEN tags IS NOT NULL OR trace IS NOT NULL OR correlation IS NOT NULL
             THEN jsonb_strip_nulls(jsonb_build_object('tags', to_jsonb(tags), 'trace', trace,
                                                       'correlation', correlation)) END,
        now() + pawl.interval_ms('deadline', deadline) * interval '1 millisecond') AS r);
END
$$;

ALTER FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_many(jobs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    job jsonb;
    wrong text;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'jobs must be a JSON array of objects' USING ERRCODE = '22023';
    END IF;
    FOR job IN SELECT value FROM jsonb_array_elements(jobs) LOOP
        IF jsonb_typeof(job) <> 'object' THEN
            RAISE EXCEPTION 'jobs must be a JSON array of objects, and % is none', left(job::text, 60)
                USING ERRCODE = '22023';
        END IF;
        SELECT k INTO wrong FROM jsonb_object_keys(job) AS k
        WHERE k NOT IN ('kind', 'payload', 'queue', 'priority', 'delay', 'due_at', 'max_attempts', 'timeout', 'retry',
                        'retry_base', 'retry_cap', 'unique_key', 'unique_scope', 'unique_states', 'unique_for',
                        'on_conflict', 'lane', 'tags', 'parent', 'trace', 'correlation', 'deadline')
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'a job has no member "%"', wrong USING ERRCODE = '22023', HINT = 'See the parameters of pawl.enqueue.';
        END IF;
        RETURN NEXT pawl.enqueue(
            job ->> 'kind', coalesce(job -> 'payload', '{}'), coalesce(job ->> 'queue', 'default'),
            coalesce((job ->> 'priority')::integer, 4), (job ->> 'delay')::interval, (job ->> 'due_at')::timestamptz,
            coalesce((job ->> 'max_attempts')::integer, 20), (job ->> 'timeout')::interval, job ->> 'retry',
            (job ->> 'retry_base')::interval, (job ->> 'retry_cap')::interval, job ->> 'unique_key',
            coalesce(job ->> 'unique_scope', 'kind'),
            coalesce((SELECT array_agg(s) FROM jsonb_array_elements_text(job -> 'unique_states') AS s),
                     '{waiting,running,parked}'),
            (job ->> 'unique_for')::interval, coalesce(job ->> 'on_conflict', 'keep'), job ->> 'lane',
            (SELECT array_agg(t) FROM jsonb_array_elements_text(job -> 'tags') AS t), (job ->> 'parent')::bigint,
            job ->> 'trace', NULL, job ->> 'correlation', (job ->> 'deadline')::interval);
    END LOOP;
END
$$;

ALTER FUNCTION pawl.enqueue_many(jobs jsonb) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text DEFAULT 'default'::text, priority integer DEFAULT 4, delay interval DEFAULT NULL::interval, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL::interval) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, 0);
    due_at := pawl.due_time(delay, due_at);
    RETURN QUERY
        INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
        SELECT queue, kind, convert_to(coalesce(p.payload, 'null')::text, 'UTF8'), coalesce(priority, 4)::smallint,
               due_at, coalesce(max_attempts, 20), pawl.interval_ms('timeout', timeout)::integer
        FROM unnest(payloads) WITH ORDINALITY AS p(payload, n)
        ORDER BY p.n
        RETURNING j.id;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = enqueue_many.queue) THEN
        PERFORM pg_notify('pawl_wake', queue);
    END IF;
END
$$;

ALTER FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    id pg_catalog.int8;
    told pg_catalog.text;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    VALUES (queue, kind, payload, priority,
            CASE WHEN at_us OPERATOR(pg_catalog.<>) 0
                 THEN pg_catalog.timestamptz 'epoch' OPERATOR(pg_catalog.+)
                      (at_us::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 microsecond'::pg_catalog.interval)
                 ELSE pg_catalog.now() OPERATOR(pg_catalog.+)
                      (delay_ms::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 millisecond'::pg_catalog.interval) END,
            max_attempts, CASE WHEN timeout_ms OPERATOR(pg_catalog.<>) 0 THEN timeout_ms END)
    RETURNING j.id,
              CASE WHEN ARRAY(SELECT s.asleep FROM pawl.sleeper AS s
                              WHERE s.queue OPERATOR(pg_catalog.=) enqueue_plain.queue AND s.asleep)
                        OPERATOR(pg_catalog.<>) '{}'
                   THEN pg_catalog.pg_notify('pawl_wake', queue)::pg_catalog.text END
    INTO id, told;
    RETURN id;
END
$$;

ALTER FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    holder bigint;
    riders integer := CASE WHEN lane IS NULL THEN 0 ELSE 1 END + CASE WHEN key IS NULL THEN 0 ELSE 2 END
                      + CASE WHEN parent_id IS NULL THEN 0 ELSE 4 END + CASE WHEN meta IS NULL THEN 0 ELSE 8 END
                      + CASE WHEN deadline_at IS NULL THEN 0 ELSE 16 END; -- as a machine, which is asked for it at each claim
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms, retry, retry_base_ms,
                               retry_cap_ms, guard, lane, parent_id, meta, deadline_at, riders)
    VALUES (queue, kind, payload, priority + CASE WHEN lane IS NULL THEN 0 ELSE 10 END, least(due_at, deadline_at),
            max_attempts, timeout_ms, retry, retry_base_ms, retry_cap_ms,
            CASE WHEN key IS NOT NULL THEN pawl.unique_hash(key_scope, queue, kind, key) END,
            lane, parent_id, meta, deadline_at, nullif(riders, 0))
    RETURNING j.id INTO id;
    existed := false;
    IF key IS NOT NULL THEN
        holder := pawl.guard_take(id, key_scope, key, key_states, key_ms, key_mode);
        IF holder = -1 AND NOT has_column_privilege('pawl.guard', 'job_id', 'SELECT') THEN
            RAISE EXCEPTION 'a job of another queue holds this unique key' USING ERRCODE = 'PW004',
                HINT = 'A global key is shared by all queues. Use unique_scope queue or kind for one of your own.';
        ELSIF holder = -1 THEN
            SELECT g.job_id INTO holder FROM pawl.guard AS g WHERE g.hash = pawl.unique_hash(key_scope, queue, kind, key);
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the unique key is fought over' USING ERRCODE = '40001', HINT = 'Try again.';
            END IF;
        END IF;
        IF holder IS NOT NULL THEN
            IF key_mode = 3 THEN
                RAISE EXCEPTION 'job % holds this unique key', holder USING ERRCODE = 'PW004', DETAIL = 'job ' || holder;
            END IF;
            id := holder;
            existed := true;
        END IF;
    END IF;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = enqueue_row.queue) THEN
        PERFORM pg_notify('pawl_wake', queue);
    END IF;
END
$$;

ALTER FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) RETURNS jsonb
    LANGUAGE sql PARALLEL SAFE
    RETURN (CASE WHEN (jsonb_array_length(errors) >= 20) THEN (errors - 0) ELSE COALESCE(errors, '[]'::jsonb) END || jsonb_build_array(jsonb_build_object('attempt', attempt, 'at', clock_timestamp(), 'class', class, 'error', "left"(error, 4000), 'worker', worker, 'run_us', run_us)));

ALTER FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.guard_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT g.hash, g.job_id, g.free_at
        FROM pawl.guard AS g
        WHERE g.free_at < clock_timestamp()
           OR g.free_at IS NULL AND NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = g.job_id)
        LIMIT 10000
    ), free AS MATERIALIZED (
        -- Compared with what was seen above: a key that was given to another job meanwhile is left alone.
        SELECT g.hash
        FROM old AS o
        JOIN pawl.guard AS g ON g.hash = o.hash AND g.job_id = o.job_id AND g.free_at IS NOT DISTINCT FROM o.free_at
        FOR UPDATE OF g SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.guard AS g USING free AS f WHERE g.hash = f.hash RETURNING 1
    )
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION pawl.guard_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    key_hash uuid;
    fresh pawl.job;
    held record;
BEGIN
    SELECT * INTO fresh FROM pawl.job AS j WHERE j.id = new_id AND j.token IS NULL AND pawl.is_mine(j.xmin);
    key_hash := pawl.unique_hash(scope, fresh.queue, fresh.kind, key);
    IF key_hash IS NULL OR fresh.guard IS DISTINCT FROM key_hash THEN
        RAISE EXCEPTION 'job % is not new, or does not carry this key', new_id USING ERRCODE = 'PW001';
    END IF;
    FOR look IN 1 .. 100 LOOP
        -- Waits for others who are about to take it: whether they will is not known before they commit.
        INSERT INTO pawl.guard (hash, job_id, keep_ms) VALUES (key_hash, new_id, keep) ON CONFLICT (hash) DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT g.job_id, g.free_at, j.id AS live_id, j.token, j.waits_for, j.queue INTO held
        FROM pawl.guard AS g LEFT JOIN pawl.job AS j ON j.id = g.job_id
        WHERE g.hash = key_hash;
        CONTINUE WHEN NOT FOUND; -- freed at this moment
        IF held.job_id = new_id THEN
            RETURN NULL;
        END IF;
        IF (CASE WHEN held.live_id IS NULL THEN coalesce(held.free_at > clock_timestamp(), false)
                 WHEN held.token IS NOT NULL THEN states & 2 <> 0
                 WHEN held.waits_for = 1 THEN states & 4 <> 0
                 ELSE states & 1 <> 0 END) THEN
            DELETE FROM pawl.job AS j WHERE j.id = new_id;
            IF mode IN (1, 2) THEN
                UPDATE pawl.job AS j
                SET due_at = CASE WHEN j.waits_for IS NULL THEN fresh.due_at ELSE j.due_at END,
                    payload = CASE mode WHEN 1 THEN fresh.payload ELSE j.payload END,
                    priority = CASE mode WHEN 1 THEN fresh.priority ELSE j.priority END
                WHERE j.id = held.job_id AND j.token IS NULL AND j.queue = fresh.queue;
            END IF;
            IF scope = 'global'
               AND coalesce(held.queue, (SELECT h.queue FROM pawl.history AS h WHERE h.id = held.job_id LIMIT 1))
                   IS DISTINCT FROM fresh.queue THEN
                RETURN -1;
            END IF;
            RETURN held.job_id;
        END IF;
        UPDATE pawl.guard AS g
        SET job_id = new_id, keep_ms = keep, free_at = NULL
        WHERE g.hash = key_hash AND g.job_id = held.job_id;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'the unique key is fought over' USING ERRCODE = '40001', HINT = 'Try again.';
END
$$;

ALTER FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.held_among(ids bigint[]) RETURNS TABLE(id bigint, token uuid)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY SELECT h.job_id, h.token FROM pawl.held AS h WHERE h.job_id = ANY (ids);
END
$$;

ALTER FUNCTION pawl.held_among(ids bigint[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '2s'
    AS $_$
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
$_$;

ALTER FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.interval_ms(what text, i interval) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF i < interval '0' THEN
        RAISE EXCEPTION '% % is negative', what, i USING ERRCODE = '22023';
    END IF;
    RETURN nullif((date_part('epoch', i) * 1000)::bigint, 0);
END
$$;

ALTER FUNCTION pawl.interval_ms(what text, i interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.is_held(job bigint, claim_token uuid) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = job AND h.token = claim_token);
END
$$;

ALTER FUNCTION pawl.is_held(job bigint, claim_token uuid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.is_mine(row_xmin xid) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_xact_status((t.n + ((row_xmin::text::bigint - t.n + 2147483648) & 4294967295) - 2147483648)::text::xid8)
           = 'in progress'
    FROM (SELECT pg_current_xact_id()::text::bigint AS n) AS t
$$;

ALTER FUNCTION pawl.is_mine(row_xmin xid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pawl.name_check('queue', queue), pawl.name_check('kind', kind);
    IF priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority % is not between 0 and 9', priority USING ERRCODE = '22023';
    ELSIF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts % is not between 1 and 1000', max_attempts USING ERRCODE = '22023';
    ELSIF bytes > 16777216 THEN
        RAISE EXCEPTION 'the payload has % bytes, and the limit is 16777216', bytes
            USING ERRCODE = '54000', HINT = 'Store it elsewhere and pass a reference to it.';
    END IF;
END
$$;

ALTER FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    g pawl.job;
    keep integer;
BEGIN
    DELETE FROM pawl.job AS j WHERE j.id = job AND j.token IS NULL RETURNING j.* INTO g;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT q.keep_days INTO keep FROM pawl.queue AS q WHERE q.name = g.queue;
    keep := coalesce(keep, 7);
    IF keep > 0 OR g.watched THEN
        INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt,
                                  max_attempts, priority, queue, kind, payload, errors, lane, parent_id, meta, cancel_by,
                                  step, last_state, timeline)
        VALUES (g.id, g.created_at, coalesce(g.lane_due_at, g.due_at), clock_timestamp(), clock_timestamp(),
                (clock_timestamp() AT TIME ZONE 'UTC')::date + greatest(keep, 1), as_state, g.attempt, g.max_attempts,
                g.priority % 10, g.queue, g.kind, g.payload, g.errors, g.lane, g.parent_id, g.meta, by_whom,
                g.step, g.state, g.timeline);
    END IF;
    IF g.guard IS NOT NULL THEN
        PERFORM FROM pawl.guard AS k WHERE k.hash = g.guard AND k.job_id = g.id FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            DELETE FROM pawl.guard AS k WHERE k.hash = g.guard AND k.job_id = g.id AND k.keep_ms = 0;
            UPDATE pawl.guard AS k SET free_at = clock_timestamp() + k.keep_ms * interval '1 millisecond'
            WHERE k.hash = g.guard AND k.job_id = g.id;
        END IF;
    END IF;
    IF g.inbox IS NOT NULL THEN
        PERFORM pawl.signals_forget(g.id);
    END IF;
    IF g.riders & 32 <> 0 THEN
        PERFORM pawl.children_end(g.id, NULL, g.join_flags & 2 <> 0);
    END IF;
    IF g.join_of IS NOT NULL THEN
        PERFORM pawl.child_ended(g.parent_id, g.join_of, g.id, g.kind, as_state, 'cancelled by ' || by_whom);
    END IF;
    -- One that had been called, or that a strict lane waited for, must not have been the last: the next is called. Others who
    -- only waited for the lane are not missed.
    IF g.lane IS NOT NULL
       AND (g.waits_for IS DISTINCT FROM 2 OR isfinite(g.due_at)
            OR EXISTS (SELECT FROM pawl.lane AS l WHERE l.queue = g.queue AND l.name = g.lane AND l.strict)) THEN
        INSERT INTO pawl.lane_stir (queue, name) VALUES (g.queue, g.lane);
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
    IF g.watched THEN
        PERFORM pg_notify('pawl_done', g.id::text);
    END IF;
    RETURN true;
END
$$;

ALTER FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_park(job bigint, reason text, worker text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.job_park(job bigint, reason text, worker text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_start_at(job bigint, first_step text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pawl.name_check('step', first_step);
    UPDATE pawl.job AS j
    SET step = first_step, riders = coalesce(j.riders, 0) | 16
    WHERE j.id = job AND j.token IS NULL AND pawl.is_mine(j.xmin);
    RETURN FOUND;
END
$$;

ALTER FUNCTION pawl.job_start_at(job bigint, first_step text) OWNER TO pawl_owner;

CREATE TABLE pawl.lane_rule (
    queue text NOT NULL,
    pattern text NOT NULL,
    max_running integer DEFAULT 1 NOT NULL,
    rate_per_s double precision,
    burst double precision DEFAULT 1 NOT NULL,
    strict boolean DEFAULT false NOT NULL,
    hold boolean DEFAULT false NOT NULL,
    CONSTRAINT lane_rule_burst CHECK ((burst >= (1)::double precision)),
    CONSTRAINT lane_rule_max CHECK (((max_running >= 1) AND (max_running <= 100000))),
    CONSTRAINT lane_rule_rate CHECK ((rate_per_s > (0)::double precision))
);

ALTER TABLE pawl.lane_rule OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane_rule IS 'Limits of lanes that differ from the default of one at a time';

CREATE FUNCTION pawl.lane_limits(queue text, lane text) RETURNS pawl.lane_rule
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT r.*
    FROM pawl.lane_rule AS r
    WHERE r.queue IN (lane_limits.queue, '*')
      AND lane_limits.lane LIKE replace(replace(replace(r.pattern, '\', '\\'), '_', '\_'), '*', '%')
    ORDER BY r.queue = '*', length(r.pattern) DESC, r.pattern
    LIMIT 1
$$;

ALTER FUNCTION pawl.lane_limits(queue text, lane text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lane_set(queue text, pattern text, max_running integer DEFAULT 1, rate_per_s double precision DEFAULT NULL::double precision, burst double precision DEFAULT 1, strict boolean DEFAULT false, hold boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_variable
BEGIN
    IF queue IS DISTINCT FROM '*' THEN
        PERFORM pawl.name_check('queue', queue);
    END IF;
    IF pattern IS NULL OR octet_length(pattern) > 128 OR pattern !~ '^[A-Za-z0-9_*][A-Za-z0-9_.:/*-]*$' THEN
        RAISE EXCEPTION 'lane pattern "%" is not valid', left(pattern, 140)
            USING ERRCODE = '22023', HINT = 'A name of a lane, with * for any text.';
    ELSIF max_running NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'max_running % is not between 1 and 100000', max_running USING ERRCODE = '22023';
    ELSIF rate_per_s <= 0 OR rate_per_s > 1000000 THEN
        RAISE EXCEPTION 'rate_per_s % is not above 0 and at most 1000000', rate_per_s USING ERRCODE = '22023';
    ELSIF burst < 1 OR burst > 1000000 THEN
        RAISE EXCEPTION 'burst % is not between 1 and 1000000', burst USING ERRCODE = '22023';
    END IF;
    IF max_running IS NULL THEN
        DELETE FROM pawl.lane_rule AS r WHERE r.queue = lane_set.queue AND r.pattern = lane_set.pattern;
    ELSE
        INSERT INTO pawl.lane_rule AS r (queue, pattern, max_running, rate_per_s, burst, strict, hold)
        VALUES (queue, pattern, max_running, rate_per_s, coalesce(burst, 1), coalesce(strict, false),
                coalesce(hold, false))
        ON CONFLICT ON CONSTRAINT lane_rule_pkey DO UPDATE
        SET max_running = excluded.max_running, rate_per_s = excluded.rate_per_s, burst = excluded.burst,
            strict = excluded.strict, hold = excluded.hold;
    END IF;
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT l.queue, l.name
    FROM pawl.lane AS l
    WHERE lane_set.queue IN (l.queue, '*')
      AND l.name LIKE replace(replace(lane_set.pattern, '_', '\_'), '*', '%');
    IF FOUND THEN
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
END
$_$;

ALTER FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_call(queues text[], lanes text[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    called integer;
    marked integer;
BEGIN
    WITH rooms AS MATERIALIZED (
        SELECT i.queue, i.name, room.n
        FROM ROWS FROM (unnest(queues), unnest(lanes)) AS i(queue, name)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN l.rate_per_s IS NULL THEN l.max_running - cardinality(l.holders)
                        ELSE least(l.max_running - cardinality(l.holders),
                                   greatest(floor(least(l.burst, l.tokens + l.rate_per_s
                                                        * date_part('epoch', clock_timestamp() - l.filled_at))),
                                            CASE WHEN l.next_at > clock_timestamp() THEN 0 ELSE 1 END)) END AS n
            FROM pawl.lane AS l
            WHERE l.queue = i.queue AND l.name = i.name
            LIMIT 1
        ) AS room
        WHERE room.n > 0
    ), next AS MATERIALIZED (
        SELECT r.queue, r.name, w.id
        FROM rooms AS r
        LEFT JOIN LATERAL (
            -- No condition on due_at that an index could serve: or the planner might take job_pick, and read all who wait.
            SELECT j.id
            FROM pawl.job AS j
            WHERE j.queue = r.queue AND j.lane = r.name AND j.waits_for = 2
              AND (j.due_at IN ('infinity', j.deadline_at)) IS TRUE
            ORDER BY j.id
            LIMIT r.n
            FOR UPDATE SKIP LOCKED
        ) AS w ON true
    ), up AS (
        UPDATE pawl.job AS j
        SET due_at = clock_timestamp(),
            waits_for = CASE WHEN j.awaits IS NOT NULL THEN 3::int2 WHEN j.children_left IS NOT NULL THEN 4::int2 END
        WHERE j.id = ANY (ARRAY(SELECT n.id FROM next AS n WHERE n.id IS NOT NULL))
        RETURNING j.queue
    ), told AS (
        SELECT pg_notify('pawl_wake', u.queue)
        FROM (SELECT DISTINCT up.queue FROM up) AS u
        WHERE (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = u.queue)
    ), missed AS (
        INSERT INTO pawl.lane_stir (queue, name)
        SELECT n.queue, n.name
        FROM next AS n
        WHERE n.id IS NULL
          AND EXISTS (SELECT FROM pawl.job AS j
                      WHERE j.queue = n.queue AND j.lane = n.name AND j.waits_for = 2
                        AND (j.due_at IN ('infinity', j.deadline_at)) IS TRUE)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM up WHERE (SELECT count(*) FROM told) >= 0), (SELECT count(*) FROM missed)
    INTO called, marked;
    RETURN CASE WHEN marked > 0 THEN -marked ELSE called END;
END
$$;

ALTER FUNCTION pawl.lanes_call(queues text[], lanes text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    qs text[];
    ns text[];
    tids tid[]; -- where they are: nobody can change that while they are locked
BEGIN
    -- In the order in which everybody locks them.
    SELECT array_agg(d.queue), array_agg(d.name), array_agg(d.tid) INTO qs, ns, tids
    FROM (
        SELECT l.queue, l.name, l.tid
        FROM (SELECT DISTINCT i.queue, i.lane FROM ROWS FROM (unnest(queues), unnest(lanes)) AS i(queue, lane)
              ORDER BY i.queue, i.lane) AS o
        CROSS JOIN LATERAL (
            SELECT k.queue, k.name, k.ctid AS tid FROM pawl.lane AS k
            WHERE k.queue = o.queue AND k.name = o.lane FOR UPDATE
        ) AS l
    ) AS d;
    IF qs IS NULL THEN
        RETURN 0;
    END IF;
    -- Of a lane with many places only those are looked at who say that they left. Of a lane with one all are: many may have
    -- entered it together, and most of them have left without saying so.
    UPDATE pawl.lane AS l
    SET holders = ARRAY(SELECT h.id
                        FROM unnest(l.holders) AS h(id)
                        WHERE l.max_running > 16 AND cardinality(l.holders) > 16 AND h.id <> ALL (ids)
                           OR EXISTS (SELECT FROM pawl.job AS j
                                      WHERE j.id = h.id
                                        AND (j.token IS NOT NULL OR l.hold AND j.attempt > 0 AND j.waits_for IS NULL)))
    WHERE l.ctid = ANY (tids);
    RETURN pawl.lanes_call(qs, ns);
END
$$;

ALTER FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_maintain() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    n integer;
BEGIN
    WITH idle AS MATERIALIZED (
        SELECT l.queue, l.name FROM pawl.lane AS l
        WHERE l.holders = '{}' AND l.filled_at < clock_timestamp() - interval '1 hour'
          AND NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.queue = l.queue AND j.lane = l.name)
        LIMIT 10000
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM pawl.lane AS l USING idle AS i WHERE l.queue = i.queue AND l.name = i.name;
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT l.queue, l.name FROM pawl.lane AS l
    WHERE cardinality(l.holders) < l.max_running
      AND EXISTS (SELECT FROM pawl.job AS j WHERE j.queue = l.queue AND j.lane = l.name AND j.waits_for = 2)
       OR EXISTS (SELECT FROM unnest(l.holders) AS h(id)
                  WHERE NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = h.id AND j.token IS NOT NULL))
    LIMIT 1000;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;

ALTER FUNCTION pawl.lanes_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_mend(most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    stirs bigint[];
    qs text[];
    ns text[];
    tids tid[]; -- where they are: nobody can change that while they are locked
    called integer;
BEGIN
    SELECT array_agg(p.id) INTO stirs
    FROM (SELECT s.id FROM pawl.lane_stir AS s ORDER BY s.id LIMIT most FOR UPDATE SKIP LOCKED) AS p;
    IF stirs IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(d.queue), array_agg(d.name), array_agg(d.tid) INTO qs, ns, tids
    FROM (
        SELECT l.queue, l.name, l.tid
        FROM (SELECT DISTINCT s.queue, s.name FROM pawl.lane_stir AS s WHERE s.id = ANY (stirs)) AS o
        CROSS JOIN LATERAL (
            SELECT k.queue, k.name, k.ctid AS tid FROM pawl.lane AS k
            WHERE k.queue = o.queue AND k.name = o.name FOR UPDATE SKIP LOCKED
        ) AS l
    ) AS d;
    -- Statements of their own: who entered a lane before it was locked is seen to run by now.
    UPDATE pawl.lane AS l
    SET holders = ARRAY(SELECT h.id FROM unnest(l.holders) AS h(id)
                        WHERE EXISTS (SELECT FROM pawl.job AS j
                                      WHERE j.id = h.id
                                        AND (j.token IS NOT NULL
                                             OR coalesce((w.rule).hold, false) AND j.attempt > 0 AND j.waits_for IS NULL))),
        max_running = coalesce((w.rule).max_running, 1),
        rate_per_s = (w.rule).rate_per_s,
        burst = coalesce((w.rule).burst, 1),
        tokens = least(coalesce((w.rule).burst, 1),
                       l.tokens + coalesce(l.rate_per_s, 0) * date_part('epoch', clock_timestamp() - l.filled_at)),
        filled_at = clock_timestamp(),
        next_at = NULL,
        strict = coalesce((w.rule).strict, false),
        hold = coalesce((w.rule).hold, false)
    FROM (SELECT i.tid, pawl.lane_limits(i.queue, i.name) AS rule
          FROM ROWS FROM (unnest(tids), unnest(qs), unnest(ns)) AS i(tid, queue, name) OFFSET 0) AS w
    WHERE l.ctid = w.tid AND l.ctid = ANY (tids);
    called := CASE WHEN qs IS NULL THEN 0 ELSE pawl.lanes_call(qs, ns) END;
    -- A lane that somebody held just now is looked at again.
    DELETE FROM pawl.lane_stir AS s
    WHERE s.id = ANY (stirs)
      AND (EXISTS (SELECT FROM ROWS FROM (unnest(qs), unnest(ns)) AS i(queue, name)
                   WHERE i.queue = s.queue AND i.name = s.name)
           OR (SELECT true FROM pawl.lane AS l WHERE l.queue = s.queue AND l.name = s.name) IS NULL);
    RETURN called;
END
$$;

ALTER FUNCTION pawl.lanes_mend(most integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machine_line(job bigint, step text, awaits text[], waits_for smallint, wait_until timestamp with time zone, deadline_at timestamp with time zone, children_left integer, cancel_by text, join_flags smallint, inbox bigint) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.machine_line(job bigint, step text, awaits text[], waits_for smallint, wait_until timestamp with time zone, deadline_at timestamp with time zone, children_left integer, cancel_by text, join_flags smallint, inbox bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea DEFAULT NULL::bytea) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
<<here>>
DECLARE
    j pawl.job;
    h pawl.history;
    id bigint;
    line text;
    kid record;
BEGIN
    PERFORM pawl.name_check('step', from_step);
    IF octet_length(new_state) > 1048576 THEN
        RAISE EXCEPTION 'the state has % bytes, and the limit is 1048576', octet_length(new_state) USING ERRCODE = '54000';
    END IF;
    -- As a step's line (job_settle_step.sql).
    line := (date_part('epoch', clock_timestamp()) * 1000000)::bigint || E'\t' || from_step || E'\t0\trestart\t0\t';
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = machine_restart.job FOR UPDATE;
    IF FOUND THEN
        IF j.token IS NOT NULL THEN
            RAISE EXCEPTION 'job % is running', job
                USING ERRCODE = 'PW002', HINT = 'Wait until its step has ended, or cancel it.';
        END IF;
        UPDATE pawl.job AS l
        SET step = from_step,
            state = coalesce(new_state, l.state),
            attempt = 0,
            riders = coalesce(l.riders, 0) | 16,
            due_at = CASE WHEN l.waits_for = 2 THEN l.due_at ELSE clock_timestamp() END,
            waits_for = CASE WHEN l.waits_for = 2 THEN l.waits_for END,
            deadline_at = CASE WHEN l.deadline_at > clock_timestamp() THEN l.deadline_at END,
            awaits = NULL, wait_since = NULL, wait_until = NULL, children_left = NULL, join_at = NULL,
            timeline = right(coalesce(l.timeline, ''), 6000) || line
                       || coalesce(octet_length(coalesce(new_state, l.state)), 0) || E'\n'
        WHERE l.id = machine_restart.job;
        -- One that somebody else is just changing is left alone: it finds a parent that waits for nobody.
        FOR kid IN SELECT k.id FROM pawl.job AS k
                   WHERE k.parent_id = machine_restart.job ORDER BY k.id FOR UPDATE SKIP LOCKED LOOP
            UPDATE pawl.job AS k SET parent_id = NULL WHERE k.id = kid.id;
        END LOOP;
        DELETE FROM pawl.child AS c WHERE c.parent_id = machine_restart.job;
        id := job;
    ELSE
        SELECT * INTO h FROM pawl.history AS l WHERE l.id = machine_restart.job LIMIT 1;
        IF NOT FOUND OR h.state = 'done' THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        INSERT INTO pawl.job AS l (queue, kind, payload, priority, max_attempts, lane, meta, riders, step, state, timeline)
        VALUES (h.queue, h.kind, h.payload, h.priority + CASE WHEN h.lane IS NULL THEN 0 ELSE 10 END, h.max_attempts,
                h.lane, coalesce(h.meta, '{}') || jsonb_build_object('retry_of', job),
                16 + 8 + CASE WHEN h.lane IS NULL THEN 0 ELSE 1 END,
                from_step, coalesce(new_state, h.last_state),
                right(coalesce(h.timeline, ''), 6000) || line
                || coalesce(octet_length(coalesce(new_state, h.last_state)), 0) || E'\n')
        RETURNING l.id INTO here.id;
        j.queue := h.queue;
    END IF;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = j.queue) THEN
        PERFORM pg_notify('pawl_wake', j.queue);
    END IF;
    RETURN id;
END
$$;

ALTER FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) OWNER TO pawl_owner;

CREATE FUNCTION pawl.name_check(what text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    -- A kind may carry a version: order@2.
    IF name IS NULL OR octet_length(name) > 128
       OR name !~ (CASE what WHEN 'kind' THEN '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)?$'
                        ELSE '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$' END) THEN
        RAISE EXCEPTION '% name "%" is not valid', what, left(name, 140)
            USING ERRCODE = '22023', HINT = 'Use 1 to 128 letters, digits, _ . : / and -, beginning with a letter, a digit or _.';
    END IF;
END
$_$;

ALTER FUNCTION pawl.name_check(what text, name text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.orphans_end(most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    noted   bigint[];
    free    bigint[];
    parents bigint[];
BEGIN
    SELECT array_agg(o.child_id) INTO noted
    FROM (SELECT p.child_id FROM pawl.orphan AS p ORDER BY p.child_id LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(k.id), array_agg(k.parent_id) INTO free, parents
    FROM (SELECT j.id, j.parent_id FROM pawl.job AS j WHERE j.id = ANY (noted) ORDER BY j.id FOR UPDATE SKIP LOCKED) AS k;
    UPDATE pawl.job AS j SET join_of = NULL WHERE j.id = ANY (free);
    PERFORM pawl.cancel(k.id, 'parent ' || k.parent) FROM unnest(free, parents) AS k(id, parent);
    DELETE FROM pawl.orphan AS o
    WHERE o.child_id = ANY (noted)
      AND (o.child_id = ANY (free) OR NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = o.child_id));
    RETURN coalesce(cardinality(free), 0);
END
$$;

ALTER FUNCTION pawl.orphans_end(most integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.parks(kind text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pawl.kind AS k WHERE k.name = split_part(parks.kind, '@', 1) AND k.park)
$$;

ALTER FUNCTION pawl.parks(kind text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.queue_known(queue text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_has_role(pawl.session_role(), 'pawl_producer', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_reader', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_owner', 'USAGE')
        OR EXISTS (SELECT FROM pawl.queue_producer AS p
                   WHERE p.queue = queue_known.queue AND pg_has_role(pawl.session_role(), p.role, 'USAGE'))
$$;

ALTER FUNCTION pawl.queue_known(queue text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.raise_not_live(job bigint) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    was pawl.state;
BEGIN
    SELECT h.state INTO was FROM pawl.history AS h WHERE h.id = job LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % is finished: %', job, was USING ERRCODE = 'PW002';
    END IF;
    RAISE EXCEPTION 'there is no job %', job
        USING ERRCODE = 'PW001', HINT = 'It never was, or was finished and is forgotten.';
END
$$;

ALTER FUNCTION pawl.raise_not_live(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.raise_unseen(job bigint) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    was record;
BEGIN
    SELECT h.state, h.queue INTO was FROM pawl.history AS h WHERE h.id = job LIMIT 1;
    IF FOUND AND pawl.queue_known(was.queue) THEN
        RAISE EXCEPTION 'job % is finished: %', job, was.state USING ERRCODE = 'PW002';
    END IF;
    RAISE EXCEPTION 'there is no job %', job
        USING ERRCODE = 'PW001', HINT = 'It never was, or was finished and is forgotten, or is in a queue that is not yours.';
END
$$;

ALTER FUNCTION pawl.raise_unseen(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry(job bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
<<here>>
DECLARE
    j pawl.job;
    h pawl.history;
    id bigint;
BEGIN
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = job FOR UPDATE;
    IF FOUND THEN
        IF j.token IS NOT NULL THEN
            RAISE EXCEPTION 'job % is running', job USING ERRCODE = 'PW002';
        ELSIF j.waits_for > 1 THEN
            RAISE EXCEPTION 'job % waits for something else than time', job USING ERRCODE = 'PW002';
        END IF;
        UPDATE pawl.job AS l
        SET due_at = clock_timestamp(), waits_for = NULL, attempt = 0,
            deadline_at = CASE WHEN l.deadline_at > clock_timestamp() THEN l.deadline_at END
        WHERE l.id = job;
        id := job;
    ELSE
        SELECT * INTO h FROM pawl.history AS l WHERE l.id = job LIMIT 1;
        IF NOT FOUND OR h.state = 'done' THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        INSERT INTO pawl.job AS l (queue, kind, payload, priority, max_attempts, lane, meta, riders)
        VALUES (h.queue, h.kind, h.payload, h.priority + CASE WHEN h.lane IS NULL THEN 0 ELSE 10 END, h.max_attempts,
                h.lane,
                coalesce(h.meta, '{}') || jsonb_build_object('retry_of', job),
                8 + CASE WHEN h.lane IS NULL THEN 0 ELSE 1 END)
        RETURNING l.id INTO here.id;
        j.queue := h.queue;
    END IF;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = j.queue) THEN
        PERFORM pg_notify('pawl_wake', j.queue);
    END IF;
    RETURN id;
END
$$;

ALTER FUNCTION pawl.retry(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_delay_ms(kind text, attempt integer) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pawl.retry_ms(attempt, NULL, NULL, NULL, k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

ALTER FUNCTION pawl.retry_delay_ms(kind text, attempt integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_delay_ms(kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pawl.retry_ms(attempt, retry_delay_ms.retry, base_ms, cap_ms,
                         k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

ALTER FUNCTION pawl.retry_delay_ms(kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    RETURN CASE WHEN ((kind_retry = 'table'::pawl.retry) AND (retry IS NULL) AND (base_ms IS NULL) AND (cap_ms IS NULL)) THEN ((kind_table_ms)[LEAST(attempt, cardinality(kind_table_ms))])::bigint ELSE ((LEAST((COALESCE(cap_ms, kind_cap_ms, 3600000))::double precision, ((COALESCE(base_ms, kind_base_ms, 1000))::double precision * CASE WHEN (COALESCE(retry, kind_retry) = 'quadratic'::pawl.retry) THEN ((attempt)::double precision * (attempt)::double precision) ELSE power((2)::double precision, ((LEAST(attempt, 40) - 1))::double precision) END)) * ((0.8)::double precision + ((0.4)::double precision * random()))))::bigint END;

ALTER FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.serve_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT k.hash FROM pawl.enqueue_key AS k WHERE k.expires_at < now() LIMIT 10000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.enqueue_key AS k USING old AS o WHERE k.hash = o.hash RETURNING 1
    ), forgotten AS (
        DELETE FROM pawl.access AS a WHERE least(a.revoked_at, a.expires_at) < now() - interval '90 days' RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM forgotten)
$$;

ALTER FUNCTION pawl.serve_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.session_role() RETURNS name
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

ALTER FUNCTION pawl.session_role() OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal(job bigint, name text, payload jsonb DEFAULT '{}'::jsonb, key text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM pawl.name_check('signal', signal.name);
    IF NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job) THEN
        PERFORM pawl.raise_unseen(job);
    END IF;
    INSERT INTO pawl.signal AS s (job_id, name, key, payload)
    VALUES (job, signal.name, signal.key, coalesce(signal.payload, 'null'))
    ON CONFLICT (job_id, name, key) WHERE key IS NOT NULL DO NOTHING;
    RETURN FOUND;
END
$$;

ALTER FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_accept() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.signal_accept() OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_all(correlation text, name text, payload jsonb DEFAULT '{}'::jsonb, key text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT count(*) FILTER (WHERE pawl.signal(c.id, signal_all.name, signal_all.payload, signal_all.key))
    FROM pawl.correlated(signal_all.correlation) AS c(id)
    WHERE EXISTS (SELECT FROM pawl.job AS j WHERE j.id = c.id)
$$;

ALTER FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_bytes(name text, payload jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT 54 + octet_length(name) + octet_length(payload::text)
$$;

ALTER FUNCTION pawl.signal_bytes(name text, payload jsonb) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    woken text;
BEGIN
    UPDATE pawl.job AS j
    SET inbox = coalesce(j.inbox, 0) + 1,
        due_at = CASE WHEN j.token IS NULL AND j.waits_for = 3 AND new.name = ANY (j.awaits)
                      THEN least(j.due_at, clock_timestamp()) ELSE j.due_at END
    WHERE j.id = new.job_id
    RETURNING CASE WHEN j.token IS NULL AND j.waits_for = 3 AND j.due_at <= clock_timestamp() THEN j.queue END
    INTO woken;
    IF NOT FOUND THEN
        PERFORM pawl.raise_not_live(new.job_id);
    END IF;
    IF woken IS NOT NULL AND (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = woken) THEN
        PERFORM pg_notify('pawl_wake', woken);
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.signal_deliver() OWNER TO pawl_owner;

CREATE FUNCTION pawl.signals_forget(job bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM pawl.signal AS s WHERE s.job_id = job;
END
$$;

ALTER FUNCTION pawl.signals_forget(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.stop_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held uuid;
BEGIN
    UPDATE pawl.job AS j SET cancel_by = new.by_whom WHERE j.id = new.job_id RETURNING j.token INTO held;
    IF FOUND AND held IS NULL THEN
        PERFORM pawl.job_end(new.job_id, 'cancelled', new.by_whom);
    ELSIF FOUND THEN
        IF held <> new.token THEN
            INSERT INTO pawl.stop (job_id, token, by_whom) VALUES (new.job_id, held, new.by_whom)
            ON CONFLICT DO NOTHING;
        END IF;
        -- No queue has such a name: it is about a job.
        PERFORM pg_notify('pawl_wake', '!' || new.job_id);
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.stop_deliver() OWNER TO pawl_owner;

CREATE FUNCTION pawl.stop_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT s.token, s.job_id FROM pawl.stop AS s
        WHERE NOT EXISTS (SELECT FROM pawl.claim AS c WHERE c.token = s.token)
        LIMIT 10000
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.stop AS s USING old AS o WHERE s.token = o.token AND s.job_id = o.job_id RETURNING 1
    )
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION pawl.stop_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.ticket(token uuid, job bigint, step text) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT substr(sha256(uuid_send(token) || int8send(job) || convert_to(coalesce(step, ''), 'UTF8')), 1, 13)
$$;

ALTER FUNCTION pawl.ticket(token uuid, job bigint, step text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT encode(substr(sha256(convert_to(
               CASE scope WHEN 'kind' THEN 'k' || length(queue) || ':' || queue || length(kind) || ':' || kind
                          WHEN 'queue' THEN 'q' || length(queue) || ':' || queue
                          ELSE 'g' END || key, 'UTF8')), 1, 16), 'hex')::uuid
$$;

ALTER FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.watch(job bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job) THEN
        RETURN false;
    END IF;
    INSERT INTO pawl.watcher (job_id) VALUES (job);
    RETURN true;
END
$$;

ALTER FUNCTION pawl.watch(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.watch_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
BEGIN
    DELETE FROM pawl.watcher AS w WHERE w.id = new.id;
    UPDATE pawl.job AS j SET watched = true WHERE j.id = new.job_id AND j.watched IS NOT TRUE;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = new.job_id) THEN
        PERFORM pg_notify('pawl_done', new.job_id::text);
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.watch_deliver() OWNER TO pawl_owner;

CREATE TABLE pawl.access (
    id bigint NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL,
    queues text[] NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text DEFAULT SESSION_USER NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    CONSTRAINT access_hash CHECK ((octet_length(hash) = 32)),
    CONSTRAINT access_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128))),
    CONSTRAINT access_queues CHECK ((cardinality(queues) <= 64)),
    CONSTRAINT access_queues_named CHECK (((''::text <> ALL (queues)) AND (array_position(queues, NULL::text) IS NULL))),
    CONSTRAINT access_scopes CHECK (((cardinality(scopes) > 0) AND (scopes <@ ARRAY['enqueue'::text, 'work'::text, 'read'::text, 'admin'::text])))
);

ALTER TABLE pawl.access OWNER TO pawl_owner;

COMMENT ON TABLE pawl.access IS 'Access tokens of clients of the server, by the hash of their secret';

ALTER TABLE pawl.access ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.access_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.child (
    parent_id bigint NOT NULL,
    child_id bigint NOT NULL,
    kind text NOT NULL,
    state pawl.state NOT NULL,
    result bytea,
    error text
)
WITH (autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.child OWNER TO pawl_owner;

COMMENT ON TABLE pawl.child IS 'Finished children of jobs that have not gone on yet';

CREATE TABLE pawl.claim (
    token uuid NOT NULL,
    worker uuid NOT NULL,
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    job_ids bigint[] NOT NULL,
    swept_at timestamp with time zone
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');
ALTER TABLE ONLY pawl.claim ALTER COLUMN job_ids SET STORAGE EXTERNAL;

ALTER TABLE pawl.claim OWNER TO pawl_owner;

COMMENT ON TABLE pawl.claim IS 'Who works on what, and until when that is believed';

COMMENT ON COLUMN pawl.claim.swept_at IS 'When a sweep last took jobs of this claim back; it is not renewed any more. NULL: no sweep has';

CREATE TABLE pawl.enqueue_key (
    hash uuid NOT NULL,
    request uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    job_ids bigint[],
    existed boolean[]
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.enqueue_key OWNER TO pawl_owner;

COMMENT ON TABLE pawl.enqueue_key IS 'Idempotency keys of Enqueue calls, and what was accepted under them';

CREATE TABLE pawl.guard (
    hash uuid NOT NULL,
    job_id bigint NOT NULL,
    keep_ms bigint NOT NULL,
    free_at timestamp with time zone
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.guard OWNER TO pawl_owner;

COMMENT ON TABLE pawl.guard IS 'Unique keys and the jobs that hold them';

CREATE TABLE pawl.held (
    job_id bigint NOT NULL,
    token uuid NOT NULL,
    worker text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    let_go boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.held OWNER TO pawl_owner;

COMMENT ON TABLE pawl.held IS 'Running jobs of which their workers spoke to another server than the one that claimed them, each with a lease of its own';

COMMENT ON COLUMN pawl.held.let_go IS 'The server that claimed the job has let go of it: only this lease counts';

CREATE TABLE pawl.history (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_on date NOT NULL,
    state pawl.state NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    worker text,
    payload bytea NOT NULL,
    result bytea,
    errors jsonb,
    lane text,
    parent_id bigint,
    meta jsonb,
    cancel_by text,
    step text,
    last_state bytea,
    timeline text,
    ticket bytea
)
PARTITION BY RANGE (expires_on);

ALTER TABLE pawl.history OWNER TO pawl_owner;

COMMENT ON TABLE pawl.history IS 'Finished jobs, partitioned by the day on which they are forgotten';

CREATE TABLE pawl.history_default (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_on date NOT NULL,
    state pawl.state NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    worker text,
    payload bytea NOT NULL,
    result bytea,
    errors jsonb,
    lane text,
    parent_id bigint,
    meta jsonb,
    cancel_by text,
    step text,
    last_state bytea,
    timeline text,
    ticket bytea
);

ALTER TABLE pawl.history_default OWNER TO pawl_owner;

CREATE TABLE pawl.job (
    id bigint NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    token uuid,
    attempt integer DEFAULT 0 NOT NULL,
    max_attempts pawl.max_attempts DEFAULT 20 NOT NULL,
    timeout_ms pawl.timeout_ms,
    priority pawl.priority DEFAULT 4 NOT NULL,
    waits_for smallint,
    queue pawl.queue_name NOT NULL,
    kind pawl.kind_name NOT NULL,
    payload pawl.payload NOT NULL,
    errors jsonb,
    riders smallint,
    lane text,
    guard uuid,
    parent_id bigint,
    meta jsonb,
    retry pawl.retry,
    retry_base_ms integer,
    retry_cap_ms integer,
    watched boolean,
    cancel_by text,
    deadline_at timestamp with time zone,
    progress text,
    step text,
    state bytea,
    inbox bigint,
    awaits text[],
    wait_since timestamp with time zone,
    wait_until timestamp with time zone,
    children_left integer,
    join_at integer,
    join_flags smallint,
    joins integer,
    join_of integer,
    timeline text,
    lane_due_at timestamp with time zone
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.1', autovacuum_analyze_scale_factor='0.1');

ALTER TABLE pawl.job OWNER TO pawl_owner;

COMMENT ON TABLE pawl.job IS 'Unfinished work; a job that ends moves to pawl.history';

ALTER TABLE pawl.job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.worker (
    id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    slots integer NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    host text,
    pid integer,
    buffered integer DEFAULT 0 NOT NULL,
    memory_bytes bigint,
    streams jsonb
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.worker OWNER TO pawl_owner;

COMMENT ON TABLE pawl.worker IS 'Processes that run jobs, with their last sign of life';

CREATE VIEW pawl.jobs AS
 SELECT j.id,
    (
        CASE
            WHEN (j.token IS NOT NULL) THEN 'running'::text
            WHEN (j.waits_for = 1) THEN 'parked'::text
            WHEN ((j.waits_for > 1) AND (j.due_at > now())) THEN 'waiting'::text
            WHEN (j.due_at <= now()) THEN 'ready'::text
            WHEN (j.attempt > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END)::pawl.state AS state,
    (j.queue)::text AS queue,
    (j.kind)::text AS kind,
    (((j.priority)::integer % 10))::smallint AS priority,
    j.attempt,
    (j.max_attempts)::integer AS max_attempts,
    j.created_at,
    j.due_at,
    ( SELECT c.claimed_at
           FROM pawl.claim c
          WHERE (c.token = j.token)) AS started_at,
    NULL::timestamp with time zone AS finished_at,
    ( SELECT w.name
           FROM (pawl.claim c
             JOIN pawl.worker w ON ((w.id = c.worker)))
          WHERE (c.token = j.token)) AS worker,
    (j.payload)::bytea AS payload,
    NULL::bytea AS result,
    j.errors,
    (j.timeout_ms)::integer AS timeout_ms,
    j.lane,
    j.parent_id,
    j.meta,
    j.cancel_by,
    j.progress
   FROM pawl.job j
UNION ALL
 SELECT h.id,
    h.state,
    h.queue,
    h.kind,
    h.priority,
    h.attempt,
    h.max_attempts,
    h.created_at,
    h.due_at,
    h.started_at,
    h.finished_at,
    h.worker,
    h.payload,
    h.result,
    h.errors,
    NULL::integer AS timeout_ms,
    h.lane,
    h.parent_id,
    h.meta,
    h.cancel_by,
    NULL::text AS progress
   FROM pawl.history h;

ALTER TABLE pawl.jobs OWNER TO pawl_owner;

COMMENT ON VIEW pawl.jobs IS 'All jobs, live and finished, with their state in words';

CREATE TABLE pawl.kind (
    name text NOT NULL,
    retry pawl.retry DEFAULT 'exponential'::pawl.retry NOT NULL,
    retry_base_ms integer DEFAULT 1000 NOT NULL,
    retry_cap_ms integer DEFAULT 3600000 NOT NULL,
    retry_table_ms integer[],
    park boolean DEFAULT false NOT NULL,
    CONSTRAINT kind_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128))),
    CONSTRAINT kind_retry_base CHECK ((retry_base_ms > 0)),
    CONSTRAINT kind_retry_cap CHECK ((retry_cap_ms >= retry_base_ms)),
    CONSTRAINT kind_retry_table CHECK (((retry <> 'table'::pawl.retry) OR (cardinality(retry_table_ms) > 0)))
);

ALTER TABLE pawl.kind OWNER TO pawl_owner;

COMMENT ON TABLE pawl.kind IS 'Settings of kinds of jobs that differ from the defaults';

CREATE TABLE pawl.lane (
    queue text NOT NULL,
    name text NOT NULL,
    holders bigint[] NOT NULL,
    max_running integer DEFAULT 1 NOT NULL,
    rate_per_s double precision,
    burst double precision DEFAULT 1 NOT NULL,
    tokens double precision DEFAULT 1 NOT NULL,
    filled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    next_at timestamp with time zone,
    strict boolean DEFAULT false NOT NULL,
    hold boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

ALTER TABLE pawl.lane OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane IS 'Lanes with jobs in them, what runs there, and their limits';

CREATE TABLE pawl.lane_stir (
    id bigint NOT NULL,
    queue text NOT NULL,
    name text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.lane_stir OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane_stir IS 'Lanes that have to be mended';

ALTER TABLE pawl.lane_stir ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.lane_stir_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.migration (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by text NOT NULL
);

ALTER TABLE pawl.migration OWNER TO pawl_owner;

COMMENT ON TABLE pawl.migration IS 'What was done to this schema, in order';

CREATE TABLE pawl.orphan (
    child_id bigint NOT NULL,
    parent_id bigint NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE pawl.orphan OWNER TO pawl_owner;

COMMENT ON TABLE pawl.orphan IS 'Children that are to be cancelled, as their parent went on without them, and were locked when it did';

CREATE TABLE pawl.queue (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    keep_days integer DEFAULT 7 NOT NULL,
    CONSTRAINT queue_keep_days CHECK (((keep_days >= 0) AND (keep_days <= 3650))),
    CONSTRAINT queue_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128)))
);

ALTER TABLE pawl.queue OWNER TO pawl_owner;

COMMENT ON TABLE pawl.queue IS 'Settings of queues that differ from the defaults';

CREATE TABLE pawl.queue_producer (
    queue text NOT NULL,
    role regrole NOT NULL
);

ALTER TABLE pawl.queue_producer OWNER TO pawl_owner;

COMMENT ON TABLE pawl.queue_producer IS 'Which roles may enqueue into which queues, for members of pawl_enqueuer';

CREATE TABLE pawl.signal (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    name pawl.signal_name NOT NULL,
    key pawl.signal_key,
    payload pawl.signal_payload NOT NULL,
    sent_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    shown boolean DEFAULT false NOT NULL,
    consumed boolean DEFAULT false NOT NULL,
    bytes integer,
    inbox_count integer,
    inbox_bytes integer
)
WITH (autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.signal OWNER TO pawl_owner;

COMMENT ON TABLE pawl.signal IS 'Signals that were sent to machines and are not consumed';

ALTER TABLE pawl.signal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.signal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.sleeper (
    queue text NOT NULL,
    worker uuid NOT NULL,
    asleep boolean NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.sleeper OWNER TO pawl_owner;

COMMENT ON TABLE pawl.sleeper IS 'Workers that wait for a notification, by queue';

CREATE TABLE pawl.stop (
    job_id bigint NOT NULL,
    token uuid NOT NULL,
    by_whom text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.stop OWNER TO pawl_owner;

COMMENT ON TABLE pawl.stop IS 'Running jobs whose end was asked for; heartbeats bring it to their workers';

CREATE TABLE pawl.watcher (
    id bigint NOT NULL,
    job_id bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.watcher OWNER TO pawl_owner;

COMMENT ON TABLE pawl.watcher IS 'Jobs that somebody is about to watch; empty but for transactions that are open';

ALTER TABLE pawl.watcher ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.watcher_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.worker_wish (
    worker text NOT NULL,
    drain boolean DEFAULT false NOT NULL,
    credits integer,
    by_whom text DEFAULT SESSION_USER NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    rate_per_s double precision,
    CONSTRAINT worker_wish_rate CHECK ((rate_per_s > (0)::double precision))
);

ALTER TABLE pawl.worker_wish OWNER TO pawl_owner;

COMMENT ON TABLE pawl.worker_wish IS 'What operators want of workers on streams: to drain, another number of jobs, or no more than so many in a second';

ALTER TABLE ONLY pawl.history ATTACH PARTITION pawl.history_default DEFAULT;

ALTER TABLE ONLY pawl.access
    ADD CONSTRAINT access_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.child
    ADD CONSTRAINT child_pkey PRIMARY KEY (parent_id, child_id);

ALTER TABLE ONLY pawl.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (token);

ALTER TABLE ONLY pawl.enqueue_key
    ADD CONSTRAINT enqueue_key_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY pawl.guard
    ADD CONSTRAINT guard_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY pawl.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY pawl.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE pawl.job
    ADD CONSTRAINT job_priority CHECK ((((priority)::smallint < 10) = (lane IS NULL))) NOT VALID;

ALTER DOMAIN pawl.kind_name
    ADD CONSTRAINT kind_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128))) NOT VALID;

ALTER TABLE ONLY pawl.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (queue, name);

ALTER TABLE ONLY pawl.lane_rule
    ADD CONSTRAINT lane_rule_pkey PRIMARY KEY (queue, pattern);

ALTER TABLE ONLY pawl.lane_stir
    ADD CONSTRAINT lane_stir_pkey PRIMARY KEY (id);

ALTER DOMAIN pawl.max_attempts
    ADD CONSTRAINT max_attempts_is_1_to_1000 CHECK (((VALUE >= 1) AND (VALUE <= 1000))) NOT VALID;

ALTER TABLE ONLY pawl.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY pawl.orphan
    ADD CONSTRAINT orphan_pkey PRIMARY KEY (child_id);

ALTER DOMAIN pawl.payload
    ADD CONSTRAINT payload_has_16_mib_at_most CHECK ((octet_length(VALUE) <= 16777216)) NOT VALID;

ALTER DOMAIN pawl.priority
    ADD CONSTRAINT priority_is_0_to_9_or_10_to_19_in_a_lane CHECK (((VALUE >= 0) AND (VALUE <= 19))) NOT VALID;

ALTER DOMAIN pawl.queue_name
    ADD CONSTRAINT queue_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128))) NOT VALID;

ALTER TABLE ONLY pawl.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.queue_producer
    ADD CONSTRAINT queue_producer_pkey PRIMARY KEY (queue, role);

ALTER DOMAIN pawl.signal_name
    ADD CONSTRAINT signal_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128))) NOT VALID;

ALTER DOMAIN pawl.signal_key
    ADD CONSTRAINT signal_key_has_1_to_1024_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 1024))) NOT VALID;

ALTER DOMAIN pawl.signal_payload
    ADD CONSTRAINT signal_payload_has_1_mib_at_most CHECK ((octet_length((VALUE)::text) <= 1048576)) NOT VALID;

ALTER TABLE ONLY pawl.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (job_id, id);

ALTER TABLE ONLY pawl.sleeper
    ADD CONSTRAINT sleeper_pkey PRIMARY KEY (queue, worker);

ALTER TABLE ONLY pawl.stop
    ADD CONSTRAINT stop_pkey PRIMARY KEY (token, job_id);

ALTER DOMAIN pawl.timeout_ms
    ADD CONSTRAINT timeout_is_positive CHECK ((VALUE > 0)) NOT VALID;

ALTER TABLE ONLY pawl.watcher
    ADD CONSTRAINT watcher_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.worker_wish
    ADD CONSTRAINT worker_wish_pkey PRIMARY KEY (worker);

CREATE UNIQUE INDEX access_hash ON pawl.access USING btree (hash);

CREATE UNIQUE INDEX access_name ON pawl.access USING btree (name) WHERE (revoked_at IS NULL);

CREATE INDEX enqueue_key_expires ON pawl.enqueue_key USING brin (expires_at);

CREATE INDEX history_id ON ONLY pawl.history USING btree (id);

CREATE INDEX history_default_id_idx ON pawl.history_default USING btree (id);

CREATE INDEX history_trouble ON ONLY pawl.history USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX history_default_id_idx1 ON pawl.history_default USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX job_correlation ON pawl.job USING btree (((meta ->> 'correlation'::text))) WHERE ((meta ->> 'correlation'::text) IS NOT NULL);

CREATE INDEX job_lane ON pawl.job USING btree (queue, lane, id) WHERE (lane IS NOT NULL);

CREATE INDEX job_parent ON pawl.job USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX job_pick ON pawl.job USING btree (queue, priority, due_at, id);

CREATE UNIQUE INDEX signal_key ON pawl.signal USING btree (job_id, name, key) WHERE (key IS NOT NULL);

ALTER INDEX pawl.history_id ATTACH PARTITION pawl.history_default_id_idx;

ALTER INDEX pawl.history_trouble ATTACH PARTITION pawl.history_default_id_idx1;

CREATE TRIGGER access_changed AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON pawl.access FOR EACH STATEMENT EXECUTE FUNCTION pawl.access_changed();

CREATE TRIGGER signal_accept BEFORE INSERT ON pawl.signal FOR EACH ROW EXECUTE FUNCTION pawl.signal_accept();

CREATE CONSTRAINT TRIGGER signal_deliver AFTER INSERT ON pawl.signal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.signal_deliver();

CREATE CONSTRAINT TRIGGER stop_deliver AFTER INSERT ON pawl.stop DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.stop_deliver();

CREATE CONSTRAINT TRIGGER watch_deliver AFTER INSERT ON pawl.watcher DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.watch_deliver();

ALTER TABLE pawl.job ENABLE ROW LEVEL SECURITY;

CREATE POLICY job_enqueuer_insert ON pawl.job FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.queue_producer p
  WHERE ((p.queue = (job.queue)::text) AND pg_has_role((p.role)::oid, 'USAGE'::text)))));

CREATE POLICY job_enqueuer_select ON pawl.job FOR SELECT TO pawl_enqueuer USING ((EXISTS ( SELECT
   FROM pawl.queue_producer p
  WHERE ((p.queue = (job.queue)::text) AND pg_has_role((p.role)::oid, 'USAGE'::text)))));

CREATE POLICY job_producer_insert ON pawl.job FOR INSERT TO pawl_producer WITH CHECK (true);

CREATE POLICY job_producer_select ON pawl.job FOR SELECT TO pawl_producer USING (true);

CREATE POLICY job_reader ON pawl.job FOR SELECT TO pawl_reader USING (true);

CREATE POLICY job_worker ON pawl.job TO pawl_worker USING (true) WITH CHECK (true);

ALTER TABLE pawl.signal ENABLE ROW LEVEL SECURITY;

CREATE POLICY signal_enqueuer_insert ON pawl.signal FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = signal.job_id))));

CREATE POLICY signal_enqueuer_select ON pawl.signal FOR SELECT TO pawl_enqueuer USING ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = signal.job_id))));

CREATE POLICY signal_producer_insert ON pawl.signal FOR INSERT TO pawl_producer WITH CHECK (true);

CREATE POLICY signal_producer_select ON pawl.signal FOR SELECT TO pawl_producer USING (true);

CREATE POLICY signal_reader ON pawl.signal FOR SELECT TO pawl_reader USING (true);

CREATE POLICY signal_worker ON pawl.signal TO pawl_worker USING (true) WITH CHECK (true);

ALTER TABLE pawl.watcher ENABLE ROW LEVEL SECURITY;

CREATE POLICY watcher_enqueuer_insert ON pawl.watcher FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = watcher.job_id))));

CREATE POLICY watcher_insert ON pawl.watcher FOR INSERT TO pawl_producer, pawl_reader WITH CHECK (true);

GRANT USAGE ON SCHEMA pawl TO pawl_server;
GRANT USAGE ON SCHEMA pawl TO pawl_worker;
GRANT USAGE ON SCHEMA pawl TO pawl_producer;
GRANT USAGE ON SCHEMA pawl TO pawl_reader;
GRANT USAGE ON SCHEMA pawl TO pawl_enqueuer;

REVOKE ALL ON TYPE pawl.kind_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.max_attempts FROM PUBLIC;

REVOKE ALL ON TYPE pawl.payload FROM PUBLIC;

REVOKE ALL ON TYPE pawl.priority FROM PUBLIC;

REVOKE ALL ON TYPE pawl.queue_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.retry FROM PUBLIC;
GRANT ALL ON TYPE pawl.retry TO pawl_producer;
GRANT ALL ON TYPE pawl.retry TO pawl_enqueuer;

REVOKE ALL ON TYPE pawl.signal_key FROM PUBLIC;

REVOKE ALL ON TYPE pawl.signal_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.signal_payload FROM PUBLIC;

REVOKE ALL ON TYPE pawl.state FROM PUBLIC;

REVOKE ALL ON TYPE pawl.timeout_ms FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.access_changed() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_enqueuer;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.bytes_json(bytes bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.bytes_json(bytes bytea) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.bytes_text(bytes bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.bytes_text(bytes bytea) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.cancel(job bigint, by_whom text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.cancel(job bigint, by_whom text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.child_ended(parent bigint, of_join integer, child bigint, kind text, as_state pawl.state, error text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.child_ended(parent bigint, of_join integer, child bigint, kind text, as_state pawl.state, error text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.children_end(parent bigint, token uuid, cancel boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.children_end(parent bigint, token uuid, cancel boolean) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claim_try(job bigint, known text, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claim_try(job bigint, known text, worker text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claim_turn(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claim_turn(queue text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.correlated(correlation text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.correlated(correlation text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.correlated(correlation text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.guard_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.guard_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.held_among(ids bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.held_among(ids bigint[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.interval_ms(what text, i interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.interval_ms(what text, i interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.interval_ms(what text, i interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.is_held(job bigint, claim_token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.is_held(job bigint, claim_token uuid) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.is_mine(row_xmin xid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.job_park(job bigint, reason text, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_park(job bigint, reason text, worker text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.job_start_at(job bigint, first_step text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_start_at(job bigint, first_step text) TO pawl_server;

GRANT SELECT ON TABLE pawl.lane_rule TO pawl_worker;
GRANT SELECT ON TABLE pawl.lane_rule TO pawl_reader;
GRANT INSERT,DELETE,UPDATE ON TABLE pawl.lane_rule TO pawl_server;

REVOKE ALL ON FUNCTION pawl.lane_limits(queue text, lane text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_limits(queue text, lane text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.lanes_call(queues text[], lanes text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_call(queues text[], lanes text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_mend(most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_mend(most integer) TO pawl_worker;
GRANT ALL ON FUNCTION pawl.lanes_mend(most integer) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.machine_line(job bigint, step text, awaits text[], waits_for smallint, wait_until timestamp with time zone, deadline_at timestamp with time zone, children_left integer, cancel_by text, join_flags smallint, inbox bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machine_line(job bigint, step text, awaits text[], waits_for smallint, wait_until timestamp with time zone, deadline_at timestamp with time zone, children_left integer, cancel_by text, join_flags smallint, inbox bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.name_check(what text, name text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.name_check(what text, name text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.name_check(what text, name text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.orphans_end(most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.orphans_end(most integer) TO pawl_worker;
GRANT ALL ON FUNCTION pawl.orphans_end(most integer) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.parks(kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.parks(kind text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.queue_known(queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.raise_not_live(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.raise_not_live(job bigint) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.raise_unseen(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.raise_unseen(job bigint) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.raise_unseen(job bigint) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.retry(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry(job bigint) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.serve_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.serve_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.session_role() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.signal_accept() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.signal_bytes(name text, payload jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signal_bytes(name text, payload jsonb) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.signal_deliver() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signals_forget(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signals_forget(job bigint) TO pawl_worker;
GRANT ALL ON FUNCTION pawl.signals_forget(job bigint) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.stop_deliver() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.stop_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.stop_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.ticket(token uuid, job bigint, step text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.ticket(token uuid, job bigint, step text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.watch(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_enqueuer;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_reader;

REVOKE ALL ON FUNCTION pawl.watch_deliver() FROM PUBLIC;

GRANT SELECT,INSERT,UPDATE ON TABLE pawl.access TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.child TO pawl_worker;
GRANT SELECT ON TABLE pawl.child TO pawl_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.claim TO pawl_worker;
GRANT SELECT ON TABLE pawl.claim TO pawl_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE pawl.enqueue_key TO pawl_server;

GRANT SELECT,DELETE,UPDATE ON TABLE pawl.guard TO pawl_worker;
GRANT SELECT ON TABLE pawl.guard TO pawl_reader;

GRANT SELECT(hash) ON TABLE pawl.guard TO pawl_producer;

GRANT SELECT(job_id) ON TABLE pawl.guard TO pawl_producer;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.held TO pawl_worker;
GRANT SELECT ON TABLE pawl.held TO pawl_reader;

GRANT INSERT ON TABLE pawl.history TO pawl_worker;
GRANT SELECT ON TABLE pawl.history TO pawl_reader;

GRANT SELECT,DELETE ON TABLE pawl.job TO pawl_worker;
GRANT SELECT ON TABLE pawl.job TO pawl_reader;

GRANT SELECT(id) ON TABLE pawl.job TO pawl_producer;
GRANT SELECT(id) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(due_at) ON TABLE pawl.job TO pawl_producer;
GRANT UPDATE(due_at) ON TABLE pawl.job TO pawl_worker;
GRANT INSERT(due_at) ON TABLE pawl.job TO pawl_enqueuer;

GRANT UPDATE(token) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(attempt) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(timeout_ms) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(timeout_ms) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(priority) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(priority) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(priority) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(waits_for) ON TABLE pawl.job TO pawl_worker;

GRANT SELECT(queue),INSERT(queue) ON TABLE pawl.job TO pawl_producer;
GRANT SELECT(queue),INSERT(queue) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(queue) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(kind) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(kind) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(kind) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(payload) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(payload) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(payload) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(errors) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(riders) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(riders) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(riders),UPDATE(riders) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(lane) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(lane) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(guard) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(guard) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(meta) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(meta) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(retry) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(retry) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(retry_base_ms) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(retry_base_ms) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(retry_cap_ms) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(retry_cap_ms) ON TABLE pawl.job TO pawl_enqueuer;

GRANT UPDATE(cancel_by) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(deadline_at) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(deadline_at) ON TABLE pawl.job TO pawl_enqueuer;
GRANT UPDATE(deadline_at) ON TABLE pawl.job TO pawl_server;

GRANT UPDATE(progress) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(step) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(state) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(inbox) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(awaits) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(wait_since) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(wait_until) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(children_left) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(join_at) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(join_flags) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(joins) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(join_of) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(timeline) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(lane_due_at) ON TABLE pawl.job TO pawl_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.worker TO pawl_worker;
GRANT SELECT ON TABLE pawl.worker TO pawl_reader;

GRANT SELECT ON TABLE pawl.jobs TO pawl_reader;

GRANT SELECT ON TABLE pawl.kind TO pawl_worker;
GRANT SELECT ON TABLE pawl.kind TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.kind TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.lane TO pawl_worker;
GRANT SELECT ON TABLE pawl.lane TO pawl_reader;

GRANT SELECT,INSERT ON TABLE pawl.lane_stir TO pawl_worker;
GRANT INSERT ON TABLE pawl.lane_stir TO pawl_server;
GRANT SELECT ON TABLE pawl.lane_stir TO pawl_reader;

GRANT SELECT ON TABLE pawl.migration TO pawl_server;
GRANT SELECT ON TABLE pawl.migration TO pawl_worker;
GRANT SELECT ON TABLE pawl.migration TO pawl_producer;
GRANT SELECT ON TABLE pawl.migration TO pawl_reader;
GRANT SELECT ON TABLE pawl.migration TO pawl_enqueuer;

GRANT SELECT,INSERT ON TABLE pawl.orphan TO pawl_worker;
GRANT SELECT ON TABLE pawl.orphan TO pawl_reader;

GRANT SELECT ON TABLE pawl.queue TO pawl_worker;
GRANT SELECT ON TABLE pawl.queue TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.queue TO pawl_server;

GRANT SELECT ON TABLE pawl.queue_producer TO pawl_enqueuer;
GRANT SELECT ON TABLE pawl.queue_producer TO pawl_reader;
GRANT INSERT,DELETE ON TABLE pawl.queue_producer TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.signal TO pawl_worker;
GRANT SELECT ON TABLE pawl.signal TO pawl_reader;

GRANT SELECT(job_id),INSERT(job_id) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(job_id),INSERT(job_id) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT(name),INSERT(name) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(name),INSERT(name) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT(key),INSERT(key) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(key),INSERT(key) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT INSERT(payload) ON TABLE pawl.signal TO pawl_producer;
GRANT INSERT(payload) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT ON TABLE pawl.sleeper TO pawl_producer;
GRANT SELECT ON TABLE pawl.sleeper TO pawl_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.sleeper TO pawl_worker;
GRANT SELECT ON TABLE pawl.sleeper TO pawl_enqueuer;

GRANT SELECT ON TABLE pawl.stop TO pawl_worker;
GRANT SELECT ON TABLE pawl.stop TO pawl_reader;
GRANT INSERT ON TABLE pawl.stop TO pawl_server;

GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_reader;
GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_producer;
GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_enqueuer;

GRANT SELECT ON TABLE pawl.worker_wish TO pawl_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.worker_wish TO pawl_server;
