/*
 * scan: how far one queue has been claimed, and where its next claim starts.
 *
 * Claimed rows stay in the index until they are vacuumed, and a transaction that is open somewhere
 * can keep vacuum away for hours. So a claim starts where the last one ended (the mark). A job may
 * be committed behind it: marks.c looks for those (strays) on another connection, and finds out
 * behind which marks none can come any more (the floor, engine/safe.h). When nothing is left ahead of the marks, a claim
 * starts from the floor, if what that took the last time allows it. Only a scan without any marks
 * starts from the beginning. Pure; coordinator's thread.
 */
#ifndef ENGINE_SCAN_H
#define ENGINE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/safe.h"
#include "store/job.h"

/* A claim asks for fewer jobs where those of the last one were so large that the answer would be larger. */
#define SCAN_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define SCAN_LANES_EVERY_US \
    (1000 * 1000)          /* under load, how often a claim looks whether there are jobs in lanes */
#define SCAN_FULL_SHARE 30 /* a claim from the floor may take one part in this of the time */
#define SCAN_PEEK_MIN   500 /* jobs of a claim that asks whether there are lanes */
#define SCAN_BEGIN_US \
    (60LL * 1000 * 1000) /* how long before the first job of all strays are looked for */
/* Claims of so many jobs take turns. Those of fewer take less time than their commit, which they would wait for. */
#define SCAN_TURN_MIN 500
/* For so long a worker does without turns when it has waited in vain, and twice as long every time. */
#define SCAN_NO_TURNS_US     (1000 * 1000)
#define SCAN_NO_TURNS_MAX_US (60 * 1000 * 1000)

/* How a claim that failed is repeated. */
struct scan_again {
    int32_t
        most; /* jobs that a claim asks for at most, twice as many after each that succeeds; 0: no limit */
    bool same; /* the next claim looks at the rows that the failed one looked at: what follows */
    bool full;
    bool strays;
    bool lanes;
    int32_t limit;
    struct job_watermark from[JOB_PRIORITIES];
    struct job_watermark lane_from[JOB_PRIORITIES];

    /* A claim of one has failed (suspect.c). */
    unsigned rounds;        /* how often a job was tried alone since a claim succeeded */
    unsigned n_fails;       /* claims of one in a row that the server had no memory for */
    int64_t id;             /* the last one that was tried and did not fail; 0: none */
    unsigned n_passed;      /* how often in a row that one was tried */
    bool held;              /* the queue is left alone */
    uint64_t held_until_ms; /* by the loop's clock */
};

struct scan {
    const char *queue;        /* borrowed */
    const char *const *kinds; /* borrowed; NULL: all that the hands can run */
    size_t n_kinds;
    struct job_watermark mark[JOB_PRIORITIES];
    struct job_watermark lane_mark[JOB_PRIORITIES]; /* of jobs in lanes */
    struct job_marks floor; /* behind these nothing is left to be found; INT64_MIN: not known */
    struct job_marks
        recent; /* the same but for writers that are open: where a claim starts from the floor */
    struct job_marks stored; /* as it is in the database */
    struct safe safe;        /* how the floor is raised */
    bool known;              /* the marks that others stored were asked for */
    bool loading;            /* that question is on the wire */
    uint64_t born;           /* number of this scan: another may come into its place */
    struct job_marks
        strays;         /* where jobs were found behind the marks; INT64_MAX: none at that level */
    int32_t n_strays;   /* found and not asked for; 0: none */
    bool strays_lanes;  /* some of them are in lanes */
    bool asking_strays; /* the claim on the wire, or the next one, is for them */
    bool want_below;    /* what is behind the floor is to be looked at */
    bool below_seen;    /* it was, since jobs were claimed last */
    int64_t back_us;    /* others released jobs that are due from then on; INT64_MAX: none */
    int64_t below_us;   /* steady clock before which it is not */
    bool empty;         /* nothing was found, and nobody has called since */
    bool want_full;     /* nothing is left ahead of the marks, or nobody has looked yet */
    bool mostly_lanes;  /* most of what was claimed last is in lanes */
    bool called;        /* somebody says that there is work: it is most likely ahead of the marks */
    bool owes_lanes;    /* and it may be in a lane, where nobody has looked since */
    bool lanes;         /* the last claim that asked met jobs in lanes: look for them every time */
    bool checking;      /* the claim on the wire asks */
    int64_t asked_us;   /* steady clock of the last claim */
    int64_t checked_us; /* and of the last one that asked */
    int32_t
        peek; /* how far it looks while it knows of none: further as long as that is not to the end */
    int64_t turns_us; /* steady clock from when on large claims take turns with those of others */
    int64_t no_turns_us;  /* how long they did not, the last time */
    int64_t full_us;      /* steady clock when the last claim from the floor began */
    int64_t full_cost_us; /* how long it took */
    size_t job_bytes;     /* of a job in the last claim's answer, on average; 0: not known */
    struct scan_again again;
};

