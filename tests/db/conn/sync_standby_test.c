/*
 * Blocking statements with a synchronous standby that stalls (support/standby.py): what was not
 * confirmed is unknown, whoever cancelled the wait and whatever receives the notices.
 */
#include "client/confirm.h"
#include "support/standby.h"
#include "sync_fixture.h"

#define SHORT_MS 300

static const struct stmt insert = {.name = "insert",
                                   .sql = "INSERT INTO t VALUES (1) RETURNING id"};
static const struct stmt begin = {.name = "begin", .sql = "BEGIN"};
static const struct stmt commit = {.name = "commit", .sql = "COMMIT"};

static int setup(void **state)
{
    int rc = fixture_setup(state);

    if (rc == 0)
        testdb_exec(&((struct fixture *)*state)->db, "CREATE TABLE t (id int8)");
    return rc;
}

static int teardown(void **state)
{
    standby_go_on();
    return fixture_teardown(state);
}

static void assert_unconfirmed(struct fixture *f, int rc)
{
    if (rc != PAWL_EUNKNOWN)
        print_error("%d: %s / %s\n", rc, f->err.message, f->err.detail);
    assert_int_equal(rc, PAWL_EUNKNOWN);
    assert_int_equal(f->err.code, PAWL_EUNKNOWN);
    assert_string_equal(f->err.sqlstate, "01000");
    assert_string_equal(f->err.message, "no synchronous standby has confirmed the commit");
}

static int insert_within(struct fixture *f, int64_t ms)
{
    return sync_exec_within(f->conn, &insert, NULL, ms, NULL, &f->err);
}

static void past_the_deadline_it_is_unknown(void **state)
{
    struct fixture *f = *state;

    standby_stall();
    assert_unconfirmed(f, insert_within(f, SHORT_MS));
    /* The connection is good, and the primary has the row. */
    assert_true(fixture_bool(f, "SELECT count(*) = 1 FROM t"));
    standby_go_on();
    assert_int_equal(insert_within(f, SYNC_DEADLINE_MS), 0);
}

static void a_commit_past_the_deadline_is_unknown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(sync_exec(f->conn, &begin, NULL, NULL, &f->err), 0);
    assert_int_equal(insert_within(f, SYNC_DEADLINE_MS), 0);
    standby_stall();
    assert_unconfirmed(f, sync_exec_within(f->conn, &commit, NULL, SHORT_MS, NULL, &f->err));
}

static void a_session_that_hears_no_warnings_is_not_deceived(void **state)
{
    struct fixture *f = *state;

    PQclear(fixture_query(f, "SET client_min_messages = error"));
    standby_stall();
    assert_unconfirmed(f, insert_within(f, SHORT_MS));
}

static void somebody_else_who_cancels_makes_it_unknown(void **state)
{
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_CANCEL};

    standby_stall();
    meddler_start(&admin);
    int rc = insert_within(f, SYNC_DEADLINE_MS);

    meddler_join(&admin);
    assert_unconfirmed(f, rc);
}

static void a_session_that_is_terminated_while_it_waits_leaves_it_unknown(void **state)
{
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_TERMINATE};

    standby_stall();
    meddler_start(&admin);
    int rc = insert_within(f, SYNC_DEADLINE_MS);

    meddler_join(&admin);
    assert_unconfirmed(f, rc);
}

static void a_copy_is_no_exception(void **state)
{
    static const struct stmt copy_in = {.name = "copy", .sql = "COPY t FROM STDIN"};
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_CANCEL};
    struct sync_copy copy;

    standby_stall();
    assert_int_equal(sync_copy_begin(&copy, f->conn, &copy_in, &f->err), 0);
    assert_int_equal(sync_copy_put(&copy, "1\n2\n", 4, &f->err), 0);
    meddler_start(&admin);
    int rc = sync_copy_end(&copy, NULL, &f->err);

    meddler_join(&admin);
    assert_unconfirmed(f, rc);
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 2);
}

/* Notices of the caller's own connection stay the caller's. */

static void on_text(void *data, const char *text)
{
    int *heard = data;

    *heard += strstr(text, "synchronous replication") != NULL;
}

static void on_result(void *data, const PGresult *notice)
{
    on_text(data, PQresultErrorMessage(notice));
}

