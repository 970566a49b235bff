/*
 * pool: never more things than allowed, none lost, none destroyed twice, none lent while it is old or broken.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <stdatomic.h>

#include "check.h"
#include "pawl.h"

#define THREADS 8
#define LOANS   200

/* What the pool is made of: numbered things that count how they are treated. */
struct shop {
    atomic_int made;
    atomic_int destroyed;
    atomic_int resets;
    atomic_int checks;
    atomic_int refuse;    /* creates that fail */
    atomic_bool say_no;   /* check */
    atomic_bool no_reset; /* reset */
    atomic_int out;       /* lent at the moment, for the threads */
    atomic_int out_max;
};

static int create(void *data, void **ret_thing, struct pawl_err *err)
{
    struct shop *shop = data;

    if (atomic_fetch_sub(&shop->refuse, 1) > 0) {
        if (err != NULL)
            err->code = PAWL_ECONN;
        return PAWL_ECONN;
    }
    int *thing = malloc(sizeof(*thing));

    if (thing == NULL)
        return PAWL_ENOMEM;
    *thing = atomic_fetch_add(&shop->made, 1) + 1;
    *ret_thing = thing;
    return 0;
}

static int create_nothing(void *data, void **ret_thing, struct pawl_err *err)
{
    (void)data;
    (void)ret_thing;
    (void)err;
    return 0;
}

static bool check_thing(void *data, void *thing)
{
    struct shop *shop = data;

    (void)thing;
    atomic_fetch_add(&shop->checks, 1);
    return !atomic_load(&shop->say_no);
}

static bool reset(void *data, void *thing)
{
    struct shop *shop = data;

    (void)thing;
    atomic_fetch_add(&shop->resets, 1);
    return !atomic_load(&shop->no_reset);
}

static void destroy(void *data, void *thing)
{
    struct shop *shop = data;

    free(thing);
    atomic_fetch_add(&shop->destroyed, 1);
}

static struct pawl_pool *pool_of(struct shop *shop, unsigned max, int64_t max_age_ms, unsigned uses)
{
    struct pawl_pool_options options = PAWL_POOL_OPTIONS_INIT;
    struct pawl_pool *pool = NULL;
    struct pawl_err err = {0};

    options.max = max;
    options.max_age_ms = max_age_ms;
    options.max_uses = uses;
    options.create = create;
    options.check = check_thing;
    options.reset = reset;
    options.destroy = destroy;
    options.data = shop;
    if (pawl_pool_new(&options, &pool, &err) < 0)
        fail_msg("%s", err.message);
    return pool;
}

static int *take(struct pawl_pool *pool)
{
    void *thing = NULL;
    struct pawl_err err = {0};

    if (pawl_pool_take(pool, 0, &thing, &err) < 0)
        fail_msg("%s", err.message);
    return thing;
}

static void a_thing_is_used_again(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 2, 0, 0);

    (void)state;
    int *a = take(pool);

    pawl_pool_give(pool, a, false);
    int *b = take(pool);

    assert_ptr_equal(a, b);
    assert_int_equal(shop.made, 1);
    assert_int_equal(shop.resets, 1);
    assert_int_equal(shop.checks, 1);
    pawl_pool_give(pool, b, false);
    pawl_pool_free(pool);
    assert_int_equal(shop.destroyed, 1);
}

static void there_are_never_more_than_allowed(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 2, 0, 0);
    struct pawl_err err = {0};
    void *third = &shop;

    (void)state;
    int *a = take(pool);
    int *b = take(pool);

    assert_int_equal(pawl_pool_take(pool, 0, &third, &err), PAWL_ETIMEOUT);
    assert_int_equal(pawl_pool_take(pool, 5, &third, &err), PAWL_ETIMEOUT);
    assert_int_equal(err.code, PAWL_ETIMEOUT);
    assert_ptr_equal(third, &shop); /* untouched */
    assert_int_equal(shop.made, 2);
    pawl_pool_give(pool, a, false);
    pawl_pool_give(pool, b, false);
    pawl_pool_free(pool);
    assert_int_equal(shop.destroyed, 2);
}

static void what_is_broken_worn_or_no_longer_good_is_replaced(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 1, 0, 2);

    (void)state;
    pawl_pool_give(pool, take(pool), true); /* broken */
    assert_int_equal(shop.destroyed, 1);
    assert_int_equal(shop.resets, 0);
    pawl_pool_give(pool, take(pool), false);
    pawl_pool_give(pool, take(pool), false); /* its second use was the last */
    assert_int_equal(shop.destroyed, 2);
    pawl_pool_give(pool, take(pool), false);
    shop.say_no = true;
    int *fresh = take(pool); /* checked, refused, made anew: new ones are not checked */

    assert_int_equal(shop.destroyed, 3);
    assert_int_equal(*fresh, 4);
    shop.no_reset = true;
    pawl_pool_give(pool, fresh, false);
    assert_int_equal(shop.destroyed, 4);
    pawl_pool_free(pool);
    assert_int_equal(shop.made, shop.destroyed);
}

static void what_is_too_old_is_not_lent_again(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 1, 1, 0);
    struct timespec pause = {.tv_nsec = 2000000}; /* older than it may be; that is the point */

    (void)state;
    int *a = take(pool);

    while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
        continue;
    pawl_pool_give(pool, a, false);
    assert_int_equal(shop.destroyed, 1);
    pawl_pool_free(pool);
}

