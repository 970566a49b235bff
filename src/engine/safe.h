/*
 * safe: how far behind the marks of one queue nobody can commit a job any more.
 *
 * A job is committed behind a mark only by a transaction that was writing to pawl.job when the mark
 * passed it, because the due time of a new job is taken after the lock on the table. So a few times
 * a second the marks are noted and the database is asked who writes (a poll). What the marks passed
 * between two polls is looked at once, at the poll after: by then most of those writers have ended,
 * and their jobs are seen. A writer that stays open costs nothing; when it has ended, what the marks
 * passed since it was first seen is looked at once more.
 *
 *     poll      k-2          k-1           k
 *     marks ────┤ near ──────┤─────────────┤
 *               looked at at poll k: who wrote there at poll k-1 has ended, or is remembered
 *
 * Where each writer began is remembered as a step: the marks at the poll before the one that saw it
 * first. Steps are few; when there are too many two neighbours become one, the lower, which costs a
 * longer look and never a job. Pure; coordinator's thread.
 */
#ifndef ENGINE_SAFE_H
#define ENGINE_SAFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/job.h"

#define SAFE_STEPS_MAX 24
#define SAFE_CHUNK_US \
    (2 * 1000 * 1000) /* of due times in one look at what is far behind, at first */
#define SAFE_CHUNK_MIN_US (50 * 1000)
#define SAFE_CHUNK_MAX_US (5 * 1000 * 1000)
#define SAFE_LOOK_US      (100 * 1000) /* what such a look should take */
#define SAFE_AGAIN_SHARE \
    10 /* looking again at what was found may take one part in this of the time */

/* From where to where to look, by level; a level with nothing between is not looked at. */
struct safe_range {
    bool on;
    struct job_marks from;
    struct job_marks to;
};

enum safe_kind { SAFE_NEAR, SAFE_FAR, SAFE_AGAIN, SAFE_KINDS };

struct safe_step {
    uint64_t poll;
    struct job_marks marks; /* when it was sent */
};

struct safe {
    struct safe_step steps[SAFE_STEPS_MAX]; /* by poll */
    size_t n_steps;                         /* at least one */
    /* SAFE_NEAR: passed between the last two polls but one. SAFE_FAR: passed while a writer was open that has ended. SAFE_AGAIN: jobs were
     * found there, and it is not known that all of them were claimed. */
    struct safe_range todo[SAFE_KINDS];
    struct safe_range flying; /* being looked at */
    enum safe_kind flying_kind;
    int64_t chunk_us;
    int64_t again_us; /* steady clock before which nothing is looked at again */
};

void job_marks_fill(struct job_marks *marks, int64_t due_us);
bool job_marks_equal(const struct job_marks *a, const struct job_marks *b);
/* Lowers, or raises, each level of marks to that of the other. */
void job_marks_lower(struct job_marks *marks, const struct job_marks *to);
void job_marks_raise(struct job_marks *marks, const struct job_marks *to);

/* Nothing is known of who writes; behind these marks nobody can commit. */
void safe_init(struct safe *safe, const struct job_marks *marks);

/* The first job of a level was claimed: what was due long before it is left to the look at everything. */
void safe_begin(struct safe *safe, size_t level, const struct job_watermark *at);

/* Poll number `poll` is about to be sent: these are the marks. The same number again: the last one failed. */
void safe_note(struct safe *safe, uint64_t poll, const struct job_marks *marks);

/* It was answered. ended: the first poll that saw any of the writers that have ended since; oldest: of
 * those that are open; 0: none. */
void safe_polled(struct safe *safe, uint64_t poll, uint64_t ended, uint64_t oldest);

/* All between these is to be looked at, as if a writer had ended. */
void safe_suspect(struct safe *safe, const struct job_marks *from, const struct job_marks *to);

/* What is to be looked at next; false: nothing, or a look is under way. settled: what was found before was claimed. */
bool safe_look(struct safe *safe,
               int64_t now_us,
               bool settled,
               const struct safe_range **ret_range);
/* How that went. found: where the first job of each level is; INT64_MAX: none. */
void safe_looked(struct safe *safe, const struct job_marks *found, int64_t took_us, int64_t now_us);
/* It failed, and will be repeated. */
void safe_look_failed(struct safe *safe);

/* The marks behind which nothing is left to be found. oldest: as in safe_polled. */
void safe_marks(const struct safe *safe,
                uint64_t poll,
                uint64_t oldest,
                struct job_marks *ret_marks);

/* The same as if no writer were open and nothing far behind were left to be looked at: what a claim may walk
 * again, however long somebody writes. */
void safe_recent(const struct safe *safe, uint64_t poll, struct job_marks *ret_marks);

/* Whether there is something to be looked at, now or by a later poll. */
bool safe_is_behind(const struct safe *safe, const struct job_marks *marks);

#endif
