/* demo_work: the worker of a demo, which is shown at work and so says little itself. */
#ifndef CLI_DEMO_WORK_H
#define CLI_DEMO_WORK_H

#include "cli/worker.h"

/* Runs until it is told to stop. Of the options it wants target, queues, handlers, concurrency, tick, tick_ms and data; log is the
 * one that is made quieter. trouble: what the ticks met; it is the error when the worker itself had none. */
int demo_work(struct worker *worker,
              struct worker_options options,
              const struct pawl_err *trouble,
              struct pawl_err *err) MUST_CHECK;

#endif
