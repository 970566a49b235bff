/*
 * tuner: how many jobs to run at a time, judged by what came of it.
 *
 * Dynamic, between a minimum and a maximum: it climbs while more slots bring more throughput (doubling at first, then
 * by an eighth), takes a step back when they do not, and gives up a third at once when memory, errors or the time
 * that runs take get out of hand. It does not climb while slots are free anyway.
 *
 * A rollout: one raise to a given number, watched for a while, and taken back for a reason or kept.
 *
 * Pure: it sees samples and gives numbers, so time and load are the caller's. Coordinator's thread.
 */
#ifndef ENGINE_TUNER_H
#define ENGINE_TUNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUNER_MEMORY_PERCENT  80   /* used memory above which a worker takes on less */
#define TUNER_ERROR_PERCENT   5    /* runs that failed, likewise */
#define TUNER_LATENCY_PERCENT 200  /* of the best p95 that was seen lately, likewise */
#define TUNER_LATENCY_US      5000 /* less than this more is noise, whatever the ratio */
#define TUNER_RUNS_MIN        20   /* fewer say nothing */
#define TUNER_HOLD            12   /* windows to stay after a step that gained nothing */

/* X(name, text): what a verdict is about, for the log */
#define TUNER_REASONS(X)                                          \
    X(TUNER_STAYS, "as it was")                                   \
    X(TUNER_GAINS, "throughput gains")                            \
    X(TUNER_NO_GAIN, "more at a time brought no more throughput") \
    X(TUNER_MEMORY, "memory is used above the threshold")         \
    X(TUNER_ERRORS, "too many runs fail")                         \
    X(TUNER_LATENCY, "runs take much longer than they did")       \
    X(TUNER_SET, "set by hand")                                   \
    X(TUNER_ROLLOUT, "rollout begins")                            \
    X(TUNER_KEPT, "rollout went well and is kept")

#define TUNER_REASON_ENUM(name, text) name,

enum tuner_reason { TUNER_REASONS(TUNER_REASON_ENUM) };

#undef TUNER_REASON_ENUM

const char *tuner_reason_text(enum tuner_reason reason);

/* 0 in a threshold: the default above. */
struct tuner_options {
    size_t start;
    size_t min; /* 0 or max: not dynamic */
    size_t max; /* never exceeded, whatever is asked for; the hands' size */
    int memory_percent;
    int error_percent;
    int latency_percent;
};

/* What happened since the last sample that was judged. */
struct tuner_sample {
    int64_t took_us;
    uint64_t runs;
    uint64_t errors;
    int64_t p95_us;     /* of the runs */
    bool full;          /* all slots were in use at some time: there is demand */
    int memory_percent; /* -1: not known */
};

struct tuner_verdict {
    size_t concurrency;
    enum tuner_reason reason;
    bool went_back; /* of a rollout */
    bool wait;      /* too little to judge by: go on with the same sample */
};

struct tuner {
    struct tuner_options options;
    size_t now;
    /* the climb */
    bool doubling;
    bool climbing; /* the last judgement was a raise, from … */
    size_t former;
    double former_rate;  /* runs per second there */
    unsigned hold;       /* windows left before the next try */
    int64_t best_p95_us; /* 0: none yet; ages, so that a changed load gets a new measure */
    /* the rollout */
    bool watching;
    size_t back; /* where it goes back to */
    int64_t left_us;
    int64_t before_p95_us; /* 0: not known */
    bool healthy;          /* the last sample that was judged: neither errors nor memory */
};

void tuner_init(struct tuner *t, const struct tuner_options *options);

struct tuner_verdict tuner_observe(struct tuner *t, const struct tuner_sample *sample);

/* By hand: from now on so many. Ends a rollout that was watched. At least 1, at most max. */
void tuner_set(struct tuner *t, size_t concurrency);
/* Raises (or lowers) to so many, and watches for watch_us of samples. */
void tuner_rollout(struct tuner *t, size_t concurrency, int64_t watch_us);

#endif
