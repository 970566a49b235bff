-- Purpose: takes the idempotency keys of Enqueue calls, before job_enqueue_once in the same transaction. A key that another
--          transaction is about to take is waited for; one whose time is over is taken anew; any other stays as it is.
-- Parameters: $1 uuid[] hashes of the keys, none twice, $2 uuid[] hashes of the requests
-- Rows: none
-- Locks: the keys, in their order, so that two who take the same ones do not wait for each other
-- Index: enqueue_key_pkey
-- Roles: server
-- A statement of its own, because job_enqueue_once has to see what was committed while this one waited.
INSERT INTO pawl.enqueue_key AS k (hash, request, expires_at)
SELECT i.hash, i.request, pg_catalog.now() + interval '1 day'
FROM ROWS FROM (pg_catalog.unnest($1::uuid[]), pg_catalog.unnest($2::uuid[])) AS i(hash, request)
ORDER BY i.hash
ON CONFLICT (hash) DO UPDATE
SET request = excluded.request, expires_at = excluded.expires_at, job_ids = NULL, existed = NULL
WHERE k.expires_at < pg_catalog.now()
