/*
 * The tight loop, scenario by scenario: drain while there is work, share it safely, no busy wait
 * when there is none, wake at once, and take on no more than there are slots. Then the rules of
 * dispatch: claimed before it is handed on, and the lease covers what was not.
 */
#include "engine_wake_fixture.h"
#include "hands/threads.h"

static void drain_queue_continuously_when_work_is_available(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    uint64_t polls = crew_stats(&crew)->poll_wakeups;
    uint64_t empty = crew_stats(&crew)->empty_claims;

    for (int i = 0; i < 2; i++)
        submit(f, "q", 50); /* 25 times as many as it has slots for */
    run_until(f, crew.settled == 100);
    /* Nothing but the one or two notifications woke it, and until the last no claim was empty. */
    assert_in_range(crew_stats(&crew)->notify_wakeups, 1, 2);
    assert_in_range(
        crew_stats(&crew)->poll_wakeups, polls, polls + 1); /* the look after the last */
    assert_in_range(crew_stats(&crew)->empty_claims, empty, empty + 5);
    assert_int_equal(crew.peak, 4);
    crew_stop(&crew);
    assert_all_done(f, 100);
}

#define CREWS 10

static void multi_worker_coordination_remains_safe(void **state)
{
    struct fixture *f = *state;
    struct crew *crews = calloc(CREWS, sizeof(*crews));
    size_t settled = 0;
    size_t busy = 0;

    assert_non_null(crews);
    enqueue(f, 1000);
    for (int i = 0; i < CREWS; i++) {
        crew_init(&crews[i], f);
        crews[i].options.until_empty = true;
        crews[i].run_ms = 1;
        crew_start(&crews[i]);
    }
    for (int i = 0; i < CREWS; i++) {
        crew_end(&crews[i]);
        settled += crews[i].settled;
        busy += crews[i].runs > 0; /* one whose connection is slow may come too late */
        assert_int_equal(crews[i].stale, 0);
    }
    assert_int_equal(settled, 1000);
    assert_true(busy >= 2);
    for (int id = 1; id <= 1000; id++) {
        int seen = 0;

        for (int i = 0; i < CREWS; i++)
            seen += crews[i].seen[id];
        assert_int_equal(seen, 1);
    }
    assert_all_done(f, 1000);
    free(crews);
}

/* Statements that the others have begun since the table was made, as the database saw them; looks
 * every few milliseconds, so few escape. */
static int64_t statements_seen(struct fixture *f)
{
    testdb_exec(&f->db,
                "INSERT INTO seen SELECT pid, query_start FROM pg_stat_activity WHERE " OTHERS
                " ON CONFLICT DO NOTHING");
    return count_of(f, "seen");
}

static void no_busy_wait_when_the_queue_is_empty(void **state)
{
    struct fixture *f = *state;
    struct crew *crews = calloc(CREWS, sizeof(*crews));

    assert_non_null(crews);
    for (int i = 0; i < CREWS; i++) {
        crew_init_sleeper(&crews[i], f);
        crew_start(&crews[i]);
    }
    run_until(f, all_asleep(f, CREWS));
    testdb_exec(&f->db,
                "CREATE UNLOGGED TABLE seen (pid int, at timestamptz, PRIMARY KEY (pid, at))");
    int64_t before = statements_seen(f);
    uint64_t until_ms = uv_now(&f->loop) + 1000;

    run_until(f, statements_seen(f) > INT32_MAX || uv_now(&f->loop) > until_ms);
    /* Each has a first sweep, a look at history and one at what is due next soon after its start;
     * never a claim. */
    assert_in_range(statements_seen(f) - before, 0, 3 * CREWS);
    for (int i = 0; i < CREWS; i++) {
        assert_true(crew_stats(&crews[i])->claims < 20);
        crew_stop(&crews[i]);
    }
    free(crews);
}

static void immediate_wake_up_for_new_work(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    for (size_t n = 1; n <= 5; n++) {
        uint64_t polls = crew_stats(&crew)->poll_wakeups;

        submit(f, "q", 1);
        run_until(f, crew.runs == n);
        assert_int_equal(crew_stats(&crew)->notify_wakeups, n);
        assert_int_equal(crew_stats(&crew)->poll_wakeups, polls); /* no look found it */
        run_until(f, crew.settled == n);
        run_until(f, all_asleep(f, 1)); /* or it takes them for a stream, and looks by itself */
    }
    submit(f, "q", 30); /* and then all there is, not one */
    run_until(f, crew.settled == 35);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 6);
    crew_stop(&crew);
    assert_all_done(f, 35);
}

static void back_pressure_when_all_slots_are_busy(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f); /* even polls and calls do not make it take more */
    crew.run_ms = HELD;
    enqueue(f, 20);
    crew_start(&crew);
    run_until(f, crew.now == 4);
    uint64_t claims = crew_stats(&crew)->claims;

    submit(f, "q", 5);
    coordinator_wake(crew.c);
    idle_for(&crew, 150);
    assert_int_equal(crew_stats(&crew)->claims, claims);
    assert_int_equal(crew_stats(&crew)->claimed, 4);
    crew_let_go_one(&crew);
    run_until(f, crew.now == 4); /* filled at once, by one */
    assert_int_equal(crew_stats(&crew)->claimed, 5);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, crew.settled == 25);
    assert_int_equal(crew.peak, 4);
    crew_stop(&crew);
    assert_all_done(f, 25);
}