static void a_notice_processor_of_the_callers_stays_and_hears(void **state)
{
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_CANCEL};
    PGconn *own = PQconnectdb(f->db.conninfo);
    int heard = 0;

    PQsetNoticeProcessor(own, on_text, &heard);
    PQnoticeReceiver before = PQsetNoticeReceiver(own, NULL, NULL);

    standby_stall();
    meddler_start(&admin);
    int rc = sync_exec(own, &insert, NULL, NULL, &f->err);

    meddler_join(&admin);
    assert_unconfirmed(f, rc);
    assert_int_equal(heard, 1);
    assert_true(PQsetNoticeReceiver(own, NULL, NULL) == before);
    PQclear(PQexec(own, "DO $$ BEGIN RAISE WARNING 'synchronous replication'; END $$"));
    assert_int_equal(heard, 2);
    PQfinish(own);
}

static void a_notice_receiver_of_the_callers_stays_with_its_argument(void **state)
{
    struct fixture *f = *state;
    PGconn *own = PQconnectdb(f->db.conninfo);
    int heard = 0;

    PQsetNoticeReceiver(own, on_result, &heard);
    standby_stall();
    assert_unconfirmed(f, sync_exec_within(own, &insert, NULL, SHORT_MS, NULL, &f->err));
    assert_int_equal(heard, 1);
    assert_true(PQsetNoticeReceiver(own, NULL, NULL) == on_result);
    PQclear(PQexec(own, "DO $$ BEGIN RAISE WARNING 'synchronous replication'; END $$"));
    assert_int_equal(heard, 2);
    PQfinish(own);
}

static void warnings_of_other_kinds_mean_nothing(void **state)
{
    struct fixture *f = *state;

    PQclear(fixture_query(f,
                          "CREATE FUNCTION w() RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN "
                          "INSERT INTO t VALUES (1); RAISE WARNING 'hm'; RETURN 1; END $$"));
    PQclear(fixture_query(f, "SELECT w()"));
    assert_int_equal(sync_exec(f->conn, &begin, NULL, NULL, &f->err), 0);
    PQclear(fixture_query(f, "SELECT w()"));
    assert_int_equal(sync_exec(f->conn, &commit, NULL, NULL, &f->err), 0);
}

/* confirm_exec */

static void a_later_commit_that_is_confirmed_makes_it_known(void **state)
{
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_CANCEL, .go_on = true};
    PGresult *r = NULL;

    standby_stall();
    meddler_start(&admin);
    int rc = confirm_exec(f->conn, &insert, NULL, &r, &f->err);

    meddler_join(&admin);
    assert_int_equal(rc, 0);
    assert_int_equal(result_i64(r, 0, 0), 1);
    PQclear(r);
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 1);
}

static void without_one_it_stays_unknown(void **state)
{
    struct fixture *f = *state;
    struct meddler admin = {.conninfo = f->db.conninfo, .sql = STANDBY_TERMINATE};
    bool unconfirmed;
    PGresult *r = NULL;

    standby_stall();
    assert_int_equal(
        sync_exec_unconfirmed(f->conn, &insert, NULL, SHORT_MS, &r, &unconfirmed, &f->err), 0);
    assert_true(unconfirmed);
    assert_int_equal(result_i64(r, 0, 0), 1);
    PQclear(r);
    meddler_start(&admin);
    r = NULL;
    int rc = confirm_exec(f->conn, &insert, NULL, &r, &f->err);

    meddler_join(&admin);
    assert_unconfirmed(f, rc);
    assert_null(r);
}

#define STANDBY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STANDBY_TEST(past_the_deadline_it_is_unknown),
        STANDBY_TEST(a_commit_past_the_deadline_is_unknown),
        STANDBY_TEST(a_session_that_hears_no_warnings_is_not_deceived),
        STANDBY_TEST(somebody_else_who_cancels_makes_it_unknown),
        STANDBY_TEST(a_session_that_is_terminated_while_it_waits_leaves_it_unknown),
        STANDBY_TEST(a_copy_is_no_exception),
        STANDBY_TEST(a_notice_processor_of_the_callers_stays_and_hears),
        STANDBY_TEST(a_notice_receiver_of_the_callers_stays_with_its_argument),
        STANDBY_TEST(warnings_of_other_kinds_mean_nothing),
        STANDBY_TEST(a_later_commit_that_is_confirmed_makes_it_known),
        STANDBY_TEST(without_one_it_stays_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
