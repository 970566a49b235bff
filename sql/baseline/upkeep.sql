-- upkeep: what workers remember for each other so that scans and sweeps cost the same whatever vacuum can take away
-- (docs/adr/0042 to 0044).

-- A job can be committed behind a worker's marks only by a transaction that was writing when the marks passed; once that is
-- over, the marks are safe.
CREATE TABLE pawl.mark (
    queue     text NOT NULL,
    kinds     text NOT NULL,          -- SHA-256 of the sorted kinds, in hexadecimal
    due_at    timestamptz[] NOT NULL, -- for jobs in no lane by priority, 0 to 9, then for jobs in lanes; -infinity: no mark
    id        bigint[] NOT NULL,      -- of jobs that are due at the same moment, from which on
    stored_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (queue, kinds)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.mark IS 'Where a worker that starts begins to claim: no job of these kinds is due before';

CREATE TABLE pawl.claim_low (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.claim_low IS 'One row: no claim with a lower seq is left, or can be committed any more';
INSERT INTO pawl.claim_low DEFAULT VALUES;

CREATE TABLE pawl.vacuumed (
    relation text PRIMARY KEY,
    at       timestamptz NOT NULL,
    horizon  bigint NOT NULL -- the oldest transaction that any snapshot saw as running, when the vacuum began
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.vacuumed IS 'Which tables workers have vacuumed, and what held rows back at that time';
