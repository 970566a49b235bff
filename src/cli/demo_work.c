/* demo_work: short leases and looks, and no words about failures: they are part of the show. */
#include "cli/demo_work.h"

#include "base/clock.h"

int demo_work(struct worker *worker,
              struct worker_options options,
              const struct pawl_err *trouble,
              struct pawl_err *err)
{
    struct log quiet = *options.log;

    quiet.level = quiet.level == LOG_DEBUG ? LOG_DEBUG : LOG_WARN;
    options.log = &quiet;
    options.lease_ms = 10 * MS_PER_S;
    options.poll_ms = options.tick_ms;
    options.drain_ms = 2 * MS_PER_S;
    int rc = worker_run(worker, &options, err);

    if (rc == 0 && trouble->code < 0) {
        *err = *trouble;
        rc = err->code;
    }
    return rc;
}