/* ── dispatch ── */

/* At the moment it is handed on, another session sees it claimed, counted and leased. */
static void check_claimed(struct crew *crew, const struct job *job)
{
    char sql[300];
    char token[UUID_TEXT_LEN + 1];

    uuid_format(&job->token, token);
    snprintf(sql,
             sizeof(sql),
             "SELECT count(*) FROM pawl.job AS j JOIN pawl.claim AS c USING (token)"
             " WHERE j.id = %lld AND j.token = '%s' AND j.attempt = 1 AND j.id = ANY (c.job_ids)"
             " AND c.lease_until > clock_timestamp() + interval '10 s'",
             (long long)job->id,
             token);
    assert_int_equal(testdb_int(&crew->f->db, sql), 1);
}

static void claim_before_send(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.until_empty = true;
    crew.options.prefetch = 6;
    crew.on_run = check_claimed;
    enqueue(*state, 20);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 20);
}

/* Claimed, and then the process is gone before it handed it on: the lease runs out, and the attempt
 * counts. */
static void the_lease_covers_claimed_but_unsent(void **state)
{
    struct fixture *f = *state;
    struct crew dead;
    struct crew heir;

    crew_init(&dead, f);
    dead.options.concurrency = 1;
    dead.options.prefetch = 3;
    dead.options.lease_ms = 2000;
    dead.run_ms = HELD;
    retry_late(f);
    enqueue(f, 4);
    crew_start(&dead);
    run_until(f, dead.now == 1);
    assert_int_equal(crew_stats(&dead)->claimed, 4);
    /* As a kill would have it: its locks are never got, so nothing is released or renewed. */
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job FOR UPDATE");

    coordinator_stop(dead.c);
    coordinator_stop(dead.c);
    crew_end(&dead);
    assert_int_equal(dead.runs, 1);
    PQfinish(other);
    run_until(f, count_of(f, "pg_stat_activity WHERE " OTHERS) == 0);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'running' AND attempt = 1"), 4);
    crew_init(&heir, f);
    heir.options.lease_ms = 6000; /* which it must not lose */
    crew_start(&heir);
    run_until(f, count_of(f, "pawl.jobs WHERE state = 'retrying' AND attempt = 1") == 4);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, heir.settled == 4);
    crew_stop(&heir);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 2"), 4);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void the_pause_gate_stops_claiming_only_and_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "INSERT INTO pawl.queue (name, paused_at) VALUES ('*', now())");
    crew_let_go(&crew);
    run_until(f, crew.settled == 1); /* what runs goes on, and is settled */
    run_until(f, crew_stats(&crew)->empty_claims >= 2);
    crew_stop(&crew);
    crew_init(&crew, f);
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->empty_claims >= 3);
    assert_int_equal(crew.runs, 0);
    testdb_exec(&f->db, "UPDATE pawl.queue SET paused_at = NULL");
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_all_done(f, 2);
}

/* ── with thread hands ── */

static void count_run(void *data, struct task *task)
{
    int *seen = data;

    __atomic_fetch_add(&seen[task_job(task)->id], 1, __ATOMIC_RELAXED);
}

static void note_true(void *data)
{
    *(bool *)data = true;
}

static void thread_hands_drain_a_queue_each_job_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    static int seen[5001];
    const struct threads_handler handler = {.kind = "k", .fn = count_run, .data = seen};
    struct pawl_err err;
    bool closed = false;

    crew_init(&crew, f);
    memset(seen, 0, sizeof(seen));
    crew.options.hands =
        threads_new(&f->loop,
                    &(struct threads_options){
                        .handlers = &handler, .n_handlers = 1, .threads = 4, .queue_max = 200},
                    &err);
    assert_non_null(crew.options.hands);
    crew.options.concurrency = 4;
    crew.options.prefetch = 1000;
    crew.options.until_empty = true;
    enqueue(f, 5000);
    crew_start(&crew);
    run_until(f, crew.stopped);
    assert_int_equal(crew_stats(&crew)->done, 5000);
    assert_true(crew_stats(&crew)->settle_batch_max > 10);
    assert_true(crew_stats(&crew)->claims + crew_stats(&crew)->settles < 2000);
    threads_close(crew.options.hands, note_true, &closed);
    run_until(f, closed);
    crew_end(&crew);
    for (int id = 1; id <= 5000; id++)
        assert_int_equal(seen[id], 1);
    assert_all_done(f, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(drain_queue_continuously_when_work_is_available),
        engine_test(multi_worker_coordination_remains_safe),
        engine_test(no_busy_wait_when_the_queue_is_empty),
        engine_test(immediate_wake_up_for_new_work),
        engine_test(back_pressure_when_all_slots_are_busy),
        engine_test(claim_before_send),
        engine_test(the_lease_covers_claimed_but_unsent),
        engine_test(the_pause_gate_stops_claiming_only_and_survives_a_restart),
        engine_test(thread_hands_drain_a_queue_each_job_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
