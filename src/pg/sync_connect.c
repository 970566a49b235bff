/*
 * sync_connect: the blocking way to a connection, with a deadline for each host, and the waiting
 * that sync.c shares. A server that is still starting up is worth a little patience; one that
 * refuses is not.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/text.h"
#include "pg/hosts.h"
#include "pg/sqlstate.h"
#include "pg/sync.h"
#include "pg/sync_wait.h"

#define CONNECT_TIMEOUT_S 5   /* when the target's own is not a number */
#define STARTING_PAUSE_MS 100 /* between looks at a server that is starting up */

static int64_t now_us(void)
{
    return clock_mono_us(&clock_system);
}

/* Rounded up: a poll that wakes too soon would spin through the last millisecond. */
static int remaining_ms(int64_t until_us)
{
    int64_t left_ms = (until_us - now_us() + US_PER_MS - 1) / US_PER_MS;

    if (left_ms < 0)
        return 0;
    return left_ms > 60000 ? 60000 : (int)left_ms;
}

int sync_wait_socket(PGconn *conn, short events, int64_t until_us)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = events};

    if (fd.fd < 0)
        return -1;
    for (;;) {
        int n = poll(&fd, 1, remaining_ms(until_us));
        if (n > 0)
            return fd.revents & POLLNVAL ? -1 : 1;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        if (now_us() >= until_us)
            return 0;
    }
}

int sync_wait_input(PGconn *conn, int64_t until_us)
{
    int ready = sync_wait_socket(conn, POLLIN, until_us);

    if (ready > 0 && !PQconsumeInput(conn))
        return -1;
    return ready;
}

int sync_flush(PGconn *conn, int64_t until_us)
{
    int left;

    while ((left = PQflush(conn)) > 0) {
        int ready = sync_wait_socket(conn, POLLIN | POLLOUT, until_us);
        if (ready <= 0)
            return ready;
        /* Returns at once when nothing is there to be read. */
        if (!PQconsumeInput(conn))
            return -1;
    }
    return left == 0 ? 1 : -1;
}

void sync_silent(void *data, const PGresult *notice)
{
    (void)data;
    (void)notice;
}

PQnoticeReceiver sync_usual_receiver(void)
{
    static _Atomic(PQnoticeReceiver) usual; /* the same for all connections of a process */
    PQnoticeReceiver found = atomic_load(&usual);

    if (found == NULL) {
        /* No connection: what is wrong with it is found before anything is looked up. */
        PGconn *conn = PQconnectStart("=");

        found = conn != NULL ? PQsetNoticeReceiver(conn, NULL, NULL) : NULL;
        PQfinish(conn);
        atomic_store(&usual, found);
    }
    return found;
}

int server_version_check(int version, struct pawl_err *err)
{
    if (version >= PG_SERVER_MIN)
        return 0;
    if (version <= 0) {
        err_set(err, PAWL_ESTATE, "the database server does not tell its version");
    } else if (version >= 100000) {
        err_set(err,
                PAWL_ESTATE,
                "the database server is PostgreSQL %d.%d; pawl needs %d or newer",
                version / 10000,
                version % 10000,
                PG_SERVER_MIN / 10000);
    } else {
        err_set(err,
                PAWL_ESTATE,
                "the database server is PostgreSQL %d.%d.%d; pawl needs %d or newer",
                version / 10000,
                version / 100 % 100,
                version % 100,
                PG_SERVER_MIN / 10000);
    }
    err_hint(err,
             "Upgrade that server or name another one; without --db, PAWL_DATABASE_URL and the PG* "
             "variables pawl runs a database of its own.");
    return PAWL_ESTATE;
}

