/*
 * job: the statements about jobs, as pairs: _bind fills in the parameters, _read or _row takes a
 * result apart. How a statement is sent (blocking or on the loop) is somebody else's business. Pure
 * but for memory; any thread.
 */
#ifndef STORE_JOB_H
#define STORE_JOB_H

#include <stddef.h>

#include <libpq-fe.h>

#include "core/job.h"
#include "pg/params.h"

void job_cancel_bind(struct params *p, int64_t id, const char *by);
bool job_cancel_row(const PGresult *r); /* it is over already */
void job_cancel_many_bind(struct params *p, const int64_t *ids, size_t n, const char *by);

struct job_cancelled {
    int64_t id;
    const char *result; /* cancelled, cancelling, finished, missing */
    const char *state;  /* of one that is finished; or NULL */
};

void job_cancel_many_row(const PGresult *r, int row, struct job_cancelled *ret_cancelled);

void job_retry_bind(struct params *p, int64_t id);
int64_t job_retry_row(const PGresult *r);
void job_watch_bind(struct params *p, int64_t id);
bool job_watch_row(const PGresult *r); /* its end is still to come */
void claim_assert_bind(struct params *p, int64_t id, const struct uuid *token);

/* Jobs that are out of their lanes, as parallel arrays. */
void lane_leave_bind(struct params *p,
                     const char *const *queues,
                     const char *const *lanes,
                     const int64_t *ids,
                     size_t n);
void lanes_mend_bind(struct params *p, int32_t limit);
/* Of lane_leave and lanes_mend: how many were called; negative: of so many lanes nobody could be, and
 * lanes_mend has to look at them again. */
int32_t lanes_called(const PGresult *r);
void children_let_go_bind(struct params *p,
                          const int64_t *parents,
                          const struct uuid *tokens,
                          const bool *cancel,
                          size_t n);

/* What a handler said about how far it is. */
struct job_note {
    int64_t id;
    struct uuid token;
    const char *progress;
};

void job_note_bind(struct params *p, const struct job_note *notes, size_t n);

/* How far one priority of a queue has been claimed: a short cut for the next claim, never a truth.
 */
struct job_watermark {
    int64_t due_us; /* INT64_MIN: from the beginning */
    int64_t id;
};

#define JOB_PRIORITIES (PAWL_PRIORITY_MAX - PAWL_PRIORITY_MIN + 1)
#define JOB_LEVELS     (2 * JOB_PRIORITIES)

static inline bool job_watermark_before(const struct job_watermark *a,
                                        const struct job_watermark *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->id < b->id;
}

/* Levels: the priorities of jobs in no lane, then those of jobs in lanes. */
struct job_marks {
    struct job_watermark at[JOB_LEVELS];
};

struct job_claim {
    const char *queue;
    const char *const *kinds;
    size_t n_kinds;
    int32_t limit;
    struct uuid token;
    struct uuid worker;
    int64_t lease_ms;
    struct job_watermark from[JOB_PRIORITIES];      /* by priority */
    struct job_watermark lane_from[JOB_PRIORITIES]; /* the same for jobs in lanes */
    bool lanes;                                     /* jobs in lanes too: job_claim_lanes */
    int32_t together; /* of a lane, to be run one after the other; 0 or 1: each by itself */
};

/* Jobs behind a worker's marks, in [from, to) of each level. */
void job_look_bind(struct params *p,
                   const char *queue,
                   const char *const *kinds,
                   size_t n_kinds,
                   const struct job_marks *from,
                   const struct job_marks *to);
#define JOB_LOOK_MAX 2000 /* of a level that are counted */
/* Returns how many of the level there are, and where the first is. */
int32_t job_look_row(const PGresult *r, int row, size_t *ret_level, struct job_watermark *ret_at);

/* The marks that workers store for those that start after them. */
void mark_load_bind(struct params *p, const char *queue, const char *const *kinds, size_t n_kinds);
bool mark_load_read(const PGresult *r, struct job_marks *ret_marks); /* false: there are none */
void mark_store_bind(struct params *p,
                     const char *queue,
                     const char *const *kinds,
                     size_t n_kinds,
                     const struct job_marks *marks);

void job_claim_bind(struct params *p, const struct job_claim *claim);
/* Rows that are jobs. ret_more: there may be more, though they are fewer than asked for. */
int job_claim_count(const PGresult *r, bool *ret_more);
/* Pointers in ret_job live as long as the result and the claim. */
void job_claim_row(const PGresult *r, int row, const struct job_claim *claim, struct job *ret_job);
/* Of machines, and of jobs with a deadline. */
bool job_claim_has_machine(const PGresult *r, int row);
/* Where it is. Takes the column apart in place, so once. */
void job_claim_machine(PGresult *r, int row, struct machine *ret_machine);
/* Single columns, for who needs no whole job. */
int64_t job_claim_id(const PGresult *r, int row);
int16_t job_claim_priority(const PGresult *r, int row);
bool job_claim_in_lane(const PGresult *r, int row);
/* It entered its lane with others, to be run one after the other. */
bool job_claim_together(const PGresult *r, int row);
/* And was not looked for: its due time says nothing about how far the claim got. */
bool job_claim_along(const PGresult *r, int row);
int64_t job_claim_due(const PGresult *r, int row);

/* The job that a claim of one would take, of which that failed. */
struct job_suspect {
    const struct job_claim *claim; /* queue, where it started, and whether with lanes */
    const char *const *kinds;
    size_t n_kinds;
    int64_t sure_id;    /* this one is parked without a try; 0: none */
    const char *why;    /* it failed */
    const char *worker; /* name */
};

