/*
 * store_fixture: what the tests of the statements share: a database, and each statement as one call
 * through its own _bind and _row functions. Header only: one program per area.
 */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pg/result.h"
#include "pg/sync.h"
#include "store/claim.h"
#include "store/job.h"
#include "store/job_enqueue.h"
#include "store/queue.h"
#include "store/statements.h"
#include "store/worker.h"
#include "support/cmocka.h"
#include "support/testdb.h"

#define JOBS_MAX 64

struct store {
    struct testdb db;
    struct arena arena;
    struct params params; /* of the next statement */
    struct uuid worker;
};

static inline int store_setup(void **state)
{
    static struct store s;

    *state = &s;
    arena_init(&s.arena, 64UL * 1024 * 1024);
    s.worker = uuid_random();
    return testdb_new(&s.db);
}

static inline int store_teardown(void **state)
{
    struct store *s = *state;

    arena_deinit(&s->arena);
    testdb_free(&s->db);
    return 0;
}

#define store_test(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

static inline struct params *begin(struct store *s)
{
    arena_clear(&s->arena);
    params_init(&s->params, &s->arena);
    return &s->params;
}

/* The statement succeeds; to be cleared by the caller. */
static inline PGresult *run_on(struct store *s, PGconn *conn, const struct stmt *stmt)
{
    struct pawl_err err;
    PGresult *r = NULL;

    if (sync_exec(conn, stmt, &s->params, &r, &err) != 0)
        fail_msg("%s: %s (%s)", stmt->name, err.message, err.sqlstate);
    return r;
}

static inline PGresult *run(struct store *s, const struct stmt *stmt)
{
    return run_on(s, s->db.conn, stmt);
}

/* The statement is refused with this SQLSTATE. */
static inline void assert_refused(struct store *s, const struct stmt *stmt, const char *sqlstate)
{
    struct pawl_err err;
    PGresult *r = NULL;

    assert_true(sync_exec(s->db.conn, stmt, &s->params, &r, &err) < 0);
    assert_null(r);
    assert_string_equal(err.sqlstate, sqlstate);
}

static inline struct pawl_job_new job_plain(void)
{
    return (struct pawl_job_new){.queue = "q",
                                 .kind = "k",
                                 .payload = "{}",
                                 .payload_len = 2,
                                 .priority = 4,
                                 .max_attempts = 3};
}

static inline void
enqueue(struct store *s, const struct pawl_job_new *jobs, size_t n, int64_t *ret_ids)
{
    job_enqueue_bind(begin(s), jobs, n);
    PGresult *r = run(s, STMT(job_enqueue));

    assert_int_equal(PQntuples(r), n);
    job_enqueue_read(r, ret_ids, NULL);
    PQclear(r);
}

/* n jobs with nothing special about them; the ids go up from ret. */
static inline int64_t enqueue_plain(struct store *s, size_t n)
{
    struct pawl_job_new jobs[JOBS_MAX];
    int64_t ids[JOBS_MAX];

    for (size_t i = 0; i < n; i++)
        jobs[i] = job_plain();
    enqueue(s, jobs, n, ids);
    return ids[0];
}

/* What a claim took: the jobs in the order of their ids. Payloads are not kept. */
struct claimed {
    struct uuid token;
    size_t n;
    struct job jobs[JOBS_MAX];
};

static inline int by_id(const void *a, const void *b)
{
    int64_t left = ((const struct job *)a)->id;
    int64_t right = ((const struct job *)b)->id;

    return left < right ? -1 : left > right;
}

static const char *const kind_k[] = {"k"};

static inline struct claimed claim_on(struct store *s, PGconn *conn, const struct job_claim *asked)
{
    struct claimed claimed = {.token = asked->token};

    job_claim_bind(begin(s), asked);
    PGresult *r = run_on(s, conn, STMT(job_claim));

    claimed.n = (size_t)PQntuples(r);
    assert_true(claimed.n <= JOBS_MAX);
    for (size_t i = 0; i < claimed.n; i++) {
        job_claim_row(r, (int)i, asked, &claimed.jobs[i]);
        claimed.jobs[i].kind = claimed.jobs[i].payload = NULL; /* they end with the result */
    }
    PQclear(r);
    qsort(claimed.jobs, claimed.n, sizeof(*claimed.jobs), by_id);
    return claimed;
}

