/*
 * Every argument that pawl.enqueue refuses, with SQLSTATE, message and hint: the same words through
 * pawl.enqueue and both forms of pawl.enqueue_many, which have short ways for what is surely right.
 * libpawl and the command check before they send and have their own words (lib-produce_input,
 * e2e-enqueue).
 */
#include "store_fixture.h"

#define NAME_HINT \
    "Use 1 to 128 letters, digits, _ . : / and -, beginning with a letter, a digit or _."
#define TEN(c)  c c c c c c c c c c
#define C129(c) TEN(TEN(c)) c c c c c c c c c TEN(c) TEN(c)
#define K129    C129("k")
#define Q129    C129("q")

static const struct {
    const char *arguments; /* of pawl.enqueue */
    const char *members;   /* the same in JSON; NULL: left out */
    bool many;             /* pawl.enqueue_many(kind, payloads, ...) takes it */
    const char *sqlstate;
    const char *message;
    const char *hint; /* "": none */
} refusals[] = {
    {"kind => NULL",
     "\"kind\": null",
     true,
     "22023",
     "kind name \"<NULL>\" is not valid",
     NAME_HINT},
    {"kind => ''", "\"kind\": \"\"", true, "22023", "kind name \"\" is not valid", NAME_HINT},
    {"kind => 'no blanks'",
     "\"kind\": \"no blanks\"",
     true,
     "22023",
     "kind name \"no blanks\" is not valid",
     NAME_HINT},
    {"kind => '.k'", "\"kind\": \".k\"", true, "22023", "kind name \".k\" is not valid", NAME_HINT},
    {"kind => 'k@'", "\"kind\": \"k@\"", true, "22023", "kind name \"k@\" is not valid", NAME_HINT},
    {"kind => 'k@x'",
     "\"kind\": \"k@x\"",
     true,
     "22023",
     "kind name \"k@x\" is not valid",
     NAME_HINT},
    {"kind => 'k', queue => 'q@1'",
     "\"kind\": \"k\", \"queue\": \"q@1\"",
     true,
     "22023",
     "queue name \"q@1\" is not valid",
     NAME_HINT},
    {"kind => E'k\\n'",
     "\"kind\": \"k\\n\"",
     true,
     "22023",
     "kind name \"k\n\" is not valid",
     NAME_HINT},
    {"kind => 'é'", "\"kind\": \"é\"", true, "22023", "kind name \"é\" is not valid", NAME_HINT},
    {"kind => repeat('k', 129)",
     NULL,
     true,
     "22023",
     "kind name \"" K129 "\" is not valid",
     NAME_HINT},
    {"kind => 'k', queue => NULL",
     NULL,
     true,
     "22023",
     "queue name \"<NULL>\" is not valid",
     NAME_HINT},
    {"kind => 'k', queue => ''",
     "\"kind\": \"k\", \"queue\": \"\"",
     true,
     "22023",
     "queue name \"\" is not valid",
     NAME_HINT},
    {"kind => 'k', queue => 'a b'",
     "\"kind\": \"k\", \"queue\": \"a b\"",
     true,
     "22023",
     "queue name \"a b\" is not valid",
     NAME_HINT},
    {"kind => 'k', queue => repeat('q', 129)",
     NULL,
     true,
     "22023",
     "queue name \"" Q129 "\" is not valid",
     NAME_HINT},
    {"kind => 'k', priority => -1",
     "\"kind\": \"k\", \"priority\": -1",
     true,
     "22023",
     "priority -1 is not between 0 and 9",
     ""},
    {"kind => 'k', priority => 10",
     "\"kind\": \"k\", \"priority\": 10",
     true,
     "22023",
     "priority 10 is not between 0 and 9",
     ""},
    {"kind => 'k', priority => 100000",
     "\"kind\": \"k\", \"priority\": 100000",
     true,
     "22023",
     "priority 100000 is not between 0 and 9",
     ""},
    {"kind => 'k', max_attempts => 0",
     "\"kind\": \"k\", \"max_attempts\": 0",
     true,
     "22023",
     "max_attempts 0 is not between 1 and 1000",
     ""},
    {"kind => 'k', max_attempts => 1001",
     "\"kind\": \"k\", \"max_attempts\": 1001",
     true,
     "22023",
     "max_attempts 1001 is not between 1 and 1000",
     ""},
    {"kind => 'k', delay => '-1 s'",
     "\"kind\": \"k\", \"delay\": \"-1 s\"",
     true,
     "22023",
     "delay -00:00:01 is negative",
     ""},
    {"kind => 'k', delay => '1 s', due_at => '2030-01-01'",
     "\"kind\": \"k\", \"delay\": \"1 s\", \"due_at\": \"2030-01-01\"",
     true,
     "22023",
     "delay and due_at cannot both be given",
     ""},
    {"kind => 'k', due_at => 'infinity'",
     "\"kind\": \"k\", \"due_at\": \"infinity\"",
     true,
     "22023",
     "due_at must be finite",
     ""},
    {"kind => 'k', due_at => '-infinity'",
     "\"kind\": \"k\", \"due_at\": \"-infinity\"",
     true,
     "22023",
     "due_at must be finite",
     ""},
    {"kind => 'k', timeout => '-1 s'",
     "\"kind\": \"k\", \"timeout\": \"-1 s\"",
     true,
     "22023",
     "timeout -00:00:01 is negative",
     ""},
    {"kind => 'k', timeout => '100 years'",
     "\"kind\": \"k\", \"timeout\": \"100 years\"",
     true,
     "22003",
     "integer out of range",
     ""},
    {"kind => 'k', bytes => convert_to(repeat('x', 16777217), 'UTF8')",
     NULL,
     false,
     "54000",
     "the payload has 16777217 bytes, and the limit is 16777216",
     "Store it elsewhere and pass a reference to it."},
    {"kind => 'k', payload => to_jsonb(repeat('x', 16777215))",
     NULL,
     false,
     "54000",
     "the payload has 16777217 bytes, and the limit is 16777216",
     "Store it elsewhere and pass a reference to it."},
    {"kind => 'k', retry => 'table'",
     "\"kind\": \"k\", \"retry\": \"table\"",
     false,
     "22023",
     "retry \"table\" is neither exponential nor quadratic",
     "A table of delays belongs to a kind: pawl kind set."},
    {"kind => 'k', retry_base => '-1 s'",
     "\"kind\": \"k\", \"retry_base\": \"-1 s\"",
     false,
     "22023",
     "retry_base -00:00:01 is negative",
     ""},
    {"kind => 'k', retry_cap => '-1 s'",
     "\"kind\": \"k\", \"retry_cap\": \"-1 s\"",
     false,
     "22023",
     "retry_cap -00:00:01 is negative",
     ""},
    {"kind => 'k', unique_key => ''",
     "\"kind\": \"k\", \"unique_key\": \"\"",
     false,
     "22023",
     "unique_key is empty",
     "NULL is no key."},
    {"kind => 'k', unique_key => repeat('x', 65537)",
     NULL,
     false,
     "54000",
     "unique_key has more than 65536 bytes",
     ""},
    {"kind => 'k', unique_scope => 'lane'",
     "\"kind\": \"k\", \"unique_scope\": \"lane\"",
     false,
     "22023",
     "unique_scope \"lane\" is none of kind, queue, global",
     ""},
    {"kind => 'k', unique_states => '{done}'",
     "\"kind\": \"k\", \"unique_states\": [\"done\"]",
     false,
     "22023",
     "unique_states: \"done\" is none of waiting, running, parked",
     ""},
    {"kind => 'k', unique_for => '-1 s', unique_key => 'x'",
     "\"kind\": \"k\", \"unique_for\": \"-1 s\", \"unique_key\": \"x\"",
     false,
     "22023",
     "unique_for -00:00:01 is negative",
     ""},
    {"kind => 'k', on_conflict => 'ignore'",
     "\"kind\": \"k\", \"on_conflict\": \"ignore\"",
     false,
     "22023",
     "on_conflict \"ignore\" is none of keep, replace, reschedule, refuse",
     ""},
    {"kind => 'k', lane => 'a b'",
     "\"kind\": \"k\", \"lane\": \"a b\"",
     false,
     "22023",
     "lane name \"a b\" is not valid",
     NAME_HINT},
    {"kind => 'k', tags => '{a,b c}'",
     "\"kind\": \"k\", \"tags\": [\"a\", \"b c\"]",
     false,
     "22023",
     "tag name \"b c\" is not valid",
     NAME_HINT},
    {"kind => 'k', tags => array_fill('t'::text, '{33}')",
     NULL,
     false,
     "54000",
     "a job has at most 32 tags, not 33",
     ""},
    {"kind => 'k', trace => repeat('x', 1025)",
     NULL,
     false,
     "54000",
     "trace has more than 1024 bytes",
     ""},
    {"kind => 'k', correlation => ''",
     "\"kind\": \"k\", \"correlation\": \"\"",
     false,
     "22023",
     "correlation is empty",
     "NULL is none."},
    {"kind => 'k', correlation => repeat('x', 1025)",
     NULL,
     false,
     "54000",
     "correlation has more than 1024 bytes",
     ""},
    {"kind => 'k', deadline => '-1 s'",
     "\"kind\": \"k\", \"deadline\": \"-1 s\"",
     false,
     "22023",
     "deadline -00:00:01 is negative",
     ""},
};

