/*
 * demo_view: how the demo looks: a bar for each queue that is drawn over itself in a terminal, and
 * a line now and then elsewhere. Knows nothing of databases.
 */
#ifndef CLI_DEMO_VIEW_H
#define CLI_DEMO_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One queue of the demo. */
struct demo_queue {
    const char *name;
    const char *about; /* what its jobs do, in a few words */
    int64_t jobs;
    int64_t done;
    int64_t failed;
    int64_t running;
    int64_t retrying;
    int64_t scheduled;
    int64_t attempts;
};

struct demo_view {
    bool terminal;
    bool color;
    size_t drawn;       /* lines to go up before drawing again */
    int64_t printed_us; /* when the last line was printed, without a terminal */
};

void demo_view_init(struct demo_view *view, bool terminal, bool color);

/* last: the final picture, printed in any case. */
int demo_view_draw(struct demo_view *view,
                   const struct demo_queue *queues,
                   size_t n,
                   int64_t now_us,
                   bool last,
                   struct pawl_err *err) MUST_CHECK;

#endif
