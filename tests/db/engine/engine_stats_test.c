/*
 * What a coordinator counts: every counter of engine/stats.h moves, when what it counts happens. The
 * last test looks at the sum of all: a counter that nothing moved is one that nobody keeps.
 */
#include <time.h>

#include "core/machine.h"
#include "engine_wake_fixture.h"

static struct coordinator_stats total;

/* Adds up, then ends the crew. */
static void crew_count(struct crew *crew)
{
    const struct coordinator_stats *stats = crew_stats(crew);

#define ADD(name, what) total.name += stats->name;
    COORDINATOR_COUNTERS(ADD)
#undef ADD
    total.claim.n += stats->claim.n;
    total.settle.n += stats->settle.n;
    total.renew.n += stats->renew.n;
    total.sweep.n += stats->sweep.n;
    assert_int_equal(stats->claim.n, stats->claims);
    assert_int_equal(stats->settle.n, stats->settles);
    assert_int_equal(stats->renew.n, stats->renewals);
    assert_true(stats->claim.total_us >= stats->claim.max_us);
    assert_true(stats->claims == 0 || stats->claim.max_us > 0);
    /* Beside these at least LISTEN and the worker's own row. */
    assert_true(stats->statements >=
                stats->claims + stats->settles + stats->renewals + stats->sweep.n + 2);
}

static struct outcome by_id(struct crew *crew, const struct job *job)
{
    static const struct outcome outcomes[] = {
        {.kind = OUTCOME_DONE, .result = "ok", .result_len = 2},
        {.kind = OUTCOME_RETRY, .error = "later", .delay_ms = 3600000},
        {.kind = OUTCOME_FAIL, .error = "never"},
        {.kind = OUTCOME_SNOOZE, .delay_ms = 3600000},
        {.kind = OUTCOME_CANCEL},
        {.kind = OUTCOME_REJECT, .error = "against the rules"},
    };

    (void)crew;
    return outcomes[(job->id - 1) % 6];
}

static void each_outcome_is_counted_as_what_it_came_to(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, park) VALUES ('p', true)");
    crew_init(&crew, f);
    crew.kinds[1] = "p";
    crew.options.concurrency = 20;
    crew.outcome = by_id;
    crew.run_ms = HELD;
    enqueue(f, 12);
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (id, queue, kind, payload) VALUES (15, 'q', 'p', '')");
    crew_start(&crew);
    run_until(f, crew.now == 13);
    crew_let_go(&crew);
    run_until(f, crew.settled == 13);
    const struct coordinator_stats *stats = crew_stats(&crew);

    assert_int_equal(stats->claimed, 13);
    assert_int_equal(stats->done, 2);
    assert_int_equal(stats->retried, 2);
    assert_int_equal(stats->failed, 4);
    assert_int_equal(stats->snoozed, 2);
    assert_int_equal(stats->cancelled, 2);
    assert_int_equal(stats->parked, 1);
    assert_int_equal(stats->errors_transient, 2);
    assert_int_equal(stats->errors_permanent, 3); /* one of them parked */
    assert_int_equal(stats->errors_business, 2);
    assert_int_equal(stats->settle_batch_max, 13);
    assert_int_equal(stats->settles, 1);
    assert_int_equal(stats->settle_errors, 0);
    crew_count(&crew);
    crew_stop(&crew);
}

/* One that goes on at once, and one over the database. */
static struct outcome three_steps(struct crew *crew, const struct job *job)
{
    static struct going_on on;

    (void)crew;
    if (job->machine != NULL && strcmp(job->machine->step, "third") == 0)
        return outcome_done();
    on.step = job->machine == NULL ? "second" : "third";
    return (struct outcome){
        .kind = OUTCOME_NEXT, .on = &on, .delay_ms = job->machine == NULL ? 0 : 1, .run_us = 1000};
}

static void steps_of_machines_are_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.outcome = three_steps;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->done == 2);
    assert_int_equal(crew_stats(&crew)->steps, 4);
    assert_int_equal(crew_stats(&crew)->claimed, 4);
    crew_count(&crew);
    crew_stop(&crew);
}

static void claims_are_counted_by_what_they_found(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew.options.concurrency = 5;
    crew.options.prefetch = 5;
    crew.run_ms = HELD;
    enqueue(f, 8);
    crew_start(&crew);
    run_until(f, all_asleep(f, 1)); /* eight of ten: short, and then nothing */
    const struct coordinator_stats *stats = crew_stats(&crew);

    assert_int_equal(stats->claims - stats->empty_claims, 1);
    assert_int_equal(stats->short_claims, stats->claims);
    assert_true(stats->full_scans >= 1 && stats->full_scans <= stats->claims);
    assert_true(stats->poll_wakeups >= 4);
    submit(f, "q", 1);
    run_until(f, stats->notify_wakeups == 1 && stats->claimed == 9);
    coordinator_stop(crew.c);
    run_until(f, stats->released == 4);
    crew_let_go(&crew);
    run_until(f, crew.stopped);
    assert_int_equal(stats->done, 5);
    crew_count(&crew);
    crew_end(&crew);
}

