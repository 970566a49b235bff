/*
 * What the database's errors mean to us: the verdict for the engine, the code and the hint for
 * people.
 */
#include "pg/sqlstate.h"

#include <string.h>

#include "pg/sync.h"
#include "support/cmocka.h"

struct expected {
    const char *sqlstate;
    enum pg_verdict verdict;
    int code;
};

static void assert_meanings(const struct expected *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sqlstate_verdict(rows[i].sqlstate) != rows[i].verdict ||
            sqlstate_code(rows[i].sqlstate) != rows[i].code)
            fail_msg("%s is verdict %d, code %s",
                     rows[i].sqlstate,
                     (int)sqlstate_verdict(rows[i].sqlstate),
                     err_code_name(sqlstate_code(rows[i].sqlstate)));
    }
}

#define ASSERT_MEANINGS(rows) assert_meanings(rows, sizeof(rows) / sizeof((rows)[0]))

static void what_passes_by_itself_is_tried_again(void **state)
{
    const struct expected rows[] = {
        {"40001", PG_VERDICT_RETRY, PAWL_ERETRY},
        {"40P01", PG_VERDICT_RETRY, PAWL_ERETRY},
        {"55P03", PG_VERDICT_RETRY, PAWL_ERETRY},
        {"55006", PG_VERDICT_RETRY, PAWL_ERETRY},
        {"57014", PG_VERDICT_RETRY, PAWL_ETIMEOUT},
        {"57P01", PG_VERDICT_RETRY, PAWL_ECONN},
        {"57P02", PG_VERDICT_RETRY, PAWL_ECONN},
        {"57P03", PG_VERDICT_RETRY, PAWL_ECONN},
        {"53000", PG_VERDICT_RETRY, PAWL_EFULL},
        {"53100", PG_VERDICT_RETRY, PAWL_EFULL},
        {"53200", PG_VERDICT_RETRY, PAWL_EFULL},
        {"53300", PG_VERDICT_RETRY, PAWL_EFULL},
        {"25006", PG_VERDICT_RETRY, PAWL_EREADONLY},
        {"58030", PG_VERDICT_RETRY, PAWL_EFAILED},
    };

    (void)state;
    ASSERT_MEANINGS(rows);
}

static void what_would_fail_again_is_not_tried_again(void **state)
{
    const struct expected rows[] = {
        {"28P01", PG_VERDICT_PERMANENT, PAWL_EAUTH},
        {"28000", PG_VERDICT_PERMANENT, PAWL_EAUTH},
        {"3D000", PG_VERDICT_PERMANENT, PAWL_ENOTFOUND},
        {"42501", PG_VERDICT_PERMANENT, PAWL_EDENIED},
        {"42P01", PG_VERDICT_PERMANENT, PAWL_ESCHEMA},
        {"3F000", PG_VERDICT_PERMANENT, PAWL_ESCHEMA},
        {"42883", PG_VERDICT_PERMANENT, PAWL_ESCHEMA},
        {"42703", PG_VERDICT_PERMANENT, PAWL_ESCHEMA},
        {"42601", PG_VERDICT_PERMANENT, PAWL_EFAILED},
        {"22021", PG_VERDICT_PERMANENT, PAWL_EINVAL},
        {"22P02", PG_VERDICT_PERMANENT, PAWL_EINVAL},
        {"23502", PG_VERDICT_PERMANENT, PAWL_EINVAL},
        {"23514", PG_VERDICT_PERMANENT, PAWL_EINVAL},
        {"23505", PG_VERDICT_PERMANENT, PAWL_ESTATE},
        {"54000", PG_VERDICT_PERMANENT, PAWL_ELIMIT},
        {"25P02", PG_VERDICT_PERMANENT, PAWL_ESTATE},
        {"XX000", PG_VERDICT_PERMANENT, PAWL_EFAILED},
        {"XX001", PG_VERDICT_PERMANENT, PAWL_EFAILED},
        {"P0001", PG_VERDICT_PERMANENT, PAWL_EFAILED},
        {"ZZZZZ", PG_VERDICT_PERMANENT, PAWL_EFAILED},
    };

    (void)state;
    ASSERT_MEANINGS(rows);
}

