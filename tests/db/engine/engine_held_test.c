/*
 * A worker that starts while a snapshot somewhere keeps dead rows: it begins where others have got to (pawl.mark)
 * instead of walking what they have worked off. Counted in pages of the index, at two sizes.
 */
#include "engine_fixture.h"

#define SMALL 20000
#define LARGE 100000
#define WALK  (LARGE / 200) /* pages: as many entries have no room in fewer */
#define TRIES 8

/* Pages of the index that all sessions so far have touched; a session tells when it ends. */
static int64_t pages(struct fixture *f)
{
    run_until(f,
              count_of(f,
                       "pg_stat_activity WHERE datname = current_database()"
                       " AND backend_type = 'client backend' AND application_name <> 'held'"
                       " AND pid <> pg_backend_pid()") == 0);
    testdb_exec(&f->db, "SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()");
    return testdb_int(&f->db,
                      "SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes"
                      " WHERE indexrelname = 'job_pick'");
}

/* n jobs that came and went an hour ago. */
static void work_off(struct fixture *f, int n)
{
    char sql[300];

    snprintf(sql,
             sizeof(sql),
             "INSERT INTO pawl.job (id, queue, kind, payload, due_at) OVERRIDING SYSTEM VALUE"
             " SELECT 1000000 + n, 'q', 'k', '', now() - interval '1 h' FROM generate_series(1, %d)"
             " AS n; DELETE FROM pawl.job",
             n);
    testdb_exec(&f->db, sql);
}

/* A worker from its start to its first job. */
static int64_t first_job(struct fixture *f)
{
    int64_t before = pages(f);
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    return pages(f) - before;
}

/* As few pages as in any of some tries, or no more than enough: a worker that is slow to get its first job also
 * looks at everything, once a second. */
static int64_t first_job_least(struct fixture *f, int64_t enough)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < TRIES && least > enough; i++) {
        int64_t n = first_job(f);

        least = n < least ? n : least;
    }
    return least;
}

/* Until the marks are stored, which workers do every five seconds. */
static void store_marks(struct fixture *f)
{
    struct crew crew;

    testdb_exec(&f->db, "DELETE FROM pawl.mark");
    crew_init(&crew, f);
    enqueue(f, 1);
    crew_start(&crew);
    run_until(
        f, count_of(f, "pawl.mark, unnest(due_at) AS at WHERE at > now() - interval '30 min'") > 0);
    crew_stop(&crew);
}

static void a_new_worker_does_not_walk_what_is_worked_off(void **state)
{
    struct fixture *f = *state;
    PGconn *held = session(f,
                           "SET application_name = 'held'; BEGIN ISOLATION LEVEL REPEATABLE READ;"
                           "SELECT count(*) FROM pawl.job");

    work_off(f, SMALL);
    store_marks(f);
    int64_t few = first_job_least(f, WALK / 5);

    work_off(f, LARGE);
    store_marks(f);
    int64_t many = first_job_least(f, few + WALK / 5);

    testdb_exec(&f->db, "DELETE FROM pawl.mark");
    int64_t unmarked = first_job(f);

    PQfinish(held);
    print_message(
        "# pages of job_pick: %lld after %d jobs, %lld after %d more, %lld without marks\n",
        (long long)few,
        SMALL,
        (long long)many,
        LARGE,
        (long long)unmarked);
    assert_true(many <= few + WALK / 5); /* a look more or less, and a deeper index */
    assert_true(unmarked > few + WALK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_new_worker_does_not_walk_what_is_worked_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
