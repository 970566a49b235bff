/* machine_fixture: what the tests of machines through pawl.h share. Header only. */
#ifndef TESTS_LIB_MACHINE_FIXTURE_H
#define TESTS_LIB_MACHINE_FIXTURE_H

#include "lib_fixture.h"

#define HOUR_MS 3600000

/* Tests cannot fail on a handler's thread: what was wrong becomes the job's error, and the test
 * looks for none. */
#define EXPECT_RUN(run, condition)                       \
    do {                                                 \
        if (!(condition))                                \
            return pawl_run_fail(run, "%s", #condition); \
    } while (0)

/* Which step of a machine this is; the first one is "". */
static inline bool at_step(const struct pawl_run *run, const char *step)
{
    const char *now = pawl_run_step(run);

    return strcmp(now != NULL ? now : "", step) == 0;
}

static inline enum pawl_outcome go_on(struct pawl_run *run, const char *step, const char *state)
{
    return pawl_run_next(run, step, state, state != NULL ? strlen(state) : 0, 0);
}

/* Until nothing is due any more, with a worker of its own. */
static inline void work(struct fixture *f, const char *kind, pawl_handler_fn fn)
{
    make_worker(f, kind, fn);
    OK(pawl_worker_run(f->worker, &f->err));
    pawl_worker_free(f->worker);
    f->worker = NULL;
}

/* A new job, and its id. */
static inline int64_t new_job(struct fixture *f, const char *kind)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    int64_t id = 0;

    job.kind = kind;
    OK(pawl_enqueue(f->db.conn, &job, &id, NULL, &f->err));
    return id;
}

#define MACHINES "pawl.job JOIN pawl.machine ON is_machine AND job_id = id"

/* Whatever it waits for, the time is over. */
static inline void hurry(struct fixture *f)
{
    testdb_exec(&f->db,
                "UPDATE pawl.machine SET wait_until = now() WHERE wait_until IS NOT NULL;"
                "UPDATE pawl.job SET due_at = now() WHERE isfinite(due_at)"
                " OR id IN (SELECT job_id FROM pawl.machine WHERE wait_until IS NOT NULL)");
}

/* Its state, its result if it has one, its newest error if it has one. */
static inline void assert_is(struct fixture *f, int64_t id, const char *expected)
{
    char sql[400];

    snprintf(sql,
             sizeof(sql),
             "SELECT state || coalesce(': ' || convert_from(result, 'UTF8'), '')"
             " || coalesce(': ' || (errors->-1->>'error'), '') FROM pawl.jobs WHERE id = %lld",
             (long long)id);
    char *now = testdb_text(&f->db, sql);

    if (now == NULL || strcmp(now, expected) != 0)
        fail_msg("it is \"%s\", not \"%s\"", now, expected);
    free(now);
}

#endif
