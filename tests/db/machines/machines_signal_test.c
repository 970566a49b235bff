/*
 * Signals of machines: in both orders of park and deliver, what consumes them and what does not,
 * timeouts, and where they end. The coordinator is the shipped one; what a step says is decided by
 * the test.
 */
#include "machines_fixture.h"

static struct outcome wait_for_go(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("go,stop", "gone", -1);
    return outcome_result(signals_of(job));
}

static void a_signal_wakes_the_machine_that_waits_for_it(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    crew.options.poll_ms = crew.options.poll_max_ms =
        3600000; /* found by notification, not by poll */
    enqueue(f, 1);
    crew_start(&crew);
    run_until_waiting(f, 1);
    assert_int_equal(count_of(f, "pawl.job WHERE due_at = 'infinity' AND waits_for = 'signal'"), 1);
    idle_for(&crew, 700); /* until it sleeps */
    signal_sql(f, 1, "go", "'{\"n\": 7}'", "NULL");
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_text(f, RESULT, "done [{\"id\": 1, \"name\": \"go\", \"payload\": {\"n\": 7}}]");
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

static void a_signal_that_came_first_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    enqueue(f, 1);
    send_signal(f, 1, "go");
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 2);
}

static void a_signal_sent_while_the_step_runs_is_not_lost(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    send_signal(f, 1, "stop");
    crew_let_go(&crew);
    run_until(f, crew.now == 1 && crew.runs == 2);
    crew_let_go(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
}

/* The sender has locked the machine and is not visible yet when the settle's snapshot is taken: the
 * number in the row is all that the settle can see. */
static void a_signal_that_commits_while_the_machine_is_parked_is_not_lost(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    PGconn *sender = session(f,
                             "BEGIN; SELECT pawl.signal(1, 'go');"
                             " SET CONSTRAINTS ALL IMMEDIATE");

    crew_let_go(&crew);
    run_until(f, count_of(f, WAITING("job_settle *")) == 1);
    PQclear(PQexec(sender, "COMMIT"));
    PQfinish(sender);
    run_until(f, crew.now == 1 && crew.runs == 2);
    crew_let_go(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
}

/* The other order: the machine is parked and not committed, and the sender waits for its row. */
static void a_signal_that_waits_for_the_park_wakes_it(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    crew.run_ms = HELD;
    testdb_exec(&f->db,
                "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF new.waits_for = 'signal' AND old.waits_for IS NULL THEN"
                "   PERFORM pg_advisory_xact_lock_shared(77); END IF;"
                " RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON pawl.job DEFERRABLE INITIALLY"
                " DEFERRED FOR EACH ROW EXECUTE FUNCTION public.hold();"
                "SELECT pg_advisory_lock(77)");
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, claim_waits(f));
    PGconn *sender = session(f, "SET application_name = 'sender'");

    assert_int_equal(PQsendQuery(sender, "SELECT pawl.signal(1, 'go')"), 1);
    run_until(f,
              count_of(f,
                       "pg_stat_activity WHERE application_name = 'sender'"
                       " AND wait_event_type = 'Lock'") == 1);
    testdb_exec(&f->db, "SELECT pg_advisory_unlock(77)");
    run_until(f, crew.now == 1 && crew.runs == 2);
    PQfinish(sender);
    crew_let_go(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
}

static struct outcome wait_briefly(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("go", "after", 30);
    return outcome_result(timed_out(job) && job->machine->signals == NULL ? "timed out" : "woken");
}

static void a_wait_that_times_out_is_a_wake_and_not_a_failure(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_briefly);
    enqueue(f, 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET max_attempts = 1");
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_text(f, RESULT, "done timed out");
    assert_string_equal(steps_log, "::1 after::1");
    assert_int_equal(count_of(f, "pawl.history WHERE errors IS NULL"), 1);
}

/* A timeout that is retried is still a timeout. */
static struct outcome retry_a_timeout(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("go", "after", 10);
    assert_true(timed_out(job));
    return job->attempt == 1 ? outcome_retry(0) : outcome_result("");
}

static void a_timeout_survives_a_retry(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, retry_a_timeout);
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_string_equal(steps_log, "::1 after::1 after::2");
}

static struct outcome take_one_by_one(struct crew *crew, const struct job *job)
{
    static char state[200];

    (void)crew;
    if (at_step(job, ""))
        return outcome_await("pay", "paid", -1);
    if (at_step(job, "paid"))
        return outcome_await("ship", "shipped", -1);
    snprintf(state, sizeof(state), "%s", signals_of(job));
    return outcome_result(state);
}

static void a_signal_of_another_name_is_left_for_later(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, take_one_by_one);
    enqueue(f, 1);
    crew_start(&crew);
    run_until_waiting(f, 1);
    send_signal(f, 1, "ship");
    send_signal(f, 1, "other");
    idle_for(&crew, 100);
    assert_int_equal(crew.runs, 1); /* neither is for this wait */
    assert_int_equal(count_of(f, "pawl.signal WHERE NOT shown AND NOT consumed"), 2);
    send_signal(f, 1, "pay");
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 3);
    assert_text(f, RESULT, "done [{\"id\": 1, \"name\": \"ship\", \"payload\": {}}]");
    assert_int_equal(count_of(f, "pawl.signal"), 0); /* an inbox ends with its machine */
}

