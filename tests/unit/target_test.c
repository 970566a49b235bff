/*
 * Which database is meant, what is added to it, and that a password never comes out again.
 */
#include "pg/target.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka.h"

static struct arena arena;
static struct target target;
static struct pawl_err err;

static const char *const variables[] = {"PAWL_DATABASE_URL",
                                        "PGHOST",
                                        "PGHOSTADDR",
                                        "PGPORT",
                                        "PGSERVICE",
                                        "PGDATABASE",
                                        "PGUSER",
                                        "PGPASSWORD",
                                        "PGCONNECT_TIMEOUT"};

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    arena_init(&arena, 1 << 16);
    memset(&target, 0, sizeof(target));
    err_clear(&err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return 0;
}

static void assert_value(const char *keyword, const char *value)
{
    const char *found = target_value(&target, keyword);

    if (!found)
        fail_msg("%s is not set", keyword);
    assert_string_equal(found, value);
}

static void the_option_wins_over_everything(void **state)
{
    (void)state;
    setenv("PAWL_DATABASE_URL", "host=second", 1);
    setenv("PGHOST", "third", 1);
    assert_int_equal(target_resolve(&target, &arena, "host=first", &err), 0);
    assert_int_equal(target.source, TARGET_OPTION);
    assert_value("host", "first");
}

static void our_variable_wins_over_those_of_libpq(void **state)
{
    (void)state;
    setenv("PAWL_DATABASE_URL", "postgresql://bob@second:5433/jobs", 1);
    setenv("PGHOST", "third", 1);
    assert_int_equal(target_resolve(&target, &arena, NULL, &err), 0);
    assert_int_equal(target.source, TARGET_ENVIRONMENT);
    assert_value("host", "second");
    assert_value("port", "5433");
    assert_value("dbname", "jobs");
    assert_value("user", "bob");
}

static void each_variable_that_names_a_server_counts(void **state)
{
    const char *const names[] = {
        "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv(names[i], "5432", 1);
        assert_int_equal(target_resolve(&target, &arena, NULL, &err), 0);
        assert_int_equal(target.source, TARGET_PG_VARIABLES);
        unsetenv(names[i]);
    }
}

static void nothing_named_means_our_own_cluster(void **state)
{
    (void)state;
    /* Neither names a server; an empty variable names nothing. */
    setenv("PGPASSWORD", "x", 1);
    setenv("PGHOST", "", 1);
    setenv("PAWL_DATABASE_URL", "", 1);
    assert_int_equal(target_resolve(&target, &arena, NULL, &err), 0);
    assert_int_equal(target.source, TARGET_PRIVATE);
    assert_null(target.keywords[0]);
}

static void an_empty_option_is_refused(void **state)
{
    (void)state;
    target.source = TARGET_PRIVATE;
    assert_int_equal(target_resolve(&target, &arena, "", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.message, "--db is empty"));
    assert_int_equal(target_resolve(&target, &arena, "  ", &err), PAWL_EINVAL);
    assert_int_equal(target.source, TARGET_PRIVATE);
}

static void silence_is_filled_with_our_defaults(void **state)
{
    (void)state;
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "host=h", &err), 0);
    assert_value("connect_timeout", "5");
    assert_value("keepalives", "1");
    assert_value("keepalives_idle", "2");
    assert_value("keepalives_interval", "1");
    assert_value("keepalives_count", "3");
    assert_value("tcp_user_timeout", "4000");
    assert_value("fallback_application_name", "pawl");
    assert_value("client_encoding", "UTF8");
    assert_null(target_value(&target, "password"));
}

static void what_the_string_says_is_kept(void **state)
{
    (void)state;
    setenv("PGCONNECT_TIMEOUT", "7", 1);
    assert_int_equal(target_set(&target,
                                &arena,
                                TARGET_OPTION,
                                "host=h tcp_user_timeout=9000 keepalives=0 application_name=mine "
                                "client_encoding=LATIN1 service=s password=p",
                                &err),
                     0);
    assert_value("connect_timeout", "7");
    assert_value("tcp_user_timeout", "9000");
    assert_value("keepalives", "0");
    assert_value("application_name", "mine");
    assert_value("service", "s");
    assert_value("password", "p");
    /* But for this: all our texts are UTF-8. */
    assert_value("client_encoding", "UTF8");
    assert_int_equal(
        target_set(&target, &arena, TARGET_OPTION, "postgres://h/?connect_timeout=3", &err), 0);
    assert_value("connect_timeout", "3");
}

static void it_shows_where_and_as_whom_but_no_password(void **state)
{
    (void)state;
    assert_int_equal(
        target_set(
            &target, &arena, TARGET_OPTION, "postgresql://bob:hush@db.example:5433/jobs", &err),
        0);
    assert_string_equal(target.shown, "database \"jobs\" on db.example port 5433 as user \"bob\"");
    assert_int_equal(target_set(&target,
                                &arena,
                                TARGET_OPTION,
                                "host=/run/pg dbname=jobs user=bob port=1 password=hush",
                                &err),
                     0);
    assert_string_equal(target.shown, "database \"jobs\" on socket /run/pg port 1 as user \"bob\"");
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "service=prod", &err), 0);
    assert_string_equal(target.shown, "the database (service \"prod\")");
    setenv("PGHOST", "elsewhere", 1);
    setenv("PGUSER", "eve", 1);
    setenv("PGPASSWORD", "hush", 1);
    setenv("PGPORT", "77", 1);
    assert_int_equal(target_resolve(&target, &arena, NULL, &err), 0);
    assert_string_equal(target.shown, "database \"eve\" on elsewhere port 77 as user \"eve\"");
}

