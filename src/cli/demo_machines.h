/* demo_machines: what `pawl demo machines` shows: orders that go from step to step, wait, and undo what they did. */
#ifndef CLI_DEMO_MACHINES_H
#define CLI_DEMO_MACHINES_H

#include "cli/db.h"
#include "cli/verb.h"

/* pawl: how to call this program, for what is suggested at the end. */
int demo_machines(struct cli *cli,
                  const struct target *target,
                  const char *pawl,
                  struct pawl_err *err) MUST_CHECK;

#endif
