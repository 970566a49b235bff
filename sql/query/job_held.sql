-- Purpose: jobs whose outcomes came to a server that did not claim them: what a settle has to know, if the ticket is good.
-- Parameters: $1 int8[] ids, $2 bytea[] tickets
-- Rows: as job_claim (without payload and trace), then token uuid, queue text, n int8: the position in the input, from 1
-- Locks: none
-- Index: job_pkey
-- Roles: worker
-- Between this and the settle the job may be taken over: the settle compares the token.
SELECT j.id, j.kind, (j.priority % 10)::int2 AS priority, j.attempt, j.max_attempts, j.timeout_ms, NULL::bytea AS payload,
       j.due_at, j.riders, NULL::text AS trace,
       CASE WHEN j.riders >= 16
            THEN pawl.machine_line(j.id, j.step, j.awaits, j.waits_for, j.wait_until, j.deadline_at, j.children_left,
                                   j.cancel_by, j.join_flags, j.inbox) END AS machine,
       j.state, j.lane, j.token, j.queue, i.n
FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::bytea[])) WITH ORDINALITY AS i(id, ticket, n)
JOIN pawl.job AS j ON j.id = i.id
WHERE j.token IS NOT NULL
  AND pg_catalog.substr(i.ticket, 4) = pawl.ticket(j.token, j.id, j.step)
