/*
 * A job that cannot be claimed, or settled, stops nobody else: it is found, parked with the reason,
 * and the others of its queue run. Triggers play what is wrong with it.
 */
#include "lanes_fixture.h"

#define WHY "the row is damaged"

/* An update of pawl.job that claims such a job fails. */
static void cannot_claim(struct fixture *f, const char *when, const char *sqlstate)
{
    char sql[600];

    snprintf(sql,
             sizeof(sql),
             "CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " RAISE EXCEPTION '" WHY "' USING ERRCODE = '%s'; END $$;"
             "CREATE TRIGGER poison BEFORE UPDATE ON pawl.job FOR EACH ROW"
             " WHEN (old.token IS NULL AND new.token IS NOT NULL AND (%s))"
             " EXECUTE FUNCTION public.poison()",
             sqlstate,
             when);
    testdb_exec(&f->db, sql);
}

#define PARKED                                                                      \
    "pawl.jobs WHERE state = 'parked' AND errors -> -1 ->> 'class' = 'unclaimable'" \
    " AND errors -> -1 ->> 'error' LIKE 'it cannot be claimed: " WHY "%'"

/* All but these are done, and these are parked. */
static void assert_only_parked(struct fixture *f, const struct crew *crew, int64_t all, int64_t bad)
{
    assert_int_equal(count_of(f, PARKED), bad);
    assert_int_equal(count_of(f, "pawl.job"), bad);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), all - bad);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(crew->runs, all - bad);
}

static void a_job_that_cannot_be_claimed_is_parked_and_the_others_run(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 300;
    enqueue(f, 1001);
    cannot_claim(f, "new.id = 500", "22000");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 1000 && count_of(f, PARKED) == 1);
    assert_int_equal(crew_stats(&crew)->unclaimable, 1);
    assert_in_range(crew_stats(&crew)->claim_errors, 2, 25); /* by halving, not one by one */
    crew_stop(&crew);
    assert_only_parked(f, &crew, 1001, 1);
    assert_int_equal(count_of(f, "pawl.job WHERE id = 500 AND attempt = 1 AND token IS NULL"), 1);
}

/* Once the cause is mended the job is retried like any parked one. */
static void a_parked_job_runs_when_its_cause_is_mended(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 20);
    cannot_claim(f, "new.id = 1", "XX000");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 19 && count_of(f, PARKED) == 1);
    testdb_exec(&f->db, "DROP TRIGGER poison ON pawl.job; SELECT pawl.retry(1)");
    run_until(f, count_of(f, "pawl.history") == 20);
    crew_stop(&crew);
    assert_all_done(f, 20);
}

static void several_in_a_row_and_two_workers(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    crew_init(&a, f);
    crew_init(&b, f);
    a.options.concurrency = b.options.concurrency = 50;
    enqueue(f, 400);
    cannot_claim(f, "new.id <= 5 OR new.id IN (200, 201, 400)", "54000");
    crew_start(&a);
    crew_start(&b);
    run_until(f, count_of(f, "pawl.history") == 392 && count_of(f, PARKED) == 8);
    crew_stop(&a);
    crew_stop(&b);
    a.runs += b.runs;
    assert_only_parked(f, &a, 400, 8);
}

/* The trigger fires where a try that is taken back does not come to. */
static void a_job_whose_claim_fails_at_the_commit_is_parked(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 20;
    enqueue(f, 100);
    testdb_exec(&f->db,
                "CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION '" WHY "' USING ERRCODE = '23514'; END $$;"
                "CREATE CONSTRAINT TRIGGER poison AFTER UPDATE ON pawl.job DEFERRABLE"
                " INITIALLY DEFERRED FOR EACH ROW"
                " WHEN (old.token IS NULL AND new.token IS NOT NULL AND new.id = 50)"
                " EXECUTE FUNCTION public.poison()");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 99 && count_of(f, PARKED) == 1);
    crew_stop(&crew);
    assert_only_parked(f, &crew, 100, 1);
}

static void another_queue_does_not_notice(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.queues[1] = "r";
    crew.options.n_queues = 2;
    crew.options.concurrency = 20;
    enqueue(f, 50);
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'r', 'k', '' FROM generate_series(1, 50)");
    cannot_claim(f, "new.queue = 'q'", "22000");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history WHERE queue = 'r'") == 50);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE queue = 'q'"), 0);
}

