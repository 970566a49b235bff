-- Purpose: what is known of jobs that a report names and nobody holds under its ticket: one that was settled before is told
--          from one that came too late by the attempt; where that does not tell, by the ticket under which it ended.
-- Parameters: $1 int8[] ids, $2 bytea[] tickets
-- Rows: n int8: the position in the input, from 1; state text or NULL (it lives); attempt int4; queue text;
--       other bool: it is over, and was not by an outcome under this ticket
-- Locks: none
-- Index: job_pkey, history_id
-- Roles: reader
SELECT i.n, h.state::text AS state, h.attempt, h.queue,
       (h.step IS NOT NULL OR h.state <> 'done') AND (h.ticket = pg_catalog.substr(i.ticket, 4)) IS NOT TRUE AS other
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::bytea[])) WITH ORDINALITY AS i(id, ticket, n)
CROSS JOIN LATERAL (SELECT x.state, x.attempt, x.queue, x.step, x.ticket
                    FROM pawl.history AS x WHERE x.id = i.id OFFSET 0) AS h
UNION ALL
SELECT i.n, NULL, j.attempt, j.queue, false
FROM pg_catalog.unnest($1::int8[]) WITH ORDINALITY AS i(id, n)
CROSS JOIN LATERAL (SELECT x.attempt, x.queue FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
