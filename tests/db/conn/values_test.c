/*
 * Every type we bind goes to PostgreSQL and back in binary and comes out the same, and PostgreSQL
 * itself agrees on what it was given.
 */
#include <stdlib.h>

#include "base/rand.h"
#include "pg/oid.h"
#include "sync_fixture.h"

static void numbers_come_back_as_they_went(void **state)
{
    static const int64_t values[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1234567890123};
    struct fixture *f = *state;
    PGresult *r;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        params_i16(&f->params, (int16_t)values[i]);
        params_i32(&f->params, (int32_t)values[i]);
        params_i64(&f->params, values[i]);
        params_bool(&f->params, values[i] > 0);
        r = fixture_query(f, "SELECT $1, $2, $3, $4");
        assert_int_equal(result_i16(r, 0, 0), (int16_t)values[i]);
        assert_int_equal(result_i32(r, 0, 1), (int32_t)values[i]);
        assert_true(result_i64(r, 0, 2) == values[i]);
        assert_int_equal(result_i64(r, 0, 0), (int16_t)values[i]);
        assert_int_equal(result_i64(r, 0, 1), (int32_t)values[i]);
        assert_int_equal(result_bool(r, 0, 3), values[i] > 0);
        PQclear(r);
    }
    params_i16(&f->params, -2);
    params_i32(&f->params, -70000);
    params_i64(&f->params, -5000000000);
    assert_true(fixture_bool(f, "SELECT $1 = -2 AND $2 = -70000 AND $3 = -5000000000"));
}

static void texts_come_back_as_they_went(void **state)
{
    static const char text[] = "caf\xc3\xa9 \xf0\x9f\x90\x98 'quote\" \\ \n";
    struct fixture *f = *state;
    PGresult *r;

    params_text(&f->params, text);
    params_text(&f->params, "");
    params_text(&f->params, NULL);
    r = fixture_query(f, "SELECT $1, $2, $3, octet_length($1), $2 IS NULL, $3 IS NULL");
    assert_string_equal(result_text(r, 0, 0), text);
    assert_string_equal(result_text(r, 0, 1), "");
    assert_null(result_text(r, 0, 2));
    assert_int_equal(result_i32(r, 0, 3), sizeof(text) - 1);
    assert_false(result_bool(r, 0, 4));
    assert_true(result_bool(r, 0, 5));
    PQclear(r);
}

static void what_reads_like_text_is_read_as_text(void **state)
{
    struct fixture *f = *state;
    PGresult *r;

    testdb_exec(&f->db, "CREATE TYPE mood AS ENUM ('calm', 'busy')");
    r = fixture_query(f,
                      "SELECT 'busy'::mood, '{\"a\": 1}'::json, 'v'::varchar, current_database()");
    assert_string_equal(result_text(r, 0, 0), "busy");
    assert_string_equal(result_text(r, 0, 1), "{\"a\": 1}");
    assert_string_equal(result_text(r, 0, 2), "v");
    assert_string_equal(result_text(r, 0, 3), f->db.name);
    assert_int_equal(result_bytes(r, 0, 1).len, 8);
    PQclear(r);
}

static void bytes_come_back_whatever_they_are(void **state)
{
    struct fixture *f = *state;
    char all[256];
    struct bytes back;
    PGresult *r;

    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    params_bytes(&f->params, (struct bytes){all, sizeof(all)});
    params_bytes(&f->params, (struct bytes){all, 0});
    params_bytes(&f->params, (struct bytes){NULL, 0});
    r = fixture_query(f, "SELECT $1, $2, $3");
    back = result_bytes(r, 0, 0);
    assert_int_equal(back.len, sizeof(all));
    assert_memory_equal(back.data, all, sizeof(all));
    back = result_bytes(r, 0, 1);
    assert_non_null(back.data);
    assert_int_equal(back.len, 0);
    assert_false(result_is_null(r, 0, 1));
    back = result_bytes(r, 0, 2);
    assert_null(back.data);
    assert_true(result_is_null(r, 0, 2));
    PQclear(r);
}

