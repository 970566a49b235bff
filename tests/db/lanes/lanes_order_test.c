/* In what order the jobs of a lane start, and how fast. */
#include "lanes_fixture.h"

/* ── order ── */

static int64_t retry_after_ms;

static struct outcome first_try_fails(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->id == 1 && job->attempt == 1)
        return leave_as(job, OUTCOME_RETRY, retry_after_ms);
    return leave_as(job, OUTCOME_DONE, -1);
}

/* Until n are done. */
static void run_lane(struct fixture *f, size_t n_crews, const char *rule, int64_t n)
{
    static struct crew crews[3];

    testdb_exec(&f->db, rule);
    enqueue_in(f, "l1", 4, 4);
    enqueue_in(f, "l1", 1, 9); /* more urgent, but later */
    for (size_t i = 0; i < n_crews; i++) {
        lane_crew(&crews[i], f);
        crews[i].run_ms = 1;
        crews[i].options.poll_ms = crews[i].options.poll_max_ms = 10;
        crews[i].outcome = first_try_fails;
        crew_start(&crews[i]);
    }
    run_until(f, count_of(f, "pawl.history") == n);
    for (size_t i = 0; i < n_crews; i++)
        crew_stop(&crews[i]);
    assert_int_equal(seen.peak[1], 1);
}

static void a_strict_lane_that_holds_waits_for_the_retry(void **state)
{
    retry_after_ms = 40;
    run_lane(*state, 3, "SELECT pawl.lane_set('*', '*', strict => true, hold => true)", 5);
    assert_order("1,1,2,3,4,5");
}

static void a_strict_lane_that_yields_goes_on_in_order_beside_the_retry(void **state)
{
    retry_after_ms = 3600000;
    run_lane(*state, 3, "SELECT pawl.lane_set('*', '*', strict => true)", 4);
    assert_order("1,2,3,4,5");
}

/*
 * It is first. The rest follow in any order: whoever leaves the lane calls the first that is not locked just then, and a
 * look of the same worker may lock some.
 */
static void a_lane_that_is_not_strict_prefers_what_is_urgent(void **state)
{
    retry_after_ms = 3600000;
    run_lane(*state, 1, "SELECT pawl.lane_set('q', 'l1')", 4);
    assert_int_equal(seen.n, 5);
    assert_int_equal(seen.order[0], 5);
}

static void a_strict_lane_waits_for_what_is_scheduled_earlier_in_line(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.options.poll_ms = crew.options.poll_max_ms = 10;
    testdb_exec(&f->db,
                "SELECT pawl.lane_set('q', '*', strict => true);"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', delay => '100 ms');"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1')");
    crew_start(&crew);
    run_until(f, crew.settled == 2);
    assert_order("1,2");
    crew_stop(&crew);
}

/* The first of a strict lane is cancelled: those behind it do not wait for ever. */
static void a_strict_lane_goes_on_when_the_first_is_cancelled(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    testdb_exec(&f->db,
                "SELECT pawl.lane_set('q', '*', strict => true);"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', delay => '1 h');"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1')");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'lane'") == 1);
    testdb_exec(&f->db, "SELECT pawl.cancel(1)");
    run_until(f, crew.settled == 1);
    assert_order("2");
    crew_stop(&crew);
}

/* ── how fast ── */

/* By the database's clock: in no window were there more starts than burst + rate × time; and they
 * did not take much longer than they must. */
static bool rate_is_kept_and_used(struct fixture *f, int lane)
{
    static struct crew crews[3];
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "TRUNCATE public.starts;"
             "SELECT pawl.enqueue('k', queue => 'q', lane => 'l%d') FROM generate_series(1, 60)",
             lane);
    testdb_exec(&f->db, sql);
    for (size_t i = 0; i < 3; i++) {
        lane_crew(&crews[i], f);
        crews[i].run_ms = 30;
        crews[i].options.concurrency = 20;
        crews[i].options.poll_ms = crews[i].options.poll_max_ms = 20;
        crew_start(&crews[i]);
    }
    run_until(f, done_by(crews, 3) == 60);
    for (size_t i = 0; i < 3; i++)
        crew_stop(&crews[i]);
    /* The bucket: any n starts take at least (n - burst) / rate; a twentieth for the moment between
     * the decision and the note. */
    int64_t exceeded = testdb_int(
        &f->db,
        "SELECT count(*) FROM (SELECT a.at AS from_at, b.at AS to_at, (SELECT count(*)"
        " FROM starts AS c WHERE c.at BETWEEN a.at AND b.at) AS n FROM starts AS a, starts"
        " AS b WHERE a.at <= b.at) AS w WHERE n > 5 + 1 + 105 *"
        " (date_part('epoch', to_at - from_at) + 0.02)");
    /* And it is used: the 55 beyond the burst take 0.55 s, and on a busy machine not five times
     * that. */
    return exceeded == 0 &&
           testdb_int(&f->db,
                      "SELECT (date_part('epoch', max(at) - min(at)) * 1000)::int8 FROM starts") <=
               2750;
}

/* A session that stands still between its decision and its note, or altogether, spoils a try; not
 * all of them. */
static void a_rate_is_kept_and_used(void **state)
{
    struct fixture *f = *state;
    int lane = 1;

    testdb_exec(&f->db,
                "SELECT pawl.lane_set('q', 'l*', 50, rate_per_s => 100, burst => 5);"
                "CREATE TABLE public.starts (at timestamptz);"
                "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO public.starts SELECT clock_timestamp() FROM generate_series(1,"
                "  cardinality(new.job_ids)); RETURN NULL; END $$;"
                "CREATE TRIGGER note AFTER INSERT ON pawl.claim FOR EACH ROW EXECUTE FUNCTION"
                " public.note()");
    while (!rate_is_kept_and_used(f, lane))
        assert_true(++lane < 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(a_strict_lane_that_holds_waits_for_the_retry),
        lanes_test(a_strict_lane_that_yields_goes_on_in_order_beside_the_retry),
        lanes_test(a_lane_that_is_not_strict_prefers_what_is_urgent),
        lanes_test(a_strict_lane_waits_for_what_is_scheduled_earlier_in_line),
        lanes_test(a_strict_lane_goes_on_when_the_first_is_cancelled),
        lanes_test(a_rate_is_kept_and_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
