/*
 * session_fixture: several sessions, stepped by hand. A statement either answers while the other
 * transactions are open (step), or is seen to wait for one (start, assert_waits, finish). s->db.conn
 * looks on; a, b and c are the sessions. Header only: one program per area.
 */
#ifndef TESTS_SESSION_FIXTURE_H
#define TESTS_SESSION_FIXTURE_H

#include <poll.h>

#include "core/machine.h"
#include "store_fixture.h"

#define WAIT_MS 60000 /* what should not wait, and does, fails after this */

struct sessions {
    struct store *s;
    PGconn *a;
    PGconn *b;
    PGconn *c;
};

static inline void exec_on(PGconn *conn, const char *sql)
{
    PGresult *r = PQexec(conn, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(r);
}

static inline int sessions_setup(void **state)
{
    static struct sessions t;

    if (store_setup(state) != 0)
        return -1;
    t.s = *state;
    PGconn **const all[] = {&t.a, &t.b, &t.c};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        *all[i] = PQconnectdb(t.s->db.conninfo);
        exec_on(*all[i], "SET lock_timeout = '60s'");
    }
    *state = &t;
    return 0;
}

static inline int sessions_teardown(void **state)
{
    struct sessions *t = *state;
    void *s = t->s;

    PQfinish(t->a);
    PQfinish(t->b);
    PQfinish(t->c);
    return store_teardown(&s);
}

/* The statement with the parameters bound last, without waiting for its answer. */
static inline void start(struct sessions *t, PGconn *conn, const struct stmt *stmt)
{
    struct params *p = &t->s->params;

    assert_false(p->failed);
    assert_int_equal(
        PQsendQueryParams(conn, stmt->sql, p->n, p->types, p->values, p->lengths, p->formats, 1),
        1);
}

static inline void start_sql(PGconn *conn, const char *sql)
{
    assert_int_equal(PQsendQuery(conn, sql), 1);
}

/* It waits for a lock that the other session holds. */
static inline void assert_waits(struct sessions *t, PGconn *conn, PGconn *other)
{
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "SELECT count(*) FROM unnest(pg_blocking_pids(%d)) AS pid WHERE pid = %d",
             PQbackendPID(conn),
             PQbackendPID(other));
    while (testdb_int(&t->s->db, sql) == 0) {
        struct pollfd answer = {.fd = PQsocket(conn), .events = POLLIN};

        if (poll(&answer, 1, 1) == 1)
            fail_msg("it does not wait");
    }
}

static inline PGresult *finish(PGconn *conn)
{
    struct pollfd answer = {.fd = PQsocket(conn), .events = POLLIN};

    while (PQisBusy(conn)) {
        if (poll(&answer, 1, WAIT_MS) != 1)
            fail_msg("it waits");
        assert_int_equal(PQconsumeInput(conn), 1);
    }
    PGresult *r = PQgetResult(conn);
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(conn));
    assert_null(PQgetResult(conn));
    return r;
}

static inline int rows_of(PGresult *r)
{
    int n = PQntuples(r);

    PQclear(r);
    return n;
}

/* One that does not wait: how many rows it gives. */
static inline int step(struct sessions *t, PGconn *conn, const struct stmt *stmt)
{
    start(t, conn, stmt);
    return rows_of(finish(conn));
}

/* ── what the sessions do ── */

static inline struct job_claim claim_of(struct sessions *t, int32_t limit)
{
    struct job_claim asked = {
        .queue = "q",
        .kinds = kind_k,
        .n_kinds = 1,
        .limit = limit,
        .token = uuid_random(),
        .worker = t->s->worker,
        .lease_ms = 60000,
        .lanes = true,
    };

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i].due_us = asked.lane_from[i].due_us = INT64_MIN;
    return asked;
}

/* Jobs of a claim with machines, whose texts live as long as the result. */
struct taken {
    struct job_claim asked;
    PGresult *r; /* owned */
    size_t n;
    bool more;
    struct job jobs[JOBS_MAX];
    struct machine machines[JOBS_MAX];
};

