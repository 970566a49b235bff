/*
 * slots: the jobs that are in this process, and where each of them is. Both that give a worker its
 * jobs keep them here, the coordinator (from a database) and the remote (from a server): places,
 * handing out and draining are the same for both.
 *
 * Every job is in exactly one place (enum slot_place in engine/hands.h); slots_put() alone changes
 * it, keeps the numbers, and aborts on a move that slots_allowed does not name. Loop's thread only.
 */
#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/list.h"
#include "base/log.h"
#include "engine/hands.h"

struct slots_options {
    uv_loop_t *loop;
    struct hands *hands; /* all pointers are borrowed */
    struct log *log;
    /* The hands took the run. */
    void (*started)(void *data, struct run *run);
    /* They did not, and it is in SLOT_RUNNING still: the callee moves it. False: nothing more is
     * handed out for now. */
    bool (*not_started)(void *data, struct run *run, struct pawl_err *err);
    /* What was told to end at the end of a drain, or its outcome, takes too long. */
    void (*late)(void *data);
    void *data;
};

struct slots {
    struct slots_options options;
    struct list at[SLOT_PLACES]; /* by place, first in line first; none for SLOT_FREE */
    size_t n[SLOT_PLACES];       /* in each place; nothing is counted for SLOT_FREE */
    unsigned n_short; /* starts in a row that this process was too short of something for */
    size_t n_sticky;  /* engine/slot.h: machines whose outcome is sent, and that come back */
    uv_timer_t drain; /* closed by the owner's uv_close */
};

/* Where a job may go: one bit a place, by the place it is in. */
extern const unsigned slots_allowed[SLOT_PLACES];

void slots_init(struct slots *slots, const struct slots_options *options);

_Noreturn void slots_refuse(const struct run *run, enum slot_place to);

/* The one door. To the end of `list`, or to its front. */
static inline void
slots_put(struct slots *slots, struct run *run, enum slot_place to, struct list *list, bool first)
{
    if ((slots_allowed[run->place] >> to & 1U) == 0)
        slots_refuse(run, to);
    slots->n[run->place]--;
    slots->n[to]++;
    if (run->place != SLOT_FREE)
        list_remove(&run->link);
    run->place = to;
    if (to == SLOT_FREE)
        return;
    if (first)
        list_unshift(list, &run->link);
    else
        list_push(list, &run->link);
}

static inline void slots_move(struct slots *slots, struct run *run, enum slot_place to)
{
    slots_put(slots, run, to, &slots->at[to], false);
}

static inline struct run *run_of_link(struct list *link)
{
    return LIST_ENTRY(link, struct run, link);
}

/* Hands out what is buffered while fewer than `most` run. */
void slots_dispatch(struct slots *slots, size_t most);

/* Takes back what the hands have not started; it is reported as released. */
void slots_recall(struct slots *slots);
/* Tells everything that runs to end. */
void slots_end_running(struct slots *slots);

/* Nothing new comes any more: what runs has drain_ms, then it is told to end, and if that takes too
 * long `late` is called. */
void slots_drain(struct slots *slots, int64_t drain_ms);

#endif
