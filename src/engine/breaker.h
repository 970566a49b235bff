/*
 * breaker: leaves a kind alone while most of its runs fail, and feels its way back.
 *
 *     CLOSED ──too many of the last runs failed──► OPEN ──time is over──► HALF ──all probes went well──► CLOSED
 *                                                    ▲                     │
 *                                                    └────a probe failed───┘  (for twice as long, up to a cap)
 *
 * CLOSED lets everything pass. OPEN: the kind is not claimed at all, so no attempt is burned. HALF: a few jobs, the
 * probes, are claimed and decide. The window slides by time, in slices, and counts every run in it: with a window of the
 * last n runs a hiccup of some milliseconds would fill it on a busy worker. Memory is fixed for a kind, and
 * kinds are at most BREAKERS_MAX; those beyond have no breaker. No clock, no I/O; coordinator's thread.
 */
#ifndef ENGINE_BREAKER_H
#define ENGINE_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

#define BREAKERS_MAX        1024
#define BREAKER_SLICES      10
#define BREAKER_LOOK_MS     1000 /* when there was nothing to probe with; doubles … */
#define BREAKER_LOOK_MAX_MS 5000 /* … to this */

/* 0 in a field but percent: the default. */
struct breaker_options {
    int percent;         /* opens when so many of a hundred runs fail; 0: no breakers */
    int64_t window_ms;   /* of the runs of so long; 30 s */
    uint64_t min_runs;   /* and there were so many at least; 10 */
    int64_t open_ms;     /* how long it stays open at first; 5 s */
    int64_t open_max_ms; /* and in the end; 5 min */
    unsigned probes;     /* runs that decide; 2 */
};

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF };

const char *breaker_state_text(enum breaker_state state);

/* What a run says about its kind. */
enum breaker_report {
    BREAKER_FINE,
    BREAKER_ERROR,
    BREAKER_NOTHING, /* it was not run, or stopped for reasons of ours */
};

enum breaker_change {
    BREAKER_UNCHANGED,
    BREAKER_OPENED, /* from closed, or again from half */
    BREAKER_HALVED,
    BREAKER_MENDED, /* closed again */
};

struct breaker {
    char *kind; /* owned */
    enum breaker_state state;

    struct {
        int64_t number; /* of the slice of time that it counts */
        uint64_t runs;
        uint64_t errors;
    } slices[BREAKER_SLICES];

    int64_t until_us;  /* OPEN: until then */
    int64_t open_ms;   /* how long it is or was open */
    unsigned round;    /* of probing; a probe of an earlier one says nothing. Never 0 while HALF */
    unsigned probing;  /* probes of this round that have not ended */
    unsigned passed;   /* and that went well */
    size_t next_queue; /* HALF: where to look for a probe; counts on and on */
    size_t n_empty;    /* HALF: queues in a row that had none */
    int64_t look_us;   /* HALF: not to look before */
    int64_t look_ms;   /* HALF: how long it waited when no queue had one */
};

struct breakers {
    struct breaker_options options;
    struct map by_kind; /* struct breaker *, owned */
    size_t n_open;      /* not closed */
};

void breakers_init(struct breakers *all, const struct breaker_options *options);
void breakers_deinit(struct breakers *all);

/* NULL: nothing is known about the kind, so it is closed. */
struct breaker *breakers_find(const struct breakers *all, const char *kind);
/* A run of the kind ended. probe: what breaker_probe gave for it, or 0. ret_breaker: untouched when there is none. */
enum breaker_change breakers_report(struct breakers *all,
                                    const char *kind,
                                    enum breaker_report report,
                                    unsigned probe,
                                    int64_t now_us,
                                    struct breaker **ret_breaker);
/* Time goes by. */
enum breaker_change breaker_tick(struct breaker *b, int64_t now_us);

/* HALF: how many more probes may be claimed. */
size_t breaker_room(const struct breakers *all, const struct breaker *b);
/* A queue of n_queues was looked at for probes. When none had any, there is no look for a while. */
void breaker_looked(struct breaker *b, bool found, size_t n_queues, int64_t now_us);
/* One was claimed. What it returns goes with the run to breakers_report. */
unsigned breaker_probe(struct breaker *b);

/* Start with *pos = 0; NULL at the end. */
struct breaker *breakers_next(const struct breakers *all, size_t *pos);

/* Runs and errors in the window, for the log. */
void breaker_window(const struct breakers *all,
                    const struct breaker *b,
                    int64_t now_us,
                    uint64_t *ret_runs,
                    uint64_t *ret_errors);

#endif