static int timed_out(const struct target *target, int64_t began_us, struct pawl_err *err)
{
    char took[TEXT_DURATION_LEN];

    text_format_duration(now_us() - began_us, took);
    err_set(err, PAWL_ECONN, "could not reach the database server in time");
    err_detail(err, "No answer from %s within %s.", target->shown, took);
    err_hint(err,
             "Are host and port right, and does a firewall let the connection through? "
             "connect_timeout in the connection string sets how many seconds to wait.");
    return PAWL_ECONN;
}

static int
attempt(const struct target *target, int64_t until_us, PGconn **ret_conn, struct pawl_err *err)
{
    int64_t began_us = now_us();
    PGconn *conn = PQconnectStartParams(target->keywords, target->values, 0);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    int rc = 0;

    if (conn) {
        PQsetNoticeReceiver(conn, sync_silent, NULL);
        PQsetErrorVerbosity(conn, PQERRORS_VERBOSE); /* for pg_err_from_connect */
    }
    if (!conn || PQstatus(conn) == CONNECTION_BAD)
        next = PGRES_POLLING_FAILED;
    /* The socket may be another one after each step: sync_wait_socket asks for it every time. */
    while (next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED) {
        int ready =
            sync_wait_socket(conn, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_us);
        if (ready == 0) {
            rc = timed_out(target, began_us, err);
            break;
        }
        next = PQconnectPoll(conn);
    }
    if (rc == 0 && next == PGRES_POLLING_FAILED)
        rc = pg_err_from_connect(conn, err);
    if (rc == 0)
        rc = server_version_check(PQserverVersion(conn), err);
    if (rc < 0) {
        PQfinish(conn);
        return rc;
    }
    PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
    *ret_conn = conn;
    return 0;
}

static int64_t timeout_us(const struct target *target)
{
    const char *text = target_value(target, "connect_timeout");
    int64_t seconds;

    /* libpq's meaning of 0 or less is "for ever", which nobody who waits at a prompt means. */
    if (!text || text_parse_int(text, 1, 3600, &seconds, NULL) < 0)
        seconds = CONNECT_TIMEOUT_S;
    return seconds * US_PER_S;
}

/* Among several hosts the primary is looked for, unless the target says itself what it wants
 * (target_session_attrs). A single standby is good enough to read from. */
static int check_role(const struct target *target, size_t n, PGconn **conn, struct pawl_err *err)
{
    int rc = 0;

    if (n > 1 && !target_value(target, "target_session_attrs"))
        rc = host_check_writable(*conn, err);
    if (rc < 0)
        sync_close(conn);
    return rc;
}

/* The same as on every list of hosts: the first that lets us in. */
static int round_of(const struct target *target, size_t n, PGconn **ret_conn, struct pawl_err *err)
{
    struct arena arena;
    struct target one;
    struct host_errors errors = {0};
    char label[HOST_LABEL_MAX];
    struct pawl_err why;
    int rc = 0;

    arena_init(&arena, 65536);
    for (size_t i = 0; i < n; i++) {
        err_clear(&why);
        if ((rc = target_host(target, i, &arena, &one, &why)) == 0)
            rc = attempt(&one, now_us() + timeout_us(target), ret_conn, &why);
        if (rc == 0)
            rc = check_role(target, n, ret_conn, &why);
        if (rc == 0)
            break;
        host_label(target, i, label);
        host_errors_add(&errors, label, &why);
    }
    arena_deinit(&arena);
    if (rc == 0)
        return 0;
    host_errors_tell(&errors, n, err);
    return err->code;
}

int sync_connect(const struct target *target, PGconn **ret_conn, struct pawl_err *err)
{
    size_t n = target_hosts(target);
    int64_t until_us = now_us() + timeout_us(target) * (int64_t)n;
    struct pawl_err why;
    int rc;

    for (;;) {
        err_clear(&why);
        rc = round_of(target, n, ret_conn, &why);
        if (rc == 0 || strcmp(why.sqlstate, "57P03") != 0 || now_us() >= until_us)
            break;
        (void)poll(NULL, 0, STARTING_PAUSE_MS);
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}
