/*
 * What a worker does about trouble of its own: memory that gets tight, a kind whose runs fail, and the number of jobs that
 * run at a time. None of it ends a job that runs or burns an attempt.
 */
#include "engine_fixture.h"

#define HOUR_MS 3600000

/* A crew whose memory and luck the test decides. */
struct gate {
    struct crew crew; /* first */
    int64_t used_percent;
    bool unlucky; /* jobs of kind "bad" fail */
};

static int fake_memory(void *data, struct memory_sample *ret_sample, struct pawl_err *err)
{
    const struct gate *gate = data;

    (void)err;
    *ret_sample = (struct memory_sample){
        .source = MEMORY_GROUP2, .used_bytes = gate->used_percent, .limit_bytes = 100};
    return 0;
}

static struct outcome by_luck(struct crew *crew, const struct job *job)
{
    const struct gate *gate = (const struct gate *)(const void *)crew;

    if (gate->unlucky && strcmp(job->kind, "bad") == 0)
        return (struct outcome){
            .kind = OUTCOME_RETRY, .error = "no luck", .delay_ms = HOUR_MS, .run_us = 1000};
    return outcome_done();
}

static void gate_init(struct gate *gate, struct fixture *f)
{
    *gate = (struct gate){.used_percent = 10, .unlucky = true};
    crew_init(&gate->crew, f);
    gate->crew.kinds[1] = "bad";
    gate->crew.outcome = by_luck;
    gate->crew.options.pulse_ms = 5;
    gate->crew.options.window_ms = 20;
    gate->crew.options.memory_percent = 80;
    gate->crew.options.memory_read = fake_memory;
    gate->crew.options.memory_data = gate;
    gate->crew.options.breaker =
        (struct breaker_options){.percent = 50, .min_runs = 4, .open_ms = HOUR_MS, .probes = 1};
}

static void enqueue_bad(struct fixture *f, int n)
{
    char sql[160];

    snprintf(sql,
             sizeof(sql),
             "INSERT INTO pawl.job (queue, kind, payload) SELECT 'q', 'bad', ''"
             " FROM generate_series(1, %d)",
             n);
    testdb_exec(&f->db, sql);
}

static struct coordinator_gauges gauges(const struct gate *gate)
{
    struct coordinator_gauges now;

    coordinator_gauges(gate->crew.c, &now);
    return now;
}

static int64_t attempts(struct fixture *f, const char *kind)
{
    char sql[160];

    snprintf(
        sql, sizeof(sql), "SELECT coalesce(sum(attempt), 0) FROM pawl.job WHERE kind = '%s'", kind);
    return testdb_int(&f->db, sql);
}

/* ---- memory */

static void tight_memory_stops_claims_and_lets_running_jobs_finish(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.concurrency = 2;
    gate.crew.options.prefetch = 3;
    gate.crew.run_ms = HELD;
    enqueue(f, 9);
    crew_start(&gate.crew);
    run_until(f, gate.crew.now == 2 && gauges(&gate).buffered == 3);
    gate.used_percent = 81;
    run_until(f, crew_stats(&gate.crew)->released == 3); /* what was claimed ahead */
    assert_int_equal(crew_stats(&gate.crew)->memory_closings, 1);
    assert_true(gauges(&gate).memory_closed_ms > 0);
    crew_let_go(&gate.crew);
    run_until(f, gate.crew.settled == 2);
    idle_for(&gate.crew, 60);
    assert_int_equal(gate.crew.runs, 2);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND attempt = 0"), 7);
    /* A little better is not good enough. */
    gate.used_percent = 76;
    idle_for(&gate.crew, 30);
    assert_int_equal(gate.crew.runs, 2);
    gate.used_percent = 75;
    gate.crew.run_ms = 0;
    run_until(f, gate.crew.settled == 9);
    assert_int_equal(gauges(&gate).memory_closed_ms, 0);
    assert_int_equal(gauges(&gate).memory_limit_bytes, 100);
    crew_stop(&gate.crew);
    assert_all_done(f, 9);
    assert_each_once(&gate.crew, NULL, 9);
}

