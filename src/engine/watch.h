/*
 * watch: a thread that notices when the coordinator's loop no longer turns: a callback that blocks, a
 * deadlock, a disk that hangs. It needs a thread of its own, because whatever runs on the loop would be stuck too, and not
 * all hands have threads. It says so, once, and again when it is over; it ends nothing. The lease does that: nobody renews it.
 *
 * watch_new, watch_beat and watch_free: the loop's thread. watch_stalls: any.
 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"

/* The judgement, apart from the thread. */
struct watch_judge {
    int64_t stall_us; /* a beat that is older is a stall */
    int64_t
        look_us; /* how often it is asked; a much longer pause means that we stood still ourselves */
    uint64_t beat;   /* the last one seen */
    int64_t beat_us; /* and when it was first seen; steady clock */
    int64_t asked_us;
    bool stalled;
};

enum watch_verdict { WATCH_FINE, WATCH_STALLED, WATCH_OVER };

void watch_judge_init(struct watch_judge *judge, int64_t stall_ms, int64_t now_us);

/* STALLED and OVER come once each. ret_for_us: since when it has stood still, or did. */
enum watch_verdict
watch_judge_ask(struct watch_judge *judge, uint64_t beat, int64_t now_us, int64_t *ret_for_us);

struct watch;

/* NULL: there is no thread for it, and err says why. The log is borrowed. */
struct watch *watch_new(int64_t stall_ms,
                        const char *worker,
                        const struct clock *clock,
                        struct log *log,
                        struct pawl_err *err) MUST_CHECK;

/* The loop turned. It must do so more often than stall_ms, if only by a timer. */
void watch_beat(struct watch *watch);

/* Stalls noticed so far. */
uint64_t watch_stalls(const struct watch *watch);

void watch_free(struct watch *watch); /* NULL accepted */

#endif
