/*
 * What a coordinator counts: every counter of engine/stats.h moves, when what it counts happens. The
 * last test looks at the sum of all: a counter that nothing moved is one that nobody keeps.
 */
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
    assert_int_equal(stats->settle_batch_max, 13);
    assert_int_equal(stats->settles, 1);
    assert_int_equal(stats->settle_errors, 0);
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
    crew.options.lease_ms = 300;
    crew.run_ms = HELD;
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
        engine_test(claims_are_counted_by_what_they_found),
        engine_test(errors_are_counted),
        engine_test(leases_are_counted),
        engine_test(a_settle_of_unknown_fate_is_counted),
        cmocka_unit_test(every_counter_was_seen_to_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
