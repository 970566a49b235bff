/*
 * Workers that ask for the same jobs share them: no worker takes what the others could run, and no
 * worker is left without.
 */
#include "engine_wake_fixture.h"

#define WORKERS 10
#define JOBS    1000
#define LEAST   (JOBS * 3 / 100)
#define MOST    (JOBS * 25 / 100)
#define ROUNDS  3

static struct crew crews[WORKERS];

static size_t settled_by_all(void)
{
    size_t n = 0;

    for (int i = 0; i < WORKERS; i++)
        n += crews[i].settled;
    return n;
}

/* Ten workers sleep, and nothing but a notification wakes them; a thousand jobs of 10 ms come at
 * once. Whether each worker runs 3 to 25 percent of them. */
static bool share(struct fixture *f)
{
    size_t least = JOBS;
    size_t most = 0;

    testdb_exec(&f->db, "TRUNCATE pawl.job, pawl.history RESTART IDENTITY");
    for (int i = 0; i < WORKERS; i++) {
        crew_init_sleeper(&crews[i], f);
        crews[i].run_ms = 10;
        crew_start(&crews[i]);
    }
    run_until(f, all_asleep(f, WORKERS));
    testdb_exec(&f->db,
                "SELECT pawl.enqueue_many('k', array_fill('{}'::jsonb, '{1000}'), queue => 'q')");
    run_until(f, settled_by_all() == JOBS);
    for (int i = 0; i < WORKERS; i++) {
        print_message("# worker %d ran %zu jobs\n", i, crews[i].runs);
        least = crews[i].runs < least ? crews[i].runs : least;
        most = crews[i].runs > most ? crews[i].runs : most;
        crew_stop(&crews[i]);
    }
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 1"), JOBS);
    return least >= LEAST && most <= MOST;
}

/* A machine that stands still while jobs are handed out may spoil a round. */
static void ten_workers_share_the_load(void **state)
{
    bool shared = false;

    for (int round = 0; !shared && round < ROUNDS; round++)
        shared = share(*state);
    assert_true(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(ten_workers_share_the_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
