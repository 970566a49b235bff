/*
 * threads_fixture: thread hands on a loop of their own, with handlers that do what the test says and
 * records of what was reported. No sleeps: handlers wait at a gate until the test opens it. Header
 * only.
 */
#ifndef TESTS_THREADS_FIXTURE_H
#define TESTS_THREADS_FIXTURE_H

#include <pthread.h>
#include <stdlib.h>

#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "hands/threads.h"

#define WATCHDOG_MS 120000
#define RUNS_MAX    64

/* One run and what was reported about it. */
struct record {
    struct run run;
    int n_finished;
    enum outcome_kind kind;
    char *text; /* result or error; owned; NULL for none */
    size_t len;
    int64_t delay_ms;
    int64_t run_us;
};

/* Where handlers wait until the test opens it. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t inside; /* handlers that have arrived, ever */
    bool open;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t watchdog;
    struct hands *hands;
    struct record records[RUNS_MAX];
    size_t n;
    size_t n_finished;
    size_t n_noop; /* runs of many_runs, reported */
    struct gate gate;
    struct clock_fake clock;
    pthread_t loop_thread;
    bool closed;
    atomic_bool saw_stop;
};

static struct fixture *fixture; /* for the handlers */

static inline void too_late(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("hangs");
}

static inline void on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct fixture *f = data;
    struct record *record = (struct record *)(void *)run;
    const char *text = outcome->kind == OUTCOME_DONE ? outcome->result : outcome->error;

    assert_true(pthread_equal(pthread_self(), f->loop_thread));
    f->n_finished++;
    record->n_finished++;
    record->kind = outcome->kind;
    record->delay_ms = outcome->delay_ms;
    record->run_us = outcome->run_us;
    record->len = outcome->kind == OUTCOME_DONE ? outcome->result_len : text ? strlen(text) : 0;
    if (text != NULL) {
        record->text = malloc(record->len + 1);
        assert_non_null(record->text);
        memcpy(record->text, text, record->len + 1);
    }
}

static inline void enter_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->inside++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void await_inside(struct gate *gate, size_t n)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->inside < n)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static inline void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

/* ── handlers, by kind ── */

static inline void do_nothing(void *data, struct task *task)
{
    (void)data;
    (void)task;
}

static inline void do_gate(void *data, struct task *task)
{
    (void)data;
    enter_gate(&fixture->gate);
    if (task_should_stop(task))
        atomic_store(&fixture->saw_stop, true);
}

static char of_the_handler[] = "of the handler";

/* The payload says what it comes to. */
static inline void do_as_told(void *data, struct task *task)
{
    const struct job *job = task_job(task);

    if (data != of_the_handler)
        abort(); /* not cmocka's thread */
    switch (job->payload[0]) {
    case 'd':
        task_done(task, job->payload + 1, job->payload_len - 1);
        break;
    case 'r':
        task_retry(task, "not now", 1234);
        break;
    case 'f':
        task_fail(task, "never");
        break;
    case 'j':
        task_reject(task, "against the rules");
        break;
    case 's':
        task_snooze(task, 77);
        break;
    case 'c':
        task_cancel(task);
        break;
    case 'l': /* the last word counts */
        task_fail(task, "a first thought");
        task_retry(task, NULL, -1);
        task_done(task, "", 0);
        break;
    default:
        break;
    }
}

static inline void do_until_stopped(void *data, struct task *task)
{
    (void)data;
    if (task_should_stop(task))
        abort();
    enter_gate(&fixture->gate);
    while (!task_should_stop(task))
        sched_yield();
    task_retry(task, "asked to stop", 0);
}

static const struct threads_handler handlers[] = {
    {"noop", do_nothing, NULL},
    {"gate", do_gate, NULL},
    {"told", do_as_told, of_the_handler},
    {"until", do_until_stopped, NULL},
};

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->watchdog);
    uv_timer_start(&f->watchdog, too_late, WATCHDOG_MS, 0);
    pthread_mutex_init(&f->gate.mutex, NULL);
    pthread_cond_init(&f->gate.changed, NULL);
    clock_fake_init(&f->clock, 0);
    f->loop_thread = pthread_self();
    *state = fixture = f;
    return 0;
}

static inline void on_closed(void *data)
{
    ((struct fixture *)data)->closed = true;
}

static inline void close_hands(struct fixture *f)
{
    threads_close(f->hands, on_closed, f);
    while (!f->closed)
        uv_run(&f->loop, UV_RUN_ONCE);
    f->hands = NULL;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    int bad = 0;

    open_gate(&f->gate);
    if (f->hands != NULL)
        close_hands(f);
    for (size_t i = 0; i < f->n; i++) {
        bad |= f->records[i].n_finished != 1;
        free(f->records[i].text);
    }
    uv_close((uv_handle_t *)&f->watchdog, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    bad |= uv_loop_close(&f->loop);
    pthread_mutex_destroy(&f->gate.mutex);
    pthread_cond_destroy(&f->gate.changed);
    free(f);
    return bad;
}

static inline void
open_with(struct fixture *f, size_t threads, size_t queue_max, const struct clock *clock)
{
    struct pawl_err err;

    f->hands = threads_new(&f->loop,
                           &(struct threads_options){
                               .handlers = handlers,
                               .n_handlers = LEN(handlers),
                               .threads = threads,
                               .queue_max = queue_max,
                               .clock = clock,
                           },
                           &err);
    assert_non_null(f->hands);
    f->hands->finished = on_finished;
    f->hands->finished_data = f;
}

static inline struct record *next(struct fixture *f, const char *kind)
{
    struct record *record = &f->records[f->n];

    assert_true(f->n < RUNS_MAX);
    record->run.job = (struct job){.id = (int64_t)f->n + 1, .kind = kind, .payload = ""};
    return record;
}

static inline struct record *start_record(struct fixture *f, struct record *record)
{
    struct pawl_err err;

    assert_int_equal(f->hands->ops->run(f->hands, &record->run, &err), 0);
    f->hands->ops->flush(f->hands);
    f->n++;
    assert_int_equal(record->n_finished, 0); /* never from inside run */
    return record;
}

static inline struct record *start(struct fixture *f, const char *kind)
{
    return start_record(f, next(f, kind));
}

static inline struct record *told(struct fixture *f, const char *payload, size_t len)
{
    struct record *record = next(f, "told");

    record->run.job.payload = payload;
    record->run.job.payload_len = len;
    return start_record(f, record);
}

static inline void run_all(struct fixture *f)
{
    while (f->n_finished < f->n)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static inline void assert_outcome(const struct record *r, enum outcome_kind kind, const char *text)
{
    assert_int_equal(r->n_finished, 1);
    assert_int_equal(r->kind, kind);
    if (text == NULL)
        assert_null(r->text);
    else
        assert_string_equal(r->text, text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