/* A claim that never ends, and it holds nobody up for long. */
static void a_turn_that_does_not_come_is_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *other = other_turn(f);

    crew_init(&crew, f);
    crew.options.prefetch = IDS_MAX;
    enqueue(f, 1800);
    crew_start(&crew);
    run_until(f, crew.settled == 1800);
    assert_int_equal(crew_stats(&crew)->claim_errors, 0);
    assert_int_equal(crew_stats(&crew)->missed_turns, 1);
    crew_count(&crew);
    crew_stop(&crew);
    assert_all_done(f, 1800);
    PQfinish(other);
}

/* A producer enqueues, and commits when jobs that came after its own have long been done. */
static void jobs_that_are_committed_late_are_found_and_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *late =
        session(f, "BEGIN; INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')");

    crew_init(&crew, f);
    crew_start(&crew);
    for (size_t n = 1; n <= 10; n++) {
        uint64_t until_ms = uv_now(&f->loop) + 250;

        submit(f, "q", 1);
        run_until(f, crew.settled == n && uv_now(&f->loop) >= until_ms);
    }
    assert_int_equal(crew_stats(&crew)->strays, 0);
    PQclear(PQexec(late, "COMMIT"));
    run_until(f, crew.settled == 11);
    assert_int_equal(crew_stats(&crew)->strays, 1);
    crew_count(&crew);
    crew_stop(&crew);
    PQfinish(late);
}

static void tables_that_fill_with_dead_rows_are_vacuumed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.prefetch = IDS_MAX;
    enqueue(f, 1800);
    crew_start(&crew);
    run_until(f, crew.settled == 1800 && crew_stats(&crew)->vacuums >= 1);
    assert_true(
        count_of(f, "pg_stat_user_tables WHERE last_vacuum IS NOT NULL AND relname = 'job'") == 1);
    crew_count(&crew);
    crew_stop(&crew);
}

static void a_job_that_cannot_be_claimed_is_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 10);
    testdb_exec(&f->db,
                "CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'no' USING ERRCODE = '22000'; END $$;"
                "CREATE TRIGGER poison BEFORE UPDATE ON pawl.job FOR EACH ROW"
                " WHEN (new.token IS NOT NULL AND new.id = 5) EXECUTE FUNCTION public.poison()");
    crew_start(&crew);
    run_until(f, crew.settled == 9 && crew_stats(&crew)->unclaimable == 1);
    crew_count(&crew);
    crew_stop(&crew);
}

static void errors_are_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "ALTER TABLE pawl.job RENAME TO job_away");
    coordinator_wake(crew.c);
    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->claim_errors >= 1 && crew_stats(&crew)->settle_errors >= 1);
    testdb_exec(&f->db, "ALTER TABLE pawl.job_away RENAME TO job");
    run_until(f, crew.settled == 1);
    assert_int_equal(crew_stats(&crew)->done, 1);
    crew_count(&crew);
    crew_stop(&crew);
}

/* Its sweep takes back what a dead worker left, its renewal finds that a claim is gone, and what
 * comes of that is stale. */
static void leases_are_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 3000;
    crew.run_ms = HELD;
    retry_late(f); /* what it swept is not to be claimed, too */
    enqueue(f, 2);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-000000000001', attempt = 1"
                " WHERE id = 1;"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
                " ('a0000000-0000-4000-8000-000000000001', gen_random_uuid(), '-infinity', '{1}')");
    crew_start(&crew);
    run_until(f, crew.now == 1 && crew_stats(&crew)->swept == 1);
    run_until(f, crew_stats(&crew)->renewals >= 1);
    testdb_exec(&f->db,
                "DELETE FROM pawl.claim; UPDATE pawl.job SET token = NULL, due_at = 'infinity'");
    run_until(f, crew_stats(&crew)->lost_claims == 1);
    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->stale == 1);
    assert_true(crew_stats(&crew)->sweep.n >= 1);
    crew_count(&crew);
    crew_stop(&crew);
}

/* The settle hangs in its commit, and its backend is ended there: nobody knows what became of it.
 * Meanwhile the job is gone, as if it had been committed. */
