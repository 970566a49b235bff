-- sweep: how the jobs of dead workers come back.

-- Takes back at most `most` jobs of claims whose lease has run out, and of those with a lease of their own (pawl.held) when
-- that has, and their claim's has too or does not count any more: due again by the retry policy, or over (parked, where the
-- kind says so) when their attempts are used up, for a job that kills its worker must not come back for ever. A claim of
-- which jobs are left stays, with these, goes behind the others, and is not renewed any more (swept_at).
--   only_token, only_job: this job of this claim alone; NULL: any
--   low: no claim has a lower seq (pawl.claim_low)
-- Locks expired claims, then their jobs, then parents of those that end, skipping what others hold: a job that is being
-- settled at this moment, or whose parent is, keeps its claim, and a later sweep looks at it again. A sweep never waits, so
-- it cannot deadlock with a settle.
-- Returns each job with what it is now; and with id 0, lanes: some lane or orphan is for lanes_mend; more: there are more.
CREATE FUNCTION pawl.claims_sweep(most integer, only_token uuid, only_job bigint, low bigint)
RETURNS TABLE (id bigint, state text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    lost     constant text := 'the worker died or lost its lease';
    n_near   bigint;
    claims   uuid[];    -- locked
    takes    integer[]; -- how many of the jobs of each, from the first
    jobs     bigint[];  -- locked; the next four in parallel
    tokens   uuid[];
    workers  text[];
    took_us  bigint[];
    over     boolean[]; -- it ends
    parents  bigint[];  -- locked
BEGIN
    -- How many claims hold that many jobs is estimated without locks, so that the others are left to other sweepers.
    WITH near AS MATERIALIZED (
        SELECT n.token, n.since, pg_catalog.sum(n.size) OVER (ORDER BY n.since, n.token ROWS UNBOUNDED PRECEDING) - n.size AS before
        FROM (SELECT c.token, coalesce(c.swept_at, c.lease_until) AS since, pg_catalog.cardinality(c.job_ids) AS size
              FROM pawl.claim AS c
              WHERE c.seq >= low
                AND c.lease_until < pg_catalog.clock_timestamp()
                AND (only_token IS NULL OR c.token = only_token)
              ORDER BY since
              LIMIT 200) AS n
    ), expired AS MATERIALIZED (
        SELECT n.token, n.since, c.size
        FROM (SELECT x.* FROM near AS x ORDER BY x.since, x.token) AS n
        CROSS JOIN LATERAL (
            SELECT CASE WHEN only_token IS NULL THEN pg_catalog.cardinality(x.job_ids) ELSE 1 END AS size
            FROM pawl.claim AS x
            WHERE x.token = n.token AND x.lease_until < pg_catalog.clock_timestamp()
            FOR UPDATE SKIP LOCKED) AS c
        LIMIT (SELECT pg_catalog.count(*) FROM near AS n WHERE n.before < most)
    )
    SELECT pg_catalog.array_agg(e.token), pg_catalog.array_agg(least(e.size, most - e.before)),
           (SELECT pg_catalog.count(*) FROM near)
    INTO claims, takes, n_near
    FROM (SELECT x.*, pg_catalog.sum(x.size) OVER (ORDER BY x.since, x.token ROWS UNBOUNDED PRECEDING) - x.size AS before
          FROM expired AS x) AS e
    WHERE e.before < most;

    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us)
    INTO jobs, tokens, workers, took_us
    FROM (SELECT j.id, c.token, w.name AS worker,
                 (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - c.claimed_at) * 1000000)::bigint AS us
          FROM ROWS FROM (pg_catalog.unnest(claims), pg_catalog.unnest(takes)) AS s(token, n)
          CROSS JOIN LATERAL (SELECT x.token, x.claimed_at, x.worker, x.job_ids
                              FROM pawl.claim AS x WHERE x.token = s.token OFFSET 0) AS c
          LEFT JOIN LATERAL (SELECT x.name FROM pawl.worker AS x WHERE x.id = c.worker OFFSET 0) AS w ON true
          CROSS JOIN LATERAL pg_catalog.unnest(CASE WHEN only_token IS NULL THEN c.job_ids[1:s.n] ELSE ARRAY[only_job] END) AS i(id)
          CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                              WHERE x.id = i.id AND x.token = c.token FOR UPDATE SKIP LOCKED) AS j) AS l;

    -- Not those with a lease of their own: none can come now: giving a lease locks the job.
    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us)
    INTO jobs, tokens, workers, took_us
    FROM (SELECT f.id, f.token, f.worker, f.us
          FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(tokens), pg_catalog.unnest(workers),
                          pg_catalog.unnest(took_us)) AS f(id, token, worker, us)
          WHERE (SELECT true FROM pawl.held AS h WHERE h.job_id = f.id AND h.token = f.token) IS NULL
          UNION ALL
          SELECT o.* FROM (
              SELECT j.id, h.token, h.worker,
                     (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - h.since) * 1000000)::bigint AS us
              FROM (SELECT x.job_id, x.token, x.worker, x.since
                    FROM pawl.held AS x
                    WHERE x.lease_until < pg_catalog.clock_timestamp()
                      AND (only_token IS NULL OR x.job_id = only_job)
                      -- Else the server that claimed it renews that claim for it.
                      AND (x.let_go OR x.token = ANY (claims)
                           OR (SELECT true FROM pawl.claim AS c WHERE c.token = x.token) IS NULL)
                    ORDER BY x.lease_until
                    FOR UPDATE SKIP LOCKED) AS h
              CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                                  WHERE x.id = h.job_id AND x.token = h.token FOR UPDATE SKIP LOCKED) AS j
              LIMIT greatest(most - coalesce(pg_catalog.cardinality(jobs), 0), 0)) AS o) AS l;

    -- Which of them end; and their parents, where these can be had.
    parents := ARRAY(SELECT p.id FROM pawl.job AS p
                     WHERE p.id = ANY (ARRAY(SELECT j.parent_id FROM pawl.job AS j
                                             WHERE j.id = ANY (jobs) AND j.join_of IS NOT NULL))
                     ORDER BY p.id DESC FOR UPDATE SKIP LOCKED);
    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us), pg_catalog.array_agg(l.over)
    INTO jobs, tokens, workers, took_us, over
    FROM (SELECT f.*, j.parent_id, j.join_of,
                 j.cancel_by IS NOT NULL OR j.attempt >= j.max_attempts AND k.park IS NOT TRUE AS over
          FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(tokens), pg_catalog.unnest(workers),
                          pg_catalog.unnest(took_us)) AS f(id, token, worker, us)
          CROSS JOIN LATERAL (SELECT x.parent_id, x.join_of, x.cancel_by, x.attempt, x.max_attempts, x.kind
                              FROM pawl.job AS x WHERE x.id = f.id OFFSET 0) AS j
          LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)) AS l
    WHERE NOT l.over OR l.join_of IS NULL OR l.parent_id = ANY (parents)
       OR (SELECT true FROM pawl.job AS p WHERE p.id = l.parent_id) IS NULL;

    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT l.*, j.tid, j.attempt >= j.max_attempts AS spent,
               pawl.retry_ms(j.attempt, o.retry, o.retry_base_ms, o.retry_cap_ms,
                             k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms) AS wait_ms
        FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(workers), pg_catalog.unnest(took_us),
                        pg_catalog.unnest(over)) AS l(id, worker, us, over)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid, x.attempt, x.max_attempts, x.kind, x.has_options
                            FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
        LEFT JOIN LATERAL (SELECT x.retry, x.retry_base_ms, x.retry_cap_ms
                           FROM pawl.job_option AS x WHERE x.job_id = l.id OFFSET 0) AS o ON j.has_options
        LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)
        WHERE NOT l.over
        LIMIT pg_catalog.cardinality(jobs)
    ), back AS (
        UPDATE pawl.job AS j
        SET token = NULL,
            lane_due_at = NULL,
            waits_for = CASE WHEN i.spent THEN 'operator' END::pawl.wait,
            -- Never before now: that would be behind the marks of other workers.
            due_at = CASE WHEN i.spent THEN 'infinity'
                          ELSE greatest(pg_catalog.clock_timestamp(),
                                        least(j.deadline_at, pg_catalog.clock_timestamp()
                                                             + i.wait_ms::float8 * interval '1 millisecond')) END,
            errors = pawl.errors_add(j.errors, j.attempt, 'lost', lost, i.worker, i.us)
        FROM input AS i
        WHERE j.ctid = i.tid
        RETURNING j.id, i.spent, j.queue, j.lane
    ), stirred AS (
        INSERT INTO pawl.lane_stir (queue, name) SELECT DISTINCT b.queue, b.lane FROM back AS b WHERE b.lane IS NOT NULL
    )
    SELECT b.id, CASE WHEN b.spent THEN 'parked' ELSE 'retrying' END FROM back AS b
    UNION ALL
    SELECT j.id, CASE WHEN j.cancel_by IS NULL THEN 'failed' ELSE 'cancelled' END
    FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(over)) AS l(id, over)
    CROSS JOIN LATERAL (SELECT x.id, x.cancel_by FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
    WHERE l.over;

    IF true = ANY (over) THEN
        PERFORM pawl.jobs_end(
            pg_catalog.array_agg(l.id),
            pg_catalog.array_agg((CASE WHEN j.cancel_by IS NULL THEN 'failed' ELSE 'cancelled' END)::pawl.state),
            NULL, NULL, pg_catalog.array_agg('lost'::text), pg_catalog.array_agg(lost), pg_catalog.array_agg(l.worker),
            pg_catalog.array_agg(l.us), NULL)
        FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(workers), pg_catalog.unnest(took_us),
                        pg_catalog.unnest(over)) AS l(id, worker, us, over)
        CROSS JOIN LATERAL (SELECT x.cancel_by FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
        WHERE l.over;
    END IF;

    -- Leases of these jobs, and of jobs that were settled long since.
    DELETE FROM pawl.held AS h
    WHERE h.job_id = ANY (jobs)
      AND h.token = tokens[pg_catalog.array_position(jobs, h.job_id)];
    IF only_token IS NULL THEN
        DELETE FROM pawl.held AS h
        WHERE h.job_id = ANY (ARRAY(
            SELECT o.job_id FROM pawl.held AS o
            WHERE o.lease_until < pg_catalog.clock_timestamp()
              AND (SELECT true FROM pawl.job AS j WHERE j.id = o.job_id AND j.token = o.token) IS NULL
            ORDER BY o.lease_until LIMIT most FOR UPDATE SKIP LOCKED));
    END IF;

    -- Jobs that others hold at this moment, or whose parents they do, come last.
    WITH rest AS MATERIALIZED (
        SELECT c.token,
               CASE WHEN only_token IS NULL THEN c.job_ids[s.n + 1:] ELSE pg_catalog.array_remove(c.job_ids, only_job) END
               || ARRAY(SELECT i.id
                        FROM pg_catalog.unnest(CASE WHEN only_token IS NULL THEN c.job_ids[1:s.n]
                                                    ELSE ARRAY[only_job] END) AS i(id)
                        WHERE (SELECT true FROM pawl.job AS j WHERE j.id = i.id AND j.token = c.token)
                          AND (SELECT true FROM pawl.held AS h WHERE h.job_id = i.id AND h.token = c.token) IS NULL) AS ids,
               c.tid
        FROM ROWS FROM (pg_catalog.unnest(claims), pg_catalog.unnest(takes)) AS s(token, n)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid, x.token, x.job_ids
                            FROM pawl.claim AS x WHERE x.token = s.token OFFSET 0) AS c
        LIMIT pg_catalog.cardinality(claims)
    ), ended AS (
        DELETE FROM pawl.claim AS c WHERE c.ctid = ANY (ARRAY(SELECT r.tid FROM rest AS r WHERE r.ids = '{}'))
    )
    UPDATE pawl.claim AS c
    SET job_ids = r.ids, swept_at = pg_catalog.clock_timestamp()
    FROM rest AS r
    WHERE c.ctid = r.tid AND r.ids <> '{}';

    RETURN QUERY
    SELECT 0::bigint, 'lanes' WHERE EXISTS (SELECT FROM pawl.lane_stir) OR EXISTS (SELECT FROM pawl.orphan)
    UNION ALL
    SELECT 0::bigint, 'more'
    WHERE n_near = 200 OR (SELECT pg_catalog.sum(t.n) FROM pg_catalog.unnest(takes) AS t(n)) >= most
       OR pg_catalog.cardinality(jobs) >= most;
END
$$;
