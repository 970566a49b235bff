/*
 * engine_fixture: what the tests of the coordinator share: a loop, a database, and crews: a
 * coordinator each, with hands that live in the test. A run is held until its timer fires or the
 * test lets it go; what it comes to is decided by the test. Header only: one program per area.
 */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/list.h"
#include "engine/coordinator.h"
#include "support/cmocka.h"
#include "support/testdb.h"

#define GUARD_MS 120000 /* a test that hangs fails instead; a busy machine does not hang */
#define TICK_MS  5      /* conditions may be about the database, which does not wake the loop */
#define IDS_MAX  2000
#define HELD     (-1) /* run_ms: until the test lets it go */

struct fixture {
    struct testdb db;
    uv_loop_t loop;
    uv_timer_t tick;
    uint64_t began_ms;
    struct arena arena;
    struct target target;
    int crews; /* at work */
};

/* A coordinator and its hands. */
struct crew {
    struct hands hands; /* first: the hands' functions get a pointer to it */
    struct fixture *f;
    struct coordinator *c; /* NULL before crew_start and after crew_end */
    struct coordinator_options options;
    const char *kinds[4];
    const char *queues[2];

    int64_t run_ms; /* how long a run takes */
    /* What a run comes to; NULL: done, with the result "ok". */
    struct outcome (*outcome)(struct crew *crew, const struct job *job);
    void (*on_run)(struct crew *crew, const struct job *job); /* at its start; may be NULL */
    int refuse;                                               /* runs that cannot be started */
    int refuse_code;                                          /* why; 0: PAWL_EFAILED */
    struct list held;                                         /* struct held */

    size_t now;
    size_t peak;
    size_t runs;
    int64_t order[IDS_MAX]; /* ids in the order of their start */
    int seen[IDS_MAX];      /* starts by id */
    int stops[STOP_SHUTDOWN + 1];
    size_t settled;
    size_t stale;
    size_t failed;
    bool stopped;
    size_t left;
};

/* One run in the hands. */
struct held {
    struct list link;
    uv_timer_t timer;
    struct crew *crew;
    struct run *run;
};

static inline void tick_cb(uv_timer_t *timer)
{
    (void)timer; /* only there to turn the loop */
}

/* Runs the loop until cond. */
#define run_until(f, cond)                                     \
    do {                                                       \
        uv_update_time(&(f)->loop);                            \
        (f)->began_ms = uv_now(&(f)->loop);                    \
        while (!(cond)) {                                      \
            if (uv_now(&(f)->loop) - (f)->began_ms > GUARD_MS) \
                fail_msg("never happened: %s", #cond);         \
            uv_run(&(f)->loop, UV_RUN_ONCE);                   \
        }                                                      \
    } while (0)

static inline void held_closed_cb(uv_handle_t *handle)
{
    free(handle->data);
}

/* Reports it. */
static inline void held_finish(struct held *held, const struct outcome *outcome)
{
    struct crew *crew = held->crew;

    list_remove(&held->link);
    crew->now--;
    uv_close((uv_handle_t *)&held->timer, held_closed_cb);
    crew->hands.finished(crew->hands.finished_data, held->run, outcome);
}

static inline struct outcome outcome_done(void)
{
    return (struct outcome){
        .kind = OUTCOME_DONE, .result = "ok", .result_len = 2, .delay_ms = -1, .run_us = 1000};
}

static inline void held_end(struct held *held)
{
    struct crew *crew = held->crew;
    struct outcome outcome =
        crew->outcome != NULL ? crew->outcome(crew, &held->run->job) : outcome_done();

    held_finish(held, &outcome);
}

static inline void held_timer_cb(uv_timer_t *timer)
{
    held_end(timer->data);
}

/* Lets the oldest, or all, of the runs go. */
static inline void crew_let_go_one(struct crew *crew)
{
    assert_false(list_empty(&crew->held));
    held_end(LIST_ENTRY(crew->held.next, struct held, link));
}

static inline void crew_let_go(struct crew *crew)
{
    while (!list_empty(&crew->held))
        crew_let_go_one(crew);
}

static inline int hands_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct crew *crew = (struct crew *)(void *)hands;

    if (crew->refuse > 0) {
        crew->refuse--;
        return err_set(
            err, crew->refuse_code != 0 ? crew->refuse_code : PAWL_EFAILED, "no more hands");
    }
    struct held *held = calloc(1, sizeof(*held));

    assert_non_null(held);
    held->crew = crew;
    held->run = run;
    uv_timer_init(&crew->f->loop, &held->timer);
    held->timer.data = held;
    list_push(&crew->held, &held->link);
    if (++crew->now > crew->peak)
        crew->peak = crew->now;
    assert_in_range(run->job.id, 1, IDS_MAX - 1);
    crew->seen[run->job.id]++;
    if (crew->runs < IDS_MAX)
        crew->order[crew->runs] = run->job.id;
    crew->runs++;
    if (crew->on_run != NULL)
        crew->on_run(crew, &run->job);
    if (crew->run_ms != HELD)
        uv_timer_start(&held->timer, held_timer_cb, (uint64_t)crew->run_ms, 0);
    return 0;
}