/* More than any socket buffer holds, both ways at once. */
static void large_bytes_pass_in_both_directions(void **state)
{
    struct fixture *f = *state;
    size_t len = 8 << 20;
    char *large = malloc(len);
    struct bytes back;
    PGresult *r;

    assert_non_null(large);
    rand_bytes(large, len);
    params_bytes(&f->params, (struct bytes){large, len});
    r = fixture_query(f, "SELECT $1");
    back = result_bytes(r, 0, 0);
    assert_int_equal(back.len, len);
    assert_memory_equal(back.data, large, len);
    PQclear(r);
    free(large);
}

static void uuids_come_back_as_they_went(void **state)
{
    struct fixture *f = *state;
    struct uuid uuid = uuid_random();
    struct uuid back;
    char text[UUID_TEXT_LEN + 1];
    PGresult *r;

    uuid_format(&uuid, text);
    params_uuid(&f->params, &uuid);
    params_text(&f->params, text);
    params_uuid(&f->params, NULL);
    r = fixture_query(f, "SELECT $1, $1::text = $2, $3");
    back = result_uuid(r, 0, 0);
    assert_memory_equal(back.bytes, uuid.bytes, sizeof(uuid.bytes));
    assert_true(result_bool(r, 0, 1));
    assert_true(result_is_null(r, 0, 2));
    PQclear(r);
}

static void times_come_back_as_they_went(void **state)
{
    static const int64_t values[] = {
        0, 1, -1, 1700000000123456, -2000000000000001, INT64_MAX, INT64_MIN};
    struct fixture *f = *state;
    PGresult *r;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        params_time(&f->params, &values[i]);
        r = fixture_query(f, "SELECT $1");
        assert_true(result_time(r, 0, 0) == values[i]);
        PQclear(r);
    }
    params_time(&f->params, &values[3]);
    params_time(&f->params, &values[5]);
    params_time(&f->params, &values[6]);
    params_time(&f->params, NULL);
    assert_true(fixture_bool(f,
                             "SELECT $1 = '2023-11-14 22:13:20.123456Z' AND $2 = 'infinity'"
                             " AND $3 = '-infinity' AND $4 IS NULL"));
}

static void times_beyond_our_range_are_not_infinity(void **state)
{
    const int64_t too_early = INT64_MIN + 1;
    struct fixture *f = *state;
    PGresult *r = fixture_query(
        f, "SELECT '294276-12-31 23:59:59Z'::timestamptz, '4714-11-24 BC'::timestamptz");

    assert_true(result_time(r, 0, 0) == INT64_MAX - 1);
    assert_true(result_time(r, 0, 1) < 0);
    assert_true(result_time(r, 0, 1) != INT64_MIN);
    PQclear(r);
    params_time(&f->params, &too_early);
    assert_int_equal(fixture_try(f, "SELECT $1", NULL), PAWL_EINVAL);
    assert_string_equal(f->err.sqlstate, "22008");
}

static void number_arrays_arrive_in_order(void **state)
{
    const bool bools[] = {true, false};
    const int16_t shorts[] = {1, -2};
    const int32_t ints[] = {100000, -3};
    const int64_t longs[] = {INT64_MAX, INT64_MIN, 0};
    struct fixture *f = *state;

    params_bool_array(&f->params, bools, 2);
    params_i16_array(&f->params, shorts, 2);
    params_i32_array(&f->params, ints, 2);
    params_i64_array(&f->params, longs, 3);
    assert_true(fixture_bool(f,
                             "SELECT $1 = '{t,f}' AND $2 = '{1,-2}' AND $3 = '{100000,-3}'"
                             " AND $4 = '{9223372036854775807,-9223372036854775808,0}'"));
}

