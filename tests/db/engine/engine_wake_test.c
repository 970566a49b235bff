/*
 * Sleeping and waking: who finds nothing says so before it sleeps, an enqueue notifies only then,
 * and whatever a notification cannot reach is found by a look.
 */
#include "engine_wake_fixture.h"

/* A job that is committed while the mark is being written is found by the look that follows it. */
static void the_mark_is_committed_before_it_sleeps(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew.options.concurrency = 1;
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1 && count_of(f, "pawl.worker") == 1);
    PGconn *other = session(f, "BEGIN; LOCK TABLE pawl.sleeper IN EXCLUSIVE MODE");

    crew_let_go(&crew);
    run_until(f, count_of(f, WAITING("sleeper_set")) == 1);
    submit(f, "q", 1); /* sees no mark, so it notifies nobody */
    assert_int_equal(crew.runs, 1);
    PQfinish(other);
    run_until(f, crew.runs == 2);
    assert_int_equal(crew_stats(&crew)->poll_wakeups, 0);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    crew_let_go(&crew);
    crew_stop(&crew);
}

/* One job after the other, each as soon as the one before is done: after a while nobody has to notify any more. */
static void who_keeps_up_with_a_stream_of_single_jobs_is_awake(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    size_t n = 0;

    crew_init_sleeper(&crew, f);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    for (int streak = 0; streak < 5 && n < IDS_MAX - 100; n++) {
        uint64_t notified = crew_stats(&crew)->notify_wakeups;

        submit(f, "q", 1);
        run_until(f, crew.settled == n + 1);
        streak = crew_stats(&crew)->notify_wakeups == notified ? streak + 1 : 0;
    }
    assert_true(n < IDS_MAX - 100);
    run_until(f, all_asleep(f, 1)); /* and when it ends, it sleeps */
    submit(f, "q", 1);
    run_until(f, crew.settled == n + 1);
    crew_stop(&crew);
}

static void an_enqueue_notifies_only_when_somebody_sleeps(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *listener = listener_new(f);

    crew_init_sleeper(&crew, f);
    crew.options.concurrency = 1;
    crew.run_ms = HELD;
    submit(f, "q", 1);
    assert_int_equal(notes_of(f, listener, "q"), 0); /* nobody is there */
    crew_start(&crew);
    run_until(f, crew.now == 1);
    submit(f, "q", 2);
    assert_int_equal(notes_of(f, listener, "q"), 0); /* busy: it will look by itself */
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, all_asleep(f, 1));
    assert_int_equal(crew.settled, 3);
    submit(f, "q", 10);
    assert_int_equal(notes_of(f, listener, "q"), 1); /* one for all of them */
    run_until(f, crew.settled == 13);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 1);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.sleeper"), 0);
    submit(f, "q", 1);
    assert_int_equal(notes_of(f, listener, "q"), 0);
    PQfinish(listener);
}

static void a_single_job_leaves_the_mark_and_a_busy_time_takes_it_back(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew.options.concurrency = 1;
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    bool left = false;
    size_t n = 0;

    /* One job is no busy time, unless the machine makes it one: some will be quick enough. */
    while (!left && n < 20) {
        testdb_exec(&f->db,
                    "DROP TABLE IF EXISTS before;"
                    "CREATE TABLE before AS SELECT xmin::text AS version FROM pawl.sleeper");
        submit(f, "q", 1);
        run_until(f, crew.settled == n + 1);
        n++;
        run_until(f, all_asleep(f, 1));
        left = /* not even written anew */
            count_of(f, "pawl.sleeper AS s JOIN before ON s.xmin::text = version WHERE asleep") ==
            1;
    }
    assert_true(left);
    crew.run_ms = 2;
    submit(f, "q", 60);
    run_until(f, count_of(f, "pawl.sleeper WHERE NOT asleep") == 1);
    assert_true(crew.settled < n + 60);
    run_until(f, crew.settled == n + 60);
    run_until(f, count_of(f, "pawl.sleeper WHERE asleep") == 1);
    crew_stop(&crew);
}

