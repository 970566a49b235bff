/*
 * Children and joins: a parent goes on once, when all of its children have ended or as many as it
 * waits for; failed ones count; a parked one keeps the join open; those that are left over count for
 * nothing. And the deadline of a machine, which ends every wait.
 */
#include "machines_fixture.h"

/* Spawns n and joins them all; the result is what the join was shown. */
static size_t n_spawned = 3;
static int32_t spawn_join_at;
static int16_t spawn_flags;
/* What child number n comes to; NULL: done, with its number as the result. */
static struct outcome (*child_outcome)(int n, const struct job *job);

static struct outcome family(struct crew *crew, const struct job *job)
{
    static char result[4096];

    (void)crew;
    if (strcmp(job->kind, "c") == 0) {
        snprintf(result, sizeof(result), "%.*s", (int)job->payload_len, job->payload);
        return child_outcome != NULL ? child_outcome(atoi(result), job) : outcome_result(result);
    }
    if (at_step(job, ""))
        return outcome_spawn(n_spawned, "c", "joined", spawn_join_at, spawn_flags);
    snprintf(result, sizeof(result), "%s", children_of(job));
    return outcome_result(result);
}

static void family_init(struct crew *crew, struct fixture *f)
{
    crew_init_machines(crew, f, family);
    n_spawned = 3;
    spawn_join_at = 0;
    spawn_flags = 0;
    child_outcome = NULL;
    enqueue(f, 1);
}

/* All three children end, and with them their parent. */
static void family_lives(struct crew *crew,
                         struct fixture *f,
                         struct outcome (*of_child)(int n, const struct job *job))
{
    family_init(crew, f);
    child_outcome = of_child;
    crew_start(crew);
    run_until_over(f, 4);
    crew_stop(crew);
}

static struct outcome always_retry(struct crew *crew, const struct job *job)
{
    (void)crew;
    (void)job;
    return outcome_retry(0);
}

/* The runs of the parent. */
static int64_t parent_runs(const struct crew *crew)
{
    return crew->seen[1];
}

static void a_parent_joins_its_children_and_reads_their_results(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_lives(&crew, f, NULL);
    assert_int_equal(parent_runs(&crew), 2);
    assert_text(f,
                RESULT,
                "done [{\"id\": 2, \"kind\": \"c\", \"state\": \"done\", \"result\": 1},"
                " {\"id\": 3, \"kind\": \"c\", \"state\": \"done\", \"result\": 2},"
                " {\"id\": 4, \"kind\": \"c\", \"state\": \"done\", \"result\": 3}]");
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'c' AND parent_id = 1"), 3);
    assert_int_equal(count_of(f, "pawl.child"), 0);
    assert_all_done(f, 4);
}

static struct outcome nulls(int n, const struct job *job)
{
    (void)job;
    return outcome_result(n == 1 ? "null" : n == 2 ? "{\"a\": null, \"b\": 1}" : "a\tb\n");
}

static void results_are_read_whole(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_lives(&crew, f, nulls);
    assert_text(
        f,
        RESULT,
        "done [{\"id\": 2, \"kind\": \"c\", \"state\": \"done\", \"result\": null},"
        " {\"id\": 3, \"kind\": \"c\", \"state\": \"done\", \"result\": {\"a\": null, \"b\": 1}},"
        " {\"id\": 4, \"kind\": \"c\", \"state\": \"done\", \"result\": \"a\\tb\\n\"}]");
}

static struct outcome second_fails(int n, const struct job *job)
{
    if (n == 2)
        return (struct outcome){.kind = OUTCOME_FAIL, .error = "broken", .run_us = 1};
    if (n == 3 && job->attempt == 1)
        return outcome_retry(1);
    return outcome_result("1");
}

static void a_failed_child_counts_and_a_retried_one_not_yet(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_lives(&crew, f, second_fails);
    assert_int_equal(parent_runs(&crew), 2);
    assert_text(f,
                RESULT,
                "done [{\"id\": 2, \"kind\": \"c\", \"state\": \"done\", \"result\": 1},"
                " {\"id\": 3, \"kind\": \"c\", \"error\": \"broken\", \"state\": \"failed\"},"
                " {\"id\": 4, \"kind\": \"c\", \"state\": \"done\", \"result\": 1}]");
}

