-- Purpose: jobs whose outcomes came to a server that did not claim them: what a settle has to know, if the ticket is good.
-- Parameters: $1 int8[] ids, $2 bytea[] tickets
-- Rows: as job_claim up to lane (without payload and trace), then token uuid, queue text, n int8: the position in the input, from 1
-- Locks: none
-- Index: job_pkey, machine_pkey
-- Roles: worker
-- Between this and the settle the job may be taken over: the settle compares the token.
SELECT j.id, j.kind, j.priority, j.attempt, j.max_attempts, j.timeout_ms, NULL::bytea AS payload,
       j.due_at, j.join_of, j.has_options, j.is_machine, NULL::text AS trace,
       CASE WHEN j.is_machine OR j.deadline_at IS NOT NULL
            THEN pawl.machine_view(j.id, j.waits_for, j.deadline_at, j.cancel_by) END AS machine,
       NULL::tid AS tid, j.lane, j.token, j.queue, i.n
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::bytea[])) WITH ORDINALITY AS i(id, ticket, n)
CROSS JOIN LATERAL (SELECT * FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
LEFT JOIN LATERAL (SELECT x.step FROM pawl.machine AS x WHERE x.job_id = j.id OFFSET 0) AS m ON j.is_machine
WHERE j.token IS NOT NULL
  AND pg_catalog.substr(i.ticket, 4) = pawl.ticket(j.token, j.id, m.step)
