/* demo_work: short leases and looks, and no words about failures: they are part of the show. */
#include "cli/demo_work.h"

#include "base/clock.h"

int demo_work(struct cli *cli,
              struct working *working,
              const struct demo_plan *plan,
              const struct pawl_err *trouble,
              struct pawl_err *err)
{
    struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;
    struct log quiet = *cli->log;

    if (quiet.level > LOG_DEBUG && quiet.level < LOG_WARN)
        quiet.level = LOG_WARN;
    working->log = &quiet;
    working_log(&quiet, &options);
    options.conninfo = cli_conninfo(plan->target);
    options.queues = plan->queues;
    options.n_queues = plan->n_queues;
    options.concurrency = plan->concurrency;
    options.lease_ms = 10 * MS_PER_S;
    options.poll_ms = working->tick_ms;
    options.drain_ms = 2 * MS_PER_S;
    int rc = pawl_worker_new(&options, &working->worker, err);

    for (size_t i = 0; rc == 0 && i < plan->n_handlers; i++)
        rc = pawl_worker_exec(
            working->worker, plan->handlers[i].kind, plan->handlers[i].command, err);
    if (rc == 0)
        rc = working_run(working, err);
    pawl_worker_free(working->worker);
    if (rc == 0 && trouble->code < 0) {
        *err = *trouble;
        rc = err->code;
    }
    return rc;
}
