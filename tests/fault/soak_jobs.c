/* soak_jobs: throwing dice. */
#include "fault/soak_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/enqueue.h"
#include "fault/events.h"

/* What their names mean to the database: trace.sql. To the checker: lanes.py. */
#define LANES      10
#define WIDE_LANES 2 /* let three in */
#define ROWS       3 /* strict: in the order of their numbers; a retry lets others pass */
#define TAILS      3 /* strict, and a retry holds up all behind it */
#define TRICKLES   2 /* a few in a second */
#define KEYS       8

long maker_throw(struct maker *m, long sides)
{
    return nrand48(m->dice) % sides;
}

static void set_lane(struct maker *m, size_t i, const char *prefix, long n)
{
    snprintf(m->names[i], sizeof(m->names[i]), "%s%ld", prefix, maker_throw(m, n));
    m->jobs[i].lane = m->names[i];
}

/* A lane for some, a unique key for others. One key at most in a call: whoever holds two and waits
 * for each other's is in a deadlock, and that is not what is to be found here. */
static void make_special(struct maker *m, size_t i)
{
    struct pawl_job_new *job = &m->jobs[i];
    long what = maker_throw(m, 100);

    if (what < 25) {
        set_lane(m, i, "l", LANES);
    } else if (what < 32) {
        set_lane(m, i, "wide", WIDE_LANES);
    } else if (what < 37) {
        set_lane(m, i, "row", ROWS);
    } else if (what < 41) {
        set_lane(m, i, "tail", TAILS);
    } else if (what < 44) {
        set_lane(m, i, "trickle", TRICKLES);
    } else if (what < 54 && i == 0) {
        snprintf(m->names[i], sizeof(m->names[i]), "key%ld", maker_throw(m, KEYS));
        job->unique_key = m->names[i];
        job->unique_scope = PAWL_SCOPE_GLOBAL;
    }
}

static const char *make_kind(long roll)
{
    return roll < 1     ? "poison"
           : roll < 300 ? "moody"
           : roll < 360 ? "order"
           : roll < 400 ? "family"
           : roll < 450 ? "clan"
                        : "plain";
}

static void make_job(struct maker *m, size_t i)
{
    struct pawl_job_new *job = &m->jobs[i];
    long kind = maker_throw(m, 1000);
    int64_t ms = maker_throw(m, 100) < 3 ? maker_throw(m, m->slow_ms) : maker_throw(m, 8);

    *job = PAWL_JOB_NEW_INIT;
    job->queue = m->queues[maker_throw(m, 2)];
    job->kind = make_kind(kind);
    job->max_attempts = kind < 1 ? 2 : 12;
    job->priority = (int)maker_throw(m, 10);
    job->delay_ms = maker_throw(m, 5) == 0 ? maker_throw(m, 800) : 0;
    if (kind >= 250 && kind < 450 && maker_throw(m, 5) == 0)
        job->deadline_ms = 100 + maker_throw(m, 2000);
    make_special(m, i);
    if (job->lane != NULL)
        ms %= m->slow_ms / 4; /* one after the other takes long enough */
    if (job->lane != NULL && (job->lane[0] == 't' || job->lane[0] == 'r'))
        job->delay_ms /= 8; /* who comes first holds up all behind it */
    /* The checker is to know who had which unique key. */
    int len = snprintf(m->payloads[i],
                       sizeof(m->payloads[i]),
                       "%s.%llu%s%s %lld",
                       m->name,
                       ++m->n_jobs,
                       job->unique_key != NULL ? "~" : "",
                       job->unique_key != NULL ? job->unique_key : "",
                       (long long)ms);
    job->payload = m->payloads[i];
    job->payload_len = (size_t)len;
}

void maker_make(struct maker *m)
{
    m->n = 1 + (size_t)maker_throw(m, JOBS_MAX);
    for (size_t i = 0; i < m->n; i++)
        make_job(m, i);
}

void maker_init(
    struct maker *m, const char *name, const char *seed, const char *slow_ms, char *queues)
{
    unsigned long dice = strtoul(seed, NULL, 10);
    char *comma = strchr(queues, ',');

    *m = (struct maker){.name = name, .slow_ms = strtoll(slow_ms, NULL, 10)};
    m->dice[0] = (unsigned short)(dice & 0xffff);
    m->dice[1] = (unsigned short)(dice >> 16 & 0xffff);
    m->queues[0] = queues;
    m->queues[1] = comma != NULL ? comma + 1 : queues;
    if (comma != NULL)
        *comma = '\0';
}

void maker_tell(const struct maker *m,
                unsigned long long call,
                const char *what,
                const int64_t *ids,
                const bool *held)
{
    struct items *items = calloc(1, sizeof(*items));

    if (items == NULL)
        abort();
    items_clear(items);
    for (size_t i = 0; i < m->n; i++) {
        int key_len = (int)strcspn(m->payloads[i], " ");

        if (ids != NULL)
            items_add(items,
                      "%lld:%.*s%s",
                      (long long)ids[i],
                      key_len,
                      m->payloads[i],
                      held[i] ? ":held" : "");
        else
            items_add(items, "%.*s", key_len, m->payloads[i]);
    }
    if (what == NULL)
        events_write("call %llu enqueue %s", call, items->text);
    else
        events_write("ret %llu enqueue %s %s", call, what, items->text);
    free(items);
}