/* What is wrong with all of them is wrong with none: the worker parks some, then becomes slow. */
static void a_fault_of_all_jobs_parks_few_of_them(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 20;
    enqueue(f, 200);
    cannot_claim(f, "true", "22000");
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->unclaimable == 20);
    idle_for(&crew, 500);
    assert_in_range(crew_stats(&crew)->unclaimable, 20, 24);
    testdb_exec(&f->db, "DROP TRIGGER poison ON pawl.job");
    /* Nothing is known about the others any more. */
    run_until(f, count_of(f, "pawl.history") + count_of(f, PARKED) == 200);
    crew_stop(&crew);
    assert_in_range(count_of(f, PARKED), 20, 25);
}

static void a_job_in_a_lane_is_parked_and_its_lane_goes_on(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    char lane[8];

    lane_crew(&crew, f);
    crew.options.concurrency = 8;
    for (int i = 1; i <= 10; i++) {
        snprintf(lane, sizeof(lane), "l%d", i);
        enqueue_in(f, lane, 10, 4);
    }
    /* The first of a lane, one in the middle, the last. */
    cannot_claim(f, "new.id IN (1, 25, 100)", "22000");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 97 && count_of(f, PARKED) == 3);
    crew_stop(&crew);
    assert_only_parked(f, &crew, 100, 3);
    for (int i = 1; i <= 10; i++)
        assert_int_equal(seen.peak[i], 1);
}

/* ---- hands with sources, as those of a server */

static size_t source_room(struct hands *hands, size_t source)
{
    struct crew *crew = (struct crew *)(void *)hands;

    (void)source;
    return crew->now < 20 ? 20 - crew->now : 0;
}

static void a_source_goes_on_without_it(void **state)
{
    static const char *const kinds[] = {"k"};
    static const struct hands_ops ops = {
        .run = hands_run, .stop = hands_stop, .kinds = hands_kinds, .room = source_room};
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.hands.ops = &ops;
    crew.options.n_queues = 0;
    crew.options.concurrency = 40;
    enqueue(f, 200);
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'r', 'k', '' FROM generate_series(1, 200)");
    cannot_claim(f, "new.id IN (1, 77, 401)", "22000");
    crew_start(&crew);
    assert_int_equal(coordinator_set_source(crew.c, 0, "q", kinds, 1), 0);
    assert_int_equal(coordinator_set_source(crew.c, 1, "r", kinds, 1), 0);
    run_until(f, count_of(f, "pawl.history") == 398 && count_of(f, PARKED) == 2);
    crew_stop(&crew);
    assert_only_parked(f, &crew, 400, 2);
}

/* ---- smaller after a timeout */

/* Statements that change more than four rows are cancelled, as by a deadline. */
static void cancel_large(struct fixture *f, const char *table, const char *event)
{
    char sql[700];

    snprintf(sql,
             sizeof(sql),
             "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " IF (SELECT count(*) FROM changed) > 4 THEN"
             "   RAISE EXCEPTION 'canceling statement' USING ERRCODE = '57014'; END IF;"
             " RETURN NULL; END $$;"
             "CREATE TRIGGER slow AFTER %s ON %s REFERENCING NEW TABLE AS changed"
             " FOR EACH STATEMENT EXECUTE FUNCTION public.slow()",
             event,
             table);
    testdb_exec(&f->db, sql);
}

static void a_claim_that_times_out_is_repeated_smaller(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 30;
    enqueue(f, 60);
    cancel_large(f, "pawl.job", "UPDATE");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 60);
    crew_stop(&crew);
    assert_all_done(f, 60); /* nobody was parked */
}

static void a_settle_that_times_out_is_repeated_smaller(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 60;
    crew.run_ms = HELD;
    enqueue(f, 60);
    cancel_large(f, "pawl.history", "INSERT");
    crew_start(&crew);
    run_until(f, crew.now == 60);
    crew_let_go(&crew);
    run_until(f, count_of(f, "pawl.history") == 60);
    crew_stop(&crew);
    assert_all_done(f, 60);
}

/* ---- settles */

#define UNSETTLED                                                                 \
    "pawl.jobs WHERE state = 'parked' AND errors -> -1 ->> 'class' = 'permanent'" \
    " AND errors -> -1 ->> 'error' LIKE 'the outcome could not be stored: " WHY "%'"

static void refuse(struct fixture *f, const char *event, const char *when)
{
    char sql[500];

    snprintf(sql,
             sizeof(sql),
             "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " RAISE EXCEPTION '" WHY "' USING ERRCODE = '22000'; END $$;"
             "CREATE TRIGGER refuse BEFORE %s FOR EACH ROW WHEN (%s)"
             " EXECUTE FUNCTION public.refuse()",
             event,
             when);
    testdb_exec(&f->db, sql);
}