static inline void taken_read(struct taken *taken, PGresult *r)
{
    taken->r = r;
    taken->n = (size_t)job_claim_count(r, &taken->more);
    assert_true(taken->n <= JOBS_MAX);
    for (size_t i = 0; i < taken->n; i++) {
        job_claim_row(r, (int)i, &taken->asked, &taken->jobs[i]);
        if (job_claim_has_machine(r, (int)i)) {
            job_claim_machine(r, (int)i, &taken->machines[i]);
            taken->jobs[i].machine = &taken->machines[i];
        }
    }
}

static inline void taken_clear(struct taken *taken)
{
    PQclear(taken->r);
    taken->r = NULL;
}

/* A claim that does not wait. */
static inline struct taken *
take_together(struct sessions *t, struct taken *taken, PGconn *conn, int32_t n, int32_t together)
{
    *taken = (struct taken){.asked = claim_of(t, n)};
    taken->asked.together = together;
    job_claim_bind(begin(t->s), &taken->asked);
    start(t, conn, STMT(job_claim_lanes));
    taken_read(taken, finish(conn));
    return taken;
}

static inline struct taken *take(struct sessions *t, struct taken *taken, PGconn *conn, int32_t n)
{
    return take_together(t, taken, conn, n, 1);
}

/* How many a claim takes, of which nothing else matters. */
static inline int take_n(struct sessions *t, PGconn *conn, int32_t limit)
{
    struct taken taken;
    int n = (int)take(t, &taken, conn, limit)->n;

    taken_clear(&taken);
    return n;
}

static inline const struct stmt *
settles(struct sessions *t, const struct taken *c, size_t i, struct outcome outcome)
{
    struct job_settle one = {.job = &c->jobs[i], .outcome = outcome};
    const struct job_settle *items = &one;

    job_settle_bind(begin(t->s), &items, 1, "host:1", &c->asked.token, c->n == 1 ? 1 : 0);
    return STMT(job_settle);
}

static inline struct outcome as(enum outcome_kind kind)
{
    return (struct outcome){.kind = kind, .delay_ms = 0};
}

static inline const struct stmt *leaves(struct sessions *t, const char *lane, int64_t id)
{
    const char *queue = "q";

    lane_leave_bind(begin(t->s), &queue, &lane, &id, 1);
    return STMT(lane_leave);
}

static inline const struct stmt *mends(struct sessions *t)
{
    lanes_mend_bind(begin(t->s), 100);
    return STMT(lanes_mend);
}

static inline const struct stmt *sweeps(struct sessions *t)
{
    claim_sweep_bind(begin(t->s), 20, NULL, 0);
    return STMT(claim_sweep);
}

/* As a coordinator does it: one transaction. */
static inline void settle_in_lane(
    struct sessions *t, PGconn *conn, const struct taken *c, size_t i, struct outcome outcome)
{
    exec_on(conn, "BEGIN");
    assert_int_equal(step(t, conn, settles(t, c, i, outcome)), 1);
    step(t, conn, leaves(t, c->jobs[i].lane, c->jobs[i].id));
    exec_on(conn, "COMMIT");
}

/* n jobs in a lane; their ids go on from those there are. */
static inline void enqueue_in(struct sessions *t, const char *lane, int n)
{
    char sql[300];

    snprintf(sql,
             sizeof(sql),
             "INSERT INTO pawl.job (queue, kind, payload, priority, lane, max_attempts)"
             " SELECT 'q', 'k', '{}', 4, '%s', 3 FROM generate_series(1, %d)",
             lane,
             n);
    testdb_exec(&t->s->db, sql);
}

/* Ids that a claim in the lane would find now, with commas. */
#define READY                                                          \
    "SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM " \
    "pawl.job WHERE token IS NULL AND due_at <= clock_timestamp()"
#define BEHIND                                                         \
    "SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM " \
    "pawl.job WHERE token IS NULL AND waits_for = 'lane' AND due_at = 'infinity'"
#define HOLDERS \
    "SELECT coalesce(string_agg(name || holders::text, ' ' ORDER BY name), '') FROM pawl.lane"

#define session_test(name) cmocka_unit_test_setup_teardown(name, sessions_setup, sessions_teardown)

#endif
