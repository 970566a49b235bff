/* idle: why a worker that was to work off a queue found nothing to do. */
#ifndef CLI_IDLE_H
#define CLI_IDLE_H

#include "cli/db.h"

/* Only a note: what there is no database to ask about (target NULL), or does not answer, is left out. */
void idle_explain(struct cli *cli,
                  const struct target *target,
                  const char *const *queues,
                  size_t n_queues);

#endif