/* Only noted: a run may well take its time to end. */
static inline void hands_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    (void)run;
    ((struct crew *)(void *)hands)->stops[reason]++;
}

static inline const char *const *hands_kinds(struct hands *hands)
{
    return ((struct crew *)(void *)hands)->kinds;
}

static const struct hands_ops test_hands_ops = {
    .run = hands_run, .stop = hands_stop, .kinds = hands_kinds};

static inline void crew_settled_cb(void *data, const struct settled *settled)
{
    struct crew *crew = data;

    crew->settled++;
    if (settled->state == NULL)
        crew->stale++;
    else if (strcmp(settled->state, "failed") == 0)
        crew->failed++;
}

static inline void crew_stopped_cb(void *data, size_t left)
{
    struct crew *crew = data;

    assert_false(crew->stopped); /* exactly once */
    crew->stopped = true;
    crew->left = left;
}

/* The usual crew for queue q and kind k; change what the test is about before crew_start. */
static inline void crew_init(struct crew *crew, struct fixture *f)
{
    *crew = (struct crew){
        .hands = {.ops = &test_hands_ops},
        .f = f,
        .kinds = {"k"},
        .queues = {"q"},
        .options =
            {
                .target = &f->target,
                .queues = crew->queues,
                .n_queues = 1,
                .hands = &crew->hands,
                .concurrency = 4,
                .lease_ms = 30000,
                .poll_ms = 20,
                .poll_max_ms = 50,
                .drain_ms = 20000,
                .clock = &clock_system,
                .settled = crew_settled_cb,
                .stopped = crew_stopped_cb,
                .data = crew,
            },
    };
    list_init(&crew->held);
}

static inline void crew_start(struct crew *crew)
{
    struct pawl_err err;

    crew->c = coordinator_new(&crew->f->loop, &crew->options, &err);
    assert_non_null(crew->c);
    crew->f->crews++;
    coordinator_start(crew->c);
}

/* After it stopped, by itself or not: late reports, then the memory. */
static inline void crew_end(struct crew *crew)
{
    run_until(crew->f, crew->stopped);
    crew_let_go(crew);
    coordinator_free(crew->c);
    crew->c = NULL;
    crew->f->crews--;
}

static inline void crew_stop(struct crew *crew)
{
    coordinator_stop(crew->c);
    crew_end(crew);
}

static inline const struct coordinator_stats *crew_stats(const struct crew *crew)
{
    return coordinator_stats(crew->c);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct pawl_err err;

    if (f == NULL || testdb_new(&f->db) != 0) {
        free(f);
        return -1;
    }
    *state = f;
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->tick);
    uv_timer_start(&f->tick, tick_cb, TICK_MS, TICK_MS);
    arena_init(&f->arena, 64UL * 1024);
    return target_set(&f->target, &f->arena, TARGET_OPTION, f->db.conninfo, &err);
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    /* The test has failed, and its crew went with its stack: the loop may not turn again. */
    if (f->crews > 0) {
        testdb_free(&f->db);
        return -1;
    }
    uv_close((uv_handle_t *)&f->tick, NULL);
    /* What was closed needs a turn; what a failed test left open would need for ever. */
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    int busy = uv_loop_close(&f->loop); /* a handle left behind is a leak */
    arena_deinit(&f->arena);
    testdb_free(&f->db);
    free(f);
    return busy;
}

