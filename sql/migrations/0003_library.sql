-- 0003_library: what a program asks for beyond a plain job (lane, unique key, parent, tags, trace, its own retry policy), and
-- the functions that make SQL an API of its own: enqueue, enqueue_many, cancel, retry, watch, assert_claim.
--
-- A plain job pays for none of it: every new column of pawl.job is NULL there and takes no space, and no index holds it.
-- Errors of these functions have SQLSTATEs of their own: PW001 there is no such job, PW002 not in its present state,
-- PW003 the claim is stale, PW004 there is one already; 22023 an argument is wrong.

ALTER TYPE pawl.state ADD VALUE 'waiting';

ALTER TABLE pawl.job
    ADD riders        smallint,   -- NULL: a plain job. Else what its end has to look after: 1 lane, 2 guard, 4 parent, 8 meta
    ADD lane          text,
    ADD guard         uuid,       -- hash of its unique key
    ADD parent_id     bigint,
    ADD meta          jsonb,      -- tags, trace
    ADD retry         pawl.retry, -- these three: instead of what its kind says
    ADD retry_base_ms integer,
    ADD retry_cap_ms  integer,
    ADD watched       boolean,    -- somebody waits for its end
    ADD cancel_by     text,       -- who asked for its end while it ran
    ADD deadline_at   timestamptz, -- it fails then, whatever it does or waits for
    ADD progress      text;       -- what its handler said last

-- Jobs in a lane stand ten priorities higher in the index of work (10 to 19), where a claim that has no business with lanes
-- never walks; views and history show the priority without the ten.
ALTER TABLE pawl.job DROP CONSTRAINT job_priority;
ALTER TABLE pawl.job ADD CONSTRAINT job_priority
    CHECK (priority BETWEEN 0 AND 9 AND lane IS NULL OR priority BETWEEN 10 AND 19 AND lane IS NOT NULL) NOT VALID;

ALTER TABLE pawl.history
    ADD lane      text,
    ADD parent_id bigint,
    ADD meta      jsonb,
    ADD cancel_by text;

ALTER TABLE pawl.worker
    ADD host         text,
    ADD pid          integer,
    ADD buffered     integer NOT NULL DEFAULT 0,
    ADD memory_bytes bigint;

-- Who holds a unique key. One row for a key; it is looked at only by those who enqueue with one, and removed when its job
-- ends. What a row says is checked against its job, so one that is left behind by accident hinders nobody.
CREATE TABLE pawl.guard (
    hash    uuid PRIMARY KEY,
    job_id  bigint NOT NULL,
    keep_ms bigint NOT NULL, -- how long the key stays taken after the job has ended
    free_at timestamptz      -- the job has ended, and the key is free from then on
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE pawl.guard IS 'Unique keys and the jobs that hold them';

-- Members of pawl_enqueuer may enqueue into these queues only: a queue, and a role that has to be granted to them.
CREATE TABLE pawl.queue_producer (
    queue text NOT NULL,
    role  regrole NOT NULL,
    PRIMARY KEY (queue, role)
);
COMMENT ON TABLE pawl.queue_producer IS 'Which roles may enqueue into which queues, for members of pawl_enqueuer';

-- The retry policy of a job: its own, where it has one, else its kind's.
CREATE FUNCTION pawl.retry_delay_ms(
    kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer
) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN retry IS NULL AND base_ms IS NULL AND cap_ms IS NULL
                THEN pawl.retry_delay_ms(kind, attempt)
                ELSE (least(coalesce(cap_ms, k.retry_cap_ms, 3600000),
                            coalesce(base_ms, k.retry_base_ms, 1000)
                            * (CASE coalesce(retry_delay_ms.retry, k.retry)
                                   WHEN 'quadratic' THEN attempt::float8 * attempt
                                   ELSE power(2, least(attempt, 40) - 1) END))
                      * (0.8 + 0.4 * random()))::bigint
           END
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

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

-- Gives the key to a job that this transaction has just inserted, or says who holds it (then the new row is gone again).
-- states: 1 waiting, 2 running, 4 parked: while the holder is in one of them the key is taken. mode: 1 the holder gets the new
-- row's payload, priority and due time, 2 only its due time, else it stays as it is.
-- Security definer: producers may not touch other jobs. So it acts only on a row of this very transaction, and makes the key
-- of the queue and kind of that row: whoever may not enqueue into a queue cannot take keys there either.
CREATE FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer)
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
        SELECT g.job_id, g.free_at, j.id AS live_id, j.token, j.waits_for INTO held
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