static inline struct claimed claim(struct store *s, int32_t limit)
{
    return claim_on(s,
                    s->db.conn,
                    &(struct job_claim){
                        .queue = "q",
                        .kinds = kind_k,
                        .n_kinds = 1,
                        .limit = limit,
                        .token = uuid_random(),
                        .worker = s->worker,
                        .lease_ms = 60000,
                    });
}

/* Settles n items; states[i] is what the i-th job is now, empty when it is missing from the answer.
 */
struct states {
    char of[JOBS_MAX][16];
};

static inline struct states
settle(struct store *s, const struct job_settle *items, size_t n, const struct uuid *ended)
{
    const struct job_settle *pointers[JOBS_MAX];
    struct states states = {0};

    for (size_t i = 0; i < n; i++)
        pointers[i] = &items[i];
    job_settle_bind(begin(s), pointers, n, "host:1", ended, ended != NULL ? 1 : 0);
    PGresult *r = run(s, STMT(job_settle));

    for (int row = 0; row < PQntuples(r); row++) {
        struct job_settled settled;

        job_settle_row(r, row, &settled);
        assert_true(settled.item < n);
        assert_non_null(settled.state);
        assert_string_equal(states.of[settled.item], "");
        snprintf(states.of[settled.item], sizeof(states.of[0]), "%s", settled.state);
    }
    PQclear(r);
    return states;
}

static inline struct job_settle item(const struct claimed *claimed, size_t i, struct outcome o)
{
    return (struct job_settle){.job = &claimed->jobs[i], .outcome = o};
}

/* One item of one job. Returns what it is now. */
static inline const char *
settle_one(struct store *s, const struct claimed *claimed, struct outcome outcome)
{
    static struct states states;
    struct job_settle one = item(claimed, 0, outcome);

    states = settle(s, &one, 1, &claimed->token);
    return states.of[0];
}

/* Sweeps once; the states of the jobs that came back, in the order of their ids, with commas.
 * Returns whether there are more. */
static inline bool sweep_on(struct store *s, PGconn *conn, int32_t limit, char *text, size_t size)
{
    int64_t last = 0;
    bool lanes;
    bool more;

    claim_sweep_bind(begin(s), limit, NULL, 0);
    PGresult *r = run_on(s, conn, STMT(claim_sweep));
    int n_jobs = claim_sweep_said(r, &lanes, &more);

    text[0] = '\0';
    for (int n = 0; n < n_jobs; n++) {
        int64_t next = INT64_MAX;
        const char *state = NULL;

        for (int row = 0; row < n_jobs; row++) {
            int64_t id;
            const char *found;

            claim_sweep_row(r, row, &id, &found);
            if (id > last && id < next) {
                next = id;
                state = found;
            }
        }
        last = next;
        size_t len = strlen(text);

        snprintf(text + len, size - len, "%s%lld %s", n > 0 ? ", " : "", (long long)last, state);
    }
    PQclear(r);
    return more;
}

static inline void assert_sweeps(struct store *s, const char *expected)
{
    char text[1024];

    sweep_on(s, s->db.conn, 20, text, sizeof(text));
    assert_string_equal(text, expected);
}

static inline int64_t count_of(struct store *s, const char *from)
{
    char sql[1000];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", from);
    return testdb_int(&s->db, sql);
}

static inline void assert_text(struct store *s, const char *sql, const char *expected)
{
    char *text = testdb_text(&s->db, sql);

    if (text == NULL || strcmp(text, expected) != 0)
        print_error("%s:\n", sql);
    assert_string_equal(text != NULL ? text : "(null)", expected);
    free(text);
}

#endif
