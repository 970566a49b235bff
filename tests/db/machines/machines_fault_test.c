/*
 * What goes wrong around machines: cancelled in the middle, a settle of unknown fate, a worker that
 * dies between steps, a stop, an outcome that cannot be stored. And what they must not do to others:
 * starve them, keep a lane, grow without end.
 */
#include "hands/threads.h"
#include "machines_fixture.h"

/* Goes on for ever, counting. */
static struct outcome endless(struct crew *crew, const struct job *job)
{
    static char state[24];

    (void)crew;
    if (strcmp(job->kind, "k") != 0)
        return outcome_done();
    snprintf(state, sizeof(state), "%d", atoi(state_of(job)) + 1);
    return outcome_next("on", state, 0);
}

/* --- cancelling */

static void a_cancelled_machine_does_not_go_on_from_its_running_step(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, endless);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    assert_text(f, "SELECT pawl.cancel(1, 'me')", "cancelling");
    run_until(f, crew.stops[STOP_CANCELLED] == 1);
    crew_let_go(&crew); /* says next all the same */
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'me'"), 1);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* One machine, in its n-th step. Returns a session in a transaction. */
static PGconn *run_endless(struct fixture *f, struct crew *crew, size_t steps)
{
    crew_init_machines(crew, f, endless);
    crew->run_ms = HELD;
    enqueue(f, 1);
    crew_start(crew);
    run_until(f, crew->now == 1);
    while (crew->runs < steps) {
        size_t runs = crew->runs;

        crew_let_go(crew);
        run_until(f, crew->now == 1 && crew->runs == runs + 1);
    }
    return session(f, "BEGIN");
}

/* Nobody could be told: it is asked for while the settle waits for the row. */
static void a_sticky_machine_learns_of_its_end_from_its_settle(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    /* The first step makes it a machine, the second finds it to be one. */
    for (size_t steps = 1; steps <= 2; steps++) {
        PGconn *other = run_endless(f, &crew, steps);

        PQclear(PQexec(
            other, "SET CONSTRAINTS ALL IMMEDIATE; SELECT pawl.cancel(id, 'me') FROM pawl.job"));
        crew_let_go(&crew);
        run_until(
            f, count_of(f, steps == 1 ? WAITING("job_settle *") : WAITING("job_settle_next")) == 1);
        PQclear(PQexec(other, "COMMIT"));
        PQfinish(other);
        run_until_over(f, (int)steps);
        crew_stop(&crew);
        assert_int_equal(crew.runs, steps);
        assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled' AND step = 'on'"),
                         steps);
        assert_int_equal(count_of(f, "pawl.claim"), 0);
    }
}

static struct outcome await_go(struct crew *crew, const struct job *job)
{
    (void)crew;
    return at_step(job, "") ? outcome_await("go", "on", -1) : outcome_result("woken");
}

static void a_machine_that_is_to_wait_and_to_end_ends(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, await_go);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    PGconn *other = session(f, "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SELECT pawl.cancel(1, 'me')");

    crew_let_go(&crew);
    run_until(f, count_of(f, WAITING("job_settle *")) == 1);
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled'"), 1);
}

static void a_machine_that_waits_is_cancelled_on_the_spot(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, await_go);
    enqueue(f, 1);
    crew_start(&crew);
    run_until_waiting(f, 1);
    send_signal(f, 1, "other");
    assert_text(f, "SELECT pawl.cancel(1, 'me')", "cancelled");
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled'"), 1);
    assert_int_equal(count_of(f, "pawl.signal"), 0);
    crew_stop(&crew);
}

/* --- commits of unknown fate */

/* A settle hangs in its commit, after all its statements succeeded. */
static void hold_commits(struct fixture *f)
{
    testdb_exec(&f->db,
                "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF old.token IS NOT NULL THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;"
                " RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON pawl.job DEFERRABLE INITIALLY"
                " DEFERRED FOR EACH ROW EXECUTE FUNCTION public.hold();"
                "SELECT pg_advisory_lock(77)");
}

#define KILL_HELD                                                      \
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = " \
    "'advisory' AND objid = 77 AND NOT granted;"                       \
    "DROP TRIGGER hold ON pawl.job;"

