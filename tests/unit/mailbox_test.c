/*
 * The mailbox: bounded, in order, closed without losing what is in it, and used by many threads at
 * once without losing or doubling anything.
 */
#include "engine/mailbox.h"

#include <stdlib.h>

#include <sched.h>
#include <stdatomic.h>

#include "check.h"

static int things[8];

static struct mailbox make(size_t capacity)
{
    struct mailbox box;
    struct pawl_err err;

    assert_int_equal(mailbox_init(&box, capacity, &err), 0);
    return box;
}

static size_t put(struct mailbox *box, size_t from, size_t n)
{
    void *items[8];

    for (size_t i = 0; i < n; i++)
        items[i] = &things[from + i];
    return mailbox_put(box, items, n, NULL);
}

static void it_takes_as_many_as_fit_and_says_how_many(void **state)
{
    struct mailbox box = make(3);
    void *out[8];

    (void)state;
    assert_int_equal(put(&box, 0, 2), 2);
    assert_int_equal(put(&box, 2, 4), 1);
    assert_int_equal(put(&box, 3, 1), 0);
    assert_int_equal(mailbox_take(&box, out, 1), 1);
    assert_int_equal(put(&box, 3, 4), 1);
    assert_int_equal(mailbox_take(&box, out, 8), 3);
    assert_int_equal(mailbox_take(&box, out, 8), 0);
    assert_int_equal(put(&box, 0, 0), 0);
    mailbox_deinit(&box);
}

/* Round and round, in steps that do not divide the size. */
static void what_goes_in_first_comes_out_first(void **state)
{
    struct mailbox box = make(5);
    size_t in = 0;
    size_t out = 0;

    (void)state;
    for (int round = 0; round < 40; round++) {
        void *items[8];
        size_t n;

        for (n = 0; n < 3; n++) {
            void *item = &things[in % 8];

            in += mailbox_put(&box, &item, 1, NULL);
        }
        n = mailbox_take(&box, items, 2 + (size_t)(round % 3));
        for (size_t i = 0; i < n; i++)
            assert_ptr_equal(items[i], &things[out++ % 8]);
    }
    while (out < in)
        assert_ptr_equal(mailbox_wait(&box), &things[out++ % 8]);
    mailbox_deinit(&box);
}

static void only_the_first_into_an_empty_one_is_told_so(void **state)
{
    struct mailbox box = make(3);
    void *item = &things[0];
    void *out[8];
    bool was_empty = false;

    (void)state;
    assert_int_equal(mailbox_put(&box, &item, 1, &was_empty), 1);
    assert_true(was_empty);
    assert_int_equal(mailbox_put(&box, &item, 1, &was_empty), 1);
    assert_false(was_empty);
    assert_int_equal(mailbox_take(&box, out, 8), 2);
    assert_int_equal(mailbox_put(&box, &item, 1, &was_empty), 1);
    assert_true(was_empty);
    assert_int_equal(mailbox_take(&box, out, 8), 1);
    mailbox_deinit(&box);
}

static void a_closed_one_takes_nothing_more_and_gives_out_what_it_has(void **state)
{
    struct mailbox box = make(4);

    (void)state;
    assert_int_equal(put(&box, 0, 2), 2);
    mailbox_close(&box);
    assert_int_equal(put(&box, 2, 2), 0);
    assert_ptr_equal(mailbox_wait(&box), &things[0]);
    assert_ptr_equal(mailbox_wait(&box), &things[1]);
    assert_null(mailbox_wait(&box));
    assert_null(mailbox_wait(&box));
    mailbox_deinit(&box);
}

static void *wait_once(void *data)
{
    return mailbox_wait(data);
}

/* All of them are in mailbox_wait. */
static void await_waiters(struct mailbox *box, size_t n)
{
    for (;;) {
        pthread_mutex_lock(&box->mutex);
        size_t waiting = box->waiting;

        pthread_mutex_unlock(&box->mutex);
        if (waiting == n)
            return;
        sched_yield();
    }
}

static void closing_lets_all_waiters_go(void **state)
{
    struct mailbox box = make(4);
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_once, &box), 0);
    await_waiters(&box, LEN(threads));
    mailbox_close(&box);
    for (size_t i = 0; i < LEN(threads); i++) {
        void *got = &box;

        pthread_join(threads[i], &got);
        assert_null(got);
    }
    mailbox_deinit(&box);
}

static void a_put_wakes_a_waiter_for_each_item(void **state)
{
    struct mailbox box = make(4);
    pthread_t threads[3];
    int seen[8] = {0};

    (void)state;
    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_once, &box), 0);
    await_waiters(&box, LEN(threads));
    assert_int_equal(put(&box, 0, 3), 3);
    for (size_t i = 0; i < LEN(threads); i++) {
        void *got = NULL;

        pthread_join(threads[i], &got);
        assert_non_null(got);
        seen[(int *)got - things]++;
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(seen[i], 1);
    mailbox_deinit(&box);
}

#define SENDERS   3
#define RECEIVERS 3
#define EACH      20000

struct crowd {
    struct mailbox box;
    atomic_int seen[SENDERS * EACH];
    atomic_size_t next_sender;
};

static void *send_all(void *data)
{
    struct crowd *crowd = data;
    size_t at = EACH * atomic_fetch_add(&crowd->next_sender, 1);
    size_t end = at + EACH;

    while (at < end) {
        void *items[7];
        size_t n = 0;

        while (n < LEN(items) && at + n < end) {
            items[n] = &crowd->seen[at + n];
            n++;
        }
        n = mailbox_put(&crowd->box, items, n, NULL);
        if (n == 0)
            sched_yield();
        at += n;
    }
    return NULL;
}

static void *receive_all(void *data)
{
    struct crowd *crowd = data;
    atomic_int *one;

    while ((one = mailbox_wait(&crowd->box)) != NULL) {
        void *more[4];
        size_t n = mailbox_take(&crowd->box, more, LEN(more));

        atomic_fetch_add(one, 1);
        for (size_t i = 0; i < n; i++)
            atomic_fetch_add((atomic_int *)more[i], 1);
    }
    return NULL;
}

static void many_threads_lose_and_double_nothing(void **state)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    pthread_t senders[SENDERS];
    pthread_t receivers[RECEIVERS];

    (void)state;
    assert_non_null(crowd);
    crowd->box = make(64);
    for (size_t i = 0; i < RECEIVERS; i++)
        assert_int_equal(pthread_create(&receivers[i], NULL, receive_all, crowd), 0);
    for (size_t i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, send_all, crowd), 0);
    for (size_t i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    mailbox_close(&crowd->box);
    for (size_t i = 0; i < RECEIVERS; i++)
        pthread_join(receivers[i], NULL);
    for (size_t i = 0; i < LEN(crowd->seen); i++) {
        if (atomic_load(&crowd->seen[i]) != 1)
            fail_msg("item %zu came %d times", i, atomic_load(&crowd->seen[i]));
    }
    mailbox_deinit(&crowd->box);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_as_many_as_fit_and_says_how_many),
        cmocka_unit_test(what_goes_in_first_comes_out_first),
        cmocka_unit_test(only_the_first_into_an_empty_one_is_told_so),
        cmocka_unit_test(a_closed_one_takes_nothing_more_and_gives_out_what_it_has),
        cmocka_unit_test(closing_lets_all_waiters_go),
        cmocka_unit_test(a_put_wakes_a_waiter_for_each_item),
        cmocka_unit_test(many_threads_lose_and_double_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