static const char *field(const PGresult *r, int code)
{
    const char *text = PQresultErrorField(r, code);

    return text != NULL ? text : "";
}

static void assert_words(struct store *s, size_t i, const char *sql)
{
    PGresult *r = PQexec(s->db.conn, sql);

    if (PQresultStatus(r) != PGRES_FATAL_ERROR)
        fail_msg("not refused: %s", sql);
    if (strcmp(field(r, PG_DIAG_SQLSTATE), refusals[i].sqlstate) != 0 ||
        strcmp(field(r, PG_DIAG_MESSAGE_PRIMARY), refusals[i].message) != 0 ||
        strcmp(field(r, PG_DIAG_MESSAGE_HINT), refusals[i].hint) != 0)
        fail_msg("%s: %s %s (%s)",
                 sql,
                 field(r, PG_DIAG_SQLSTATE),
                 field(r, PG_DIAG_MESSAGE_PRIMARY),
                 field(r, PG_DIAG_MESSAGE_HINT));
    PQclear(r);
}

static void a_refusal_has_the_same_words_in_every_function(void **state)
{
    struct store *s = *state;
    char sql[600];

    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        snprintf(sql, sizeof(sql), "SELECT pawl.enqueue(%s)", refusals[i].arguments);
        assert_words(s, i, sql);
        if (refusals[i].many) {
            snprintf(sql,
                     sizeof(sql),
                     "SELECT pawl.enqueue_many(payloads => '{1}', %s)",
                     refusals[i].arguments);
            assert_words(s, i, sql);
        }
        if (refusals[i].members == NULL)
            continue;
        snprintf(sql, sizeof(sql), "SELECT pawl.enqueue_many('[{%s}]')", refusals[i].members);
        assert_words(s, i, sql);
        snprintf(sql,
                 sizeof(sql),
                 "SELECT pawl.enqueue_many('[{\"kind\": \"k\"}, {%s}]')",
                 refusals[i].members);
        assert_words(s, i, sql);
    }
    assert_int_equal(count_of(s, "pawl.job"), 0);
}

