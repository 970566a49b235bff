/*
 * soak_caller: a producer without a database: enqueues by calls to a server, each with an idempotency key. A call of
 * unknown fate is made again with its key, mostly, until its fate is known; some are made twice at once, so that they
 * meet in one server or in two. Writes down each call and what came of it; all calls with one key name the same jobs.
 *
 * usage: soak_caller EVENTS ADDRESS NAME SEED EVERY_MS SLOW_MS QUEUE,QUEUE
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <stdatomic.h>

#include "fault/events.h"
#include "fault/soak_jobs.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "remote/blocking.h"

#define ASK_AT_MOST_MS 3000
#define TRIES          40
#define AGAIN_MS       50

static volatile sig_atomic_t stop;

struct caller {
    struct address server;
    struct maker maker;
    char key[64];
    atomic_ullong n_calls;
};

struct answer {
    int64_t ids[JOBS_MAX];
    bool held[JOBS_MAX];
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

static char *text(const char *s)
{
    return (char *)(uintptr_t)(s != NULL ? s : "");
}

static void fill(Pawl__V1__NewJob *to, const struct pawl_job_new *from)
{
    pawl__v1__new_job__init(to);
    to->kind = text(from->kind);
    to->queue = text(from->queue);
    to->payload.data = (uint8_t *)(uintptr_t)from->payload;
    to->payload.len = from->payload_len;
    to->payload_is_bytes = true;
    to->priority_choice_case = PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    to->priority = (uint32_t)from->priority;
    to->delay_ms = from->delay_ms;
    to->max_attempts = (uint32_t)from->max_attempts;
    to->lane = text(from->lane);
    to->deadline_ms = from->deadline_ms;
    to->unique_key = text(from->unique_key);
    to->unique_scope = text(from->unique_key != NULL ? job_scopes[from->unique_scope] : NULL);
}

static void on_answer(void *data, const ProtobufCMessage *message)
{
    const Pawl__V1__EnqueueResponse *response = (const void *)message;
    struct answer *answer = data;

    for (size_t i = 0; i < response->n_accepted && i < JOBS_MAX; i++) {
        answer->ids[i] = response->accepted[i]->job_id;
        answer->held[i] = response->accepted[i]->existed;
    }
    answer->n = response->n_accepted;
}

/* Only what a server says of itself is sure. */
static const char *fate(int rc)
{
    switch (rc) {
    case 0:
        return "ok";
    case PAWL_EINVAL:
    case PAWL_EEXIST:
    case PAWL_EFULL:
    case PAWL_ERETRY:
        return "fail";
    default:
        return "unknown";
    }
}

static const char *call_once(struct caller *c)
{
    Pawl__V1__NewJob jobs[JOBS_MAX];
    Pawl__V1__NewJob *list[JOBS_MAX];
    Pawl__V1__EnqueueRequest request;
    struct answer answer = {0};
    struct pawl_err err = {0};
    unsigned long long n = atomic_fetch_add(&c->n_calls, 1) + 1;

    pawl__v1__enqueue_request__init(&request);
    for (size_t i = 0; i < c->maker.n; i++) {
        fill(&jobs[i], &c->maker.jobs[i]);
        list[i] = &jobs[i];
    }
    request.jobs = list;
    request.n_jobs = c->maker.n;
    request.idempotency_key = c->key;
    maker_tell(&c->maker, n, NULL, NULL, NULL);
    int rc =
        call_blocking(&(struct blocking_call){.server = &c->server,
                                              .what = "enqueue",
                                              .path = "/pawl.v1.JobService/Enqueue",
                                              .request = &request.base,
                                              .response = &pawl__v1__enqueue_response__descriptor,
                                              .timeout_ms = ASK_AT_MOST_MS,
                                              .answer = on_answer,
                                              .data = &answer},
                      &err);
    const char *result = fate(rc);

    if (rc == 0 && answer.n != c->maker.n) {
        fprintf(stderr, "soak_caller: %zu jobs, and %zu answers\n", c->maker.n, answer.n);
        _exit(1);
    }
    if (rc < 0 && strcmp(result, "fail") == 0)
        fprintf(stderr, "soak_caller: %s\n", err.message);
    maker_tell(&c->maker, n, result, rc == 0 ? answer.ids : NULL, answer.held);
    return result;
}

static void *twin_main(void *data)
{
    (void)call_once(data);
    return NULL;
}

static void produce(struct caller *c)
{
    pthread_t twin;
    const char *result;

    maker_make(&c->maker);
    snprintf(c->key, sizeof(c->key), "%s:%llu", c->maker.name, c->maker.n_jobs);
    bool two = maker_throw(&c->maker, 8) == 0 && pthread_create(&twin, NULL, twin_main, c) == 0;

    result = call_once(c);
    if (two)
        pthread_join(twin, NULL);
    /* A tenth of the unknown stays so. One that is known may be asked for again. */
    for (int i = 0; i < TRIES && maker_throw(&c->maker, 10) != 0; i++) {
        if (strcmp(result, "unknown") != 0 && maker_throw(&c->maker, 10) != 0)
            break;
        pause_ms(AGAIN_MS);
        result = call_once(c);
    }
}

int main(int argc, char **argv)
{
    static struct caller caller;
    struct caller *c = &caller;
    struct pawl_err err;

    if (argc != 8) {
        fprintf(stderr,
                "usage: soak_caller EVENTS ADDRESS NAME SEED EVERY_MS SLOW_MS QUEUE,QUEUE\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_sigterm);
    signal(SIGPIPE, SIG_IGN);
    events_open(argv[1]);
    if (address_parse(argv[2], &c->server, &err) < 0) {
        fprintf(stderr, "soak_caller: %s\n", err.message);
        return 2;
    }
    maker_init(&c->maker, argv[3], argv[4], argv[6], argv[7]);
    events_write("boot %d", (int)getpid());
    for (long every_ms = strtol(argv[5], NULL, 10); stop == 0;
         pause_ms(1 + maker_throw(&c->maker, 2 * every_ms)))
        produce(c);
    events_write("stopped 0");
    return 0;
}