void scan_init(struct scan *scan, const char *queue);

/* There may be work again. */
void scan_wake(struct scan *scan);

/* There is, somebody says. A queue that was empty is first looked at ahead of the marks, without lanes: that
 * is a much smaller statement, and mostly finds it. */
void scan_called(struct scan *scan);

/* A job in a lane was settled here: the next one has been called, and is to start at once. */
void scan_lane_left(struct scan *scan);

/* A job of ours is ready again, as it was: the next claim starts no later than there. */
void scan_put_back(struct scan *scan, int16_t priority, bool in_lane, int64_t due_us, int64_t id);

/* The marks that others stored; NULL: none. */
void scan_loaded(struct scan *scan, const struct job_marks *marks);
/* The server may be another one: nothing is known any more. */
void scan_forget(struct scan *scan);
/* Where the next claim of each level would start. */
void scan_marks(const struct scan *scan, struct job_marks *ret_marks);
/* Jobs are behind the marks: they are claimed next, and the marks stay. */
void scan_found(struct scan *scan, const struct job_marks *at, int32_t n, bool lanes);
/* Fills in where to start and for how many, if there are such. Returns false if not. */
bool scan_strays(struct scan *scan, struct job_claim *asked);

/* Fills in where to start. Returns whether it is from the floor (full). */
bool scan_from(struct scan *scan, int64_t now_us, struct job_watermark from[JOB_PRIORITIES]);
/* Whether that claim is to look for jobs in lanes, too, and for how many at most: that is a slower statement, and where
 * there are no lanes a look is enough. */
bool scan_with_lanes(struct scan *scan, bool full, int32_t *limit);
/* The same for jobs in lanes; full: as scan_from said. The statement itself looks at the last second
 * again: who is called into a lane is due at once, but seen only after a commit. */
void scan_lane_from(const struct scan *scan, bool full, struct job_watermark from[JOB_PRIORITIES]);

/* Whether that claim waits until no other worker claims. Those who drain together would look in vain at what the
 * others take, as it is being taken. */
bool scan_takes_turn(const struct scan *scan, bool full, int32_t limit, int64_t now_us);
/* How it went: in time, or not. */
void scan_turn(struct scan *scan, bool in_time, int64_t now_us);

/* At most this part of `limit`, by how large answers may be and by how the last claims went. */
int32_t scan_most(const struct scan *scan, int32_t limit);

/* A claim failed: the next one looks at the same rows. smaller: at half of them. full: as scan_from said. */
void scan_failed(struct scan *scan, const struct job_claim *asked, bool full, bool smaller);
/* One for probes failed, which are looked for from the beginning anyway. */
void scan_smaller(struct scan *scan, int32_t limit);
/* Fills in where to start, if the last claim failed. Returns false if it did not. */
bool scan_repeat(struct scan *scan, struct job_claim *asked, bool *ret_full);
/* A claim succeeded, for probes too. max: from where on there is no limit. */
void scan_succeeded(struct scan *scan, int32_t max);

/* What a claim came back with. full: as scan_from said; limit: as it was asked for. */
void scan_claimed(struct scan *scan,
                  const PGresult *r,
                  bool full,
                  int32_t limit,
                  int64_t took_us,
                  int64_t now_us);

#endif