static void assert_settles_the_rest(struct fixture *f, int n, int64_t bad)
{
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 100;
    crew.run_ms = HELD;
    crew_start(&crew);
    run_until(f, crew.now == (size_t)n);
    crew_let_go(&crew);
    run_until(f, crew.settled == (size_t)n);
    assert_int_equal(crew.stale, 0);
    assert_int_equal(crew_stats(&crew)->parked, bad);
    crew_stop(&crew);
    assert_int_equal(count_of(f, UNSETTLED), bad);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), n - bad);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void a_job_whose_end_history_refuses_is_parked(void **state)
{
    struct fixture *f = *state;

    enqueue(f, 100);
    refuse(f, "INSERT ON pawl.history", "new.id IN (7, 50)");
    assert_settles_the_rest(f, 100, 2);
}

static void a_job_that_cannot_be_deleted_is_parked(void **state)
{
    struct fixture *f = *state;

    enqueue(f, 100);
    refuse(f, "DELETE ON pawl.job", "old.id = 100");
    assert_settles_the_rest(f, 100, 1);
}

/* The lane cannot be left: the job is parked all the same, and lanes_mend is told. */
static void a_job_whose_lane_cannot_be_left_is_parked(void **state)
{
    struct fixture *f = *state;

    enqueue(f, 50);
    enqueue_in(f, "l1", 1, 4);
    enqueue_in(f, "l2", 1, 4);
    refuse(f, "UPDATE ON pawl.lane", "old.name = 'l1' AND old.holders <> '{}'");
    assert_settles_the_rest(f, 52, 1);
    assert_int_equal(count_of(f, "pawl.job WHERE lane = 'l1' AND waits_for = 'operator'"), 1);
    assert_int_equal(count_of(f, "pawl.lane_stir WHERE name = 'l1'"), 1);
}

static struct outcome on_and_on(struct crew *crew, const struct job *job)
{
    static const struct going_on next = {.step = "two"};

    (void)crew;
    if (job->machine == NULL)
        return (struct outcome){.kind = OUTCOME_NEXT, .on = &next, .run_us = 1};
    return outcome_done();
}

static void a_step_that_cannot_be_stored_fails_its_machine_alone(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 100;
    crew.outcome = on_and_on;
    enqueue(f, 100);
    refuse(f, "UPDATE ON pawl.machine", "new.job_id = 31 AND new.step = 'two'");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 100);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 99);
    assert_int_equal(count_of(f,
                              "pawl.history WHERE id = 31 AND state = 'failed'"
                              " AND errors -> -1 ->> 'error' LIKE '%" WHY "%'"),
                     1);
}

/* ---- notes */

static void a_note_that_is_refused_keeps_back_no_other(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 20;
    crew.run_ms = HELD;
    enqueue(f, 20);
    crew_start(&crew);
    run_until(f, crew.now == 20);
    LIST_FOREACH(link, &crew.held) {
        struct run *run = LIST_ENTRY(link, struct held, link)->run;

        coordinator_note(crew.c, run, run->job.id == 7 ? "\xff" : "half");
    }
    run_until(f, count_of(f, "pawl.job_option WHERE progress = 'half'") == 19);
    crew_let_go(&crew);
    run_until(f, crew.settled == 20);
    crew_stop(&crew);
    assert_all_done(f, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(a_job_that_cannot_be_claimed_is_parked_and_the_others_run),
        lanes_test(a_parked_job_runs_when_its_cause_is_mended),
        lanes_test(several_in_a_row_and_two_workers),
        lanes_test(a_job_whose_claim_fails_at_the_commit_is_parked),
        lanes_test(another_queue_does_not_notice),
        lanes_test(a_fault_of_all_jobs_parks_few_of_them),
        lanes_test(a_job_in_a_lane_is_parked_and_its_lane_goes_on),
        lanes_test(a_source_goes_on_without_it),
        lanes_test(a_claim_that_times_out_is_repeated_smaller),
        lanes_test(a_settle_that_times_out_is_repeated_smaller),
        lanes_test(a_job_whose_end_history_refuses_is_parked),
        lanes_test(a_job_that_cannot_be_deleted_is_parked),
        lanes_test(a_job_whose_lane_cannot_be_left_is_parked),
        lanes_test(a_note_that_is_refused_keeps_back_no_other),
        lanes_test(a_step_that_cannot_be_stored_fails_its_machine_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
