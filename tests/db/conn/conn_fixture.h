/*
 * conn_fixture: what the tests of the asynchronous connection share: a loop, a connection to a
 * database of its own, a record of how a batch ended, and running the loop until something is true.
 * Header only: one program per area.
 */
#ifndef TESTS_CONN_FIXTURE_H
#define TESTS_CONN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dirent.h>
#include <libpq-fe.h>
#include <uv.h>

#include "pg/conn.h"
#include "pg/result.h"
#include "support/cmocka.h"
#include "support/testdb.h"

#define GUARD_MS    120000 /* a test that hangs fails instead; a busy machine does not hang */
#define DEADLINE_MS 60000

struct fixture {
    struct testdb db;
    uv_loop_t loop;
    uv_timer_t guard;
    bool guard_fired;
    struct arena arena;
    struct target target;
    struct conn_options options;
    struct conn *conn; /* NULL before fixture_conn and after fixture_close */
    bool closed;
    int ready;
    int down;
    struct pawl_err down_err;
    void *network; /* a proxy, freed by the teardown after network_stop; NULL when there is none */
    void (*network_stop)(void *data);
    int looks; /* on_notify with channel NULL */
    int notified;
    char channel[64];
    char payload[64];
};

/* How a batch ended. */
struct ended {
    int calls;
    enum pg_verdict verdict;
    bool unconfirmed;
    struct pawl_err err;
    size_t n_results;
    int64_t
        value; /* first column of the first row of the first result, when it is an int8 or int4 */
    int order; /* 1 for the first batch that ended, and so on */
    int64_t took_us;
    struct bytes
        bytes; /* of the same place, when it is bytea; only its length is of use afterwards */
};

/* Zero means OK, so that it ended at all must be asked too. */
#define assert_ended(ended, expected)                \
    do {                                             \
        assert_int_equal((ended).calls, 1);          \
        assert_int_equal((ended).verdict, expected); \
    } while (0)

static int ended_order;
static bool ended_ignored; /* the test is over, and with it the records on its stack */

static inline void ended_cb(void *data, const struct batch_end *end)
{
    struct ended *ended = data;
    if (ended_ignored)
        return;
    ended->calls++;
    ended->verdict = end->verdict;
    ended->unconfirmed = end->unconfirmed;
    ended->order = ++ended_order;
    ended->took_us = end->took_us;
    ended->n_results = end->n_results;
    if (end->verdict != PG_VERDICT_OK) {
        assert_non_null(end->err);
        assert_true((end->results != NULL) == end->unconfirmed);
        ended->err = *end->err;
        return;
    }
    assert_null(end->err);
    const PGresult *r = end->results[0];
    if (PQntuples(r) == 0 || PQgetisnull(r, 0, 0))
        return;
    if (PQftype(r, 0) == 20 || PQftype(r, 0) == 23)
        ended->value = result_i64(r, 0, 0);
    else if (PQftype(r, 0) == 17)
        ended->bytes = result_bytes(r, 0, 0);
}

static inline void fixture_on_state(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct fixture *f = data;
    if (state == CONN_READY) {
        assert_null(err);
        f->ready++;
    } else {
        assert_non_null(err);
        f->down++;
        f->down_err = *err;
    }
}

static inline void fixture_on_notify(void *data, const char *channel, const char *payload)
{
    struct fixture *f = data;
    if (channel == NULL) {
        f->looks++;
        return;
    }
    f->notified++;
    snprintf(f->channel, sizeof(f->channel), "%s", channel);
    snprintf(f->payload, sizeof(f->payload), "%s", payload);
}

static inline void fixture_guard_cb(uv_timer_t *timer)
{
    ((struct fixture *)timer->data)->guard_fired = true;
}