void job_suspect_bind(struct params *p, const struct job_suspect *suspect);
/* false: there is no such job. ret_why: it is parked, with that as its error; NULL: its claim did not fail. Points into the
 * result. */
bool job_suspect_row(const PGresult *r, int64_t *ret_id, const char **ret_why);

/* One job's outcome on its way to the database. */
struct job_settle {
    const struct job *job;  /* id and token */
    struct outcome outcome; /* borrowed pointers */
    bool sticky;            /* NEXT: it keeps its claim, and the next step runs here at once */
};

/* What became of one. */
struct job_settled {
    size_t item;       /* index into `items` */
    const char *state; /* what the job is now, in the result; NULL: it goes on */
    int64_t due_ms;    /* until it is due again; INT64_MAX: not by itself */
    bool cancelled;    /* it goes on, and its end was asked for */
    uint64_t tid;      /* where its row is, if it goes on */
};

/* Any outcomes. `items` points to pointers, because outcomes live in their runs; those with which
 * machines go on (NEXT, AWAIT, SPAWN, WAIT_ON) come behind the others. An item that no row names
 * was stale. */
void job_settle_bind(struct params *p,
                     const struct job_settle *const *items,
                     size_t n,
                     const char *worker,
                     const struct uuid *ended,
                     size_t n_ended);
void job_settle_row(const PGresult *r, int row, struct job_settled *ret_settled);

/* Which of them another transaction holds up: each row names one, as an index into `items`. */
void job_locked_bind(struct params *p, const struct job_settle *const *items, size_t n);
size_t job_locked_row(const PGresult *r, int row);

/* One whose outcome was refused, as it is and as a failure. */
void job_park_bind(struct params *p,
                   const struct job_settle *item,
                   const char *worker,
                   const struct uuid *ended,
                   size_t n_ended);

/* The same for NEXT at once that is sticky, of machines in their first attempt that waited for
 * nothing, and whose tid is known. An item that no row names was stale, or its row has moved:
 * job_settle knows. */
void job_settle_next_bind(struct params *p, const struct job_settle *const *items, size_t n);
void job_settle_next_row(const PGresult *r, int row, struct job_settled *ret_settled);

/* The same for outcomes that are all OUTCOME_DONE, ascending by the id of their job, no job twice,
 * of jobs whose tid is known and whose end concerns nobody else: no machines, children or jobs with
 * options. */
void job_settle_done_bind(struct params *p,
                          const struct job_settle *const *items,
                          size_t n,
                          const char *worker,
                          const struct uuid *ended,
                          size_t n_ended);
/* Which of the n ids, in their order, the row is about. One that no row names was stale, or its row has
 * moved: job_settle knows. */
size_t job_settle_done_row(const PGresult *r, int row, const int64_t *ids, size_t n);

/* A job as people see it. Pointers live as long as the result. Times that are not known are 0. */
struct job_view {
    int64_t id;
    const char *state;
    const char *queue;
    const char *kind;
    int16_t priority;
    int32_t attempt;
    int32_t max_attempts;
    int64_t created_at;
    int64_t due_at;
    int64_t started_at;
    int64_t finished_at;
    const char *worker;   /* or NULL */
    const char *error;    /* job_list: the newest; NULL */
    struct bytes payload; /* job_show only, like what follows */
    struct bytes result;
    const char *errors; /* a JSON array, or NULL */
    bool queue_paused;
    int64_t now;        /* by the database's clock */
    int32_t timeout_ms; /* 0: none, or not known any more */
    const char *lane;   /* this and what follows: NULL or 0 for none */
    int64_t parent_id;
    const char *tags; /* a JSON array */
    const char *trace;
    const char *cancel_by;
    const char *progress;
    /* Of machines; else NULL and 0. */
    const char *step; /* NULL also: the first */
    struct bytes step_state;
    const char *timeline; /* lines: end µs, step, attempt, outcome, µs, bytes of state, with tabs */
    const char *waits_for; /* operator, lane, signal, children; NULL: time */
    const char *awaits;    /* names of signals, with commas */
    int64_t wait_since;
    int64_t wait_until; /* 0: for ever */
    int32_t children_left;
    int32_t join_at;
    const char *correlation;
    int64_t deadline_at;
};

void job_show_bind(struct params *p, int64_t id);
void job_show_row(const PGresult *r, int row, struct job_view *ret_job);

struct job_list {
    const char *queue; /* NULL: any */
    const char *kind;
    const char *const *states; /* n_states 0: any */
    size_t n_states;
    int64_t before_id; /* INT64_MAX: from the newest */
    int32_t limit;
};

void job_list_bind(struct params *p, const struct job_list *list);
void job_list_row(const PGresult *r, int row, struct job_view *ret_job);

/* error: a JSON object. */
void job_page_bind(struct params *p,
                   const struct job_list *list,
                   const char *const *tags,
                   size_t n_tags);
void job_page_row(const PGresult *r, int row, struct job_view *ret_job);

void job_queues_bind(struct params *p, const int64_t *ids, size_t n);
const char *job_queues_row(const PGresult *r, int row, int64_t *ret_id);

/* How many of a set of jobs are where. Pointers live as long as the result. */
struct job_progress {
    const char *queue;
    const char *state;
    int64_t jobs;
    int64_t attempts;
};

void job_progress_bind(struct params *p, const int64_t *ids, size_t n);
void job_progress_row(const PGresult *r, int row, struct job_progress *ret_progress);

#endif
