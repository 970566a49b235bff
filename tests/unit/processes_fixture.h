/*
 * Process hands in a loop of their own, for tests: starts runs, keeps what was reported about each,
 * and checks at the end that nothing stayed behind. No sleeps: the loop runs until the runs are
 * reported, with a watchdog against hanging.
 */
#ifndef TESTS_PROCESSES_FIXTURE_H
#define TESTS_PROCESSES_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "hands/processes.h"

#define WATCHDOG_MS        60000 /* for a loaded machine under valgrind */
#define PROCESSES_RUNS_MAX 64

/* One run and what was reported about it. */
struct record {
    struct run run;
    unsigned n_finished;
    enum outcome_kind kind;
    char *result; /* owned; NULL for none */
    size_t result_len;
    char *error; /* owned */
    int64_t delay_ms;
    int64_t run_us;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t watchdog;
    struct hands *hands;
    struct record records[PROCESSES_RUNS_MAX];
    size_t n_started;
    size_t n_finished;
    bool inside_run;
    bool closed;
    size_t n_fds; /* before anything was opened */
};

/* For the whole program: libuv opens two descriptors with the first loop and keeps them. */
int processes_group_setup(void **state);

/* For each test; *state is a struct fixture. */
int fixture_setup(void **state);
/* Whatever a test did: every run reported once, nothing running, no zombie, no descriptor, no
 * handle left. */
int fixture_teardown(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* Hands with one command, for the kind "test". */
void hands_open(struct fixture *f, const char *command);
void hands_open_quick(struct fixture *f, const char *command, int64_t term_grace_ms);
void hands_open_with(struct fixture *f, const struct processes_options *options);
void hands_close(struct fixture *f);
void on_hands_closed(void *data);

/* A job for the next run, to be changed at will; it counts when it was started. */
struct record *record_next(struct fixture *f, const char *payload, size_t len);
int try_start(struct fixture *f, struct record *record, struct pawl_err *err);
void start(struct fixture *f, struct record *record);
void run_all(struct fixture *f);

/* Opens hands, runs one command with one payload to its end, and closes them. */
struct record *run_with(struct fixture *f, const char *command, const char *payload, size_t len);
struct record *run_one(struct fixture *f, const char *command);

void assert_result(const struct record *record, const char *result);
void assert_error(const struct record *record, enum outcome_kind kind, const char *part);
size_t count_fds(void);

#endif