static void forgotten_statements_are_prepared_anew(void **state)
{
    (void)state;
    assert_int_equal(sqlstate_verdict("26000"), PG_VERDICT_REPREPARE);
    assert_int_equal(sqlstate_verdict("0A000"), PG_VERDICT_REPREPARE);
}

static void a_lost_connection_has_no_sqlstate(void **state)
{
    const struct expected rows[] = {
        {NULL, PG_VERDICT_CONNECTION, PAWL_ECONN},
        {"", PG_VERDICT_CONNECTION, PAWL_ECONN},
        {"08006", PG_VERDICT_CONNECTION, PAWL_ECONN},
        {"08P01", PG_VERDICT_CONNECTION, PAWL_ECONN},
        {"08007", PG_VERDICT_UNKNOWN, PAWL_EUNKNOWN},
        {"40003", PG_VERDICT_UNKNOWN, PAWL_EUNKNOWN},
    };

    (void)state;
    ASSERT_MEANINGS(rows);
}

static void a_missing_schema_hints_at_migrating(void **state)
{
    (void)state;
    assert_string_equal(sqlstate_hint("42P01"), "Run: pawl db migrate");
    assert_string_equal(sqlstate_hint("3F000"), "Run: pawl db migrate");
    assert_null(sqlstate_hint("40001"));
}

static void texts_become_one_line(void **state)
{
    char line[64];

    (void)state;
    pg_one_line(line, sizeof(line), "  first\n\tsecond\x1b[31m third \n");
    assert_string_equal(line, "first second [31m third");
    pg_one_line(line, sizeof(line), "");
    assert_string_equal(line, "");
}

static void texts_are_cut_between_characters(void **state)
{
    char line[6];

    (void)state;
    pg_one_line(line, sizeof(line), "abcdefgh");
    assert_string_equal(line, "abcde");
    pg_one_line(line, sizeof(line), "abcd\xc3\xa9");
    assert_string_equal(line, "abcd");
    pg_one_line(line, sizeof(line), "abc\xe2\x82\xac");
    assert_string_equal(line, "abc");
    pg_one_line(line, sizeof(line), "abc\xc3\xa9xyz");
    assert_string_equal(line, "abc\xc3\xa9");
    pg_one_line(line, sizeof(line), "abcd efg");
    assert_string_equal(line, "abcd");
}

static void an_old_server_is_refused_by_name(void **state)
{
    struct pawl_err err;

    (void)state;
    assert_int_equal(server_version_check(150000, &err), 0);
    assert_int_equal(server_version_check(170002, &err), 0);
    assert_int_equal(server_version_check(140012, &err), PAWL_ESTATE);
    assert_string_equal(err.message,
                        "the database server is PostgreSQL 14.12; pawl needs 15 or newer");
    assert_int_equal(server_version_check(90624, &err), PAWL_ESTATE);
    assert_string_equal(err.message,
                        "the database server is PostgreSQL 9.6.24; pawl needs 15 or newer");
    assert_int_equal(server_version_check(0, NULL), PAWL_ESTATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_by_itself_is_tried_again),
        cmocka_unit_test(what_would_fail_again_is_not_tried_again),
        cmocka_unit_test(forgotten_statements_are_prepared_anew),
        cmocka_unit_test(a_lost_connection_has_no_sqlstate),
        cmocka_unit_test(a_missing_schema_hints_at_migrating),
        cmocka_unit_test(texts_become_one_line),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(an_old_server_is_refused_by_name),
    };

    return cmocka_run_group_tests_name("sqlstate", tests, NULL, NULL);
}
