/*
 * plans_fixture: the plans of a statement and of all that it runs inside of functions, as auto_explain tells
 * them: with the values known and without. Header only.
 */
#ifndef TESTS_PLANS_FIXTURE_H
#define TESTS_PLANS_FIXTURE_H

#include "base/buf.h"
#include "store_fixture.h"

static struct store store;
static struct buf plans; /* what auto_explain said since the last look */

static inline void note_plan(void *data, const PGresult *r)
{
    (void)data;
    buf_puts(&plans, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY));
}

static inline int plans_setup(void **state)
{
    if (store_setup(state) != 0)
        return -1;
    store = *(struct store *)*state;
    buf_init(&plans, 16UL * 1024 * 1024);
    return 0;
}

/* From here on; before, the tables are filled. */
static inline void plans_listen(void)
{
    testdb_exec(&store.db,
                "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                "SET auto_explain.log_nested_statements = on;"
                "SET auto_explain.log_level = warning; SET client_min_messages = warning");
    PQsetNoticeReceiver(store.db.conn, note_plan, NULL);
}

static inline int plans_teardown(void **state)
{
    void *s = &store;

    (void)state;
    buf_deinit(&plans);
    return store_teardown(&s);
}

/* Runs the statement with the parameters bound last, nested ones too, and gives it up again. The rows it gave. */
static inline int plan_of(const struct stmt *stmt, const char *mode)
{
    struct params *p = &store.params;
    char set[100];

    snprintf(set, sizeof(set), "BEGIN; SET LOCAL plan_cache_mode = %s", mode);
    testdb_exec(&store.db, set);
    PGresult *r = PQprepare(store.db.conn, "p", stmt->sql, p->n, p->types);

    assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    buf_clear(&plans);
    r = PQexecPrepared(store.db.conn, "p", p->n, p->values, p->lengths, p->formats, 1);
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", stmt->name, PQerrorMessage(store.db.conn));
    int n = PQntuples(r);

    PQclear(r);
    testdb_exec(&store.db, "ROLLBACK; DEALLOCATE p");
    return n;
}

/* As the connections of workers. */
static inline void session_of_a_worker(const struct stmt *stmt)
{
    params_bool(begin(&store), false);
    PQclear(run(&store, stmt));
}

static inline void session_of_anybody(void)
{
    testdb_exec(&store.db,
                "RESET jit; RESET plan_cache_mode; RESET enable_seqscan; RESET enable_mergejoin;"
                "RESET lock_timeout");
}

static const char *const modes[] = {"force_custom_plan", "force_generic_plan"};

/* Every scan of these tables goes along an index, or by place. */
static const char *const large[] = {"job",
                                    "job_option",
                                    "machine",
                                    "lane",
                                    "signal",
                                    "child",
                                    "guard",
                                    "sleeper",
                                    "enqueue_key",
                                    NULL};

static inline void assert_no_walk(const struct stmt *stmt)
{
    const char *text = buf_str(&plans);
    char walk[64];

    for (size_t i = 0; large[i] != NULL; i++) {
        static const char *const kinds[] = {"Seq Scan on pawl.", "Seq Scan on "};

        for (size_t k = 0; k < 2; k++) {
            int len = snprintf(walk, sizeof(walk), "%s%s", kinds[k], large[i]);
            const char *at = text;

            while ((at = strstr(at, walk)) != NULL) {
                at += len;
                if (*at == ' ' || *at == '\n')
                    fail_msg("%s has a \"%s\":\n%.*s",
                             stmt->name,
                             walk,
                             900,
                             at - 300 > text ? at - 300 : text);
            }
        }
    }
}

static inline void assert_plans(const struct stmt *stmt, const char *const *wanted)
{
    for (size_t m = 0; m < 2; m++) {
        plan_of(stmt, modes[m]);
        for (size_t i = 0; wanted[i] != NULL; i++) {
            if (strstr(buf_str(&plans), wanted[i]) == NULL)
                fail_msg("%s has no \"%s\":\n%s", stmt->name, wanted[i], buf_str(&plans));
        }
        assert_no_walk(stmt);
    }
}

#define NODES(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