static struct outcome gather_two(struct crew *crew, const struct job *job)
{
    static char seen[400];

    (void)crew;
    if (at_step(job, ""))
        return outcome_await("a,b", "first", -1);
    if (at_step(job, "first")) {
        snprintf(seen, sizeof(seen), "%s", signals_of(job));
        return outcome_await("a,b", "second", 20);
    }
    return outcome_result(timed_out(job) ? seen : "shown again");
}

static void a_step_is_shown_all_that_match_and_consumes_them_by_going_on(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, gather_two);
    enqueue(f, 1);
    testdb_exec(&f->db,
                "SELECT pawl.signal(1, 'a', '1'), pawl.signal(1, 'x', '2'),"
                " pawl.signal(1, 'b', '3', 'key')");
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_text(f,
                RESULT,
                "done [{\"id\": 1, \"name\": \"a\", \"payload\": 1},"
                " {\"id\": 3, \"name\": \"b\", \"payload\": 3}]");
}

/* One that comes while the step runs that was shown another: not consumed with it. */
static struct outcome take_what_is_shown(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("a", "first", -1);
    if (at_step(job, "first"))
        return outcome_await("a", "second", -1);
    return outcome_result(signals_of(job));
}

static void exactly_what_was_shown_is_consumed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, take_what_is_shown);
    crew.run_ms = HELD;
    enqueue(f, 1);
    signal_sql(f, 1, "a", "'1'", "NULL");
    crew_start(&crew);
    run_until(f, crew.now == 1 && crew.runs == 1);
    crew_let_go(&crew);
    run_until(f, crew.now == 1 && crew.runs == 2);
    signal_sql(f, 1, "a", "'2'", "NULL"); /* too late to be shown to this one */
    crew_let_go(&crew);
    run_until(f, crew.now == 1 && crew.runs == 3);
    crew_let_go(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_text(f, RESULT, "done [{\"id\": 2, \"name\": \"a\", \"payload\": 2}]");
}

static void a_key_makes_a_signal_count_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, take_what_is_shown);
    enqueue(f, 1);
    signal_sql(f, 1, "a", "'1'", "'k1'");
    assert_text(f, "SELECT pawl.signal(1, 'a', '1', 'k1')", "f");
    assert_text(f, "SELECT pawl.signal(1, 'b', '1', 'k1')", "t"); /* another name, another key */
    crew_start(&crew);
    run_until(f, crew.runs == 2 && crew.settled == 2);
    run_until_waiting(f, 1);
    /* It was consumed, and is still known. */
    assert_int_equal(count_of(f, "pawl.signal WHERE name = 'a' AND consumed"), 1);
    assert_text(f, "SELECT pawl.signal(1, 'a', '1', 'k1')", "f");
    idle_for(&crew, 100);
    assert_int_equal(crew.runs, 2);
    signal_sql(f, 1, "a", "'2'", "'k2'");
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(
        count_of(f,
                 "pawl.history WHERE convert_from(result, 'UTF8')::jsonb -> 0 -> 'payload' = '2'"
                 " AND jsonb_array_length(convert_from(result, 'UTF8')::jsonb) = 1"),
        1);
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

/* Waits for two of them, in the same step. */
static struct outcome wait_for_both(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("a,b", "both", -1);
    if (strstr(signals_of(job), "\"a\"") != NULL && strstr(signals_of(job), "\"b\"") != NULL)
        return outcome_result("both");
    return outcome_await("a,b", "both", -1);
}

