/*
 * Connecting, and above all not being able to: each reason has its code and its words. Where no
 * real server would misbehave on request, a socket in a directory of our own stands in for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "sync_fixture.h"

static int try_connect(struct fixture *f, const char *conninfo)
{
    struct target target;
    PGconn *conn = NULL;
    int rc;

    err_clear(&f->err);
    if (target_set(&target, &f->arena, TARGET_OPTION, conninfo, &f->err) < 0)
        fixture_fail(&f->err);
    rc = sync_connect(&target, &conn, &f->err);
    assert_int_equal(rc == 0, conn != NULL);
    assert_int_equal(rc, f->err.code);
    sync_close(&conn);
    if (getenv("PAWL_TEST_SHOW"))
        print_message("# %s\n# %s\n# %s\n\n", f->err.message, f->err.detail, f->err.hint);
    return rc;
}

static void assert_says(const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text != NULL ? text : "", part);
}

static void the_connection_is_as_we_want_it(void **state)
{
    struct fixture *f = *state;

    assert_true(fixture_bool(f, "SELECT current_setting('application_name') = 'pawl'"));
    assert_true(fixture_bool(f, "SELECT current_setting('client_encoding') = 'UTF8'"));
    assert_int_equal(PQstatus(f->conn), CONNECTION_OK);
}

static void a_wrong_password_is_told_without_showing_it(void **state)
{
    struct fixture *f = *state;
    char conninfo[700];
    char role[80];

    /* Roles belong to the cluster, so one is named after this test's database and goes before it.
     */
    snprintf(role, sizeof(role), "role_%s", f->db.name);
    snprintf(conninfo, sizeof(conninfo), "CREATE ROLE %s LOGIN PASSWORD 'right'", role);
    testdb_exec(&f->db, conninfo);
    int right =
        try_connect(f, testdb_conninfo_as(&f->db, role, "right", conninfo, sizeof(conninfo)));
    int wrong =
        try_connect(f, testdb_conninfo_as(&f->db, role, "hush", conninfo, sizeof(conninfo)));
    struct pawl_err why = f->err;
    snprintf(conninfo, sizeof(conninfo), "%s user=%s passfile=/nonexistent", f->db.conninfo, role);
    int none = try_connect(f, conninfo);
    snprintf(conninfo, sizeof(conninfo), "DROP ROLE %s", role);
    testdb_exec(&f->db, conninfo);

    assert_int_equal(right, 0);
    assert_int_equal(wrong, PAWL_EAUTH);
    assert_string_equal(why.sqlstate, "28P01");
    assert_says(why.message, role);
    assert_says(why.detail, "password authentication failed");
    assert_says(why.hint, "PGPASSWORD");
    assert_null(strstr(why.message, "hush"));
    assert_null(strstr(why.detail, "hush"));
    assert_null(strstr(why.detail, ".c:"));
    assert_int_equal(none, PAWL_EAUTH);
    assert_says(f->err.message, "wants a password");
}

static void a_missing_database_is_named_with_a_way_to_make_it(void **state)
{
    struct fixture *f = *state;
    char conninfo[700];

    snprintf(conninfo, sizeof(conninfo), "%s dbname=nowhere", f->db.conninfo);
    assert_int_equal(try_connect(f, conninfo), PAWL_ENOTFOUND);
    assert_string_equal(f->err.sqlstate, "3D000");
    assert_says(f->err.message, "there is no database \"nowhere\"");
    assert_says(f->err.hint, "createdb");
}

static void a_server_that_is_not_there_is_unreachable(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(try_connect(f, "host=/nonexistent dbname=x user=x"), PAWL_ECONN);
    assert_says(f->err.message, "could not reach the database server at /nonexistent/.s.PGSQL.");
    assert_says(f->err.detail, "No such file or directory.");
    assert_says(f->err.hint, "Is PostgreSQL running");
    /* Nobody may listen on port 1 of this machine. */
    assert_int_equal(try_connect(f, "host=127.0.0.1 port=1 dbname=x user=x"), PAWL_ECONN);
    assert_says(f->err.message, "127.0.0.1:1");
    assert_int_equal(try_connect(f, "host=nowhere.invalid dbname=x user=x"), PAWL_ECONN);
    assert_says(f->err.detail, "nowhere.invalid");
}