/* Its enqueue ran before the mark was there, and its commit comes after. */
static void a_transaction_under_way_is_caught_by_the_looks(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *listener = listener_new(f);
    PGconn *late = session(f, "BEGIN");

    crew_init_sleeper(&crew, f);
    submit_on(late, "q", 1);
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->poll_wakeups >= 1); /* not only the look right after the mark */
    PQclear(PQexec(late, "COMMIT"));
    run_until(f, crew.runs == 1);
    assert_int_equal(notes_of(f, listener, "q"), 0);
    crew_stop(&crew);
    PQfinish(late);
    PQfinish(listener);
}

static void a_lost_notification_is_made_up_for_by_the_poll(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.poll_max_ms = 5000; /* it must be seen to sleep in between */
    crew_start(&crew);
    /* Its row may come after its mark: then it doubts that, and looks once more. */
    run_until(f, count_of(f, "pawl.worker") == 1);
    idle_for(&crew, 50);
    run_until(f, all_asleep(f, 1));
    testdb_exec(&f->db, "DELETE FROM pawl.sleeper");
    uint64_t polls = crew_stats(&crew)->poll_wakeups;

    submit(f, "q", 1);
    run_until(f, crew.settled == 1);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    assert_true(crew_stats(&crew)->poll_wakeups > polls);
    crew_stop(&crew);
}

/* Connections of a crew, by what they were last used for. */
#define SETTLE_CONN "query ~ 'pawl.(worker_start|job_settle|claim_renew)'"
#define CLAIM_CONN  "query ~ 'pawl.(job_claim|sleeper_set|queue_next_due)'"

static void kill_backend(struct fixture *f, const char *which)
{
    char from[300];

    snprintf(from,
             sizeof(from),
             "(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " OTHERS
             " AND %s) AS killed",
             which);
    assert_int_equal(count_of(f, from), 1);
}

static void after_a_lost_connection_it_listens_again_and_looks_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    enqueue(f, 1); /* without any notification */
    kill_backend(f, CLAIM_CONN);
    run_until(f, crew.settled == 1);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    run_until(f, all_asleep(f, 1));
    submit(f, "q", 1);
    run_until(f, crew.settled == 2);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 1);
    crew_stop(&crew);
}

/* Another worker starts between this one's mark and its row, and takes it for one of the dead. */
static void a_mark_that_was_swept_away_at_the_start_is_set_again(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    struct arena arena;
    struct params params;
    struct pawl_err err;
    PGresult *r = NULL;
    const char *queue = "r";

    crew_init_sleeper(&crew, f);
    PGconn *other = session(f, "BEGIN; LOCK TABLE pawl.worker IN SHARE ROW EXCLUSIVE MODE");

    crew_start(&crew);
    run_until(f, count_of(f, "pawl.sleeper WHERE asleep") == 1);
    run_until(f, count_of(f, WAITING("worker_start")) == 1);
    arena_init(&arena, 1024UL * 1024);
    params_init(&params, &arena);
    worker_start_bind(&params,
                      &(struct worker_start){
                          .id = uuid_random(), .name = "x:1", .queues = &queue, .n_queues = 1});
    assert_int_equal(sync_exec(other, STMT(worker_start), &params, &r, &err), 0);
    PQclear(r);
    arena_deinit(&arena);
    PQclear(PQexec(other, "COMMIT"));
    assert_int_equal(count_of(f, "pawl.sleeper"), 0);
    run_until(f, count_of(f, "pawl.sleeper WHERE asleep") == 1);
    crew_stop(&crew);
    PQfinish(other);
}

static void a_worker_that_was_away_for_long_sets_its_mark_again(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    testdb_exec(&f->db, "DELETE FROM pawl.sleeper");
    kill_backend(f, SETTLE_CONN);
    run_until(f, count_of(f, "pawl.sleeper WHERE asleep") == 1);
    crew_stop(&crew);
}