static struct outcome spawn_one(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_result("1");
    return at_step(job, "") ? outcome_spawn(1, "c", "joined", 0, 0) : outcome_result("joined");
}

static void a_spawn_of_unknown_fate_has_one_effect(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, spawn_one);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    hold_commits(f);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, claim_waits(f));
    testdb_exec(&f->db, KILL_HELD);
    run_until_over(f, 2);
    assert_int_equal(crew_stats(&crew)->settle_errors, 1);
    assert_int_equal(crew_stats(&crew)->stale, 0);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 3);
    assert_text(f, RESULT, "done joined");
}

static void an_await_that_was_committed_unknown_to_us_is_not_repeated(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, await_go);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    hold_commits(f);
    crew_let_go(&crew);
    run_until(f, claim_waits(f));
    /* As if it had been committed, and the machine had gone on meanwhile. */
    testdb_exec(&f->db, KILL_HELD);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = NULL, attempt = 0, is_machine = true,"
                " due_at = now() + interval '1 hour';"
                "INSERT INTO pawl.machine (job_id, step) SELECT id, 'further' FROM pawl.job");
    run_until(f, crew_stats(&crew)->resettled == 1);
    assert_int_equal(count_of(f, "pawl.machine WHERE step = 'further' AND awaits IS NULL"), 1);
    crew_stop(&crew);
}

static void a_sticky_step_of_unknown_fate_runs_the_next_one_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    for (int committed = 0; committed < 2; committed++) {
        crew_init_machines(&crew, f, endless);
        crew.run_ms = HELD;
        enqueue(f, 1);
        crew_start(&crew);
        run_until(f, crew.now == 1);
        hold_commits(f);
        crew_let_go(&crew);
        run_until(f, claim_waits(f));
        testdb_exec(&f->db, KILL_HELD);
        if (committed) /* what the statement does */
            testdb_exec(&f->db,
                        "UPDATE pawl.job SET is_machine = true;"
                        "INSERT INTO pawl.machine (job_id, step, state)"
                        " SELECT id, 'on', '1' FROM pawl.job");
        testdb_exec(&f->db, "SELECT pg_advisory_unlock(77); DROP FUNCTION public.hold");
        run_until(f, crew.now == 1 && crew.runs == 2);
        assert_string_equal(steps_log, "::1 on:1:1");
        assert_int_equal(count_of(f, MACHINE "attempt = 1 AND step = 'on'"), 1);
        assert_int_equal(crew_stats(&crew)->steps, 1);
        testdb_exec(&f->db, "SELECT pawl.cancel(id) FROM pawl.job");
        crew_let_go(&crew);
        run_until(f, count_of(f, "pawl.job") == 0);
        crew_stop(&crew);
    }
}

/* --- workers that go */

static void a_machine_whose_worker_died_goes_on_at_its_step(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, endless);
    crew.options.lease_ms = 6000; /* its first sweep comes soon, whatever its lease */
    crew.run_ms = HELD;
    retry_late(f);
    enqueue(f, 1);
    testdb_exec(
        &f->db,
        "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-000000000001', attempt = 1,"
        " is_machine = true;"
        "INSERT INTO pawl.machine (job_id, step, state) SELECT id, 'middle', '41' FROM pawl.job;"
        "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
        " ('a0000000-0000-4000-8000-000000000001', gen_random_uuid(),"
        "  now() - interval '1 s', '{1}')");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.job WHERE token IS NULL") == 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, crew.now == 1);
    assert_string_equal(steps_log, "middle:41:2");
    testdb_exec(&f->db, "SELECT pawl.cancel(1)");
    crew_let_go(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
}

/* It lost its claim while a step ran: what the step says counts for nothing, and is not run on. */
static void a_step_that_lost_its_claim_does_not_go_on(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, endless);
    crew.options.lease_ms = 3000;
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db,
                "DELETE FROM pawl.claim;"
                "UPDATE pawl.job SET token = NULL, due_at = 'infinity', attempt = 5");
    run_until(f, crew.stops[STOP_LOST] == 1);
    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->stale == 1);
    assert_int_equal(count_of(f, "pawl.job WHERE is_machine IS NULL AND attempt = 5"), 1);
    assert_int_equal(count_of(f, "pawl.machine"), 0);
    assert_int_equal(crew.runs, 1);
    crew_stop(&crew);
}