static void a_worker_that_starts_in_tight_memory_claims_nothing(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.used_percent = 90;
    gate.crew.options.until_empty = true; /* which must wait, too */
    enqueue(f, 3);
    crew_start(&gate.crew);
    idle_for(&gate.crew, 60);
    assert_int_equal(gate.crew.runs, 0);
    assert_int_equal(crew_stats(&gate.crew)->claims, 0);
    assert_false(gate.crew.stopped);
    gate.used_percent = 10;
    crew_end(&gate.crew);
    assert_all_done(f, 3);
}

/* A claim that was on the wire when the gate closed gives back what it brought. */
static void jobs_that_arrive_behind_the_gate_go_back(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    enqueue(f, 3);
    hold_claims(f);
    crew_start(&gate.crew);
    run_until(f, claim_waits(f));
    gate.used_percent = 90;
    run_until(f, crew_stats(&gate.crew)->memory_closings == 1);
    release_claims(f);
    run_until(f, crew_stats(&gate.crew)->released == 3);
    assert_int_equal(gate.crew.runs, 0);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND attempt = 0"), 3);
    crew_stop(&gate.crew);
}

/* ---- breakers */

static void a_kind_that_fails_is_left_alone_and_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.prefetch = 6;
    enqueue_bad(f, 40);
    enqueue(f, 20);
    crew_start(&gate.crew);
    run_until(f,
              crew_stats(&gate.crew)->breaker_openings == 1 && crew_stats(&gate.crew)->done == 20);
    run_until(f, gate.crew.now == 0 && gauges(&gate).buffered + gauges(&gate).unsettled == 0);
    size_t runs = gate.crew.runs;

    assert_in_range(runs, 24, 20 + 4 + 4 + 6); /* what ran already when it opened */
    idle_for(&gate.crew, 60);
    assert_int_equal(gate.crew.runs, runs);
    assert_int_equal(gauges(&gate).breakers_open, 1);
    /* What was claimed ahead has its attempt back, and nothing is held. */
    assert_int_equal(attempts(f, "bad"), runs - 20);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 0);
    assert_int_equal(crew_stats(&gate.crew)->errors_transient, runs - 20);
    crew_stop(&gate.crew);
}

static void what_was_claimed_ahead_of_such_a_kind_goes_back(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.prefetch = 6;
    gate.crew.run_ms = HELD;
    enqueue_bad(f, 10);
    crew_start(&gate.crew);
    run_until(f, gate.crew.now == 4 && gauges(&gate).buffered == 6);
    crew_let_go(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->released == 6);
    assert_int_equal(gate.crew.runs, 4);
    assert_int_equal(attempts(f, "bad"), 4);
    crew_stop(&gate.crew);
}

/* The first one that would be a probe cannot be claimed: it is parked, and the next is the probe. */
static void a_probe_that_cannot_be_claimed_is_parked(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.breaker.open_ms = 3000; /* long enough for what follows to be settled */
    enqueue_bad(f, 30);
    crew_start(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->breaker_openings == 1 && gate.crew.now == 0);
    run_until(f, gauges(&gate).unsettled == 0);
    gate.unlucky = false;
    testdb_exec(&f->db,
                "CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'no' USING ERRCODE = '22000'; END $$;"
                "CREATE TABLE public.bad AS SELECT min(id) AS id FROM pawl.job WHERE attempt = 0;"
                "CREATE FUNCTION public.is_bad(bigint) RETURNS boolean LANGUAGE sql"
                " AS 'SELECT $1 = id FROM public.bad';"
                "CREATE TRIGGER poison BEFORE UPDATE ON pawl.job FOR EACH ROW"
                " WHEN (old.token IS NULL AND new.token IS NOT NULL AND public.is_bad(new.id))"
                " EXECUTE FUNCTION public.poison()");
    run_until(f, count_of(f, "pawl.job WHERE attempt = 0") == 0 && gate.crew.now == 0);
    run_until(f, gauges(&gate).unsettled == 0);
    assert_int_equal(crew_stats(&gate.crew)->unclaimable, 1);
    assert_int_equal(gauges(&gate).breakers_open, 0);
    crew_stop(&gate.crew);
    assert_int_equal(
        count_of(f, "pawl.job AS j JOIN public.bad USING (id) WHERE waits_for = 'operator'"), 1);
}