static void a_parent_waits_for_the_last_child(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.now == 3);
    crew_let_go_one(&crew);
    crew_let_go_one(&crew);
    run_until_over(f, 2);
    idle_for(&crew, 100);
    assert_int_equal(crew.now, 1);
    assert_int_equal(count_of(f,
                              "pawl.job JOIN pawl.machine ON job_id = id"
                              " WHERE id = 1 AND children_left = 1 AND token IS NULL"
                              " AND waits_for = 'children' AND due_at = 'infinity'"),
                     1);
    crew_let_go(&crew);
    run_until(f, crew.now == 1 && parent_runs(&crew) == 2);
    crew_let_go(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
}

static void many_children_join_once(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    family_init(&a, f);
    crew_init_machines(&b, f, family);
    n_spawned = KIDS_MAX;
    a.options.concurrency = b.options.concurrency = 20;
    crew_start(&a);
    crew_start(&b);
    run_until_over(f, KIDS_MAX + 1);
    crew_stop(&a);
    crew_stop(&b);
    assert_int_equal(parent_runs(&a) + parent_runs(&b), 2);
    assert_int_equal(a.runs + b.runs, KIDS_MAX + 2);
    assert_int_equal(count_of(f, "pawl.job"), 0);
    assert_int_equal(count_of(f, "pawl.child"), 0);
}

/* Neither sees the other's end, so neither would find that it was the last. */
static void two_last_children_that_end_at_once_wake_the_parent(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    family_init(&a, f);
    n_spawned = 2;
    crew_init_machines(&b, f, family);
    a.options.concurrency = b.options.concurrency = 1;
    a.run_ms = b.run_ms = HELD;
    crew_start(&a);
    run_until(f, a.now == 1);
    crew_let_go(&a);
    run_until(f, a.now == 1 && a.runs == 2);
    crew_start(&b);
    run_until(f, b.now == 1);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job WHERE id = 1 FOR UPDATE");

    crew_let_go(&a);
    crew_let_go(&b);
    run_until(f, count_of(f, WAITING("job_settle")) == 2);
    a.run_ms = b.run_ms = 0;
    PQfinish(other);
    run_until_over(f, 3);
    crew_stop(&a);
    crew_stop(&b);
    assert_int_equal(parent_runs(&a) + parent_runs(&b), 2);
}

static void a_spawn_of_nothing_joins_at_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    n_spawned = 0;
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_text(f, RESULT, "done []");
}

static struct outcome first_is_parked(int n, const struct job *job)
{
    (void)job;
    if (n == 1)
        return (struct outcome){.kind = OUTCOME_FAIL, .error = "for a human", .run_us = 1};
    return outcome_result("1");
}

static void a_parked_child_holds_the_join_open(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    child_outcome = first_is_parked;
    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, park) VALUES ('c', true)");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.jobs WHERE state = 'parked'") == 1);
    run_until_over(f, 2);
    idle_for(&crew, 50);
    assert_int_equal(parent_runs(&crew), 1);
    testdb_exec(&f->db, "SELECT pawl.cancel(2, 'me')"); /* the human has decided */
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_text(f,
                "SELECT convert_from(result, 'UTF8')::jsonb -> 0 ->> 'state' FROM pawl.history"
                " WHERE id = 1",
                "cancelled");
}

static struct outcome first_fails(int n, const struct job *job)
{
    (void)job;
    if (n == 1)
        return (struct outcome){.kind = OUTCOME_FAIL, .error = "broken", .run_us = 1};
    return outcome_result("1");
}

