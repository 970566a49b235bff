/*
 * The coordinator at work: claims before it runs, runs each job once, keeps its slots full and no
 * fuller, and sleeps when there is nothing to do.
 */
#include "engine_fixture.h"

static void every_job_runs_exactly_once(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.concurrency = 7;
    crew.options.until_empty = true;
    enqueue(*state, 200);
    crew_start(&crew);
    run_until(crew.f, crew.stopped);
    assert_int_equal(crew_stats(&crew)->claimed, 200);
    assert_int_equal(crew_stats(&crew)->done, 200);
    assert_int_equal(crew_stats(&crew)->stale, 0);
    crew_end(&crew);
    assert_int_equal(crew.settled, 200);
    assert_int_equal(crew.left, 0);
    assert_each_once(&crew, NULL, 200);
    assert_all_done(*state, 200);
}

static void slots_are_full_and_no_fuller(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.concurrency = 3;
    crew.options.until_empty = true;
    crew.run_ms = 3;
    enqueue(*state, 40);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.peak, 3);
    assert_each_once(&crew, NULL, 40);
}

static void a_slow_job_does_not_hold_up_the_others(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.concurrency = 2;
    crew.run_ms = HELD;
    enqueue(*state, 51);
    crew_start(&crew);
    run_until(crew.f, crew.now == 2);
    struct held *slow = LIST_ENTRY(crew.held.next, struct held, link);

    crew.run_ms = 0;
    held_end(LIST_ENTRY(slow->link.next, struct held, link));
    run_until(crew.f, crew.settled == 50);
    assert_int_equal(crew.now, 1);
    assert_int_equal(crew.peak, 2);
    crew_let_go(&crew);
    crew_stop(&crew);
    assert_all_done(*state, 51);
}

static void the_urgent_come_first_and_then_the_oldest(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.options.until_empty = true;
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload, priority, due_at) VALUES"
                " ('q', 'k', '', 4, now() - interval '1 s'), ('q', 'k', '', 0, now()),"
                " ('q', 'k', '', 9, now()), ('q', 'k', '', 4, now() - interval '2 s')");
    crew_start(&crew);
    crew_end(&crew);
    const int64_t expected[] = {3, 4, 1, 2};

    assert_memory_equal(crew.order, expected, sizeof(expected));
}

static void only_its_queues_and_kinds_are_claimed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.queues[1] = "r";
    crew.options.n_queues = 2;
    crew.options.until_empty = true;
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload) SELECT q, k, ''"
                " FROM unnest('{q,r,s}'::text[]) AS q, unnest('{k,l}'::text[]) AS k,"
                " generate_series(1, 5)");
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 10);
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'k' AND queue IN ('q', 'r')"), 10);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 0 AND token IS NULL"), 20);
}

static void it_drains_and_then_sleeps(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.concurrency = 5;
    crew.options.deaf = true;
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000;
    enqueue(*state, 50);
    crew_start(&crew);
    run_until(crew.f, crew.settled == 50);
    run_until(crew.f, crew_stats(&crew)->empty_claims >= 1);
    idle_for(&crew, 50);
    /* Asleep, and deaf: not even a job for it is noticed, until it is woken. */
    uint64_t claims = crew_stats(&crew)->claims;

    assert_in_range(crew_stats(&crew)->empty_claims, 1, 2);
    enqueue(*state, 1);
    idle_for(&crew, 100);
    assert_int_equal(crew_stats(&crew)->claims, claims);
    coordinator_wake(crew.c);
    run_until(crew.f, crew.settled == 51);
    idle_for(&crew, 50);
    assert_in_range(crew_stats(&crew)->claims, claims + 2, claims + 3);
    crew_stop(&crew);
    assert_all_done(*state, 51);
}

static void a_sleeper_looks_again_by_itself(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew_start(&crew);
    run_until(crew.f, crew_stats(&crew)->empty_claims >= 2);
    enqueue(*state, 3);
    run_until(crew.f, crew.settled == 3);
    crew_stop(&crew);
    assert_all_done(*state, 3);
}

static void a_wake_during_a_claim_is_not_lost(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000;
    hold_claims(f);
    crew_start(&crew);
    run_until(f, claim_waits(f));
    enqueue(f, 1); /* the claim under way cannot see it */
    coordinator_wake(crew.c);
    release_claims(f);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_all_done(f, 1);
}

static struct outcome fail_first(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->attempt > 1)
        return outcome_done();
    return (struct outcome){
        .kind = OUTCOME_RETRY, .error = "the first is always bad", .delay_ms = 0, .run_us = 5};
}

static void a_failed_attempt_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.outcome = fail_first;
    enqueue(f, 5);
    crew_start(&crew);
    run_until(f, crew.settled == 10);
    assert_int_equal(crew_stats(&crew)->retried, 5);
    assert_int_equal(crew_stats(&crew)->done, 5);
    crew_stop(&crew);
    assert_all_done(f, 5);
    assert_int_equal(count_of(f,
                              "pawl.history WHERE attempt = 2 AND jsonb_array_length(errors) = 1"
                              " AND errors -> 0 ->> 'error' = 'the first is always bad'"
                              " AND result = 'ok'"),
                     5);
}