static void a_string_that_is_none_is_refused_with_a_pattern(void **state)
{
    (void)state;
    assert_int_equal(target_resolve(&target, &arena, "mydb", &err), PAWL_EINVAL);
    assert_string_equal(err.message, "the connection string given with --db is not valid");
    assert_non_null(strstr(err.detail, "mydb"));
    assert_non_null(strstr(err.hint, "postgresql://"));
    assert_int_equal(target_resolve(&target, &arena, "hots=localhost", &err), PAWL_EINVAL);
    assert_non_null(strstr(err.detail, "hots"));
    setenv("PAWL_DATABASE_URL", "mysql://h/db", 1);
    assert_int_equal(target_resolve(&target, &arena, NULL, &err), PAWL_EINVAL);
    assert_string_equal(err.message, "the connection string in PAWL_DATABASE_URL is not valid");
}

static void assert_secret(const char *conninfo)
{
    if (target_set(&target, &arena, TARGET_OPTION, conninfo, &err) == 0)
        fail_msg("%s was accepted as %s", conninfo, target.shown);
    assert_int_equal(err.code, PAWL_EINVAL);
    if (strstr(err.message, "hush") || strstr(err.detail, "hush") || strstr(err.hint, "hush"))
        fail_msg("%s shows its password: %s / %s", conninfo, err.message, err.detail);
    assert_true(err.hint[0] != '\0');
}

static void a_mangled_string_shows_no_piece_of_its_password(void **state)
{
    (void)state;
    assert_secret("host=h password=my hush word");
    assert_secret("host=h password=my hush=word");
    assert_secret("host=h password='my hush");
    assert_secret("postgresql://bob:a@hush@db/jobs");
    assert_secret("postgresql://bob:a/hush@db/jobs");
    assert_secret("postgresql://bob:1/hush@db/jobs");
    assert_secret("postgresql://bob:hush/x@db/jobs");
    assert_secret("postgresql://bob:a?hush@db/jobs");
    assert_secret("postgresql://bob:%zzhush@db/jobs");
    assert_secret("postgresql://bob:hush@db:port/jobs");
}

static void a_port_must_be_one(void **state)
{
    (void)state;
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "port=0", &err), PAWL_EINVAL);
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "port=65536", &err), PAWL_EINVAL);
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "port=5432,x", &err), PAWL_EINVAL);
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "port=99999999999999999999", &err),
                     PAWL_EINVAL);
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "host=a,b port=5432,5433", &err),
                     0);
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "host=a,b port=,5433", &err), 0);
}

static void several_hosts_become_one_target_each(void **state)
{
    struct target one;

    (void)state;
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "postgres://a:1,b,c:3/db", &err),
                     0);
    assert_int_equal(target_hosts(&target), 3);
    assert_int_equal(target_host(&target, 1, &arena, &one, &err), 0);
    assert_string_equal(target_value(&one, "host"), "b");
    assert_string_equal(target_value(&one, "port"), "");
    assert_int_equal(target_host(&target, 2, &arena, &one, &err), 0);
    assert_string_equal(target_value(&one, "host"), "c");
    assert_string_equal(target_value(&one, "port"), "3");
    assert_string_equal(target_value(&one, "dbname"), "db");
    assert_int_equal(target_hosts(&one), 1);

    /* One port for all of them. */
    assert_int_equal(target_set(&target, &arena, TARGET_OPTION, "host=a,b port=7", &err), 0);
    assert_int_equal(target_host(&target, 1, &arena, &one, &err), 0);
    assert_string_equal(target_value(&one, "port"), "7");

    assert_int_equal(
        target_set(
            &target, &arena, TARGET_OPTION, "host=a,b target_session_attrs=prefer-standby", &err),
        0);
    assert_int_equal(target_hosts(&target), 1);
    assert_int_equal(target_host(&target, 0, &arena, &one, &err), 0);
    assert_string_equal(target_value(&one, "host"), "a,b");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_option_wins_over_everything),
        TEST(our_variable_wins_over_those_of_libpq),
        TEST(each_variable_that_names_a_server_counts),
        TEST(nothing_named_means_our_own_cluster),
        TEST(an_empty_option_is_refused),
        TEST(silence_is_filled_with_our_defaults),
        TEST(what_the_string_says_is_kept),
        TEST(it_shows_where_and_as_whom_but_no_password),
        TEST(a_string_that_is_none_is_refused_with_a_pattern),
        TEST(a_mangled_string_shows_no_piece_of_its_password),
        TEST(a_port_must_be_one),
        TEST(several_hosts_become_one_target_each),
    };

    return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
