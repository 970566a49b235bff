/*
 * Several databases of one server that knows nothing of Pawl yet are migrated at the same moment:
 * the roles belong to all of them, and whoever comes second must not mind. Needs a server of its
 * own, because that of the other tests has the roles already.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_place.h"
#include "store/migrate.h"
#include "store/migrations.h"
#include "support/cmocka.h"

#define RACERS 3
#define ROUNDS 2

struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    PGconn *conn;
    struct pawl_err err;
    int applied;
    int rc;
};

static void ignore(void *data, int version, const char *name, const char *sql)
{
    (void)data;
    (void)version;
    (void)name;
    (void)sql;
}

static void *race(void *data)
{
    struct racer *racer = data;

    pthread_barrier_wait(racer->start);
    racer->rc = schema_migrate(racer->conn, false, ignore, NULL, &racer->applied, &racer->err);
    return NULL;
}

static void execute(PGconn *conn, const char *sql)
{
    PGresult *r = PQexec(conn, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(r);
}

static void databases_of_a_new_server_are_migrated_at_once(void **state)
{
    struct place place;
    char text[1000];

    (void)state;
    place_clean_environment();
    place_init(&place, "home");
    place_locate(&place);
    place_start(&place);
    PGconn *conn = place_connect(&place);
    const char *conninfo = cluster_conninfo(&place.cluster, &place.arena);

    assert_non_null(conninfo);
    for (int round = 0; round < ROUNDS; round++) {
        struct racer racers[RACERS] = {0};
        pthread_barrier_t start;

        pthread_barrier_init(&start, NULL, RACERS);
        for (int i = 0; i < RACERS; i++) {
            snprintf(text, sizeof(text), "CREATE DATABASE race%d", i);
            execute(conn, text);
            snprintf(text, sizeof(text), "%s dbname=race%d", conninfo, i);
            racers[i].conn = PQconnectdb(text);
            racers[i].start = &start;
        }
        for (int i = 0; i < RACERS; i++)
            assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        for (int i = 0; i < RACERS; i++)
            pthread_join(racers[i].thread, NULL);
        pthread_barrier_destroy(&start);
        for (int i = 0; i < RACERS; i++) {
            PQfinish(racers[i].conn);
            snprintf(text, sizeof(text), "DROP DATABASE race%d", i);
            execute(conn, text);
            if (racers[i].rc != 0)
                print_error("%s (%s)\n", racers[i].err.message, racers[i].err.sqlstate);
            assert_int_equal(racers[i].rc, 0);
            assert_int_equal(racers[i].applied, migrations_n);
        }
        execute(conn, "DROP ROLE pawl_owner, pawl_server, pawl_worker, pawl_producer, pawl_reader");
    }
    PQfinish(conn);
    place_stop(&place);
    place_deinit(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(databases_of_a_new_server_are_migrated_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
