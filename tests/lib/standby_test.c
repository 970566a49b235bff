/* Producing on the caller's own connection while the database's synchronous standby stalls (support/standby.py). */
#include "support/standby.h"

#include <pawl.h>

#define MANY 2500 /* more than one statement takes */

static struct testdb db;
static struct pawl_err err;

static int setup(void **state)
{
    (void)state;
    memset(&err, 0, sizeof(err));
    return testdb_new(&db);
}

static int teardown(void **state)
{
    (void)state;
    standby_go_on();
    testdb_free(&db);
    return 0;
}

static struct pawl_job_new plain(void)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;

    job.kind = "k";
    return job;
}

static int64_t jobs_there(void)
{
    return testdb_int(&db, "SELECT count(*) FROM pawl.job");
}

static void assert_unconfirmed(int rc)
{
    if (rc != PAWL_EUNKNOWN)
        print_error("%d: %s\n", rc, err.message);
    assert_int_equal(rc, PAWL_EUNKNOWN);
    assert_string_equal(err.sqlstate, "01000");
    assert_non_null(strstr(err.message, "no synchronous standby has confirmed the commit"));
    assert_non_null(strstr(err.hint, "same key"));
}

static void a_job_that_is_not_confirmed_is_not_accepted(void **state)
{
    struct pawl_job_new job = plain();
    struct meddler admin = {.conninfo = db.conninfo, .sql = STANDBY_TERMINATE};
    PGconn *conn = PQconnectdb(db.conninfo);
    int64_t id = 0;

    (void)state;
    standby_stall();
    meddler_start(&admin);
    int rc = pawl_enqueue(conn, &job, &id, NULL, &err);

    meddler_join(&admin);
    assert_unconfirmed(rc);
    assert_int_equal(id, 0);
    assert_int_equal(jobs_there(), 1); /* the primary has it */
    PQfinish(conn);
}

/* Cancelled once, then again, then for good. */
static void a_cancelled_wait_is_not_an_answer(void **state)
{
    struct pawl_job_new job = plain();
    struct meddler admin = {.conninfo = db.conninfo, .sql = STANDBY_CANCEL};
    PGconn *conn = PQconnectdb(db.conninfo);

    (void)state;
    standby_stall();
    meddler_start(&admin);
    struct meddler second = {.conninfo = db.conninfo,
                             .sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                    "WHERE wait_event = 'SyncRep' AND query LIKE '%emit_message%'"};

    meddler_start(&second);
    int rc = pawl_enqueue(conn, &job, NULL, NULL, &err);

    meddler_join(&admin);
    meddler_join(&second);
    assert_unconfirmed(rc);
    PQfinish(conn);
}

static void a_standby_that_comes_back_makes_it_known(void **state)
{
    struct pawl_job_new job = plain();
    struct meddler admin = {.conninfo = db.conninfo, .sql = STANDBY_CANCEL, .go_on = true};
    PGconn *conn = PQconnectdb(db.conninfo);
    int64_t id = 0;
    bool existed = true;

    (void)state;
    standby_stall();
    meddler_start(&admin);
    int rc = pawl_enqueue(conn, &job, &id, &existed, &err);

    meddler_join(&admin);
    assert_int_equal(rc, 0);
    assert_true(id > 0 && !existed);
    assert_int_equal(jobs_there(), 1);
    PQfinish(conn);
}

static void many_in_a_transaction_of_our_own_are_no_exception(void **state)
{
    static struct pawl_job_new jobs[MANY];
    struct meddler admin = {.conninfo = db.conninfo, .sql = STANDBY_TERMINATE};
    PGconn *conn = PQconnectdb(db.conninfo);

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        jobs[i] = plain();
    standby_stall();
    meddler_start(&admin);
    int rc = pawl_enqueue_many(conn, jobs, MANY, NULL, NULL, &err);

    meddler_join(&admin);
    assert_unconfirmed(rc);
    assert_int_equal(jobs_there(), MANY);
    PQfinish(conn);
}

/* In a transaction of the caller's nothing is committed by us, and nothing waits. */
static void in_a_transaction_it_is_the_callers_commit_that_counts(void **state)
{
    struct pawl_job_new job = plain();
    struct meddler admin = {.conninfo = db.conninfo, .sql = STANDBY_CANCEL};
    PGconn *conn = PQconnectdb(db.conninfo);
    int64_t id = 0;

    (void)state;
    standby_stall();
    PQclear(PQexec(conn, "BEGIN"));
    assert_int_equal(pawl_enqueue(conn, &job, &id, NULL, &err), 0);
    assert_true(id > 0);
    PQsetErrorVerbosity(conn, PQERRORS_TERSE);
    meddler_start(&admin);
    PQclear(PQexec(conn, "COMMIT"));
    meddler_join(&admin);
    PQfinish(conn);
}

#define STANDBY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STANDBY_TEST(a_job_that_is_not_confirmed_is_not_accepted),
        STANDBY_TEST(a_cancelled_wait_is_not_an_answer),
        STANDBY_TEST(a_standby_that_comes_back_makes_it_known),
        STANDBY_TEST(many_in_a_transaction_of_our_own_are_no_exception),
        STANDBY_TEST(in_a_transaction_it_is_the_callers_commit_that_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