static void arrays_keep_empty_and_null_apart(void **state)
{
    const char *const texts[] = {"", NULL, "{a,\"b\"}", "NULL"};
    const struct bytes bytes[] = {{"", 0}, {NULL, 0}, {"\0x\xff", 3}};
    const int64_t ever = INT64_MAX;
    const int64_t epoch = 0;
    const int64_t *const times[] = {&epoch, NULL, &ever};
    const struct uuid uuids[] = {{{0}}, {{0xff}}};
    struct fixture *f = *state;

    params_text_array(&f->params, texts, 4);
    params_bytes_array(&f->params, bytes, 3);
    params_time_array(&f->params, times, 3);
    params_uuid_array(&f->params, uuids, 2);
    assert_true(fixture_bool(
        f,
        "SELECT $1 IS NOT DISTINCT FROM ARRAY['', NULL, '{a,\"b\"}', 'NULL']"
        " AND $2 IS NOT DISTINCT FROM ARRAY['', NULL, '\\x0078ff']::bytea[]"
        " AND $3 IS NOT DISTINCT FROM ARRAY['1970-01-01Z', NULL, 'infinity']::timestamptz[]"
        " AND $4 = '{00000000-0000-0000-0000-000000000000,ff000000-0000-0000-0000-000000000000}'"));
}

static void empty_arrays_are_empty_and_not_null(void **state)
{
    struct fixture *f = *state;

    params_bool_array(&f->params, NULL, 0);
    params_i16_array(&f->params, NULL, 0);
    params_i32_array(&f->params, NULL, 0);
    params_i64_array(&f->params, NULL, 0);
    params_text_array(&f->params, NULL, 0);
    params_bytes_array(&f->params, NULL, 0);
    params_uuid_array(&f->params, NULL, 0);
    params_time_array(&f->params, NULL, 0);
    assert_true(
        fixture_bool(f,
                     "SELECT $1 = '{}' AND $2 = '{}' AND $3 = '{}' AND $4 = '{}' AND $5 = '{}'"
                     " AND $6 = '{}' AND $7 = '{}' AND $8 = '{}'"));
}

static void bytes_that_are_not_utf8_are_refused_as_text(void **state)
{
    struct fixture *f = *state;

    params_text(&f->params, "\xff\xfe");
    assert_int_equal(fixture_try(f, "SELECT $1", NULL), PAWL_EINVAL);
    assert_string_equal(f->err.sqlstate, "22021");
}

static void the_type_ids_are_those_of_the_server(void **state)
{
    static const struct {
        const char *name;
        int oid;
    } types[] = {
        {"bool", OID_BOOL},
        {"bytea", OID_BYTEA},
        {"name", OID_NAME},
        {"int8", OID_INT8},
        {"int2", OID_INT2},
        {"int4", OID_INT4},
        {"text", OID_TEXT},
        {"json", OID_JSON},
        {"bpchar", OID_BPCHAR},
        {"varchar", OID_VARCHAR},
        {"timestamptz", OID_TIMESTAMPTZ},
        {"uuid", OID_UUID},
        {"bool[]", OID_BOOL_ARRAY},
        {"bytea[]", OID_BYTEA_ARRAY},
        {"int2[]", OID_INT2_ARRAY},
        {"int4[]", OID_INT4_ARRAY},
        {"text[]", OID_TEXT_ARRAY},
        {"int8[]", OID_INT8_ARRAY},
        {"timestamptz[]", OID_TIMESTAMPTZ_ARRAY},
        {"uuid[]", OID_UUID_ARRAY},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        params_text(&f->params, types[i].name);
        params_i64(&f->params, types[i].oid);
        if (!fixture_bool(f, "SELECT $1::regtype::oid::int8 = $2"))
            fail_msg("%s is not %d", types[i].name, types[i].oid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(numbers_come_back_as_they_went),
        FIXTURE_TEST(texts_come_back_as_they_went),
        FIXTURE_TEST(what_reads_like_text_is_read_as_text),
        FIXTURE_TEST(bytes_come_back_whatever_they_are),
        FIXTURE_TEST(large_bytes_pass_in_both_directions),
        FIXTURE_TEST(uuids_come_back_as_they_went),
        FIXTURE_TEST(times_come_back_as_they_went),
        FIXTURE_TEST(times_beyond_our_range_are_not_infinity),
        FIXTURE_TEST(number_arrays_arrive_in_order),
        FIXTURE_TEST(arrays_keep_empty_and_null_apart),
        FIXTURE_TEST(empty_arrays_are_empty_and_not_null),
        FIXTURE_TEST(bytes_that_are_not_utf8_are_refused_as_text),
        FIXTURE_TEST(the_type_ids_are_those_of_the_server),
    };

    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