static void a_probe_that_goes_well_closes_the_breaker(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.breaker.open_ms = 3000; /* long enough for what follows to be settled */
    enqueue_bad(f, 30);
    crew_start(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->breaker_openings == 1 && gate.crew.now == 0);
    size_t failed = gate.crew.runs;

    run_until(f, gauges(&gate).unsettled == 0);
    uint64_t released = crew_stats(&gate.crew)->released;

    gate.unlucky = false;
    gate.crew.run_ms = HELD;
    run_until(f, gate.crew.now == 1);
    coordinator_wake(gate.crew.c);
    idle_for(&gate.crew, 60);
    assert_int_equal(gate.crew.now, 1); /* one probe, though four could run */
    assert_int_equal(gate.crew.runs, failed + 1);
    assert_int_equal(crew_stats(&gate.crew)->released, released); /* none was claimed in vain */
    gate.crew.run_ms = 0;
    crew_let_go(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->done == 30 - failed);
    assert_int_equal(crew_stats(&gate.crew)->breaker_openings, 1);
    assert_int_equal(gauges(&gate).breakers_open, 0);
    crew_stop(&gate.crew);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 0"), 0);
}

static void a_probe_that_fails_costs_one_attempt(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.breaker.open_ms = 30;
    enqueue_bad(f, 30);
    crew_start(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->breaker_openings == 1 && gate.crew.now == 0);
    run_until(f, crew_stats(&gate.crew)->breaker_openings == 3); /* two probes failed */
    coordinator_stop(gate.crew.c);
    run_until(f, gate.crew.stopped);
    assert_in_range(gate.crew.runs, 6, 4 + 4 + crew_stats(&gate.crew)->breaker_openings);
    assert_int_equal(attempts(f, "bad"), gate.crew.runs);
    crew_end(&gate.crew);
}

/* A job of the kind comes only when it is half-open already; and it is in the second queue. */
static void a_probe_is_found_when_it_comes_later(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.queues[1] = "r";
    gate.crew.options.n_queues = 2;
    gate.crew.options.breaker.open_ms = 20;
    enqueue_bad(f, 4);
    crew_start(&gate.crew);
    run_until(f, crew_stats(&gate.crew)->breaker_openings == 1 && gate.crew.settled == 4);
    gate.unlucky = false;
    idle_for(&gate.crew, 60);
    assert_int_equal(gauges(&gate).breakers_open, 1);
    testdb_exec(&f->db, "INSERT INTO pawl.job (queue, kind, payload) VALUES ('r', 'bad', '')");
    run_until(f, crew_stats(&gate.crew)->done == 1);
    assert_int_equal(gauges(&gate).breakers_open, 0);
    crew_stop(&gate.crew);
}

static void with_all_kinds_left_alone_nothing_is_asked_and_once_ends(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.kinds[0] = "bad";
    gate.crew.kinds[1] = NULL;
    gate.crew.options.until_empty = true;
    enqueue_bad(f, 50);
    crew_start(&gate.crew);
    crew_end(&gate.crew);
    assert_in_range(gate.crew.runs, 4, 12);
    assert_int_equal(attempts(f, "bad"), gate.crew.runs);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 0);
}

/* ---- how many at a time */

static void set(struct gate *gate, size_t concurrency)
{
    struct pawl_err err = {0};

    if (coordinator_set_concurrency(gate->crew.c, concurrency, &err) < 0)
        fail_msg("%s", err.message);
}

