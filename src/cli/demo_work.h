/* demo_work: the worker of a demo, which is shown at work and so says little itself. */
#ifndef CLI_DEMO_WORK_H
#define CLI_DEMO_WORK_H

#include "cli/db.h"
#include "cli/working.h"

struct demo_handler {
    const char *kind;
    const char *command;
};

struct demo_plan {
    const struct target *target;
    const char *const *queues;
    size_t n_queues;
    const struct demo_handler *handlers;
    size_t n_handlers;
    unsigned concurrency;
};

/* Runs until it is told to stop. Of `working` it wants tick, tick_ms and data. trouble: what the ticks met; it is the error when
 * the worker itself had none. */
int demo_work(struct cli *cli,
              struct working *working,
              const struct demo_plan *plan,
              const struct pawl_err *trouble,
              struct pawl_err *err) MUST_CHECK;

#endif
