-- enqueue: how jobs come in from SQL: pawl.enqueue and its kin, and unique keys.
--
-- Errors of the functions have SQLSTATEs of their own: PW001 there is no such job, PW002 not in its present state, PW003 the
-- claim is stale, PW004 there is one already, PW005 the inbox is full; 22023 an argument is wrong.
--
-- PL/pgSQL sets up an expression anew in every transaction, which takes about 2 000 instructions for each function and
-- operator in it; a pinned search_path and a call of another function take several times that. So a job without options takes
-- one condition and one INSERT; every other job goes to pawl.enqueue_options. The functions that are called for every job
-- name everything in full and pin no search_path: IN, BETWEEN, NULLIF and CASE x WHEN would look for their operator on the
-- caller's search_path, so these functions use none of them.

-- Who holds a unique key. One row for a key; it is looked at only by those who enqueue with one, and removed when its job
-- ends. What a row says is checked against its job, so one that is left behind by accident hinders nobody.
CREATE TABLE pawl.guard (
    hash    uuid PRIMARY KEY,
    job_id  bigint NOT NULL,
    keep_ms bigint NOT NULL, -- how long the key stays taken after the job has ended
    free_at timestamptz      -- the job has ended, and the key is free from then on
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE pawl.guard IS 'Unique keys and the jobs that hold them';

-- Names of queues, kinds, lanes and tags, as everywhere: they stand in shells, URLs, log lines and metrics.
CREATE FUNCTION pawl.name_check(what text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A kind may carry a version: order@2.
    IF name IS NULL OR octet_length(name) > 128
       OR name !~ (CASE what WHEN 'kind' THEN '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)?$'
                        ELSE '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$' END) THEN
        RAISE EXCEPTION '% name "%" is not valid', what, left(name, 140)
            USING ERRCODE = '22023', HINT = 'Use 1 to 128 letters, digits, _ . : / and -, beginning with a letter, a digit or _.';
    END IF;
END
$$;

-- A key is the same key within its scope: 'kind' (queue and kind), 'queue' or 'global'. Length first, so that no two
-- different lists of texts come to the same bytes.
CREATE FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(substr(sha256(convert_to(
               CASE scope WHEN 'kind' THEN 'k' || length(queue) || ':' || queue || length(kind) || ':' || kind
                          WHEN 'queue' THEN 'q' || length(queue) || ':' || queue
                          ELSE 'g' END || key, 'UTF8')), 1, 16), 'hex')::uuid
$$;

-- Whether the transaction that wrote a row is this one: what can be seen and is not committed is one's own. xmin has 32 bits
-- and may be that of a savepoint, so it is placed next to the number of the whole transaction.
CREATE FUNCTION pawl.is_mine(row_xmin xid) RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_xact_status((t.n + ((row_xmin::text::bigint - t.n + 2147483648) & 4294967295) - 2147483648)::text::xid8)
           = 'in progress'
    FROM (SELECT pg_current_xact_id()::text::bigint AS n) AS t
$$;

-- Gives the key to a job that this transaction has just inserted, or says who holds it (then the new row is gone again); of a
-- holder in another queue, which only a global key can have, it says no more than that there is one (-1).
-- states: 1 waiting, 2 running, 4 parked: while the holder is in one of them the key is taken. mode: 1 the holder gets the new
-- row's payload, priority and due time, 2 only its due time, else it stays as it is.
-- Security definer: producers may not touch other jobs. So it acts only on a row of this very transaction, and makes the key
-- of the queue and kind of that row: a role that may not enqueue into a queue cannot take keys there.
CREATE FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key_hash uuid;
    fresh pawl.job;
    held record;
BEGIN
    SELECT * INTO fresh FROM pawl.job AS j WHERE j.id = new_id AND j.token IS NULL AND pawl.is_mine(j.xmin);
    key_hash := pawl.unique_hash(scope, fresh.queue, fresh.kind, key);
    IF key_hash IS NULL OR fresh.has_options IS NOT TRUE THEN
        RAISE EXCEPTION 'job % is not new, or does not carry a key', new_id USING ERRCODE = 'PW001';
    END IF;
    INSERT INTO pawl.job_option AS o (job_id, guard) VALUES (new_id, key_hash)
    ON CONFLICT (job_id) DO UPDATE SET guard = excluded.guard;
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
                 WHEN held.waits_for = 'operator' THEN states & 4 <> 0
                 ELSE states & 1 <> 0 END) THEN
            DELETE FROM pawl.job_option AS o WHERE o.job_id = new_id;
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

-- A retry policy of its own for a job that this transaction has just inserted. Security definer, as guard_take.
CREATE FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pawl.job_option AS o (job_id, retry, retry_base_ms, retry_cap_ms)
    SELECT j.id, retry_put.retry, base_ms, cap_ms
    FROM pawl.job AS j
    WHERE j.id = new_id AND j.has_options AND j.token IS NULL AND pawl.is_mine(j.xmin)
    ON CONFLICT (job_id) DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not new', new_id USING ERRCODE = 'PW001';
    END IF;
END
$$;

-- Keys whose time after the end of their job is over, and those that a settle could not reach because somebody was about
-- to enqueue with them.
CREATE FUNCTION pawl.guard_maintain() RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- An interval in milliseconds; NULL for none and for less than half a millisecond.
CREATE FUNCTION pawl.interval_ms(what text, i interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    ms pg_catalog.int8;
BEGIN
    IF i IS NULL THEN
        RETURN NULL;
    ELSIF i OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
        RAISE EXCEPTION '% % is negative', what, i USING ERRCODE = '22023';
    END IF;
    ms := pg_catalog.date_part('epoch', i) OPERATOR(pg_catalog.*) '1000'::pg_catalog.float8;
    RETURN CASE WHEN ms OPERATOR(pg_catalog.<>) 0 THEN ms END;
END
$$;

-- The time at which a job is due: given, after a delay, or now.
CREATE FUNCTION pawl.due_time(delay interval, due_at timestamptz) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
BEGIN
    IF delay IS NOT NULL AND due_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and due_at cannot both be given' USING ERRCODE = '22023';
    ELSIF delay OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
        RAISE EXCEPTION 'delay % is negative', delay USING ERRCODE = '22023';
    ELSIF NOT pg_catalog.isfinite(due_at) THEN
        RAISE EXCEPTION 'due_at must be finite' USING ERRCODE = '22023';
    END IF;
    RETURN coalesce(due_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) delay, pg_catalog.clock_timestamp());
END
$$;

-- What every job is asked, before the constraints of the table would say it in words that no producer knows.
CREATE FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer)
RETURNS void LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
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