static void a_create_that_fails_leaves_its_place_free(void **state)
{
    struct shop shop = {.refuse = 1};
    struct pawl_pool *pool = pool_of(&shop, 1, 0, 0);
    struct pawl_err err = {0};
    void *thing = NULL;

    (void)state;
    assert_int_equal(pawl_pool_take(pool, 0, &thing, &err), PAWL_ECONN);
    assert_int_equal(err.code, PAWL_ECONN);
    assert_null(thing);
    shop.refuse = 0;
    pawl_pool_give(pool, take(pool), false);
    pawl_pool_free(pool);
}

static void a_create_that_makes_nothing_is_an_error(void **state)
{
    struct pawl_pool_options options = PAWL_POOL_OPTIONS_INIT;
    struct pawl_pool *pool = NULL;
    struct pawl_err err = {0};
    void *thing = NULL;

    (void)state;
    options.max = 1;
    options.create = create_nothing;
    options.destroy = destroy;
    assert_int_equal(pawl_pool_new(&options, &pool, NULL), 0);
    assert_int_equal(pawl_pool_take(pool, 0, &thing, &err), PAWL_EFAILED);
    assert_has(err.message, "pool");
    assert_int_equal(pawl_pool_take(pool, 0, &thing, NULL), PAWL_EFAILED);
    pawl_pool_free(pool);
}

static void what_is_not_lent_cannot_be_given_back(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 2, 0, 0);
    int stranger = 0;

    (void)state;
    int *a = take(pool);

    pawl_pool_give(pool, &stranger, true);
    pawl_pool_give(pool, NULL, true);
    pawl_pool_give(NULL, a, true);
    pawl_pool_give(pool, a, false);
    pawl_pool_give(pool, a, true); /* twice: it is in the pool, and stays there */
    assert_int_equal(shop.destroyed, 0);
    assert_ptr_equal(take(pool), a);
    pawl_pool_give(pool, a, false);
    pawl_pool_free(pool);
    assert_int_equal(shop.destroyed, 1);
}

static void options_are_checked(void **state)
{
    struct pawl_pool_options options = PAWL_POOL_OPTIONS_INIT;
    struct pawl_pool *pool = NULL;
    struct pawl_err err = {0};
    void *thing;

    (void)state;
    assert_int_equal(pawl_pool_new(NULL, &pool, &err), PAWL_EINVAL);
    assert_int_equal(pawl_pool_new(&options, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_pool_new(&options, &pool, &err), PAWL_EINVAL);
    assert_has(err.message, "max 0");
    options.max = 1;
    assert_int_equal(pawl_pool_new(&options, &pool, &err), PAWL_EINVAL);
    assert_has(err.message, "create");
    options.create = create;
    options.destroy = destroy;
    options.max_age_ms = -1;
    assert_int_equal(pawl_pool_new(&options, &pool, &err), PAWL_EINVAL);
    options.max_age_ms = 0;
    options.size = 3;
    assert_int_equal(pawl_pool_new(&options, &pool, NULL), PAWL_EINVAL);
    assert_null(pool);
    assert_int_equal(pawl_pool_take(NULL, 0, &thing, NULL), PAWL_EINVAL);
    pawl_pool_free(NULL);
}

/* The last loan takes the pool with it. */
static void a_loan_may_outlive_its_pool(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 2, 0, 0);

    (void)state;
    int *a = take(pool);

    pawl_pool_give(pool, take(pool), false);
    pawl_pool_free(pool);
    assert_int_equal(shop.destroyed, 1);
    pawl_pool_give(pool, a, false);
    assert_int_equal(shop.destroyed, 2);
}

struct borrower {
    struct pawl_pool *pool;
    struct shop *shop;
    int failed;
};

static void *borrow(void *data)
{
    struct borrower *b = data;

    for (int i = 0; i < LOANS; i++) {
        void *thing = NULL;

        if (pawl_pool_take(b->pool, -1, &thing, NULL) < 0) {
            b->failed++;
            continue;
        }
        int out = atomic_fetch_add(&b->shop->out, 1) + 1;
        int most = atomic_load(&b->shop->out_max);

        while (out > most && !atomic_compare_exchange_weak(&b->shop->out_max, &most, out))
            continue;
        *(int *)thing += 1; /* nobody else has it: ThreadSanitizer looks */
        atomic_fetch_sub(&b->shop->out, 1);
        pawl_pool_give(b->pool, thing, i % 17 == 0);
    }
    return NULL;
}

static void many_threads_share_a_few(void **state)
{
    struct shop shop = {0};
    struct pawl_pool *pool = pool_of(&shop, 3, 0, 50);
    pthread_t threads[THREADS];
    struct borrower borrowers[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        borrowers[i] = (struct borrower){.pool = pool, .shop = &shop};
        assert_int_equal(pthread_create(&threads[i], NULL, borrow, &borrowers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(borrowers[i].failed, 0);
    }
    assert_in_range(shop.out_max, 1, 3);
    pawl_pool_free(pool);
    assert_int_equal(shop.made, shop.destroyed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thing_is_used_again),
        cmocka_unit_test(there_are_never_more_than_allowed),
        cmocka_unit_test(what_is_broken_worn_or_no_longer_good_is_replaced),
        cmocka_unit_test(what_is_too_old_is_not_lent_again),
        cmocka_unit_test(a_create_that_fails_leaves_its_place_free),
        cmocka_unit_test(a_create_that_makes_nothing_is_an_error),
        cmocka_unit_test(what_is_not_lent_cannot_be_given_back),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_loan_may_outlive_its_pool),
        cmocka_unit_test(many_threads_share_a_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
