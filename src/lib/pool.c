/*
 * pool: expensive things lent to handlers, at most so many of them. The lock guards the counts and the list of those that lie
 * idle; the caller's functions run without it, so a slow create holds up nobody who could have an idle one.
 *
 * Conserved: n_things = idle + lent + being made or destroyed, and never above max.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/list.h"
#include "lib/lib.h"

#define POOL_OPTIONS_LEAST \
    (offsetof(struct pawl_pool_options, data) + sizeof(void *)) /* of the first release */
#define POOL_MAX 100000                                         /* more is a mistake */

struct thing {
    struct list link; /* on idle or lent */
    void *thing;      /* the caller's */
    int64_t made_us;
    unsigned uses;
};

struct pawl_pool {
    struct pawl_pool_options options;
    pthread_mutex_t lock;
    pthread_cond_t given; /* one is idle, or there is room for one more */
    struct list idle;     /* the last given back first: those behind grow old and go */
    struct list lent;
    unsigned n_things;
    bool closing; /* freed while things were lent: the last one that is given back frees it */
};

static int check_options(const struct pawl_pool_options *options, struct pawl_err *err)
{
    if (options->max < 1 || options->max > POOL_MAX)
        return err_set(
            err, PAWL_EINVAL, "max %u of a pool is not between 1 and %d", options->max, POOL_MAX);
    if (options->create == NULL || options->destroy == NULL)
        return err_set(err, PAWL_EINVAL, "a pool needs the functions create and destroy");
    if (options->max_age_ms < 0)
        return err_set(err, PAWL_EINVAL, "max_age_ms of a pool is negative");
    return 0;
}

int pawl_pool_new(const struct pawl_pool_options *options,
                  struct pawl_pool **ret_pool,
                  struct pawl_err *err)
{
    struct pawl_pool_options checked;
    pthread_condattr_t attr;

    if (options == NULL || ret_pool == NULL)
        return lib_null("pawl_pool_new", options == NULL ? "options" : "ret_pool", err);
    int rc = lib_struct_read(
        &checked, sizeof(checked), POOL_OPTIONS_LEAST, options, "pawl_pool_options", err);

    if (rc == 0)
        rc = check_options(&checked, err);
    if (rc < 0)
        return rc;
    struct pawl_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    pool->options = checked;
    list_init(&pool->idle);
    list_init(&pool->lent);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->given, &attr);
    pthread_condattr_destroy(&attr);
    *ret_pool = pool;
    return 0;
}