static inline void enqueue(struct fixture *f, int n)
{
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "INSERT INTO pawl.job (queue, kind, payload)"
             " SELECT 'q', 'k', convert_to(n::text, 'UTF8') FROM generate_series(1, %d) AS n",
             n);
    testdb_exec(&f->db, sql);
}

/* A job that is to be tried again is due when the test says so, not a second later. */
static inline void retry_late(struct fixture *f)
{
    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, retry_base_ms) VALUES ('k', 3600000)");
}

static inline int64_t count_of(struct fixture *f, const char *from)
{
    char sql[400];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", from);
    return testdb_int(&f->db, sql);
}

/* Everything ended well, and nothing is left of it but history. */
static inline void assert_all_done(struct fixture *f, int64_t n)
{
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), n);
    assert_int_equal(count_of(f, "pawl.history"), n);
    assert_int_equal(count_of(f, "pawl.job"), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.worker"), 0);
}

static inline void assert_each_once(const struct crew *a, const struct crew *b, int n)
{
    for (int id = 1; id <= n; id++) {
        int seen = a->seen[id] + (b != NULL ? b->seen[id] : 0);

        if (seen != 1)
            fail_msg("job %d ran %d times", id, seen);
    }
}

/* Lets the loop run for a while in which nothing is expected. */
static inline void idle_for(struct crew *crew, uint64_t ms)
{
    uint64_t until_ms = uv_now(&crew->f->loop) + ms;

    run_until(crew->f, uv_now(&crew->f->loop) > until_ms);
}

/* Whether a statement of the coordinator waits for a lock. */
#define WAITING(statement)                            \
    "pg_stat_activity WHERE wait_event_type = 'Lock'" \
    " AND query LIKE '%pawl." statement "%' AND datname = current_database()"

/* A second session, to hold locks while the first looks on. */
static inline PGconn *session(struct fixture *f, const char *sql)
{
    PGconn *conn = PQconnectdb(f->db.conninfo);
    PGresult *r = PQexec(conn, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(r);
    return conn;
}

/* Somebody who claims from queue q and does not come to an end. */
static inline PGconn *other_turn(struct fixture *f)
{
    return session(f, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('pawl.claim q', 0))");
}

/* The text is what the query gives. */
static inline void assert_text(struct fixture *f, const char *sql, const char *expected)
{
    char *text = testdb_text(&f->db, sql);

    if (text == NULL || strcmp(text, expected) != 0)
        print_error("%s:\n", sql);
    assert_string_equal(text != NULL ? text : "(null)", expected);
    free(text);
}

/*
 * A claim that stays on the wire: every update of pawl.job by statements that set a token waits for
 * an advisory lock of the test's own session, after its snapshot was taken.
 */
static inline void hold_claims(struct fixture *f)
{
    testdb_exec(&f->db,
                "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF current_query() LIKE '%pawl.job_claim%' THEN"
                "   PERFORM pg_advisory_xact_lock_shared(77); END IF;"
                " RETURN NULL; END $$;"
                "CREATE TRIGGER hold BEFORE UPDATE ON pawl.job FOR EACH STATEMENT"
                " EXECUTE FUNCTION public.hold();"
                "SELECT pg_advisory_lock(77)");
}

static inline void release_claims(struct fixture *f)
{
    testdb_exec(&f->db, "SELECT pg_advisory_unlock(77)");
}

static inline bool claim_waits(struct fixture *f)
{
    return count_of(f,
                    "pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted AND "
                    "database = (SELECT oid FROM pg_database WHERE datname = "
                    "current_database())") > 0;
}

#define engine_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