static void concurrency_is_raised_and_lowered_while_it_works(void **state)
{
    struct fixture *f = *state;
    struct gate gate;
    struct pawl_err err = {0};

    gate_init(&gate, f);
    gate.crew.options.concurrency = 2;
    gate.crew.options.max_concurrency = 6;
    gate.crew.options.prefetch = 3;
    gate.crew.run_ms = HELD;
    enqueue(f, 30);
    crew_start(&gate.crew);
    run_until(f, gate.crew.now == 2);
    idle_for(&gate.crew, 20);
    assert_int_equal(gate.crew.peak, 2);
    set(&gate, 6);
    run_until(f, gate.crew.now == 6);
    assert_int_equal(gate.crew.peak, 6);
    set(&gate, 1);
    assert_int_equal(gate.crew.now, 6); /* what runs, runs */
    for (size_t left = 5; left >= 1; left--) {
        crew_let_go_one(&gate.crew);
        idle_for(&gate.crew, 10);
        assert_int_equal(gate.crew.now, left);
    }
    gate.crew.peak = 1;
    gate.crew.run_ms = 0;
    crew_let_go(&gate.crew);
    run_until(f, gate.crew.settled == 30);
    assert_int_equal(gate.crew.peak, 1);
    assert_int_equal(crew_stats(&gate.crew)->concurrency_changes, 2);
    assert_int_equal(coordinator_set_concurrency(gate.crew.c, 0, &err), PAWL_EINVAL);
    assert_int_equal(coordinator_set_concurrency(gate.crew.c, 7, &err), PAWL_EINVAL);
    assert_int_equal(coordinator_rollout(gate.crew.c, 7, 0, &err), PAWL_EINVAL);
    assert_int_equal(gauges(&gate).concurrency, 1);
    crew_stop(&gate.crew);
    assert_all_done(f, 30);
}

static void a_rollout_goes_back_by_itself_when_runs_fail(void **state)
{
    struct fixture *f = *state;
    struct gate gate;
    struct pawl_err err = {0};

    gate_init(&gate, f);
    gate.crew.options.breaker.percent = 0;
    gate.crew.options.concurrency = 2;
    gate.crew.options.max_concurrency = 8;
    crew_start(&gate.crew);
    assert_int_equal(coordinator_rollout(gate.crew.c, 8, HOUR_MS, &err), 0);
    assert_int_equal(gauges(&gate).concurrency, 8);
    enqueue_bad(f, 100);
    run_until(f, crew_stats(&gate.crew)->rollbacks == 1);
    assert_int_equal(gauges(&gate).concurrency, 2);
    run_until(f, gate.crew.now <= 2);
    gate.crew.peak = 0;
    run_until(f, gate.crew.settled == 100);
    assert_in_range(gate.crew.peak, 0, 2);
    crew_stop(&gate.crew);
}

static void a_rollout_goes_back_by_itself_when_memory_is_tight(void **state)
{
    struct fixture *f = *state;
    struct gate gate;
    struct pawl_err err = {0};

    gate_init(&gate, f);
    gate.crew.options.memory_percent = 0; /* no gate: the rollout minds by itself */
    gate.crew.options.concurrency = 2;
    gate.crew.options.max_concurrency = 8;
    crew_start(&gate.crew);
    assert_int_equal(coordinator_rollout(gate.crew.c, 8, HOUR_MS, &err), 0);
    idle_for(&gate.crew, 50);
    assert_int_equal(gauges(&gate).concurrency, 8);
    gate.used_percent = 81;
    run_until(f, crew_stats(&gate.crew)->rollbacks == 1);
    assert_int_equal(gauges(&gate).concurrency, 2);
    crew_stop(&gate.crew);
}

