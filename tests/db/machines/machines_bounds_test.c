/*
 * What a step is shown is bounded by the bytes that are sent, and an inbox by what is stored: results
 * of children that would expand, many large signals, and a sender who sends too much.
 */
#include "machines_fixture.h"

#define MIB (1024 * 1024)

/* ---- children */

#define BIG_RESULT 65536

/* A result of 64 KiB whose numbers have 131 072 digits each when they are written out. */
static const char *expanding(void)
{
    static char text[BIG_RESULT + 1];
    size_t len = 1;

    text[0] = '[';
    while (len + 10 < BIG_RESULT)
        len += (size_t)snprintf(text + len, 10, "1e131071,");
    snprintf(text + len, 3, "0]");
    return text;
}

static size_t parent_saw;

static struct outcome expand(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_result(expanding());
    if (job->id > 1)
        return outcome_done();
    if (at_step(job, ""))
        return outcome_spawn(2, "c", "joined", 0, 0);
    parent_saw = strlen(children_of(job));
    return outcome_result(strstr(children_of(job), "[1e131071,1e131071,") != NULL ? "as sent" : "");
}

static void results_that_would_expand_are_shown_as_they_are(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, expand);
    enqueue(f, 100);
    crew_start(&crew);
    run_until_over(f, 102);
    crew_stop(&crew);
    assert_in_range(parent_saw, 2 * (BIG_RESULT - 20), 2 * (BIG_RESULT + 100));
    assert_text(f, "SELECT convert_from(result, 'UTF8') FROM pawl.history WHERE id = 1", "as sent");
}

static const char *child_result;

static struct outcome spawn_many(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (strcmp(job->kind, "c") == 0)
        return outcome_result(child_result);
    if (at_step(job, ""))
        return outcome_spawn(KIDS_MAX, "c", "joined", 0, 0);
    parent_saw = strlen(children_of(job));
    return outcome_result(children_of(job));
}

/* 200 children of 64 KiB are more than is shown: the last ones come without their results. */
static void a_step_is_shown_8_mib_of_results_and_all_children(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    char *text = malloc(BIG_RESULT + 1);

    assert_non_null(text);
    memset(text, 'x', BIG_RESULT);
    text[0] = text[BIG_RESULT - 1] = '"';
    text[BIG_RESULT] = '\0';
    child_result = text;
    crew_init_machines(&crew, f, spawn_many);
    crew.options.concurrency = 50;
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, KIDS_MAX + 1);
    crew_stop(&crew);
    free(text);
    assert_in_range(parent_saw, 8 * MIB - 2 * BIG_RESULT, 8 * MIB + 50 * KIDS_MAX);
    assert_text(f,
                "SELECT count(*) || ' ' || count(*) FILTER (WHERE c ? 'result') || ' ' ||"
                " count(*) FILTER (WHERE c ->> 'state' = 'done')"
                " FROM pawl.history, jsonb_array_elements(convert_from(result, 'UTF8')::jsonb) AS c"
                " WHERE kind = 'k'",
                "200 127 200");
}

/* What is no JSON, has tabs or line ends in it, or is no text. */
static void results_of_any_kind_are_json_for_the_parent(void **state)
{
    struct fixture *f = *state;

    assert_text(f,
                "SELECT pawl.bytes_text('{\"a\":\\011 [1e131071,\\012 2]}')",
                "{\"a\":  [1e131071,  2]}");
    assert_text(f, "SELECT pawl.bytes_text('no \\011 json')", "\"no \\t json\"");
    assert_text(f, "SELECT pawl.bytes_text('\\xff00'::bytea)", "\"/wA=\"");
    assert_text(
        f,
        "SELECT json_typeof(pawl.bytes_text(convert_to(repeat('[', 100000), 'UTF8'))::json)",
        "string");
}

/* ---- signals */

static size_t most_shown;
static size_t n_shown;
static size_t n_takes;

/* Takes what it is shown, and goes on until the last one has come. */
static struct outcome take(struct crew *crew, const struct job *job)
{
    const char *signals = signals_of(job);
    size_t len = strlen(signals);

    (void)crew;
    if (job->id > 1)
        return outcome_done();
    most_shown = len > most_shown ? len : most_shown;
    for (const char *at = signals; (at = strstr(at, "\"id\": ")) != NULL; at++)
        n_shown++;
    n_takes++;
    if (strstr(signals, "\"last\"") != NULL)
        return outcome_done();
    return outcome_await("go,last", at_step(job, "odd") ? "even" : "odd", -1);
}

