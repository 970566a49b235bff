/*
 * machines_fixture: what the tests of machines share beyond engine_fixture.h: short ways for a step
 * to say how it goes on, a log of the steps that ran, and signals sent as an application sends
 * them. Header only.
 */
#ifndef TESTS_MACHINES_FIXTURE_H
#define TESTS_MACHINES_FIXTURE_H

#include "core/machine.h"
#include "engine_fixture.h"

/* What a step was given is written down, as "step:state:attempt …". One test at a time. */
static char steps_log[8192];
static size_t steps_len;

/* An outcome borrows how the machine goes on until it is reported, which is at once. */
static struct going_on going;

/* Live machines for which something is true. */
#define MACHINE "pawl.job JOIN pawl.machine ON job_id = id WHERE "

static inline const char *step_of(const struct job *job)
{
    return job->machine != NULL && job->machine->step != NULL ? job->machine->step : "";
}

static inline bool at_step(const struct job *job, const char *step)
{
    return strcmp(step_of(job), step) == 0;
}

static inline const char *state_of(const struct job *job)
{
    return job->machine != NULL && job->machine->state != NULL ? job->machine->state : "";
}

static inline const char *signals_of(const struct job *job)
{
    return job->machine != NULL && job->machine->signals != NULL ? job->machine->signals : "";
}

static inline const char *children_of(const struct job *job)
{
    return job->machine != NULL && job->machine->children != NULL ? job->machine->children : "";
}

static inline bool timed_out(const struct job *job)
{
    return job->machine != NULL && job->machine->timed_out;
}

/* As crew.on_run. */
static inline void log_step(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (steps_len + 200 < sizeof(steps_log))
        steps_len += (size_t)snprintf(steps_log + steps_len,
                                      200,
                                      "%s%s:%.100s:%d",
                                      steps_len > 0 ? " " : "",
                                      step_of(job),
                                      state_of(job),
                                      job->attempt);
}

static inline struct outcome outcome_next(const char *step, const char *state, int64_t delay_ms)
{
    going = (struct going_on){
        .step = step, .state = state, .state_len = state != NULL ? strlen(state) : 0};
    return (struct outcome){
        .kind = OUTCOME_NEXT, .on = &going, .delay_ms = delay_ms, .run_us = 1000};
}

/* ms -1: for ever. */
static inline struct outcome outcome_await(const char *names, const char *step, int64_t ms)
{
    going = (struct going_on){.step = step, .awaits = names};
    return (struct outcome){.kind = OUTCOME_AWAIT, .on = &going, .delay_ms = ms, .run_us = 1000};
}

#define KIDS_MAX 200

/* n children of this kind, with their numbers from 1 as payloads. */
static inline struct outcome
outcome_spawn(size_t n, const char *kind, const char *step, int32_t join_at, int16_t flags)
{
    static struct child_new kids[KIDS_MAX];
    static char payloads[KIDS_MAX][16];

    assert_in_range(n, 0, KIDS_MAX);
    for (size_t i = 0; i < n; i++) {
        int len = snprintf(payloads[i], sizeof(payloads[i]), "%zu", i + 1);

        kids[i] = (struct child_new){
            .queue = "q",
            .kind = kind,
            .payload = payloads[i],
            .payload_len = (size_t)len,
            .priority = 4,
            .max_attempts = 3,
        };
    }
    going = (struct going_on){
        .step = step, .children = kids, .n_children = n, .join_at = join_at, .join_flags = flags};
    return (struct outcome){.kind = OUTCOME_SPAWN, .on = &going, .delay_ms = -1, .run_us = 1000};
}

static inline struct outcome outcome_retry(int64_t delay_ms)
{
    return (struct outcome){
        .kind = OUTCOME_RETRY, .error = "once more", .delay_ms = delay_ms, .run_us = 1000};
}

/* Done, with this as its result. */
static inline struct outcome outcome_result(const char *text)
{
    return (struct outcome){.kind = OUTCOME_DONE,
                            .result = text,
                            .result_len = strlen(text),
                            .delay_ms = -1,
                            .run_us = 1000};
}

/* A crew for machines of kind k and children of kind c, in queue q. */
static inline void crew_init_machines(struct crew *crew,
                                      struct fixture *f,
                                      struct outcome (*outcome)(struct crew *crew,
                                                                const struct job *job))
{
    crew_init(crew, f);
    crew->kinds[1] = "c";
    crew->outcome = outcome;
    crew->on_run = log_step;
    steps_len = 0;
    steps_log[0] = '\0';
}

/* payload and key are SQL. */
static inline void
signal_sql(struct fixture *f, int64_t job, const char *name, const char *payload, const char *key)
{
    char sql[300];

    snprintf(sql,
             sizeof(sql),
             "SELECT pawl.signal(%lld, '%s', %s, %s)",
             (long long)job,
             name,
             payload,
             key);
    testdb_exec(&f->db, sql);
}

static inline void send_signal(struct fixture *f, int64_t job, const char *name)
{
    signal_sql(f, job, name, "'{}'", "NULL");
}

/* The result of the only finished machine of kind k. */
#define RESULT                                                       \
    "SELECT state || ' ' || coalesce(convert_from(result, 'UTF8'), " \
    "'')"                                                            \
    " FROM pawl.history WHERE kind = 'k'"

#define run_until_waiting(f, n) \
    run_until((f), count_of((f), "pawl.job WHERE waits_for > 'operator' AND token IS NULL") == (n))
#define run_until_over(f, n) run_until((f), count_of((f), "pawl.history") == (n))

/* Whether its SQLSTATE is this one. */
static inline void assert_refused(struct fixture *f, const char *sql, const char *sqlstate)
{
    PGresult *r = PQexec(f->db.conn, sql);
    const char *got = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    assert_string_equal(got != NULL ? got : "(none)", sqlstate);
    PQclear(r);
}

#endif