static void a_stop_lets_the_step_end_and_gives_the_machine_back(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, endless);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    coordinator_stop(crew.c);
    crew_let_go(&crew);
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f,
                              MACHINE
                              "token IS NULL AND step = 'on' AND attempt = 0 AND"
                              " due_at <= clock_timestamp() AND convert_from(state, 'UTF8') = '1'"),
                     1);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* The settle that keeps the claim is on its way when the stop comes. */
static void a_stop_releases_a_sticky_machine_whose_settle_is_under_way(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    for (size_t steps = 1; steps <= 2; steps++) {
        testdb_exec(&f->db, "TRUNCATE pawl.job, pawl.machine");
        PGconn *other = run_endless(f, &crew, steps);

        PQclear(PQexec(other, "SELECT FROM pawl.job FOR UPDATE"));
        crew_let_go(&crew);
        run_until(
            f, count_of(f, steps == 1 ? WAITING("job_settle *") : WAITING("job_settle_next")) == 1);
        coordinator_stop(crew.c);
        PQfinish(other);
        crew_end(&crew);
        assert_int_equal(crew.left, 0);
        assert_int_equal(crew.runs, steps);
        assert_int_equal(count_of(f, MACHINE "token IS NULL AND step = 'on' AND attempt = 0"), 1);
        assert_int_equal(count_of(f, "pawl.claim"), 0);
    }
}

/* --- what they must not do to others */

static void a_sticky_machine_gets_in_line_after_a_while(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, endless);
    crew.on_run = NULL;
    crew.options.concurrency = 1;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.runs > 0);
    testdb_exec(&f->db, "INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'c', '')");
    size_t before = crew.runs;

    run_until(f, crew.seen[2] == 1);
    assert_in_range(crew.runs - before, 1, 110);
    run_until(f, crew.runs > before + 200); /* and the machine goes on */
    testdb_exec(&f->db, "SELECT pawl.cancel(1)");
    run_until_over(f, 2);
    crew_stop(&crew);
}

static void two_machines_in_a_lane_take_turns_when_one_waits(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, await_go);
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l'),"
                " pawl.enqueue('k', queue => 'q', lane => 'l')");
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    idle_for(&crew, 50);
    assert_int_equal(crew.now, 1);
    crew_let_go(&crew); /* waits, and is out of the lane */
    run_until(f, crew.now == 1 && crew.seen[2] == 1);
    send_signal(f, 1, "go");
    idle_for(&crew, 50);
    assert_int_equal(crew.now, 1); /* woken, but the lane is taken */
    crew_let_go(&crew);
    run_until(f, crew.now == 1 && crew.seen[1] == 2);
    crew_let_go(&crew);
    run_until_over(f, 1);
    send_signal(f, 2, "go");
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until_over(f, 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
}

static void a_version_that_a_worker_does_not_know_is_not_claimed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, NULL);
    crew.outcome = NULL;
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k@2', queue => 'q'), pawl.enqueue('k', queue => 'q')");
    crew_start(&crew);
    run_until_over(f, 1);
    idle_for(&crew, 50);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.job WHERE kind = 'k@2' AND attempt = 0"), 1);
}

#define LONG 300

static struct outcome three_hundred(struct crew *crew, const struct job *job)
{
    static char state[24];
    int n = atoi(state_of(job));

    (void)crew;
    snprintf(state, sizeof(state), "%d", n + 1);
    return n == LONG ? outcome_result("over")
                     : outcome_next("a_step_with_a_longish_name", state, 0);
}

static void the_timeline_of_a_long_machine_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, three_hundred);
    crew.on_run = NULL;
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, LONG + 1);
    assert_int_equal(count_of(f, "pawl.history WHERE octet_length(timeline) BETWEEN 3000 AND 6200"),
                     1);
    /* Whole lines, and the newest is there. */
    assert_text(
        f,
        "SELECT bool_and(line ~ E'^[0-9]+\\t[a-z_]*\\t1\\t(next|done)\\t[0-9]+\\t[0-9]+$')"
        " FROM pawl.history, regexp_split_to_table(rtrim(timeline, E'\\n'), E'\\n') AS line",
        "t");
    assert_int_equal(count_of(f, "pawl.history WHERE timeline ~ E'\\tdone\\t[0-9]+\\t[0-9]+\\n$'"),
                     1);
}

