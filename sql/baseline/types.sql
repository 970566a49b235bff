-- types: words and limits that several tables share.
--
-- sql/baseline is the schema of version 0.9.0, one topic a file, run in the order of src/store/meson.build as one
-- migration, as pawl_owner. Later changes are numbered files in sql/migrations. Why the tables look as they do:
-- docs/internals/storage.md.

CREATE TYPE pawl.state AS ENUM (
    'ready', 'scheduled', 'retrying', 'running', 'parked', 'waiting', -- live: worked out from the row (pawl.jobs)
    'done', 'failed', 'cancelled'                                     -- over: stored in history
);

-- What a job waits for, if not for time.
CREATE TYPE pawl.wait AS ENUM (
    'operator', -- parked: somebody looks at it
    'lane',     -- its lane is full
    'signal',   -- a machine awaits signals
    'children'  -- a machine awaits its children
);

-- What a run came to (core/job.h has the same words).
CREATE TYPE pawl.outcome AS ENUM (
    'done', 'retry', 'fail', 'snooze', 'cancel', 'release', 'reject', -- see pawl.jobs_settle
    'next', 'await', 'spawn', 'wait'                                  -- see pawl.machines_settle
);

-- What a claimed machine needs beyond its row: pawl.machine_view. The line is last, where libpq ends it with a NUL.
CREATE TYPE pawl.machine_seen AS (state bytea, line text);

CREATE TYPE pawl.retry AS ENUM ('exponential', 'quadratic', 'table');

-- Limits of columns are domains: a CHECK constraint of a table is parsed and planned by every statement that writes the
-- table, a domain's is not (docs/adr/0031).
CREATE DOMAIN pawl.queue_name AS text
    CONSTRAINT queue_has_1_to_128_bytes CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128);
CREATE DOMAIN pawl.kind_name AS text
    CONSTRAINT kind_has_1_to_128_bytes CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128);
CREATE DOMAIN pawl.priority AS smallint
    CONSTRAINT priority_is_0_to_9 CHECK (VALUE BETWEEN 0 AND 9);
CREATE DOMAIN pawl.max_attempts AS integer
    CONSTRAINT max_attempts_is_1_to_1000 CHECK (VALUE BETWEEN 1 AND 1000);
CREATE DOMAIN pawl.timeout_ms AS integer
    CONSTRAINT timeout_is_positive CHECK (VALUE > 0);
CREATE DOMAIN pawl.payload AS bytea
    CONSTRAINT payload_has_16_mib_at_most CHECK (pg_catalog.octet_length(VALUE) <= 16777216);
CREATE DOMAIN pawl.signal_name AS text
    CONSTRAINT signal_has_1_to_128_bytes CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128);
CREATE DOMAIN pawl.signal_key AS text
    CONSTRAINT signal_key_has_1_to_1024_bytes CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 1024);
CREATE DOMAIN pawl.signal_payload AS jsonb
    CONSTRAINT signal_payload_has_1_mib_at_most CHECK (pg_catalog.octet_length(VALUE::text) <= 1048576);