-- One job that is more than plain. Due times are the database's.
CREATE FUNCTION pawl.enqueue_row(
    queue text, kind text, payload bytea, priority smallint, due_at timestamptz, max_attempts integer, timeout_ms integer,
    retry pawl.retry, retry_base_ms integer, retry_cap_ms integer,
    key text, key_scope text, key_states integer, key_ms bigint, key_mode integer,
    lane text, parent_id bigint, meta jsonb, deadline_at timestamptz,
    OUT id bigint, OUT existed boolean
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- One plain job. A function, because its plans stay with the session: a statement that is sent as text is planned each time,
-- and planning this one takes longer than doing it.
CREATE FUNCTION pawl.enqueue_plain(
    queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer,
    timeout_ms integer
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    id bigint;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    VALUES (queue, kind, payload, priority,
            CASE WHEN at_us <> 0 THEN timestamptz 'epoch' + at_us * interval '1 microsecond'
                 ELSE now() + delay_ms * interval '1 millisecond' END,
            max_attempts, nullif(timeout_ms, 0))
    RETURNING j.id INTO id;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = enqueue_plain.queue) THEN
        PERFORM pg_notify('pawl_wake', queue);
    END IF;
    RETURN id;
END
$$;

-- 0 and NULL are the same to all who ask for a duration: none.
CREATE FUNCTION pawl.interval_ms(what text, i interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF i < interval '0' THEN
        RAISE EXCEPTION '% % is negative', what, i USING ERRCODE = '22023';
    END IF;
    RETURN nullif((date_part('epoch', i) * 1000)::bigint, 0);
END
$$;

CREATE FUNCTION pawl.due_time(delay interval, due_at timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
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

-- Enqueues one job in the caller's transaction. docs/guides/sql.md is its manual.
CREATE FUNCTION pawl.enqueue(
    kind text, payload jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 4,
    delay interval DEFAULT NULL, due_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 20,
    timeout interval DEFAULT NULL, retry text DEFAULT NULL, retry_base interval DEFAULT NULL,
    retry_cap interval DEFAULT NULL, unique_key text DEFAULT NULL, unique_scope text DEFAULT 'kind',
    unique_states text[] DEFAULT '{waiting,running,parked}', unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT 'keep', lane text DEFAULT NULL, tags text[] DEFAULT NULL, parent bigint DEFAULT NULL,
    trace text DEFAULT NULL, bytes bytea DEFAULT NULL, correlation text DEFAULT NULL, deadline interval DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- Many plain jobs of one kind, in one statement.
CREATE FUNCTION pawl.enqueue_many(
    kind text, payloads jsonb[], queue text DEFAULT 'default', priority integer DEFAULT 4, delay interval DEFAULT NULL,
    due_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL
) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- Many jobs of any kind: a JSON array of objects whose members are the parameters of pawl.enqueue. Durations are texts
-- that an interval can be made of.
CREATE FUNCTION pawl.enqueue_many(jobs jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- Why a job cannot be found among the live ones, as an error.
CREATE FUNCTION pawl.raise_not_live(job bigint) RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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

-- Ends a job that does not run: to history, with all that hangs on its end.
CREATE FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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
                                  max_attempts, priority, queue, kind, payload, errors, lane, parent_id, meta, cancel_by)
        VALUES (g.id, g.created_at, g.due_at, clock_timestamp(), clock_timestamp(),
                (clock_timestamp() AT TIME ZONE 'UTC')::date + greatest(keep, 1), as_state, g.attempt, g.max_attempts,
                g.priority % 10, g.queue, g.kind, g.payload, g.errors, g.lane, g.parent_id, g.meta, by_whom);
    END IF;
    IF g.guard IS NOT NULL THEN
        DELETE FROM pawl.guard AS k WHERE k.hash = g.guard AND k.job_id = g.id AND k.keep_ms = 0;
        UPDATE pawl.guard AS k SET free_at = clock_timestamp() + k.keep_ms * interval '1 millisecond'
        WHERE k.hash = g.guard AND k.job_id = g.id;
    END IF;
    IF g.watched THEN
        PERFORM pg_notify('pawl_done', g.id::text);
    END IF;
    RETURN true;
END
$$;

-- Lets a job run now. One that is finished, but not done, is enqueued again as a new one. Returns the id of what will run.
CREATE FUNCTION pawl.retry(job bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- Somebody waits for the end of a job, and will LISTEN to pawl_done: true when it is still to come. Security definer: whoever
-- may wait may not write. Nothing to do inside a longer transaction: it would hold up the worker that settles the job.
CREATE FUNCTION pawl.watch(job bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not simply unequal: the extended protocol takes the time anew with each message of a statement.
    IF statement_timestamp() - now() > interval '1 second' THEN
        RAISE EXCEPTION 'pawl.watch cannot be called inside a transaction' USING ERRCODE = '25001',
            HINT = 'It would hold up the worker that settles the job. Commit first.';
    END IF;
    UPDATE pawl.job AS j SET watched = true WHERE j.id = job AND j.watched IS NOT TRUE;
    RETURN FOUND OR EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job);
END
$$;

-- Raises unless this claim of the job is valid, and keeps it so until the transaction ends: what a handler writes in its own
-- transaction commits together with the proof that the job was still its own. Security definer: the token is the right.
CREATE FUNCTION pawl.assert_claim(job bigint, token uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pawl.job AS j WHERE j.id = job AND j.token = assert_claim.token FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of job % is no longer valid', job
            USING ERRCODE = 'PW003', HINT = 'Roll back: another worker may own the job.';
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

CREATE OR REPLACE VIEW pawl.jobs AS
    SELECT j.id,
           (CASE WHEN j.token IS NOT NULL THEN 'running'
                 WHEN j.waits_for = 1 THEN 'parked'
                 WHEN j.waits_for > 1 AND j.due_at > pg_catalog.now() THEN 'waiting'
                 WHEN j.due_at <= pg_catalog.now() THEN 'ready'
                 WHEN j.attempt > 0 THEN 'retrying'
                 ELSE 'scheduled' END)::pawl.state AS state,
           j.queue, j.kind, (j.priority % 10)::smallint AS priority, j.attempt, j.max_attempts,
           j.created_at, j.due_at,
           (SELECT c.claimed_at FROM pawl.claim AS c WHERE c.token = j.token) AS started_at,
           NULL::timestamptz AS finished_at,
           (SELECT w.name FROM pawl.claim AS c JOIN pawl.worker AS w ON w.id = c.worker
            WHERE c.token = j.token) AS worker,
           j.payload, NULL::bytea AS result, j.errors,
           j.timeout_ms, j.lane, j.parent_id, j.meta, j.cancel_by, j.progress
    FROM pawl.job AS j
    UNION ALL
    SELECT h.id, h.state, h.queue, h.kind, h.priority, h.attempt, h.max_attempts,
           h.created_at, h.due_at, h.started_at, h.finished_at, h.worker, h.payload, h.result, h.errors,
           NULL::integer, h.lane, h.parent_id, h.meta, h.cancel_by, NULL::text
    FROM pawl.history AS h;

-- Who may see and write which jobs. Everybody may everything that was granted, but a member of pawl_enqueuer enqueues only
-- into the queues of pawl.queue_producer whose role it has.
ALTER TABLE pawl.job ENABLE ROW LEVEL SECURITY;
CREATE POLICY job_producer_insert ON pawl.job FOR INSERT TO pawl_producer WITH CHECK (true);
CREATE POLICY job_producer_select ON pawl.job FOR SELECT TO pawl_producer USING (true);
CREATE POLICY job_worker ON pawl.job TO pawl_worker USING (true) WITH CHECK (true);
CREATE POLICY job_reader ON pawl.job FOR SELECT TO pawl_reader USING (true);
CREATE POLICY job_enqueuer_insert ON pawl.job FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue AND pg_catalog.pg_has_role(p.role, 'USAGE')));
CREATE POLICY job_enqueuer_select ON pawl.job FOR SELECT TO pawl_enqueuer USING (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue AND pg_catalog.pg_has_role(p.role, 'USAGE')));

REVOKE ALL ON pawl.guard, pawl.queue_producer FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC;

GRANT INSERT (queue, kind, priority, due_at, max_attempts, timeout_ms, payload, riders, lane, guard, parent_id, meta,
              retry, retry_base_ms, retry_cap_ms, deadline_at), SELECT (id, queue)
    ON pawl.job TO pawl_producer, pawl_enqueuer;
GRANT USAGE ON TYPE pawl.retry TO pawl_producer, pawl_enqueuer;
GRANT USAGE ON SCHEMA pawl TO pawl_enqueuer;
GRANT SELECT ON pawl.migration, pawl.sleeper, pawl.queue_producer TO pawl_enqueuer;
GRANT EXECUTE ON FUNCTION
    pawl.enqueue, pawl.enqueue_many(text, jsonb[], text, integer, interval, timestamptz, integer, interval),
    pawl.enqueue_many(jsonb), pawl.enqueue_plain, pawl.enqueue_row, pawl.guard_take, pawl.unique_hash, pawl.name_check,
    pawl.interval_ms, pawl.due_time, pawl.job_check, pawl.assert_claim TO pawl_producer, pawl_enqueuer;
GRANT EXECUTE ON FUNCTION pawl.watch TO pawl_producer, pawl_enqueuer, pawl_reader;

GRANT UPDATE (progress, cancel_by) ON pawl.job TO pawl_worker;
GRANT SELECT, UPDATE, DELETE ON pawl.guard TO pawl_worker;
GRANT EXECUTE ON FUNCTION pawl.retry_delay_ms(text, integer, pawl.retry, integer, integer), pawl.assert_claim,
    pawl.guard_maintain TO pawl_worker;

GRANT SELECT ON pawl.guard, pawl.queue_producer TO pawl_reader;

GRANT INSERT, DELETE ON pawl.queue_producer TO pawl_server;
GRANT EXECUTE ON FUNCTION pawl.retry(bigint), pawl.job_end, pawl.raise_not_live TO pawl_server;
