/*
 * lib_fixture: a database, what a worker of libpawl needs, and gates where handlers wait until the
 * test opens them. Only what pawl.h gives to everybody is used. Header only.
 */
#ifndef TESTS_LIB_FIXTURE_H
#define TESTS_LIB_FIXTURE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pawl.h>
#include <stdatomic.h>

#include "support/cmocka.h"
#include "support/testdb.h"

#define LEN(array)  (sizeof(array) / sizeof((array)[0]))
#define WATCHDOG_MS 60000
#define LOG_MAX     (256 * 1024)

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t inside; /* handlers that have arrived, ever */
    bool open;
};

struct fixture {
    struct testdb db;
    struct pawl_worker_options options;
    struct pawl_worker *worker;
    struct pawl_err err;
    struct gate gate;
    pthread_mutex_t log_mutex;
    char log[LOG_MAX];
    size_t log_len;
    atomic_int n_runs;
    atomic_int n_now;
    atomic_int n_most; /* at a time */
};

static inline void gate_enter(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->inside++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void gate_await(struct gate *gate, size_t n)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->inside < n)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void gate_shut(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = false;
    pthread_mutex_unlock(&gate->mutex);
}

/* Whatever thread. */
static inline void on_log(void *data, const char *line)
{
    struct fixture *f = data;
    size_t len = strlen(line);

    pthread_mutex_lock(&f->log_mutex);
    if (f->log_len + len + 2 < LOG_MAX) {
        memcpy(f->log + f->log_len, line, len);
        f->log_len += len;
        f->log[f->log_len++] = '\n';
        f->log[f->log_len] = '\0';
    }
    pthread_mutex_unlock(&f->log_mutex);
}

/* How often it was logged. */
static inline int count_logged(struct fixture *f, const char *text)
{
    int n = 0;

    pthread_mutex_lock(&f->log_mutex);
    for (const char *at = f->log; (at = strstr(at, text)) != NULL; at++)
        n++;
    pthread_mutex_unlock(&f->log_mutex);
    return n;
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (f == NULL || testdb_new(&f->db) != 0) {
        free(f);
        return -1;
    }
    pthread_mutex_init(&f->gate.mutex, NULL);
    pthread_cond_init(&f->gate.changed, NULL);
    pthread_mutex_init(&f->log_mutex, NULL);
    f->options = PAWL_WORKER_OPTIONS_INIT;
    f->options.conninfo = f->db.conninfo;
    f->options.until_empty = true;
    f->options.log = on_log;
    f->options.log_data = f;
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    gate_open(&f->gate);
    pawl_worker_free(f->worker);
    testdb_free(&f->db);
    pthread_mutex_destroy(&f->gate.mutex);
    pthread_cond_destroy(&f->gate.changed);
    pthread_mutex_destroy(&f->log_mutex);
    free(f);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* A call that must work; if not, its error is shown. */
static inline void
expect_code(const struct fixture *f, int rc, int code, const char *what, int line)
{
    if (rc != code)
        fail_msg("line %d: %s gave %s, not %s: %s; %s",
                 line,
                 what,
                 pawl_code_name(rc),
                 pawl_code_name(code),
                 f->err.message,
                 f->err.detail);
}

#define EXPECT(code, call) expect_code(f, (call), (code), #call, __LINE__)
#define OK(call)           EXPECT(PAWL_OK, call)

/* ── handlers; data is the fixture ── */

static inline void count_in(struct fixture *f)
{
    int now = atomic_fetch_add(&f->n_now, 1) + 1;
    int most = atomic_load(&f->n_most);

    atomic_fetch_add(&f->n_runs, 1);
    while (most < now && !atomic_compare_exchange_weak(&f->n_most, &most, now)) {
    }
}

static inline enum pawl_outcome do_nothing(struct pawl_run *run, void *data)
{
    count_in(data);
    atomic_fetch_sub(&((struct fixture *)data)->n_now, 1);
    return pawl_run_done(run, NULL, 0);
}

static inline enum pawl_outcome do_gate(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    count_in(f);
    gate_enter(&f->gate);
    atomic_fetch_sub(&f->n_now, 1);
    return pawl_run_done(run, "through", 7);
}

/* What fails is due again when the test says so, not a second later. */
static inline void retry_late(struct fixture *f, const char *kind)
{
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "INSERT INTO pawl.kind (name, retry_base_ms) VALUES ('%s', 3600000)",
             kind);
    testdb_exec(&f->db, sql);
}

static inline void enqueue(struct fixture *f, const char *kind, int n)
{
    char sql[256];

    snprintf(
        sql,
        sizeof(sql),
        "INSERT INTO pawl.job (queue, kind, payload)"
        " SELECT 'default', '%s', convert_to(n::text, 'UTF8') FROM generate_series(1, %d) AS n",
        kind,
        n);
    testdb_exec(&f->db, sql);
}

static inline int64_t count_of(struct fixture *f, const char *from)
{
    char sql[400];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", from);
    return testdb_int(&f->db, sql);
}

/* With handlers for "noop", "gate" and, if given, one more. */
static inline void make_worker(struct fixture *f, const char *kind, pawl_handler_fn fn)
{
    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    OK(pawl_worker_handle(f->worker, "noop", do_nothing, f, &f->err));
    OK(pawl_worker_handle(f->worker, "gate", do_gate, f, &f->err));
    if (kind != NULL)
        OK(pawl_worker_handle(f->worker, kind, fn, f, &f->err));
}

#endif