/* NULL asks for the default, and the edges of every range are inside. */
static void what_is_just_right_is_accepted(void **state)
{
    struct store *s = *state;
    static const char *const accepted[] = {
        "kind => 'k@2', payload => NULL, priority => NULL, max_attempts => NULL",
        "kind => repeat('k', 128), queue => repeat('q', 128), priority => 0, max_attempts => 1",
        "kind => 'k', priority => 9, max_attempts => 1000, delay => '0', timeout => '0'",
        "kind => 'k', unique_scope => NULL, unique_states => NULL, on_conflict => NULL",
        "kind => 'k', unique_scope => 'queue', on_conflict => 'refuse', unique_states => '{}'",
        "kind => 'k', bytes => convert_to(repeat('x', 16777216), 'UTF8')",
    };
    char sql[300];

    for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++) {
        snprintf(sql, sizeof(sql), "SELECT pawl.enqueue(%s)", accepted[i]);
        testdb_exec(&s->db, sql);
    }
    testdb_exec(&s->db,
                "SELECT pawl.enqueue_many('[{\"kind\": \"k\", \"priority\": null, \"queue\": null,"
                " \"payload\": null, \"timeout\": null, \"delay\": null}]')");
    assert_int_equal(count_of(s, "pawl.job"), 7);
    assert_int_equal(count_of(s, "pawl.job WHERE timeout_ms IS NULL"), 7);
    assert_int_equal(count_of(s, "pawl.job WHERE payload = 'null'"), 2);
}

/* A due time is taken after the table was locked, however long the transaction is open. */
static void a_job_is_due_when_it_is_inserted(void **state)
{
    struct store *s = *state;
    struct pawl_job_new job = job_plain();

    testdb_exec(&s->db, "BEGIN; SELECT pg_sleep(0.01)");
    testdb_exec(&s->db, "INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k'), pawl.enqueue('k', delay => '0')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', tags => '{t}')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_many('k', '{1,2}'::jsonb[])");
    testdb_exec(&s->db, "SELECT pawl.enqueue_many('[{\"kind\": \"k\"}]')");
    testdb_exec(&s->db, "SELECT pawl.enqueue_plain('q', 'k', '1', 4::int2, 0, 0, 3, 0)");
    job_enqueue_bind(begin(s), &job, 1);
    PQclear(run(s, STMT(job_enqueue)));
    job_enqueue_same_bind(begin(s), &job, 1);
    PQclear(run(s, STMT(job_enqueue_same)));
    job_enqueue_options_bind(begin(s), &job, 1);
    PQclear(run(s, STMT(job_enqueue_options)));
    assert_int_equal(count_of(s, "pawl.job WHERE due_at > now() + interval '9 ms'"), 11);
    testdb_exec(&s->db, "COMMIT");
    assert_int_equal(count_of(s, "pawl.job WHERE due_at <= now()"), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_refusal_has_the_same_words_in_every_function),
        store_test(what_is_just_right_is_accepted),
        store_test(a_job_is_due_when_it_is_inserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