static void what_hands_cannot_start_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.refuse = 2;
    retry_late(f);
    enqueue(f, 3);
    crew_start(&crew);
    run_until(f, crew.settled == 3);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f,
                              "pawl.jobs WHERE state = 'retrying' AND attempt = 1"
                              " AND errors -> 0 ->> 'error' = 'no more hands'"),
                     2);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, crew.settled == 5);
    crew_stop(&crew);
    assert_all_done(f, 3);
}

static void what_this_process_is_too_short_to_start_keeps_its_attempt(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.refuse = 2;
    crew.refuse_code = PAWL_EFULL;
    enqueue(f, 3);
    crew_start(&crew);
    run_until(f, crew.runs == 3 && count_of(f, "pawl.history WHERE state = 'done'") == 3);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE attempt = 1 AND errors IS NULL"), 3);
}

static void a_paused_queue_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.run_ms = HELD;
    enqueue(f, 3);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "INSERT INTO pawl.queue (name, paused_at) VALUES ('q', now())");
    crew_let_go(&crew); /* what runs goes on */
    run_until(f, crew.settled == 1 && crew_stats(&crew)->empty_claims >= 3);
    assert_int_equal(crew.runs, 1);
    crew.run_ms = 0;
    testdb_exec(&f->db, "UPDATE pawl.queue SET paused_at = NULL");
    run_until(f, crew.settled == 3);
    crew_stop(&crew);
    assert_all_done(f, 3);
}

static void two_coordinators_share_the_work(void **state)
{
    struct crew a;
    struct crew b;

    crew_init(&a, *state);
    crew_init(&b, *state);
    a.options.until_empty = b.options.until_empty = true;
    a.run_ms = b.run_ms = 1;
    enqueue(*state, 200);
    crew_start(&a);
    crew_start(&b);
    crew_end(&a);
    crew_end(&b);
    assert_each_once(&a, &b, 200);
    assert_true(a.runs > 0 && b.runs > 0);
    assert_all_done(*state, 200);
}

static struct outcome enqueue_another(struct crew *crew, const struct job *job)
{
    if (job->id < 4)
        enqueue(crew->f, 1);
    return outcome_done();
}

static void until_empty_does_what_jobs_enqueue(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.until_empty = true;
    crew.outcome = enqueue_another;
    enqueue(*state, 1);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 4);
    assert_all_done(*state, 4);
}

static void until_empty_looks_again_after_a_claim_that_was_too_early(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.until_empty = true;
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2 && crew_stats(&crew)->empty_claims > 0);
    hold_claims(f);
    crew_let_go_one(&crew); /* claims again, and that claim is held */
    run_until(f, claim_waits(f));
    enqueue(f, 1); /* by the second job, say, just before it ends */
    crew_let_go(&crew);
    crew.run_ms = 0;
    run_until(f, crew.settled == 2);
    release_claims(f);
    crew_end(&crew);
    assert_int_equal(crew.runs, 3);
    assert_all_done(f, 3);
}

static void until_empty_waits_for_what_is_due_again_at_once(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.until_empty = true;
    crew.outcome = fail_first;
    /* The claim that follows the run gets there before the settle does. */
    testdb_exec(&crew.f->db,
                "CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_sleep(0.1); RETURN NULL; END $$;"
                "CREATE TRIGGER late AFTER UPDATE ON pawl.job FOR EACH ROW"
                " WHEN (OLD.token IS NOT NULL) EXECUTE FUNCTION public.late()");
    enqueue(*state, 1);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 2);
    assert_all_done(*state, 1);
}

static void an_empty_queue_ends_until_empty(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.until_empty = true;
    crew_start(&crew);
    run_until(crew.f, crew.stopped);
    /* One, and one more when LISTEN says that something may have been missed. */
    assert_in_range(crew_stats(&crew)->empty_claims, 1, 2);
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
    assert_all_done(*state, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(every_job_runs_exactly_once),
        engine_test(slots_are_full_and_no_fuller),
        engine_test(a_slow_job_does_not_hold_up_the_others),
        engine_test(the_urgent_come_first_and_then_the_oldest),
        engine_test(only_its_queues_and_kinds_are_claimed),
        engine_test(it_drains_and_then_sleeps),
        engine_test(a_sleeper_looks_again_by_itself),
        engine_test(a_wake_during_a_claim_is_not_lost),
        engine_test(a_failed_attempt_is_tried_again),
        engine_test(what_hands_cannot_start_is_tried_again),
        engine_test(what_this_process_is_too_short_to_start_keeps_its_attempt),
        engine_test(a_paused_queue_is_left_alone),
        engine_test(two_coordinators_share_the_work),
        engine_test(until_empty_does_what_jobs_enqueue),
        engine_test(until_empty_looks_again_after_a_claim_that_was_too_early),
        engine_test(until_empty_waits_for_what_is_due_again_at_once),
        engine_test(an_empty_queue_ends_until_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
