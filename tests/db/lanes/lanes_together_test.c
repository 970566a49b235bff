/*
 * Jobs of a lane that a worker claims together: they run one after the other, and whatever happens to
 * one of them, nobody is left behind.
 */
#include "lanes_fixture.h"

#define JOBS 60

/* A worker with room for many. The first jobs tell it that they are short, so that it takes more of a
 * lane with its next claims. */
static void fast_crew(struct crew *crew, struct fixture *f)
{
    lane_crew(crew, f);
    crew->options.concurrency = 4;
    crew->options.prefetch = 40;
    crew->run_ms = 1;
}

static uint64_t claims; /* of the first crew, that found something */

static void drain(struct fixture *f, struct crew *crews, size_t n, int64_t done)
{
    for (size_t i = 0; i < n; i++)
        crew_start(&crews[i]);
    run_until(f, count_of(f, "pawl.history WHERE state = 'done'") == done);
    claims = crew_stats(&crews[0])->claims - crew_stats(&crews[0])->empty_claims;
    for (size_t i = 0; i < n; i++)
        crew_stop(&crews[i]);
    assert_int_equal(count_of(f, "pawl.job"), 0);
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
}

static bool in_order(int lane)
{
    int64_t last = 0;

    for (size_t i = 0; i < seen.n; i++) {
        if (seen.order[i] % 3 != lane % 3)
            continue;
        if (seen.order[i] < last)
            return false;
        last = seen.order[i];
    }
    return true;
}

/* Jobs 1, 4, 7, … in lane 1, and so on. */
static void enqueue_in_turn(struct fixture *f)
{
    testdb_exec(
        &f->db,
        "SELECT pawl.enqueue('k', queue => 'q', lane => 'l' || (1 + (n - 1) % 3), max_attempts"
        " => 3) FROM generate_series(1, 60) AS n");
}

static void they_run_one_after_the_other_in_the_order_of_their_ids(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    /* Together, or this would take a claim for each job of a lane. How many go together depends on how long they take,
     * so a moment in which all stand still spoils a try; not all of them. */
    claims = JOBS;
    for (int tries = 0; tries < 8 && claims > JOBS / 3; tries++) {
        memset(&seen, 0, sizeof(seen));
        testdb_exec(&f->db, "TRUNCATE pawl.history; ALTER TABLE pawl.job ALTER id RESTART WITH 1");
        fast_crew(&crew, f);
        crew.options.prefetch =
            2 * JOBS; /* the first claim sees all, so nobody is called out of turn */
        enqueue_in_turn(f);
        drain(f, &crew, 1, JOBS);
        for (int lane = 1; lane <= 3; lane++) {
            assert_int_equal(seen.peak[lane], 1);
            assert_true(in_order(lane));
        }
    }
    assert_in_range(claims, 1, JOBS / 3);
}

static void several_workers_never_meet_in_a_lane(void **state)
{
    struct fixture *f = *state;
    static struct crew crews[3];

    for (size_t i = 0; i < 3; i++)
        fast_crew(&crews[i], f);
    enqueue_in_turn(f);
    drain(f, crews, 3, JOBS);
    for (int lane = 1; lane <= 3; lane++)
        assert_int_equal(seen.peak[lane], 1);
}

static struct outcome every_fifth_fails_once(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->id % 5 == 0 && job->attempt == 1)
        return leave_as(job, OUTCOME_RETRY, 0);
    return leave_as(job, OUTCOME_DONE, -1);
}

static void one_that_fails_holds_up_nobody_and_comes_again(void **state)
{
    struct fixture *f = *state;
    static struct crew crews[2];

    for (size_t i = 0; i < 2; i++) {
        fast_crew(&crews[i], f);
        crews[i].outcome = every_fifth_fails_once;
    }
    enqueue_in_turn(f);
    drain(f, crews, 2, JOBS);
    assert_int_equal(seen.n, JOBS + JOBS / 5);
    for (int lane = 1; lane <= 3; lane++)
        assert_int_equal(seen.peak[lane], 1);
}

/* What was not started goes back at once, those behind included. */
static void a_worker_that_stops_gives_back_those_that_wait_behind(void **state)
{
    struct fixture *f = *state;
    static struct crew first;
    static struct crew second;

    fast_crew(&first, f);
    fast_crew(&second, f);
    first.run_ms = 20; /* so two of a lane at a time */
    enqueue_in_turn(f);
    crew_start(&first);
    run_until(f, first.settled >= 6 && count_of(f, "pawl.job WHERE token IS NOT NULL") > 3);
    crew_stop(&first);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt > 0"), 0);
    drain(f, &second, 1, JOBS);
}

static struct testdb *victims_db;
static int64_t victim; /* 0: none yet */

/* When one of a group is done the last of it, which waits behind the others, is cancelled. Nothing else happens meanwhile: the
 * coordinator is on this thread. */
static struct outcome the_last_behind_is_cancelled(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (victim == 0) {
        char sql[200];

        snprintf(
            sql,
            sizeof(sql),
            "SELECT coalesce(max(id), 0) FROM pawl.job WHERE lane = '%s' AND id > %lld AND token"
            " IS NOT NULL",
            job->lane,
            (long long)job->id);
        victim = testdb_int(victims_db, sql);
        snprintf(sql, sizeof(sql), "SELECT pawl.cancel(%lld)", (long long)victim);
        if (victim != 0)
            testdb_exec(victims_db, sql);
    }
    return leave_as(job, OUTCOME_DONE, -1);
}

static void one_behind_that_is_cancelled_does_not_run(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    fast_crew(&crew, f);
    crew.outcome = the_last_behind_is_cancelled;
    victims_db = &f->db;
    victim = 0;
    enqueue_in_turn(f);
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == JOBS);
    crew_stop(&crew);
    assert_true(victim != 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled'"), 1);
    for (size_t i = 0; i < seen.n; i++)
        assert_true(seen.order[i] != victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(they_run_one_after_the_other_in_the_order_of_their_ids),
        lanes_test(several_workers_never_meet_in_a_lane),
        lanes_test(one_that_fails_holds_up_nobody_and_comes_again),
        lanes_test(a_worker_that_stops_gives_back_those_that_wait_behind),
        lanes_test(one_behind_that_is_cancelled_does_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