/* --- outcomes that are none */

static struct outcome one_is_bad(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->id == 2 && at_step(job, ""))
        return outcome_next("\xff\xfe", "s", 0);
    return at_step(job, "") ? outcome_next("on", "s", 0) : outcome_result("fine");
}

static void a_step_that_cannot_be_stored_fails_its_machine_alone(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, one_is_bad);
    crew.run_ms = HELD;
    enqueue(f, 4);
    crew_start(&crew);
    run_until(f, crew.now == 4);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND id <> 2"), 3);
    assert_int_equal(count_of(f,
                              "pawl.history WHERE state = 'failed' AND id = 2 AND"
                              " errors -> 0 ->> 'error' LIKE 'the outcome could not be stored%'"),
                     1);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* On a thread, as handlers of the library say it. */
static void say_nonsense_once(void *data, struct task *task)
{
    const struct job *job = task_job(task);

    (void)data;
    if (at_step(job, ""))
        task_go_on(task,
                   OUTCOME_NEXT,
                   &(struct going_on){
                       .step = job->attempt == 1 ? "not a name" : "good",
                       .state = "s",
                       .state_len = 1,
                   },
                   0);
    else if (at_step(job, "good"))
        task_go_on(task, OUTCOME_AWAIT, &(struct going_on){.step = "end", .awaits = "go"}, 1);
    else
        task_done(task, "end", 3);
}

static void note_closed(void *data)
{
    *(bool *)data = true;
}

static void an_outcome_that_is_none_is_a_failure_of_the_step(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    struct pawl_err err;
    struct threads_handler handler = {.kind = "k", .fn = say_nonsense_once};
    bool closed = false;

    crew_init(&crew, f);
    crew.options.hands =
        threads_new(&f->loop,
                    &(struct threads_options){.handlers = &handler, .n_handlers = 1, .threads = 2},
                    &err);
    assert_non_null(crew.options.hands);
    enqueue(f, 1);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET has_options = true;"
                "INSERT INTO pawl.job_option (job_id, retry_base_ms) SELECT id, 10 FROM pawl.job");
    crew_start(&crew);
    run_until_over(f, 1);
    coordinator_stop(crew.c);
    run_until(f, crew.stopped);
    threads_close(crew.options.hands, note_closed, &closed);
    run_until(f, closed);
    crew_end(&crew);
    assert_text(f, RESULT, "done end");
    assert_int_equal(count_of(f, "pawl.history WHERE errors -> 0 ->> 'error' LIKE '%step%name%'"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_cancelled_machine_does_not_go_on_from_its_running_step),
        engine_test(a_sticky_machine_learns_of_its_end_from_its_settle),
        engine_test(a_machine_that_is_to_wait_and_to_end_ends),
        engine_test(a_machine_that_waits_is_cancelled_on_the_spot),
        engine_test(a_spawn_of_unknown_fate_has_one_effect),
        engine_test(an_await_that_was_committed_unknown_to_us_is_not_repeated),
        engine_test(a_sticky_step_of_unknown_fate_runs_the_next_one_once),
        engine_test(a_machine_whose_worker_died_goes_on_at_its_step),
        engine_test(a_step_that_lost_its_claim_does_not_go_on),
        engine_test(a_stop_lets_the_step_end_and_gives_the_machine_back),
        engine_test(a_stop_releases_a_sticky_machine_whose_settle_is_under_way),
        engine_test(a_sticky_machine_gets_in_line_after_a_while),
        engine_test(two_machines_in_a_lane_take_turns_when_one_waits),
        engine_test(a_version_that_a_worker_does_not_know_is_not_claimed),
        engine_test(the_timeline_of_a_long_machine_is_bounded),
        engine_test(a_step_that_cannot_be_stored_fails_its_machine_alone),
        engine_test(an_outcome_that_is_none_is_a_failure_of_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