static void a_settle_of_unknown_fate_is_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 1);
    testdb_exec(&f->db,
                "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_advisory_xact_lock_shared(77); RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER hold AFTER DELETE ON pawl.job DEFERRABLE INITIALLY"
                " DEFERRED FOR EACH ROW EXECUTE FUNCTION public.hold();"
                "SELECT pg_advisory_lock(77)");
    crew_start(&crew);
    run_until(f, crew.now == 1);
    crew_let_go(&crew);
    run_until(f, claim_waits(f));
    testdb_exec(&f->db,
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                " AND objid = 77 AND NOT granted; DELETE FROM pawl.job");
    run_until(f, crew_stats(&crew)->resettled == 1);
    assert_int_equal(crew_stats(&crew)->settle_errors, 1);
    assert_int_equal(crew_stats(&crew)->stale, 0);
    crew_count(&crew);
    crew_stop(&crew);
}

/* Trouble of the worker's own: memory, a kind that fails, a rollout, a run without end. */
struct trouble {
    struct crew crew; /* first */
    int64_t used_percent;
    uv_timer_t block;
};

static int fake_memory(void *data, struct memory_sample *ret_sample, struct pawl_err *err)
{
    const struct trouble *trouble = data;

    (void)err;
    *ret_sample = (struct memory_sample){
        .source = MEMORY_GROUP2, .used_bytes = trouble->used_percent, .limit_bytes = 100};
    return 0;
}

static struct outcome always_retry(struct crew *crew, const struct job *job)
{
    (void)crew;
    (void)job;
    return (struct outcome){.kind = OUTCOME_RETRY, .error = "later", .delay_ms = 3600000};
}

static void what_is_set_aside_is_counted(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job WHERE id = 1 FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->settle_locked == 1 && crew.settled == 1);
    PQfinish(other);
    run_until(f, crew.settled == 2);
    assert_int_equal(crew_stats(&crew)->settle_locked, 1);
    crew_count(&crew);
    crew_stop(&crew);
}

/* The loop stands still: nothing else makes a stall. */
static void block_cb(uv_timer_t *timer)
{
    struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

    (void)timer;
    nanosleep(&pause, NULL);
}

static void trouble_of_its_own_is_counted(void **state)
{
    struct fixture *f = *state;
    struct trouble trouble = {.used_percent = 10};
    struct crew *crew = &trouble.crew;
    struct pawl_err err = {0};

    crew_init(crew, f);
    crew->outcome = always_retry;
    crew->options.max_concurrency = 8;
    crew->options.pulse_ms = 5;
    crew->options.window_ms = 5;
    crew->options.overrun_ms = 20;
    crew->options.stall_ms = 40;
    crew->options.memory_percent = 80;
    crew->options.memory_read = fake_memory;
    crew->options.memory_data = &trouble;
    crew->options.breaker = (struct breaker_options){.percent = 50, .min_runs = 8};
    crew->run_ms = HELD;
    enqueue(f, 8);
    testdb_exec(&f->db, "UPDATE pawl.job SET timeout_ms = 1");
    crew_start(crew);
    assert_int_equal(coordinator_rollout(crew->c, 8, 3600000, &err), 0);
    run_until(f, crew->now == 8 && crew_stats(crew)->overruns == 8);
    crew_let_go(crew);
    run_until(f, crew_stats(crew)->breaker_openings == 1 && crew->settled == 8);
    trouble.used_percent = 90;
    run_until(f, crew_stats(crew)->memory_closings == 1 && crew_stats(crew)->rollbacks == 1);
    assert_int_equal(crew_stats(crew)->concurrency_changes, 2);
    uv_timer_init(&f->loop, &trouble.block);
    uv_timer_start(&trouble.block, block_cb, 1, 20);
    run_until(f, crew_stats(crew)->stalls >= 1);
    uv_close((uv_handle_t *)&trouble.block, NULL);
    crew_count(crew);
    crew_stop(crew);
}

static void every_counter_was_seen_to_move(void **state)
{
    (void)state;
#define MOVED(name, what) \
    if (total.name == 0)  \
        fail_msg("%s never moved: %s", #name, what);
    COORDINATOR_COUNTERS(MOVED)
#undef MOVED
    assert_true(total.claim.n > 0 && total.settle.n > 0 && total.renew.n > 0 && total.sweep.n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(each_outcome_is_counted_as_what_it_came_to),
        engine_test(steps_of_machines_are_counted),
        engine_test(claims_are_counted_by_what_they_found),
        engine_test(a_turn_that_does_not_come_is_counted),
        engine_test(jobs_that_are_committed_late_are_found_and_counted),
        engine_test(tables_that_fill_with_dead_rows_are_vacuumed),
        engine_test(a_job_that_cannot_be_claimed_is_counted),
        engine_test(errors_are_counted),
        engine_test(leases_are_counted),
        engine_test(a_settle_of_unknown_fate_is_counted),
        engine_test(trouble_of_its_own_is_counted),
        engine_test(what_is_set_aside_is_counted),
        cmocka_unit_test(every_counter_was_seen_to_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
