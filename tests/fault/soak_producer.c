/*
 * soak_producer: enqueues until it is told to stop, one job or a few at a time, on its own or in a
 * transaction that it commits or takes back. Every job has a key of its own as the first word of
 * its payload, so that it can be found again even when nobody learned its id. Writes down what it
 * is about to do and what came of it.
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
#include "fault/events.h"
#include "pg/sync.h"

#define JOBS_MAX 4

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
    size_t n;
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

static void make_job(struct producer *p, size_t i)
{
    struct job_new *job = &p->jobs[i];
    long kind = throw(p, 1000);
    int64_t ms = throw(p, 100) < 3 ? throw(p, p->slow_ms) : throw(p, 8);

    *job = job_new_default();
    job->queue = p->queues[throw(p, 2)];
    job->kind = kind < 1 ? "poison" : kind < 350 ? "moody" : "plain";
    job->max_attempts = kind < 1 ? 2 : 12;
    job->priority = (int16_t) throw(p, 10);
    job->delay_ms = throw(p, 5) == 0 ? throw(p, 800) : 0;
    int len = snprintf(p->payloads[i],
                       sizeof(p->payloads[i]),
                       "%s.%llu %lld",
                       p->name,
                       ++p->n_jobs,
                       (long long)ms);
    job->payload = (struct bytes){p->payloads[i], (size_t)len};
}

static void tell(struct producer *p, const char *what, const int64_t *ids)
{
    static struct items items;

    items_clear(&items);
    for (size_t i = 0; i < p->n; i++) {
        int key_len = (int)strcspn(p->payloads[i], " ");

        if (ids != NULL)
            items_add(&items, "%lld:%.*s", (long long)ids[i], key_len, p->payloads[i]);
        else
            items_add(&items, "%.*s", key_len, p->payloads[i]);
    }
    if (what == NULL)
        events_write("call %llu enqueue %s", p->n_calls, items.text);
    else
        events_write("ret %llu enqueue %s %s", p->n_calls, what, items.text);
}

/* What nobody committed did not happen; what was sent to be committed and not answered, who knows.
 */
static const char *in_transaction(struct producer *p, bool commit, int64_t *ids)
{
    int rc = client_begin(p->conn, NULL);

    if (rc == 0)
        rc = client_enqueue(p->conn, p->jobs, p->n, ids, NULL);
    if (rc < 0 || !commit) {
        client_rollback(p->conn);
        return "fail";
    }
    rc = client_commit(p->conn, NULL);
    return rc == 0 ? "ok" : rc == PAWL_EUNKNOWN ? "unknown" : "fail";
}

static const char *alone(struct producer *p, int64_t *ids)
{
    int rc = client_enqueue(p->conn, p->jobs, p->n, ids, NULL);

    return rc == 0 ? "ok" : rc == PAWL_EUNKNOWN ? "unknown" : "fail";
}

static void produce(struct producer *p)
{
    int64_t ids[JOBS_MAX];
    long how = throw(p, 10);

    p->n = 1 + (size_t) throw(p, JOBS_MAX);
    for (size_t i = 0; i < p->n; i++)
        make_job(p, i);
    p->n_calls++;
    tell(p, NULL, NULL);
    const char *result = how < 6 ? alone(p, ids) : in_transaction(p, how < 8, ids);

    tell(p, result, strcmp(result, "ok") == 0 ? ids : NULL);
    if (PQstatus(p->conn) != CONNECTION_OK || PQtransactionStatus(p->conn) != PQTRANS_IDLE)
        sync_close(&p->conn);
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
    if (target_set(&p->target, &arena, TARGET_OPTION, argv[2], &err) < 0) {
        fprintf(stderr, "soak_producer: %s\n", err.message);
        return 2;
    }
    unsigned long seed = strtoul(argv[4], NULL, 10);

    p->name = argv[3];
    p->dice[0] = (unsigned short)(seed & 0xffff);
    p->dice[1] = (unsigned short)(seed >> 16 & 0xffff);
    p->slow_ms = strtoll(argv[6], NULL, 10);
    p->queues[0] = argv[7];
    char *comma = strchr(argv[7], ',');
    p->queues[1] = comma != NULL ? comma + 1 : argv[7];
    if (comma != NULL)
        *comma = '\0';
    events_write("boot %d", (int)getpid());
    for (long every_ms = strtol(argv[5], NULL, 10); stop == 0;
         pause_ms(1 + throw(p, 2 * every_ms))) {
        if (p->conn != NULL || sync_connect(&p->target, &p->conn, NULL) == 0)
            produce(p);
    }
    events_write("stopped 0");
    sync_close(&p->conn);
    arena_deinit(&arena);
    return 0;
}