CREATE FUNCTION pawl.enqueue_row(
    queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamptz, max_attempts integer, timeout_ms integer,
    retry pawl.retry, retry_base_ms integer, retry_cap_ms integer,
    key text, key_scope text, key_states integer, key_ms bigint, key_mode integer,
    lane text, parent_id bigint, meta jsonb, deadline_at timestamptz,
    OUT id bigint, OUT existed boolean
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    holder bigint;
    own_retry constant boolean := num_nonnulls(retry, retry_base_ms, retry_cap_ms) > 0;
    told text;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms, lane, parent_id, meta,
                               deadline_at, has_options)
    VALUES (queue, kind, payload, priority, least(pawl.due_time(delay, due_at), deadline_at), max_attempts, timeout_ms, lane,
            parent_id, meta, deadline_at, nullif(own_retry OR key IS NOT NULL, false))
    RETURNING j.id,
              CASE WHEN ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue = enqueue_row.queue AND s.asleep) <> '{}'
                   THEN pg_notify('pawl_wake', queue)::text END
    INTO id, told;
    existed := false;
    IF own_retry THEN
        PERFORM pawl.retry_put(id, retry, retry_base_ms, retry_cap_ms);
    END IF;
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
END
$$;

-- One plain job of libpawl or of a server, which have checked it (job_enqueue_one.sql). Not pawl.enqueue: on a connection where nothing is
-- prepared, a call with 23 parameters takes 1.5 times as many instructions, for parsing and planning.
CREATE FUNCTION pawl.enqueue_plain(
    queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer,
    timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_variable
DECLARE
    id pg_catalog.int8;
    asleep pg_catalog.bool;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    VALUES (queue, kind, payload, priority,
            CASE WHEN at_us OPERATOR(pg_catalog.<>) 0
                 THEN pg_catalog.timestamptz 'epoch' OPERATOR(pg_catalog.+)
                      (at_us::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 microsecond'::pg_catalog.interval)
                 ELSE pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
                      (delay_ms::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 millisecond'::pg_catalog.interval) END,
            max_attempts, CASE WHEN timeout_ms OPERATOR(pg_catalog.<>) 0 THEN timeout_ms END)
    RETURNING j.id,
              ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue OPERATOR(pg_catalog.=) enqueue_plain.queue AND s.asleep)
              OPERATOR(pg_catalog.<>) '{}'
    INTO id, asleep;
    IF asleep THEN
        PERFORM pg_catalog.pg_notify('pawl_wake', queue);
    END IF;
    RETURN id;
END
$$;

-- pawl.enqueue for a job with options, or with an argument that is refused here. An argument means what it means there.
CREATE FUNCTION pawl.enqueue_options(
    kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamptz, max_attempts integer, timeout interval,
    retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval,
    on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    states integer := 0;
    mode integer := array_position(ARRAY['keep', 'replace', 'reschedule', 'refuse'], coalesce(on_conflict, 'keep')) - 1;
    body bytea := coalesce(bytes, convert_to(coalesce(payload, 'null')::text, 'UTF8'));
    word text;
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, octet_length(body));
    IF lane IS NOT NULL THEN PERFORM pawl.name_check('lane', lane); END IF;
    IF tags IS NOT NULL THEN PERFORM pawl.name_check('tag', t) FROM unnest(tags) AS t; END IF;
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
    ELSIF unique_scope NOT IN ('kind', 'queue', 'global') THEN
        RAISE EXCEPTION 'unique_scope "%" is none of kind, queue, global', unique_scope USING ERRCODE = '22023';
    END IF;
    IF unique_states IS NULL THEN
        states := 7;
    ELSE
        FOREACH word IN ARRAY unique_states LOOP
            states := states | CASE word WHEN 'waiting' THEN 1 WHEN 'running' THEN 2 WHEN 'parked' THEN 4 END;
            IF states IS NULL THEN
                RAISE EXCEPTION 'unique_states: "%" is none of waiting, running, parked', word USING ERRCODE = '22023';
            END IF;
        END LOOP;
    END IF;
    RETURN (SELECT r.id FROM pawl.enqueue_row(
        queue, kind, body, coalesce(priority, 4)::smallint, delay, due_at, coalesce(max_attempts, 20),
        pawl.interval_ms('timeout', timeout)::integer, retry::pawl.retry,
        pawl.interval_ms('retry_base', retry_base)::integer, pawl.interval_ms('retry_cap', retry_cap)::integer,
        unique_key, coalesce(unique_scope, 'kind'), states, coalesce(pawl.interval_ms('unique_for', unique_for), 0), mode,
        lane, parent,
        CASE WHEN tags IS NOT NULL OR trace IS NOT NULL OR correlation IS NOT NULL
             THEN jsonb_strip_nulls(jsonb_build_object('tags', to_jsonb(tags), 'trace', trace,
                                                       'correlation', correlation)) END,
        now() + pawl.interval_ms('deadline', deadline) * interval '1 millisecond') AS r);
END
$$;

-- Enqueues one job in the caller's transaction. docs/guides/sql.md is its manual.
--
-- NULL stands for a default: unique_scope kind, unique_states waiting, running and parked, on_conflict keep. Values here would have to be
-- compared at each call, and an array would be copied.
-- The condition lets through what is surely right; pawl.enqueue_options decides about the rest and has the words for a refusal. Both names
-- are checked at once: neither may contain the blank between them.
CREATE FUNCTION pawl.enqueue(
    kind text, payload jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 4,
    delay interval DEFAULT NULL, due_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL,
    retry text DEFAULT NULL, retry_base interval DEFAULT NULL, retry_cap interval DEFAULT NULL,
    unique_key text DEFAULT NULL, unique_scope text DEFAULT NULL, unique_states text[] DEFAULT NULL,
    unique_for interval DEFAULT NULL, on_conflict text DEFAULT NULL, lane text DEFAULT NULL, tags text[] DEFAULT NULL,
    parent bigint DEFAULT NULL, trace text DEFAULT NULL, bytes bytea DEFAULT NULL, correlation text DEFAULT NULL,
    deadline interval DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_variable
DECLARE
    body pg_catalog.bytea := coalesce(bytes, pg_catalog.convert_to(coalesce(payload, 'null')::pg_catalog.text, 'UTF8'));
    names pg_catalog.text := kind OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) queue;
    timeout_ms pg_catalog.int4;
    id pg_catalog.int8;
    asleep pg_catalog.bool;
BEGIN
    IF pg_catalog.num_nonnulls(retry, retry_base, retry_cap, unique_key, unique_scope, unique_states, unique_for, on_conflict, lane,
                               tags, parent, trace, correlation, deadline) OPERATOR(pg_catalog.=) 0
       AND names OPERATOR(pg_catalog.~) '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)? [A-Za-z0-9_][A-Za-z0-9_.:/-]*$'
       AND pg_catalog.octet_length(names) OPERATOR(pg_catalog.<=) 128
       AND priority OPERATOR(pg_catalog.>=) 0 AND priority OPERATOR(pg_catalog.<=) 9
       AND max_attempts OPERATOR(pg_catalog.>=) 1 AND max_attempts OPERATOR(pg_catalog.<=) 1000
       AND pg_catalog.octet_length(body) OPERATOR(pg_catalog.<=) 16777216 THEN
        IF timeout IS NOT NULL THEN
            timeout_ms := pawl.interval_ms('timeout', timeout);
        END IF;
        INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
        VALUES (queue, kind, body, priority,
                CASE WHEN delay IS NULL AND due_at IS NULL THEN pg_catalog.clock_timestamp() ELSE pawl.due_time(delay, due_at) END,
                max_attempts, timeout_ms)
        RETURNING j.id,
                  ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue OPERATOR(pg_catalog.=) enqueue.queue AND s.asleep)
                  OPERATOR(pg_catalog.<>) '{}'
        INTO id, asleep;
        IF asleep THEN
            PERFORM pg_catalog.pg_notify('pawl_wake', queue);
        END IF;
        RETURN id;
    END IF;
    RETURN pawl.enqueue_options(kind, payload, queue, priority, delay, due_at, max_attempts, timeout, retry, retry_base, retry_cap,
                                unique_key, unique_scope, unique_states, unique_for, on_conflict, lane, tags, parent, trace, bytes,
                                correlation, deadline);
END
$$;

-- Many jobs of one kind, in one statement. What is the same for all is checked and turned into the column's type once, before the rows.
CREATE FUNCTION pawl.enqueue_many(
    kind text, payloads jsonb[], queue text DEFAULT 'default', priority integer DEFAULT 4, delay interval DEFAULT NULL,
    due_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL
) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    as_queue pawl.queue_name;
    as_kind pawl.kind_name;
    as_priority pawl.priority;
    as_attempts pawl.max_attempts;
    as_timeout pawl.timeout_ms;
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, 0);
    as_queue := queue;
    as_kind := kind;
    as_priority := coalesce(priority, 4);
    as_attempts := coalesce(max_attempts, 20);
    as_timeout := pawl.interval_ms('timeout', timeout);
    RETURN QUERY
        INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
        SELECT as_queue, as_kind, convert_to(coalesce(p.payload, 'null')::text, 'UTF8'), as_priority,
               (SELECT pawl.due_time(delay, due_at)), as_attempts, as_timeout
        FROM (SELECT unnest(payloads) AS payload) AS p
        RETURNING j.id;
    IF ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue = enqueue_many.queue AND s.asleep) <> '{}' THEN
        PERFORM pg_notify('pawl_wake', queue);
    END IF;