/* Of three, the second runs on and the third has not begun. */
static void the_first_failure_ends_the_wait_and_the_rest_if_so_asked(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    child_outcome = first_fails;
    spawn_flags = JOIN_FAIL_FAST | JOIN_CANCEL;
    crew.options.concurrency = 2;
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.seen[2] == 1 && crew.seen[3] == 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now() + interval '1 hour' WHERE id = 4");
    crew_let_go_one(&crew);
    run_until(f, parent_runs(&crew) == 2);
    held_end(LIST_ENTRY(crew.held.prev, struct held, link));
    run_until(f, crew.stops[STOP_CANCELLED] == 1);
    assert_int_equal(
        count_of(f, "pawl.history WHERE id = 4 AND state = 'cancelled' AND cancel_by = 'parent 1'"),
        1);
    child_outcome = NULL;
    crew.outcome = always_retry;
    crew_let_go(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_int_equal(parent_runs(&crew), 2);
    assert_text(f,
                RESULT,
                "done [{\"id\": 2, \"kind\": \"c\", \"error\": \"broken\", \"state\": "
                "\"failed\"}]");
    assert_int_equal(
        count_of(f, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'parent 1'"), 2);
    assert_int_equal(count_of(f, "pawl.child"), 0);
}

static void a_quorum_goes_on_without_the_rest(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    spawn_join_at = 2; /* one of three is enough */
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.now == 3);
    crew_let_go_one(&crew);
    run_until(f, crew.now == 3 && parent_runs(&crew) == 2);
    held_end(LIST_ENTRY(crew.held.prev, struct held, link));
    run_until_over(f, 2);
    crew_let_go(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
    /* Whoever came later counted for nothing, and left nothing. */
    assert_int_equal(crew.stops[STOP_CANCELLED], 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 4);
    assert_int_equal(count_of(f, "pawl.child"), 0);
    assert_text(
        f, RESULT, "done [{\"id\": 2, \"kind\": \"c\", \"state\": \"done\", \"result\": 1}]");
}

/* Two rounds; children of the first that are left over must not count in the second. */
static struct outcome two_rounds(struct crew *crew, const struct job *job)
{
    static char result[400];

    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_result("1");
    if (at_step(job, ""))
        return outcome_spawn(2, "c", "first", 1, 0);
    if (at_step(job, "first"))
        return outcome_spawn(1, "c", "second", 0, 0);
    snprintf(result, sizeof(result), "%s", children_of(job));
    return outcome_result(result);
}

static void children_of_an_earlier_join_do_not_count(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, two_rounds);
    enqueue(f, 1);
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.now == 2);
    crew_let_go_one(&crew); /* 2 has ended, 3 goes on */
    run_until(f, parent_runs(&crew) == 2 && crew.now == 2);
    held_end(LIST_ENTRY(crew.held.prev, struct held, link)); /* the parent: spawns 4 */
    run_until(f, crew.seen[4] == 1);
    crew_let_go_one(&crew); /* 3, which nobody waits for any more */
    run_until_over(f, 2);
    idle_for(&crew, 50);
    assert_int_equal(parent_runs(&crew), 2);
    assert_int_equal(count_of(f, "pawl.machine WHERE job_id = 1 AND children_left = 1"), 1);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_text(
        f, RESULT, "done [{\"id\": 4, \"kind\": \"c\", \"state\": \"done\", \"result\": 1}]");
}

static void a_parent_that_is_cancelled_takes_its_children_along_if_so_asked(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    spawn_flags = JOIN_CANCEL;
    crew.options.concurrency = 2;
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, crew.now == 2); /* two run, one waits for a slot */
    testdb_exec(&f->db, "SELECT pawl.cancel(1, 'me')");
    run_until(f, count_of(f, "pawl.history WHERE state = 'cancelled'") == 2);
    run_until(f, crew.stops[STOP_CANCELLED] == 2);
    crew_let_go(&crew); /* too late to be told; done is done */
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.child"), 0);
    assert_int_equal(count_of(f, "pawl.job"), 0);
}

/* Of two children one has ended, and the other is for later; what is left is to be cancelled. */
static void parent_at_its_join(struct fixture *f)
{
    testdb_exec(
        &f->db,
        "INSERT INTO pawl.job (queue, kind, payload, due_at, parent_id, join_of)"
        " VALUES ('q', 'c', '{}', now() + interval '1 h', 1, 1);"
        "INSERT INTO pawl.child (parent_id, child_id, kind, state) VALUES (1, 99, 'c', 'done');"
        "UPDATE pawl.job SET is_machine = true WHERE id = 1;"
        "INSERT INTO pawl.machine (job_id, step, joins, children_left, join_at, cancel_rest)"
        " VALUES (1, 'joined', 1, 1, 1, true)");
}

