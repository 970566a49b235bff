-- 0017_callers: functions know their caller. A member of pawl_enqueuer signals, counts and watches jobs of its own queues only, and
-- what it asks about others is answered as if they had never been.
--
-- pawl.signal and pawl.signal_all had the rights of their owner, who sees all jobs. Now they have those of the caller, as pawl.enqueue has,
-- and the policies of pawl.job and pawl.signal decide. What only the owner can read (history, correlation keys) is asked of two functions
-- with the owner's rights. These go by the role that the session has, which is all they can know of the caller.

-- The role that the session has set, or the one that logged in.
CREATE FUNCTION pawl.session_role() RETURNS name
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

-- Whether that role may know of jobs of this queue: it may produce into all, read all, or the queue is one of its own.
CREATE FUNCTION pawl.queue_known(queue text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_has_role(pawl.session_role(), 'pawl_producer', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_reader', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_owner', 'USAGE')
        OR EXISTS (SELECT FROM pawl.queue_producer AS p
                   WHERE p.queue = queue_known.queue AND pg_has_role(pawl.session_role(), p.role, 'USAGE'))
$$;

-- Why a job cannot be seen, as an error: that it is finished is said to those who may know of its queue, and of nothing else.
CREATE FUNCTION pawl.raise_unseen(job bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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

-- Jobs that were enqueued with a correlation key, of all queues, or of its own for a member of pawl_enqueuer. The index of the keys cannot
-- serve a condition behind a policy, hence the owner's rights.
CREATE FUNCTION pawl.correlated(correlation text) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT j.id
    FROM pawl.job AS j
    WHERE j.meta ->> 'correlation' = correlated.correlation
      AND (NOT pg_has_role(pawl.session_role(), 'pawl_enqueuer', 'USAGE') OR pawl.queue_known(j.queue))
    ORDER BY j.id
$$;

-- As before (0004_machines), with the rights of the caller.
CREATE OR REPLACE FUNCTION pawl.signal(job bigint, name text, payload jsonb DEFAULT '{}', key text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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

-- As before (0004_machines); of the jobs with the key those count that the caller can see.
CREATE OR REPLACE FUNCTION pawl.signal_all(correlation text, name text, payload jsonb DEFAULT '{}', key text DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE pawl.signal(c.id, signal_all.name, signal_all.payload, signal_all.key))
    FROM pawl.correlated(signal_all.correlation) AS c(id)
    WHERE EXISTS (SELECT FROM pawl.job AS j WHERE j.id = c.id)
$$;

ALTER TABLE pawl.signal ENABLE ROW LEVEL SECURITY;
CREATE POLICY signal_worker ON pawl.signal TO pawl_worker USING (true) WITH CHECK (true);
CREATE POLICY signal_reader ON pawl.signal FOR SELECT TO pawl_reader USING (true);
CREATE POLICY signal_producer_insert ON pawl.signal FOR INSERT TO pawl_producer WITH CHECK (true);
CREATE POLICY signal_producer_select ON pawl.signal FOR SELECT TO pawl_producer USING (true);
CREATE POLICY signal_enqueuer_insert ON pawl.signal FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.job AS j WHERE j.id = signal.job_id));
CREATE POLICY signal_enqueuer_select ON pawl.signal FOR SELECT TO pawl_enqueuer USING (
    EXISTS (SELECT FROM pawl.job AS j WHERE j.id = signal.job_id));

-- As before (0003_library); of a holder in another queue than the new job's, which only a global key can have, it says no more than that
-- there is one (-1).
CREATE OR REPLACE FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer)
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

-- As before (0003_library); who holds a global key in another queue is said to those who may read keys, which members of pawl_enqueuer
-- may not.
CREATE OR REPLACE FUNCTION pawl.enqueue_row(
    queue text, kind text, payload bytea, priority smallint, due_at timestamptz, max_attempts integer, timeout_ms integer,
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

REVOKE ALL ON FUNCTION pawl.session_role(), pawl.queue_known(text), pawl.raise_unseen(bigint), pawl.correlated(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.raise_unseen(bigint), pawl.correlated(text) TO pawl_producer, pawl_enqueuer;
GRANT INSERT (job_id, name, key, payload), SELECT (job_id, name, key) ON pawl.signal TO pawl_producer, pawl_enqueuer;
GRANT SELECT (hash, job_id) ON pawl.guard TO pawl_producer;
-- pawl.retry of a live job, with the rights of the caller, sets its deadline anew.
GRANT UPDATE (deadline_at) ON pawl.job TO pawl_server;
