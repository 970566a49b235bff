/*
 * soak_producer: enqueues until it is told to stop, one job or a few at a time, on its own or in a
 * transaction that it commits or takes back (soak_jobs.c). To its machines it sends signals, each with a number of its own;
 * one with a key is sent again until its fate is known. Some of its jobs it cancels. Writes down what it is about to do and what
 * came of it.
 *
 * usage: soak_producer EVENTS CONNINFO NAME SEED EVERY_MS SLOW_MS QUEUE,QUEUE
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "client/enqueue.h"
#include "client/job.h"
#include "client/signal.h"
#include "fault/events.h"
#include "fault/soak_jobs.h"
#include "pg/sync.h"

#define ORDERS_MAX 16 /* machines that it sends signals to */
#define RECENT_MAX 32 /* jobs that it may cancel */

static volatile sig_atomic_t stop;

struct producer {
    struct target target;
    PGconn *conn; /* NULL while there is none */
    struct maker maker;
    unsigned long long n_calls;
    int64_t orders[ORDERS_MAX]; /* machines that wait for our signals */
    size_t n_orders;
    unsigned long long n_signals;
    int64_t recent[RECENT_MAX]; /* jobs of ours, of whatever kind; 0: none */
};

static void on_sigterm(int signum)
{
    (void)signum;
    stop = 1;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000 * 1000}, NULL);
}

static const char *fate(int rc)
{
    return rc == 0 ? "ok" : rc == PAWL_EUNKNOWN ? "unknown" : "fail";
}

/* What nobody committed did not happen; what was sent to be committed and not answered, who knows.
 */
static const char *in_transaction(struct producer *p, bool commit, int64_t *ids, bool *held)
{
    int rc = client_begin(p->conn, NULL);

    if (rc == 0)
        rc = client_enqueue(p->conn, p->maker.jobs, p->maker.n, ids, held, NULL);
    if (rc < 0 || !commit) {
        client_rollback(p->conn);
        return "fail";
    }
    return fate(client_commit(p->conn, NULL));
}

static void close_if_broken(struct producer *p)
{
    if (PQstatus(p->conn) != CONNECTION_OK || PQtransactionStatus(p->conn) != PQTRANS_IDLE)
        sync_close(&p->conn);
}

static void produce(struct producer *p)
{
    int64_t ids[JOBS_MAX];
    bool held[JOBS_MAX];
    long how = maker_throw(&p->maker, 10);

    maker_make(&p->maker);
    p->n_calls++;
    maker_tell(&p->maker, p->n_calls, NULL, NULL, NULL);
    const char *result =
        how < 6 ? fate(client_enqueue(p->conn, p->maker.jobs, p->maker.n, ids, held, NULL))
                : in_transaction(p, how < 8, ids, held);
    bool ok = strcmp(result, "ok") == 0;

    maker_tell(&p->maker, p->n_calls, result, ok ? ids : NULL, held);
    for (size_t i = 0; ok && i < p->maker.n; i++) {
        if (!held[i])
            p->recent[maker_throw(&p->maker, RECENT_MAX)] = ids[i];
        if (strcmp(p->maker.jobs[i].kind, "order") == 0 && !held[i] && p->n_orders < ORDERS_MAX)
            p->orders[p->n_orders++] = ids[i];
    }
    close_if_broken(p);
}

/* Once. `commit` false: in a transaction that is taken back. */
static const char *
send_once(struct producer *p, int64_t job, const struct signal_new *signal, bool commit)
{
    bool sent;
    int rc;

    if (commit)
        return fate(client_signal_send(p->conn, job, signal, &sent, NULL));
    rc = client_begin(p->conn, NULL);
    if (rc == 0)
        rc = client_signal_send(p->conn, job, signal, &sent, NULL);
    (void)rc;
    client_rollback(p->conn);
    return "fail";
}

/* With a key until its fate is known, unless there is no connection any more; without one, once. */
static void send_signal(struct producer *p, int64_t job, const char *name, bool keyed, bool commit)
{
    char number[64];
    char payload[96];
    const char *result = "unknown";

    snprintf(number, sizeof(number), "%s-%llu", p->maker.name, ++p->n_signals);
    snprintf(payload, sizeof(payload), "{\"n\": \"%s\"}", number);
    for (int tries = 0; tries < 50 && strcmp(result, "unknown") == 0; tries++) {
        if (p->conn == NULL && sync_connect(&p->target, &p->conn, NULL) < 0) {
            pause_ms(20);
            continue;
        }
        p->n_calls++;
        events_write("call %llu signal %lld:%s:%s", p->n_calls, (long long)job, name, number);
        result = send_once(
            p,
            job,
            &(struct signal_new){.name = name, .payload = payload, .key = keyed ? number : NULL},
            commit);
        events_write(
            "ret %llu signal %s %lld:%s:%s", p->n_calls, result, (long long)job, name, number);
        close_if_broken(p);
        if (!keyed)
            break;
    }
}

static void end_order(struct producer *p, size_t i)
{
    /* Refused now, it may be accepted later; it loses its patience by itself. */
    send_signal(p, p->orders[i], "last", true, true);
    p->orders[i] = p->orders[--p->n_orders];
}

static void send_some(struct producer *p)
{
    size_t i = (size_t)maker_throw(&p->maker, (long)p->n_orders);
    int64_t job = p->orders[i];

    for (long n = 1 + maker_throw(&p->maker, 3); n > 0; n--)
        send_signal(p,
                    job,
                    maker_throw(&p->maker, 2) == 0 ? "a" : "b",
                    maker_throw(&p->maker, 2) == 0,
                    maker_throw(&p->maker, 8) != 0);
    if (maker_throw(&p->maker, 4) == 0)
        end_order(p, i);
}

static void cancel_one(struct producer *p)
{
    int64_t job = p->recent[maker_throw(&p->maker, RECENT_MAX)];
    bool ended;

    if (job == 0 || p->conn == NULL)
        return;
    events_write("call %llu cancel %lld", ++p->n_calls, (long long)job);
    const char *result = fate(client_job_cancel(p->conn, job, "soak", &ended, NULL));

    events_write("ret %llu cancel %s %lld", p->n_calls, result, (long long)job);
    close_if_broken(p);
}

int main(int argc, char **argv)
{
    static struct producer producer;
    struct producer *p = &producer;
    struct arena arena;
    struct pawl_err err;

    if (argc != 8) {
        fprintf(stderr,
                "usage: soak_producer EVENTS CONNINFO NAME SEED EVERY_MS SLOW_MS QUEUE,QUEUE\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_sigterm);
    signal(SIGPIPE, SIG_IGN);
    events_open(argv[1]);
    arena_init(&arena, 64UL * 1024);
    maker_init(&p->maker, argv[3], argv[4], argv[6], argv[7]);
    if (target_set(&p->target, &arena, TARGET_OPTION, argv[2], &err) < 0) {
        fprintf(stderr, "soak_producer: %s\n", err.message);
        return 2;
    }
    events_write("boot %d", (int)getpid());
    for (long every_ms = strtol(argv[5], NULL, 10); stop == 0;
         pause_ms(1 + maker_throw(&p->maker, 2 * every_ms))) {
        if (p->conn != NULL || sync_connect(&p->target, &p->conn, NULL) == 0)
            produce(p);
        if (p->n_orders > 0)
            send_some(p);
        if (maker_throw(&p->maker, 12) == 0)
            cancel_one(p);
    }
    while (p->n_orders > 0)
        end_order(p, 0);
    events_write("stopped 0");
    sync_close(&p->conn);
    arena_deinit(&arena);
    return 0;
}
