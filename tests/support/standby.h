/*
 * standby: the synchronous standby that support/standby.py runs beside the PostgreSQL of a test. While it is
 * stopped no commit is confirmed; the test itself must not write to the database then. Header only.
 */
#ifndef TESTS_STANDBY_H
#define TESTS_STANDBY_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <poll.h>

#include "support/cmocka.h"
#include "support/testdb.h"

static inline void standby_signal(int number)
{
    const char *pid = getenv("PAWL_TEST_STANDBY");

    assert_non_null(pid); /* run by support/standby.py */
    assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), number), 0);
}

static inline void standby_stall(void)
{
    standby_signal(SIGSTOP);
}

/* Also in every teardown: dropping a database is a commit. */
static inline void standby_go_on(void)
{
    standby_signal(SIGCONT);
}

/* How many commits of the test's database wait for the standby. A read, so it waits for nobody. */
#define STANDBY_AWAITED                                                       \
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND " \
    "datname = current_database()"

/* What an administrator does to commits that hang. */
#define STANDBY_CANCEL                                                             \
    "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event " \
    "= 'SyncRep' AND datname = current_database()"

/* The same to the sessions. */
#define STANDBY_TERMINATE                                                             \
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event " \
    "= 'SyncRep' AND datname = current_database()"

#define MEDDLER_S 60 /* then nothing will ever wait */

/* Somebody else, in a thread: waits until a commit waits for the standby, then does the statement, then lets the standby
 * go on if that is wanted. */
struct meddler {
    const char *conninfo;
    const char *sql;
    bool go_on;
    bool done;
    pthread_t thread;
};

static inline void *meddler_run(void *data)
{
    struct meddler *m = data;
    PGconn *conn = PQconnectdb(m->conninfo);
    time_t until = time(NULL) + MEDDLER_S;

    while (!m->done && time(NULL) < until && PQstatus(conn) == CONNECTION_OK) {
        PGresult *r = PQexec(conn, m->sql);

        m->done = PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "0") != 0;
        PQclear(r);
        if (!m->done)
            (void)poll(NULL, 0, 5);
    }
    PQfinish(conn);
    if (m->go_on)
        standby_go_on();
    return NULL;
}

static inline void meddler_start(struct meddler *m)
{
    assert_int_equal(pthread_create(&m->thread, NULL, meddler_run, m), 0);
}

static inline void meddler_join(struct meddler *m)
{
    pthread_join(m->thread, NULL);
    assert_true(m->done);
}

#endif