static void a_rollout_of_the_options_begins_when_all_is_well_and_is_kept(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.breaker.percent = 0;
    gate.crew.options.concurrency = 2;
    gate.crew.options.rollout = 5;
    gate.crew.options.rollout_ms = 60;
    enqueue_bad(f, 40); /* all fail: not now */
    crew_start(&gate.crew);
    run_until(f, gate.crew.settled == 40);
    idle_for(&gate.crew, 50);
    assert_int_equal(gauges(&gate).concurrency, 2);
    /* The last of the failures may share a window with the first that went well: then that one is
     * not all well, and it takes another. */
    size_t n = 40;
    for (int wave = 0; wave < 10 && gauges(&gate).concurrency == 2; wave++, n += 60) {
        enqueue(f, 60);
        run_until(f, gate.crew.settled == n + 60);
        idle_for(&gate.crew, 50);
    }
    idle_for(&gate.crew, 120);
    assert_int_equal(gauges(&gate).concurrency, 5);
    assert_int_equal(crew_stats(&gate.crew)->rollbacks, 0);
    crew_stop(&gate.crew);
}

static void dynamic_concurrency_grows_with_the_load_and_gives_way_to_errors(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    gate.crew.options.breaker.percent = 0;
    gate.crew.options.concurrency = 1;
    gate.crew.options.min_concurrency = 1;
    gate.crew.options.max_concurrency = 8;
    gate.crew.run_ms = 5; /* waiting, not working: more at a time is more done */
    enqueue(f, 900);
    crew_start(&gate.crew);
    run_until(f, gauges(&gate).concurrency >= 4 || gate.crew.settled == 900);
    if (gauges(&gate).concurrency <
        4) { /* on a machine that has much else to do it may need a second load */
        enqueue(f, 900);
        run_until(f, gauges(&gate).concurrency >= 4 || gate.crew.settled == 1800);
    }
    assert_true(gauges(&gate).concurrency >= 4);
    run_until(f, gate.crew.settled == 900 || gate.crew.settled == 1800);
    size_t before = (size_t)gauges(&gate).concurrency;

    assert_in_range(gate.crew.peak, 2, 8);
    enqueue_bad(f, 100);
    run_until(f, (size_t)gauges(&gate).concurrency < before);
    crew_stop(&gate.crew);
}

/* ---- what is told */

static void gauges_tell_how_it_is(void **state)
{
    struct fixture *f = *state;
    struct gate gate;

    gate_init(&gate, f);
    enqueue(f, 50);
    crew_start(&gate.crew);
    run_until(f, gate.crew.settled == 50);
    struct coordinator_gauges now = gauges(&gate);

    assert_in_range(now.run_p50_us, 1000, 1031); /* each ran a millisecond, says the crew */
    assert_in_range(now.run_p99_us, 1000, 1031);
    assert_int_equal(now.concurrency, 4);
    assert_int_equal(now.running, 0);
    assert_int_equal(now.memory_bytes, 10);
    assert_true(now.claim_p99_us > 0 && now.settle_p99_us > 0);
    crew_stop(&gate.crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(tight_memory_stops_claims_and_lets_running_jobs_finish),
        engine_test(a_worker_that_starts_in_tight_memory_claims_nothing),
        engine_test(jobs_that_arrive_behind_the_gate_go_back),
        engine_test(a_kind_that_fails_is_left_alone_and_others_go_on),
        engine_test(what_was_claimed_ahead_of_such_a_kind_goes_back),
        engine_test(a_probe_that_cannot_be_claimed_is_parked),
        engine_test(a_probe_that_goes_well_closes_the_breaker),
        engine_test(a_probe_that_fails_costs_one_attempt),
        engine_test(a_probe_is_found_when_it_comes_later),
        engine_test(with_all_kinds_left_alone_nothing_is_asked_and_once_ends),
        engine_test(concurrency_is_raised_and_lowered_while_it_works),
        engine_test(a_rollout_goes_back_by_itself_when_runs_fail),
        engine_test(a_rollout_goes_back_by_itself_when_memory_is_tight),
        engine_test(a_rollout_of_the_options_begins_when_all_is_well_and_is_kept),
        engine_test(dynamic_concurrency_grows_with_the_load_and_gives_way_to_errors),
        engine_test(gauges_tell_how_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
