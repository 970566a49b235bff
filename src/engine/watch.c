/* watch: beats counted by one thread, looked at by another. */
#include "engine/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stdatomic.h>

#define LOOKS_PER_STALL 4
#define PAUSE           3 /* a look so many times later than it should be: the process stood still */

struct watch {
    atomic_uint_fast64_t beats;
    atomic_uint_fast64_t stalls;
    struct watch_judge judge; /* the thread's */
    char worker[128];
    const struct clock *clock;
    struct log *log;
    pthread_t thread;
    pthread_mutex_t lock; /* guards ending, and nothing else */
    pthread_cond_t wake;
    bool ending;
};

void watch_judge_init(struct watch_judge *judge, int64_t stall_ms, int64_t now_us)
{
    int64_t look_us = stall_ms * US_PER_MS / LOOKS_PER_STALL;

    *judge = (struct watch_judge){
        .stall_us = stall_ms * US_PER_MS,
        .look_us = look_us > US_PER_MS ? look_us : US_PER_MS,
        .beat_us = now_us,
        .asked_us = now_us,
    };
}

enum watch_verdict
watch_judge_ask(struct watch_judge *judge, uint64_t beat, int64_t now_us, int64_t *ret_for_us)
{
    bool stood_still = now_us - judge->asked_us > PAUSE * judge->look_us;
    int64_t for_us = now_us - judge->beat_us;
    bool was_stalled = judge->stalled;

    judge->asked_us = now_us;
    if (beat != judge->beat) {
        judge->beat = beat;
        judge->beat_us = now_us;
        judge->stalled = false;
        if (!was_stalled)
            return WATCH_FINE;
        *ret_for_us = for_us;
        return WATCH_OVER;
    }
    /* Stopped by a signal or a debugger: the loop could not turn either, and gets its full time again. */
    if (stood_still && !was_stalled) {
        judge->beat_us = now_us;
        return WATCH_FINE;
    }
    if (was_stalled || for_us <= judge->stall_us)
        return WATCH_FINE;
    judge->stalled = true;
    *ret_for_us = for_us;
    return WATCH_STALLED;
}

static void look(struct watch *watch)
{
    int64_t for_us = 0;
    uint64_t beat = atomic_load_explicit(&watch->beats, memory_order_relaxed);

    switch (watch_judge_ask(&watch->judge, beat, clock_mono_us(watch->clock), &for_us)) {
    case WATCH_FINE:
        break;
    case WATCH_STALLED:
        atomic_fetch_add_explicit(&watch->stalls, 1, memory_order_relaxed);
        log_error(watch->log,
                  "coordinator_stalled",
                  LOG_STR("worker", watch->worker),
                  LOG_INT("for_ms", for_us / US_PER_MS),
                  LOG_STR("then", "no claims, no settles and no renewals until it turns again"));
        break;
    case WATCH_OVER:
        log_warn(watch->log,
                 "coordinator_turns",
                 LOG_STR("worker", watch->worker),
                 LOG_INT("stalled_ms", for_us / US_PER_MS));
        break;
    }
}

static void *thread_main(void *data)
{
    struct watch *watch = data;

    pthread_mutex_lock(&watch->lock);
    while (!watch->ending) {
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + watch->judge.look_us * 1000;

        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        while (!watch->ending &&
               pthread_cond_timedwait(&watch->wake, &watch->lock, &until) != ETIMEDOUT)
            continue;
        if (!watch->ending)
            look(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* Signals belong to the program's own threads. */
static int start(struct watch *watch)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&watch->thread, NULL, thread_main, watch);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct watch *watch_new(int64_t stall_ms,
                        const char *worker,
                        const struct clock *clock,
                        struct log *log,
                        struct pawl_err *err)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    pthread_condattr_t attr;

    if (watch == NULL) {
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    snprintf(watch->worker, sizeof(watch->worker), "%s", worker);
    watch->clock = clock;
    watch->log = log;
    watch_judge_init(&watch->judge, stall_ms, clock_mono_us(clock));
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &attr);
    pthread_condattr_destroy(&attr);
    int rc = start(watch);

    if (rc != 0) {
        err_set_errno(err, rc, "could not start the thread that watches the coordinator");
        pthread_cond_destroy(&watch->wake);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return NULL;
    }
    return watch;
}

void watch_beat(struct watch *watch)
{
    atomic_fetch_add_explicit(&watch->beats, 1, memory_order_relaxed);
}

uint64_t watch_stalls(const struct watch *watch)
{
    return atomic_load_explicit(&watch->stalls, memory_order_relaxed);
}

void watch_free(struct watch *watch)
{
    if (watch == NULL)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ending = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
