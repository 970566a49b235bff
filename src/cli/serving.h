/* serving: a server on a loop of its own, until it is told to stop by a signal. What `pawl serve` and `pawl up` share. */
#ifndef CLI_SERVING_H
#define CLI_SERVING_H

#include "cli/verb.h"
#include "serve/app.h"

#define SERVING_LISTEN "127.0.0.1:7295" /* unless told otherwise */

/* Options as `pawl serve` has them without any: this machine, no TLS. */
struct serve_options serving_defaults(struct cli *cli, const struct target *target);

/* Fills in `stopped`. ready: called once when it listens, with the address it listens on first; NULL: the addresses are
 * written to standard output, a line each. */
int serving_run(struct cli *cli,
                struct serve_options *options,
                int (*ready)(void *data, const char *address, struct pawl_err *err),
                void *data,
                struct pawl_err *err) MUST_CHECK;

#endif