static void an_error_with_several_hosts_names_each(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(try_connect(f, "host=/nonexistent,127.0.0.1,/nowhere port=1 dbname=x user=x"),
                     PAWL_ECONN);
    assert_says(f->err.message, "could not reach any of the 3 database servers");
    assert_says(f->err.detail, "/nonexistent/.s.PGSQL.1: No such file or directory; ");
    assert_says(f->err.detail, "127.0.0.1:1: Connection refused; ");
    assert_says(f->err.detail, "/nowhere/.s.PGSQL.1: No such file or directory.");
}

static void the_reasons_of_many_hosts_are_bounded(void **state)
{
    struct fixture *f = *state;
    char conninfo[8192] = "dbname=x user=x port=1 host=/nonexistent";

    for (size_t i = 0; i < 100; i++)
        strcat(conninfo, ",/nonexistent_and_a_long_name_for_a_directory");
    assert_int_equal(try_connect(f, conninfo), PAWL_ECONN);
    assert_says(f->err.message, "any of the 101");
    assert_true(strlen(f->err.detail) < sizeof(f->err.detail));
}

static void a_server_that_takes_no_writes_has_words_of_its_own(void **state)
{
    struct fixture *f = *state;
    const char *read_only = "options='-c default_transaction_read_only=on'";
    char conninfo[1024];

    /* Alone it is good enough to read from. */
    snprintf(conninfo, sizeof(conninfo), "%s %s", f->db.conninfo, read_only);
    assert_int_equal(try_connect(f, conninfo), 0);
    snprintf(conninfo,
             sizeof(conninfo),
             "%s %s target_session_attrs=read-write",
             f->db.conninfo,
             read_only);
    assert_int_equal(try_connect(f, conninfo), PAWL_EREADONLY);
    assert_says(f->err.message, "is set to read-only");
    /* Among several the one that takes writes is looked for, unless any will do. */
    snprintf(conninfo,
             sizeof(conninfo),
             "%s %s host=/nonexistent,%s",
             f->db.conninfo,
             read_only,
             PQhost(f->db.conn));
    assert_int_equal(try_connect(f, conninfo), PAWL_EREADONLY);
    assert_says(f->err.detail, "/nonexistent/");
    assert_says(f->err.detail, "is set to read-only");
    strcat(conninfo, " target_session_attrs=any");
    assert_int_equal(try_connect(f, conninfo), 0);
}

static void options_that_cannot_work_are_wrong_input(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(try_connect(f, "service=nowhere_at_all"), PAWL_EINVAL);
    assert_says(f->err.detail, "nowhere_at_all");
}

/* A listening socket where libpq looks for one. */
struct fake {
    char dir[100];
    char path[160];
    int fd;
};

static void fake_open(struct fake *fake, const char *port)
{
    const char *tmp = getenv("TMPDIR");
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(
        fake->dir, sizeof(fake->dir), "%s/pawl.XXXXXX", tmp && strlen(tmp) < 60 ? tmp : "/tmp");
    assert_non_null(mkdtemp(fake->dir));
    snprintf(fake->path, sizeof(fake->path), "%s/.s.PGSQL.%s", fake->dir, port);
    assert_true(strlen(fake->path) < sizeof(address.sun_path));
    memcpy(address.sun_path, fake->path, strlen(fake->path) + 1);
    fake->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fake->fd >= 0);
    assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->fd, 8), 0);
}

static void fake_close(struct fake *fake)
{
    close(fake->fd);
    unlink(fake->path);
    rmdir(fake->dir);
}

