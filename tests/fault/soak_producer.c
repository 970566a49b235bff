/*
 * soak_producer: enqueues until it is told to stop, one job or a few at a time, on its own or in a
 * transaction that it commits or takes back: plain jobs, jobs in lanes, with unique keys, machines.
 * Every job has a key of its own as the first word of its payload, so that it can be found again
 * even when nobody learned its id. To its machines it sends signals, each with a number of its own;
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
#include "client/ask.h"
#include "client/enqueue.h"
#include "client/signal.h"
#include "fault/events.h"
#include "pg/sync.h"

#define JOBS_MAX   4
#define ORDERS_MAX 16 /* machines that it sends signals to */
#define RECENT_MAX 32 /* jobs that it may cancel */
#define LANES      10
#define WIDE_LANES 2 /* these let three in (trace.sql) */
#define KEYS       8

static volatile sig_atomic_t stop;

struct producer {
    struct target target;
    PGconn *conn; /* NULL while there is none */
    const char *name;
    const char *queues[2];
    unsigned short dice[3]; /* so that a seed makes the same jobs again */
    int64_t slow_ms;
    unsigned long long n_calls;
    unsigned long long n_jobs;
    struct job_new jobs[JOBS_MAX];
    char payloads[JOBS_MAX][96];
    char names[JOBS_MAX][32]; /* of a lane or a unique key */
    size_t n;
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

static long throw(struct producer * p, long sides)
{
    return nrand48(p->dice) % sides;
}

/* A lane for some, a unique key for others. One key at most in a call: whoever holds two and waits
 * for each other's is in a deadlock, and that is not what is to be found here. */
static void make_special(struct producer *p, size_t i)
{
    struct job_new *job = &p->jobs[i];
    long what = throw(p, 10);

    if (what < 3) {
        snprintf(p->names[i], sizeof(p->names[i]), "l%ld", throw(p, LANES));
        job->lane = p->names[i];
    } else if (what < 4) {
        snprintf(p->names[i], sizeof(p->names[i]), "wide%ld", throw(p, WIDE_LANES));
        job->lane = p->names[i];
    } else if (what < 5 && i == 0) {
        snprintf(p->names[i], sizeof(p->names[i]), "key%ld", throw(p, KEYS));
        job->unique_key = p->names[i];
        job->unique_scope = "global";
    }
}

static void make_job(struct producer *p, size_t i)
{
    struct job_new *job = &p->jobs[i];
    long kind = throw(p, 1000);
    int64_t ms = throw(p, 100) < 3 ? throw(p, p->slow_ms) : throw(p, 8);

    *job = job_new_default();
    job->queue = p->queues[throw(p, 2)];
    job->kind = kind < 1     ? "poison"
                : kind < 300 ? "moody"
                : kind < 360 ? "order"
                : kind < 420 ? "family"
                             : "plain";
    job->max_attempts = kind < 1 ? 2 : 12;
    job->priority = (int16_t) throw(p, 10);
    job->delay_ms = throw(p, 5) == 0 ? throw(p, 800) : 0;
    make_special(p, i);
    if (job->lane != NULL)
        ms %= p->slow_ms / 4; /* one after the other takes long enough */
    /* The checker is to know who had which unique key. */
    int len = snprintf(p->payloads[i],
                       sizeof(p->payloads[i]),
                       "%s.%llu%s%s %lld",
                       p->name,
                       ++p->n_jobs,
                       job->unique_key != NULL ? "~" : "",
                       job->unique_key != NULL ? job->unique_key : "",
                       (long long)ms);
    job->payload = (struct bytes){p->payloads[i], (size_t)len};
}

/* ids and held: when they are known; else NULL. */
static void tell(struct producer *p, const char *what, const int64_t *ids, const bool *held)
{
    static struct items items;

    items_clear(&items);
    for (size_t i = 0; i < p->n; i++) {
        int key_len = (int)strcspn(p->payloads[i], " ");

        if (ids != NULL)
            items_add(&items,
                      "%lld:%.*s%s",
                      (long long)ids[i],
                      key_len,
                      p->payloads[i],
                      held[i] ? ":held" : "");
        else
            items_add(&items, "%.*s", key_len, p->payloads[i]);
    }
    if (what == NULL)
        events_write("call %llu enqueue %s", p->n_calls, items.text);
    else
        events_write("ret %llu enqueue %s %s", p->n_calls, what, items.text);
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
        rc = client_enqueue(p->conn, p->jobs, p->n, ids, held, NULL);
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
    long how = throw(p, 10);

    p->n = 1 + (size_t) throw(p, JOBS_MAX);
    for (size_t i = 0; i < p->n; i++)
        make_job(p, i);
    p->n_calls++;
    tell(p, NULL, NULL, NULL);
    const char *result = how < 6 ? fate(client_enqueue(p->conn, p->jobs, p->n, ids, held, NULL))
                                 : in_transaction(p, how < 8, ids, held);
    bool ok = strcmp(result, "ok") == 0;

    tell(p, result, ok ? ids : NULL, held);
    for (size_t i = 0; ok && i < p->n; i++) {
        if (!held[i])
            p->recent[throw(p, RECENT_MAX)] = ids[i];
        if (strcmp(p->jobs[i].kind, "order") == 0 && !held[i] && p->n_orders < ORDERS_MAX)
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

    snprintf(number, sizeof(number), "%s-%llu", p->name, ++p->n_signals);
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
    size_t i = (size_t) throw(p, (long)p->n_orders);
    int64_t job = p->orders[i];

    for (long n = 1 + throw(p, 3); n > 0; n--)
        send_signal(p, job, throw(p, 2) == 0 ? "a" : "b", throw(p, 2) == 0, throw(p, 8) != 0);
    if (throw(p, 4) == 0)
        end_order(p, i);
}

static void cancel_one(struct producer *p)
{
    int64_t job = p->recent[throw(p, RECENT_MAX)];
    bool ended;

    if (job == 0 || p->conn == NULL)
        return;
    events_write("call %llu cancel %lld", ++p->n_calls, (long long)job);
    const char *result = fate(client_job_cancel(p->conn, job, "soak", &ended, NULL));

    events_write("ret %llu cancel %s %lld", p->n_calls, result, (long long)job);
    close_if_broken(p);
}

static int parse(struct producer *p, char **argv, struct arena *arena)
{
    struct pawl_err err;
    unsigned long seed = strtoul(argv[4], NULL, 10);

    if (target_set(&p->target, arena, TARGET_OPTION, argv[2], &err) < 0) {
        fprintf(stderr, "soak_producer: %s\n", err.message);
        return -1;
    }
    p->name = argv[3];
    p->dice[0] = (unsigned short)(seed & 0xffff);
    p->dice[1] = (unsigned short)(seed >> 16 & 0xffff);
    p->slow_ms = strtoll(argv[6], NULL, 10);
    p->queues[0] = argv[7];
    char *comma = strchr(argv[7], ',');
    p->queues[1] = comma != NULL ? comma + 1 : argv[7];
    if (comma != NULL)
        *comma = '\0';
    return 0;
}

int main(int argc, char **argv)
{
    static struct producer producer;
    struct producer *p = &producer;
    struct arena arena;

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
    if (parse(p, argv, &arena) < 0)
        return 2;
    events_write("boot %d", (int)getpid());
    for (long every_ms = strtol(argv[5], NULL, 10); stop == 0;
         pause_ms(1 + throw(p, 2 * every_ms))) {
        if (p->conn != NULL || sync_connect(&p->target, &p->conn, NULL) == 0)
            produce(p);
        if (p->n_orders > 0)
            send_some(p);
        if (throw(p, 12) == 0)
            cancel_one(p);
    }
    while (p->n_orders > 0)
        end_order(p, 0);
    events_write("stopped 0");
    sync_close(&p->conn);
    arena_deinit(&arena);
    return 0;
}