/* Signals that were stored before inboxes had a bound. */
static void store_signals(struct fixture *f, int n, int bytes)
{
    char sql[800];

    snprintf(sql,
             sizeof(sql),
             "SET session_replication_role = replica;"
             "INSERT INTO pawl.signal (job_id, name, payload, bytes)"
             " SELECT 1, 'go', p, pawl.signal_bytes('go', p)"
             " FROM to_jsonb(repeat('x', %d)) AS p, generate_series(1, %d);"
             "INSERT INTO pawl.signal (job_id, name, payload) VALUES (1, 'last', '{}');"
             "UPDATE pawl.job SET is_machine = true WHERE id = 1;"
             "INSERT INTO pawl.machine (job_id, inbox) VALUES (1, %d);"
             "SET session_replication_role = origin",
             bytes,
             n,
             n + 1);
    testdb_exec(&f->db, sql);
}

static void assert_takes_all(struct fixture *f, int n, int bytes)
{
    struct crew crew;

    most_shown = n_shown = n_takes = 0;
    crew_init_machines(&crew, f, take);
    enqueue(f, 20);
    store_signals(f, n, bytes);
    crew_start(&crew);
    run_until_over(f, 20);
    crew_stop(&crew);
    assert_int_equal(n_shown, n + 1); /* each once */
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

static void large_signals_are_shown_one_step_after_the_other(void **state)
{
    assert_takes_all(*state, 300, 1000000);
    assert_in_range(most_shown, 1000000, MIB);
    assert_in_range(n_takes, 301, 303);
}

static void many_signals_are_shown_a_thousand_at_a_time(void **state)
{
    assert_takes_all(*state, 2500, 10);
    assert_in_range(most_shown, 1000 * 40, MIB);
    assert_int_equal(n_takes, 4);
}

static struct outcome collect(struct crew *crew, const struct job *job)
{
    (void)crew;
    n_takes++;
    if (strstr(signals_of(job), "\"last\"") != NULL)
        return outcome_done();
    return outcome_await("go,last", "collect", -1);
}

/* It never takes any, and has more than it can be shown: it is woken for each once, and not for ever. */
static void a_step_that_waits_on_sees_every_signal_and_does_not_spin(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    n_takes = 0;
    crew_init_machines(&crew, f, collect);
    enqueue(f, 1);
    store_signals(f, 2500, 10);
    testdb_exec(&f->db, "DELETE FROM pawl.signal WHERE name = 'last'");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.signal WHERE shown") == 2500);
    run_until_waiting(f, 1);
    size_t before = n_takes;

    idle_for(&crew, 200);
    assert_int_equal(n_takes, before);
    assert_in_range(n_takes, 4, 5);
    send_signal(f, 1, "last");
    run_until_over(f, 1);
    crew_stop(&crew);
}

static void a_full_inbox_refuses_signals(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    enqueue(f, 1);
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'go', '{}', 'key')");
    for (int i = 0; i < 99;
         i++) /* not in one transaction: the job's row is changed by each signal */
        testdb_exec(&f->db, "SELECT pawl.signal(1, 'go') FROM generate_series(1, 101)");
    assert_refused(f, "SELECT pawl.signal(1, 'go')", "PW005");
    assert_refused(f, "SELECT pawl.signal(1, 'go', '{}', 'other')", "PW005");
    /* One that is there is not sent again. */
    assert_text(f, "SELECT pawl.signal(1, 'go', '{}', 'key')", "f");
    assert_int_equal(count_of(f, "pawl.signal"), 10000);
    /* Once some are taken there is room again. */
    most_shown = n_shown = n_takes = 0;
    crew_init_machines(&crew, f, take);
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.signal WHERE NOT consumed") == 0);
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'go')");
    send_signal(f, 1, "last");
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_int_equal(n_shown, 10002);
}

static void an_inbox_is_bounded_in_bytes_of_text(void **state)
{
    struct fixture *f = *state;

    enqueue(f, 2);
    testdb_exec(
        &f->db,
        "SELECT pawl.signal(1, 'go', to_jsonb(repeat('x', 1000000))) FROM generate_series(1, 8)");
    assert_refused(f, "SELECT pawl.signal(1, 'go', to_jsonb(repeat('x', 1000000)))", "PW005");
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'go', '1')");
    /* A few bytes as it is stored, 131 072 as it is sent. */
    testdb_exec(&f->db, "SELECT pawl.signal(2, 'go', '1e131071') FROM generate_series(1, 63)");
    assert_refused(f, "SELECT pawl.signal(2, 'go', '1e131071')", "PW005");
    assert_int_equal(count_of(f, "pawl.signal WHERE bytes IS NULL"), 0);
    assert_int_equal(count_of(f, "pawl.signal WHERE job_id = 2"), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(results_that_would_expand_are_shown_as_they_are),
        engine_test(a_step_is_shown_8_mib_of_results_and_all_children),
        engine_test(results_of_any_kind_are_json_for_the_parent),
        engine_test(large_signals_are_shown_one_step_after_the_other),
        engine_test(many_signals_are_shown_a_thousand_at_a_time),
        engine_test(a_step_that_waits_on_sees_every_signal_and_does_not_spin),
        engine_test(a_full_inbox_refuses_signals),
        engine_test(an_inbox_is_bounded_in_bytes_of_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