static void assert_child_went_along(struct fixture *f)
{
    assert_int_equal(count_of(f, "pawl.history WHERE id = 2 AND cancel_by = 'parent 1'"), 1);
    assert_int_equal(count_of(f, "pawl.child"), 0);
}

/* Its worker is dead, and its attempts are used up. */
static void a_parent_that_a_sweep_ends_takes_its_children_along_if_so_asked(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    parent_at_its_join(f);
    testdb_exec(
        &f->db,
        "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
        " VALUES ('a0000000-0000-4000-8000-000000000001', gen_random_uuid(), now(), '{1}');"
        "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-000000000001', attempt = max_attempts"
        " WHERE id = 1");
    crew_start(&crew);
    run_until_over(f, 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE id = 1 AND state = 'failed'"), 1);
    assert_child_went_along(f);
}

static struct outcome put_off(struct crew *crew, const struct job *job)
{
    (void)crew;
    (void)job;
    return (struct outcome){.kind = OUTCOME_SNOOZE, .delay_ms = 3600000};
}

/* What its step says then does not matter, only that it has ended. */
static void a_parent_that_is_cancelled_while_it_runs_takes_its_children_along(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    family_init(&crew, f);
    crew.outcome = put_off;
    crew.run_ms = HELD;
    parent_at_its_join(f);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "SELECT pawl.cancel(1, 'me')");
    run_until(f, crew.stops[STOP_CANCELLED] == 1);
    crew_let_go(&crew);
    run_until_over(f, 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE id = 1 AND state = 'cancelled'"), 1);
    assert_child_went_along(f);
}

/* --- deadlines */

static struct outcome wait_for_ever(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_next("again", NULL, 3600000);
    if (at_step(job, "spawn"))
        return outcome_spawn(1, "c", "never", 0, JOIN_CANCEL);
    return outcome_await("go", "never", -1);
}

static void a_deadline_ends_a_wait_for_a_signal(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_ever);
    enqueue(f, 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET deadline_at = now() + interval '4 s'");
    crew_start(&crew);
    run_until_waiting(f, 1);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_string_equal(steps_log, "::1"); /* the step was not run for it */
    assert_int_equal(count_of(f,
                              "pawl.history WHERE state = 'failed' AND step = 'never' AND"
                              " errors -> 0 ->> 'error' LIKE '%deadline%'"),
                     1);
}

static void a_deadline_ends_a_join_and_the_children_with_it(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_ever);
    enqueue(f, 1);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET deadline_at = now() + interval '4 s', is_machine = true;"
                "INSERT INTO pawl.machine (job_id, step) SELECT id, 'spawn' FROM pawl.job");
    crew_start(&crew);
    run_until_over(f, 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE id = 1 AND state = 'failed'"), 1);
    assert_int_equal(count_of(f, "pawl.history WHERE id = 2 AND state = 'cancelled'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_parent_joins_its_children_and_reads_their_results),
        engine_test(results_are_read_whole),
        engine_test(a_failed_child_counts_and_a_retried_one_not_yet),
        engine_test(a_parent_waits_for_the_last_child),
        engine_test(many_children_join_once),
        engine_test(two_last_children_that_end_at_once_wake_the_parent),
        engine_test(a_spawn_of_nothing_joins_at_once),
        engine_test(a_parked_child_holds_the_join_open),
        engine_test(the_first_failure_ends_the_wait_and_the_rest_if_so_asked),
        engine_test(a_quorum_goes_on_without_the_rest),
        engine_test(children_of_an_earlier_join_do_not_count),
        engine_test(a_parent_that_is_cancelled_takes_its_children_along_if_so_asked),
        engine_test(a_parent_that_a_sweep_ends_takes_its_children_along_if_so_asked),
        engine_test(a_parent_that_is_cancelled_while_it_runs_takes_its_children_along),
        engine_test(a_deadline_ends_a_wait_for_a_signal),
        engine_test(a_deadline_ends_a_join_and_the_children_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