/* Steady times at which the first n empty claims from now on were answered. */
static void note_claims(struct crew *crew, int64_t *ret_us, size_t n)
{
    uint64_t seen = crew_stats(crew)->empty_claims;

    for (size_t i = 0; i < n; i++) {
        run_until(crew->f, crew_stats(crew)->empty_claims > seen);
        seen = crew_stats(crew)->empty_claims;
        ret_us[i] = clock_mono_us(&clock_system);
    }
}

static bool polls_at_growing_intervals(struct fixture *f)
{
    struct crew crew;
    int64_t at_us[8];
    bool grow = true;

    crew_init(&crew, f);
    crew.options.deaf = true;
    crew.options.poll_ms = 10;
    crew.options.poll_max_ms = 640;
    crew_start(&crew);
    note_claims(&crew, at_us, 8);
    /* A timer may be late, but never early (by more than the millisecond it counts in). */
    for (int64_t i = 0, ms = 10; i < 7; i++, ms = ms < 640 ? ms * 2 : ms)
        grow = grow && at_us[i + 1] - at_us[i] >= (ms - 8) * US_PER_MS;
    enqueue(f, 1);
    run_until(f, crew.settled == 1); /* found, and from there on it is short again */
    note_claims(&crew, at_us, 3);
    assert_int_equal(count_of(f, "pawl.sleeper"), 0);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    crew_stop(&crew);
    return grow && at_us[2] - at_us[0] < 600LL * US_PER_MS;
}

/* Who stands still between a claim and the look at the clock measures something else; not every time. */
static void without_listen_it_polls_at_growing_intervals(void **state)
{
    int tries = 1;

    while (!polls_at_growing_intervals(*state))
        assert_true(++tries <= 8);
}

static void another_queue_does_not_wake_it(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    struct crew other;

    crew_init_sleeper(&crew, f);
    crew_init_sleeper(&other, f);
    other.queues[0] = "q2";
    crew_start(&crew);
    crew_start(&other);
    run_until(f, count_of(f, "pawl.worker") == 2 && count_of(f, "pawl.sleeper WHERE asleep") == 2);
    run_until(f, all_quiet(f));
    uint64_t claims = crew_stats(&crew)->claims;
    uint64_t polls = crew_stats(&crew)->poll_wakeups;

    submit(f, "q2", 1);
    run_until(f, other.settled == 1);
    assert_int_equal(crew_stats(&other)->notify_wakeups, 1);
    submit(f, "q", 1); /* the notifications come in order: the first has been heard by then */
    run_until(f, crew.settled == 1);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 1);
    polls = crew_stats(&crew)->poll_wakeups -
            polls; /* looks after its job, if it took long to be seen */
    assert_in_range(crew_stats(&crew)->claims, claims + 1, claims + 2 + polls);
    crew_stop(&crew);
    crew_stop(&other);
}

/* Later than all the looks, long before the poll. */
static void a_sleeper_wakes_for_what_is_scheduled(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000;
    enqueue(f, 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now() + interval '1.5 s'");
    crew_start(&crew);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_int_equal(testdb_int(&f->db,
                                "SELECT count(*) FROM pawl.history WHERE started_at - due_at"
                                " BETWEEN interval '0' AND interval '1 min'"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(the_mark_is_committed_before_it_sleeps),
        engine_test(who_keeps_up_with_a_stream_of_single_jobs_is_awake),
        engine_test(an_enqueue_notifies_only_when_somebody_sleeps),
        engine_test(a_single_job_leaves_the_mark_and_a_busy_time_takes_it_back),
        engine_test(a_transaction_under_way_is_caught_by_the_looks),
        engine_test(a_lost_notification_is_made_up_for_by_the_poll),
        engine_test(after_a_lost_connection_it_listens_again_and_looks_once),
        engine_test(a_mark_that_was_swept_away_at_the_start_is_set_again),
        engine_test(a_worker_that_was_away_for_long_sets_its_mark_again),
        engine_test(without_listen_it_polls_at_growing_intervals),
        engine_test(another_queue_does_not_wake_it),
        engine_test(a_sleeper_wakes_for_what_is_scheduled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