static void a_silent_server_is_given_up_in_time(void **state)
{
    struct fixture *f = *state;
    struct fake fake;
    char conninfo[900];
    int64_t began_us = clock_mono_us(&clock_system);

    fake_open(&fake, "5432");
    snprintf(conninfo,
             sizeof(conninfo),
             "host=%s port=5432 dbname=x user=x connect_timeout=1",
             fake.dir);
    int rc = try_connect(f, conninfo);
    fake_close(&fake);
    assert_int_equal(rc, PAWL_ECONN);
    assert_says(f->err.message, "in time");
    assert_says(f->err.detail, fake.dir);
    assert_in_range(clock_mono_us(&clock_system) - began_us, 1 * US_PER_S, 100 * US_PER_S);
}

static void a_silent_host_does_not_hide_the_next_one(void **state)
{
    struct fixture *f = *state;
    struct fake fake;
    char conninfo[900];

    fake_open(&fake, PQport(f->db.conn));
    snprintf(conninfo,
             sizeof(conninfo),
             "%s host=%s,%s connect_timeout=3",
             f->db.conninfo,
             fake.dir,
             PQhost(f->db.conn));
    int rc = try_connect(f, conninfo);
    fake_close(&fake);
    assert_int_equal(rc, 0);
}

struct starting {
    struct fake fake;
    char real[160]; /* the real server's socket */
    int n_refused;
};

/* Answers twice as a server that is starting up does, then gives its place to the real one. */
static void *start_up(void *data)
{
    static const char refusal[] = "SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0";
    struct starting *starting = data;
    char moved[200];

    while (starting->n_refused < 2) {
        int fd = accept(starting->fake.fd, NULL, NULL);
        char startup[1024];
        char answer[5 + sizeof(refusal)];
        uint32_t len = __builtin_bswap32((uint32_t)(sizeof(answer) - 1));

        if (fd < 0 || read(fd, startup, sizeof(startup)) <= 0)
            break;
        answer[0] = 'E';
        memcpy(answer + 1, &len, sizeof(len));
        memcpy(answer + 5, refusal, sizeof(refusal));
        starting->n_refused++;
        if (starting->n_refused == 2) {
            snprintf(moved, sizeof(moved), "%s.new", starting->fake.path);
            if (symlink(starting->real, moved) != 0 || rename(moved, starting->fake.path) != 0)
                break;
        }
        if (write(fd, answer, sizeof(answer)) < 0)
            break;
        close(fd);
    }
    return NULL;
}

static void a_server_that_is_starting_up_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct starting starting = {.n_refused = 0};
    char conninfo[900];
    pthread_t thread;

    fake_open(&starting.fake, PQport(f->db.conn));
    snprintf(starting.real,
             sizeof(starting.real),
             "%s/.s.PGSQL.%s",
             PQhost(f->db.conn),
             PQport(f->db.conn));
    assert_int_equal(pthread_create(&thread, NULL, start_up, &starting), 0);
    snprintf(conninfo, sizeof(conninfo), "%s host=%s", f->db.conninfo, starting.fake.dir);
    int rc = try_connect(f, conninfo);
    /* Wakes the thread should nobody have come. */
    shutdown(starting.fake.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    fake_close(&starting.fake);
    if (rc < 0)
        fixture_fail(&f->err);
    assert_int_equal(starting.n_refused, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(the_connection_is_as_we_want_it),
        FIXTURE_TEST(a_wrong_password_is_told_without_showing_it),
        FIXTURE_TEST(a_missing_database_is_named_with_a_way_to_make_it),
        FIXTURE_TEST(a_server_that_is_not_there_is_unreachable),
        FIXTURE_TEST(options_that_cannot_work_are_wrong_input),
        FIXTURE_TEST(an_error_with_several_hosts_names_each),
        FIXTURE_TEST(the_reasons_of_many_hosts_are_bounded),
        FIXTURE_TEST(a_server_that_takes_no_writes_has_words_of_its_own),
        FIXTURE_TEST(a_silent_server_is_given_up_in_time),
        FIXTURE_TEST(a_silent_host_does_not_hide_the_next_one),
        FIXTURE_TEST(a_server_that_is_starting_up_is_waited_for),
    };

    return cmocka_run_group_tests_name("sync_connect", tests, NULL, NULL);
}