/* Runs the loop until cond. */
#define run_until(f, cond)                                          \
    do {                                                            \
        uv_timer_start(&(f)->guard, fixture_guard_cb, GUARD_MS, 0); \
        while (!(cond)) {                                           \
            uv_run(&(f)->loop, UV_RUN_ONCE);                        \
            if ((f)->guard_fired)                                   \
                fail_msg("never happened: %s", #cond);              \
        }                                                           \
        uv_timer_stop(&(f)->guard);                                 \
    } while (0)

static inline void fixture_closed_cb(void *data)
{
    ((struct fixture *)data)->closed = true;
}

static inline void fixture_close(struct fixture *f)
{
    if (f->conn == NULL)
        return;
    conn_close(f->conn, fixture_closed_cb, f);
    run_until(f, f->closed);
    f->conn = NULL;
}

/* A connection to conninfo with f->options, not started. */
static inline void fixture_conn_to(struct fixture *f, const char *conninfo)
{
    struct pawl_err err;
    assert_int_equal(target_set(&f->target, &f->arena, TARGET_OPTION, conninfo, &err), 0);
    f->conn = conn_new(&f->loop, &f->options);
    assert_non_null(f->conn);
}

static inline void fixture_ready(struct fixture *f)
{
    fixture_conn_to(f, f->db.conninfo);
    conn_start(f->conn);
    run_until(f, f->ready == 1);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    if (f == NULL || testdb_new(&f->db) != 0) {
        free(f);
        return -1;
    }
    *state = f;
    ended_ignored = false;
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->guard);
    f->guard.data = f;
    arena_init(&f->arena, 1024UL * 1024);
    f->options = (struct conn_options){
        .target = &f->target,
        .name = "test",
        .clock = &clock_system,
        .backoff_min_ms = 1,
        .backoff_max_ms = 50,
        .on_state = fixture_on_state,
        .on_notify = fixture_on_notify,
        .data = f,
    };
    return 0;
}

/* Also after a test that failed anywhere: it must neither hang nor leave anything to the next. */
static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    ended_ignored = true;
    if (f->network_stop != NULL)
        f->network_stop(f->network);
    if (f->conn != NULL) {
        conn_close(f->conn, fixture_closed_cb, f);
        f->conn = NULL;
    }
    f->guard_fired = false;
    uv_timer_start(&f->guard, fixture_guard_cb, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&f->guard);
    while (!f->guard_fired && uv_run(&f->loop, UV_RUN_ONCE) != 0)
        continue;
    uv_close((uv_handle_t *)&f->guard, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    int busy = uv_loop_close(&f->loop); /* a handle left behind is a leak */
    free(f->network);
    arena_deinit(&f->arena);
    testdb_free(&f->db);
    free(f);
    return busy;
}

/* A batch with one statement that takes an int8, or none when arg is NULL. */
static inline void submit_ms(
    struct fixture *f, const struct stmt *stmt, const int64_t *arg, int64_t ms, struct ended *ended)
{
    struct batch *batch = batch_new(f->conn);
    assert_non_null(batch);
    struct params *p = batch_add(batch, stmt);
    assert_non_null(p);
    if (arg != NULL)
        params_i64(p, *arg);
    batch_submit(batch, ms, ended_cb, ended);
}

static inline void
submit(struct fixture *f, const struct stmt *stmt, int64_t arg, struct ended *ended)
{
    submit_ms(f, stmt, &arg, DEADLINE_MS, ended);
}

static inline void submit_plain(struct fixture *f, const struct stmt *stmt, struct ended *ended)
{
    submit_ms(f, stmt, NULL, DEADLINE_MS, ended);
}

/* Runs one statement to its successful end and gives its value. */
static inline int64_t query(struct fixture *f, const struct stmt *stmt)
{
    struct ended ended = {0};
    submit_plain(f, stmt, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_OK);
    return ended.value;
}

/* Descriptors of this process, as a set of bits. */
struct fds {
    bool open[1024];
};

static inline struct fds fds_now(void)
{
    struct fds fds = {0};
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        long fd = strtol(e->d_name, NULL, 10);
        if (e->d_name[0] != '.' && fd < 1024 && fd != dirfd(dir))
            fds.open[fd] = true;
    }
    closedir(dir);
    return fds;
}

/* Statements that several tests use. */
static const struct stmt stmt_echo = {0, "echo", "SELECT $1::int8"};
static const struct stmt stmt_pid = {1, "pid", "SELECT pg_backend_pid()"};
static const struct stmt stmt_insert = {2, "insert", "INSERT INTO t (id) VALUES ($1)"};
static const struct stmt stmt_wait = {3, "wait", "SELECT 1 FROM pg_advisory_lock($1)"};
static const struct stmt stmt_divide = {4, "divide", "SELECT 1 / $1::int8"};
static const struct stmt stmt_listen = {5, "listen", "LISTEN door"};
static const struct stmt stmt_bytes = {6, "bytes", "SELECT $1::bytea"};

/* The test's own session holds the lock that stmt_wait waits for; true once the connection waits
 * for it. */
static inline bool lock_awaited(struct fixture *f)
{
    return testdb_int(&f->db,
                      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                      " AND database = (SELECT oid FROM pg_database WHERE datname = "
                      "current_database())") == 1;
}

static inline void run_until_waiting(struct fixture *f)
{
    uv_timer_start(&f->guard, fixture_guard_cb, GUARD_MS, 0);
    while (!lock_awaited(f)) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if (f->guard_fired)
            fail_msg("nobody ever waited for the lock");
    }
    uv_timer_stop(&f->guard);
}

#endif
