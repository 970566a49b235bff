-- 0002_wake: who sleeps, so that an enqueue notifies only when somebody does.
--
-- NOTIFY makes committing transactions queue up behind each other, so an enqueue must not pay for it while workers are
-- busy and will look anyway. A row stays while its worker lives; falling asleep and waking up are heap-only updates.
CREATE TABLE pawl.sleeper (
    queue  text NOT NULL,
    worker uuid NOT NULL,
    asleep boolean NOT NULL,
    PRIMARY KEY (queue, worker)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.sleeper IS 'Workers that wait for a notification, by queue';

GRANT SELECT ON pawl.sleeper TO pawl_producer, pawl_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.sleeper TO pawl_worker;