END
$$;

-- Many jobs, each as its own object. They go in by one statement when none has an option and all are surely right; otherwise one by one.
CREATE FUNCTION pawl.enqueue_many(jobs jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job jsonb;
    wrong text;
    plain boolean;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'jobs must be a JSON array of objects' USING ERRCODE = '22023';
    END IF;
    SELECT bool_and((CASE WHEN jsonb_typeof(j.job) = 'object'
                          THEN j.job - '{kind,payload,queue,priority,delay,due_at,max_attempts,timeout}'::text[] = '{}'
                               AND n.names ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)? [A-Za-z0-9_][A-Za-z0-9_.:/-]*$'
                               AND octet_length(n.names) <= 128
                               AND coalesce((j.job ->> 'priority')::integer, 4) BETWEEN 0 AND 9
                               AND coalesce((j.job ->> 'max_attempts')::integer, 20) BETWEEN 1 AND 1000
                               AND octet_length((j.job -> 'payload')::text) <= 16777216 IS NOT FALSE END) IS TRUE)
    INTO plain
    FROM (SELECT jsonb_array_elements(jobs) AS job) AS j
    CROSS JOIN LATERAL (SELECT (j.job ->> 'kind') || ' ' || coalesce(j.job ->> 'queue', 'default') AS names OFFSET 0) AS n;
    IF plain THEN
        RETURN QUERY
            INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
            SELECT coalesce(w.job ->> 'queue', 'default'), w.job ->> 'kind',
                   convert_to(coalesce(w.job -> 'payload', '{}')::text, 'UTF8'), coalesce((w.job ->> 'priority')::smallint, 4),
                   CASE WHEN w.job ?| '{delay,due_at}'
                        THEN pawl.due_time((w.job ->> 'delay')::interval, (w.job ->> 'due_at')::timestamptz)
                        ELSE clock_timestamp() END,
                   coalesce((w.job ->> 'max_attempts')::integer, 20),
                   CASE WHEN w.job ? 'timeout' THEN pawl.interval_ms('timeout', (w.job ->> 'timeout')::interval)::integer END
            FROM (SELECT jsonb_array_elements(jobs) AS job) AS w
            RETURNING j.id;
        PERFORM pg_notify('pawl_wake', q.queue)
        FROM (SELECT DISTINCT s.queue
              FROM pawl.sleeper AS s
              WHERE s.asleep AND s.queue IN (SELECT coalesce(w.job ->> 'queue', 'default')
                                             FROM (SELECT jsonb_array_elements(jobs) AS job) AS w)) AS q;
        RETURN;
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
            (job ->> 'retry_base')::interval, (job ->> 'retry_cap')::interval, job ->> 'unique_key', job ->> 'unique_scope',
            (SELECT array_agg(s) FROM jsonb_array_elements_text(job -> 'unique_states') AS s),
            (job ->> 'unique_for')::interval, job ->> 'on_conflict', job ->> 'lane',
            (SELECT array_agg(t) FROM jsonb_array_elements_text(job -> 'tags') AS t), (job ->> 'parent')::bigint,
            job ->> 'trace', NULL, job ->> 'correlation', (job ->> 'deadline')::interval);
    END LOOP;
END
$$;