static void waiting_again_consumes_nothing_and_does_not_spin(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_both);
    enqueue(f, 1);
    send_signal(f, 1, "a");
    crew_start(&crew);
    run_until(f, crew.runs == 2);
    run_until_waiting(f, 1);
    uint64_t claimed = crew_stats(&crew)->claimed;

    idle_for(&crew, 200);
    assert_int_equal(crew.runs, 2); /* it has seen that one */
    assert_int_equal(crew_stats(&crew)->claimed, claimed);
    assert_int_equal(count_of(f, "pawl.signal WHERE shown AND NOT consumed"), 1);
    send_signal(f, 1, "b");
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 3);
    assert_text(f, RESULT, "done both"); /* and the first was shown again */
}

static struct outcome retry_once_shown(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_await("a", "take", -1);
    return job->attempt < 3 ? outcome_retry(0) : outcome_result(signals_of(job));
}

static void a_retry_consumes_nothing(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, retry_once_shown);
    enqueue(f, 1);
    signal_sql(f, 1, "a", "'1'", "NULL");
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 4);
    assert_text(f, RESULT, "done [{\"id\": 1, \"name\": \"a\", \"payload\": 1}]");
}

static void a_signal_to_a_finished_job_is_refused(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, NULL);
    crew.outcome = NULL;
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_refused(f, "SELECT pawl.signal(1, 'go')", "PW002");
    assert_refused(f, "SELECT pawl.signal(99, 'go')", "PW001");
    assert_refused(f, "SELECT pawl.signal(1, 'no good')", "22023");
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

/* Alive when it was sent, finished when the sender commits. */
static void a_signal_to_a_job_that_ends_meanwhile_is_refused_at_the_commit(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, NULL);
    crew.outcome = NULL;
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    PGconn *sender = session(f, "BEGIN; SELECT pawl.signal(1, 'go')");

    crew_let_go(&crew);
    run_until_over(f, 1);
    PGresult *r = PQexec(sender, "COMMIT");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW002");
    PQclear(r);
    PQfinish(sender);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

/* Anything live can be sent a signal; one that has no steps ends without looking. */
static void signals_go_with_a_job_that_does_not_look_at_them(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, NULL);
    crew.outcome = NULL;
    enqueue(f, 4);
    testdb_exec(&f->db, "SELECT pawl.signal(id, 'go') FROM pawl.job");
    testdb_exec(&f->db, "SELECT pawl.cancel(2)");
    testdb_exec(&f->db,
                "WITH lost AS (INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
                " (gen_random_uuid(), gen_random_uuid(), now() - interval '1 s', '{3}')"
                " RETURNING token)"
                " UPDATE pawl.job SET token = lost.token, attempt = max_attempts FROM lost"
                " WHERE id = 3");
    assert_int_equal(count_of(f, "pawl.signal"), 3);
    crew_start(&crew);
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_text(f,
                "SELECT string_agg(state::text, ' ' ORDER BY id) FROM pawl.history",
                "done cancelled failed done");
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

static void a_broadcast_reaches_all_with_the_correlation_key(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, wait_for_go);
    enqueue(f, 4);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET meta = jsonb_build_object('correlation',"
                " CASE WHEN id <= 3 THEN 'trip' ELSE 'other' END)");
    crew_start(&crew);
    run_until_waiting(f, 4);
    assert_text(f, "SELECT pawl.signal_all('trip', 'go', '1', 'once')", "3");
    run_until_over(f, 3);
    assert_text(f, "SELECT pawl.signal_all('trip', 'go')", "0");
    assert_text(f, "SELECT pawl.signal_all('other', 'go', '1', 'once')", "1");
    run_until_over(f, 4);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_signal_wakes_the_machine_that_waits_for_it),
        engine_test(a_signal_that_came_first_is_not_waited_for),
        engine_test(a_signal_sent_while_the_step_runs_is_not_lost),
        engine_test(a_signal_that_commits_while_the_machine_is_parked_is_not_lost),
        engine_test(a_signal_that_waits_for_the_park_wakes_it),
        engine_test(a_wait_that_times_out_is_a_wake_and_not_a_failure),
        engine_test(a_timeout_survives_a_retry),
        engine_test(a_signal_of_another_name_is_left_for_later),
        engine_test(a_step_is_shown_all_that_match_and_consumes_them_by_going_on),
        engine_test(exactly_what_was_shown_is_consumed),
        engine_test(a_key_makes_a_signal_count_once),
        engine_test(waiting_again_consumes_nothing_and_does_not_spin),
        engine_test(a_retry_consumes_nothing),
        engine_test(a_signal_to_a_finished_job_is_refused),
        engine_test(a_signal_to_a_job_that_ends_meanwhile_is_refused_at_the_commit),
        engine_test(signals_go_with_a_job_that_does_not_look_at_them),
        engine_test(a_broadcast_reaches_all_with_the_correlation_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