static void free_pool(struct pawl_pool *pool)
{
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Room for one more. The last place of a pool that is closed takes the pool with it. */
static void give_up_place(struct pawl_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool last = --pool->n_things == 0 && pool->closing;

    pthread_cond_signal(&pool->given);
    pthread_mutex_unlock(&pool->lock);
    if (last)
        free_pool(pool);
}

/* Off its list already; without the lock. */
static void destroy_thing(struct pawl_pool *pool, struct thing *thing)
{
    pool->options.destroy(pool->options.data, thing->thing);
    free(thing);
    give_up_place(pool);
}

static bool is_worn(const struct pawl_pool *pool, const struct thing *thing)
{
    const struct pawl_pool_options *o = &pool->options;

    if (o->max_uses > 0 && thing->uses >= o->max_uses)
        return true;
    return o->max_age_ms > 0 &&
           clock_mono_us(&clock_system) - thing->made_us >= o->max_age_ms * US_PER_MS;
}

/* There is room for it: n_things counts it already. */
static int make_thing(struct pawl_pool *pool, struct thing **ret_thing, struct pawl_err *err)
{
    struct pawl_err own = {0}; /* so that a create that says nothing is noticed */
    struct thing *thing = calloc(1, sizeof(*thing));
    int rc = PAWL_ENOMEM;

    if (thing == NULL)
        err_set(&own, PAWL_ENOMEM, "out of memory");
    else
        rc = pool->options.create(pool->options.data, &thing->thing, &own);
    if (thing != NULL && rc == 0 && thing->thing != NULL) {
        list_init(&thing->link);
        thing->made_us = clock_mono_us(&clock_system);
        *ret_thing = thing;
        return 0;
    }
    free(thing);
    if (own.code == 0)
        err_set(&own, rc < 0 ? rc : PAWL_EFAILED, "could not make another one for the pool");
    if (err != NULL)
        *err = own;
    return own.code;
}

/* Negative: for ever. */
static struct timespec deadline(int64_t timeout_ms)
{
    struct timespec until = {0};

    if (timeout_ms < 0)
        return until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + timeout_ms % MS_PER_S * 1000000;

    until.tv_sec += timeout_ms / MS_PER_S + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

/* Until there is an idle one or room for another. Returns PAWL_ETIMEOUT or 0; the lock is held. */
static int wait_for_one(struct pawl_pool *pool, const struct timespec *until)
{
    while (list_empty(&pool->idle) && pool->n_things >= pool->options.max) {
        int rc = until == NULL ? pthread_cond_wait(&pool->given, &pool->lock)
                               : pthread_cond_timedwait(&pool->given, &pool->lock, until);

        if (rc == ETIMEDOUT && list_empty(&pool->idle) && pool->n_things >= pool->options.max)
            return PAWL_ETIMEOUT;
    }
    return 0;
}

static void lend(struct pawl_pool *pool, struct thing *thing)
{
    thing->uses++;
    pthread_mutex_lock(&pool->lock);
    list_push(&pool->lent, &thing->link);
    pthread_mutex_unlock(&pool->lock);
}

int pawl_pool_take(struct pawl_pool *pool,
                   int64_t timeout_ms,
                   void **ret_thing,
                   struct pawl_err *err)
{
    const struct timespec until = deadline(timeout_ms);
    struct thing *thing = NULL;

    if (pool == NULL || ret_thing == NULL)
        return lib_null("pawl_pool_take", pool == NULL ? "pool" : "ret_thing", err);
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        int rc = wait_for_one(pool, timeout_ms < 0 ? NULL : &until);

        if (rc == 0 && !list_empty(&pool->idle)) {
            thing = LIST_ENTRY(pool->idle.next, struct thing, link);
            list_remove(&thing->link);
        } else if (rc == 0) {
            pool->n_things++;
        }
        pthread_mutex_unlock(&pool->lock);
        if (rc < 0)
            return err_set(err, rc, "all %u of the pool are lent", pool->options.max);
        if (thing == NULL)
            break;
        bool good =
            !is_worn(pool, thing) &&
            (pool->options.check == NULL || pool->options.check(pool->options.data, thing->thing));

        if (good)
            break;
        destroy_thing(pool, TAKE_PTR(thing));
    }
    if (thing == NULL) {
        int rc = make_thing(pool, &thing, err);

        if (rc < 0) {
            give_up_place(pool);
            return rc;
        }
    }
    lend(pool, thing);
    *ret_thing = thing->thing;
    return 0;
}

/* NULL: it is none of ours. The lock is held. */
static struct thing *find_lent(struct pawl_pool *pool, const void *what)
{
    LIST_FOREACH(link, &pool->lent) {
        struct thing *thing = LIST_ENTRY(link, struct thing, link);

        if (thing->thing == what)
            return thing;
    }
    return NULL;
}

void pawl_pool_give(struct pawl_pool *pool, void *what, bool broken)
{
    if (pool == NULL || what == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    struct thing *thing = find_lent(pool, what);

    if (thing != NULL)
        list_remove(&thing->link);
    pthread_mutex_unlock(&pool->lock);
    /* Given back twice, or never lent: it may be somebody else's by now. */
    if (thing == NULL)
        return;
    bool keep =
        !broken && !is_worn(pool, thing) &&
        (pool->options.reset == NULL || pool->options.reset(pool->options.data, thing->thing));

    pthread_mutex_lock(&pool->lock);
    keep = keep && !pool->closing;
    if (keep) {
        list_unshift(&pool->idle, &thing->link);
        pthread_cond_signal(&pool->given);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep)
        destroy_thing(pool, thing);
}

/* Takes an idle one off; NULL: there is none. */
static struct thing *take_idle(struct pawl_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct list *link = list_shift(&pool->idle);

    pthread_mutex_unlock(&pool->lock);
    return link != NULL ? LIST_ENTRY(link, struct thing, link) : NULL;
}

void pawl_pool_free(struct pawl_pool *pool)
{
    struct thing *thing;

    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pool->n_things++; /* our own hold on it, until what is idle is gone */
    pthread_mutex_unlock(&pool->lock);
    while ((thing = take_idle(pool)) != NULL)
        destroy_thing(pool, thing);
    give_up_place(pool);
}
