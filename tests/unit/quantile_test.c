/* quantile: answers are never too low, and at most one part in 32 too high. */
#include "base/quantile.h"

#include "check.h"

static void nothing_is_zero(void **state)
{
    static struct quantile q;

    (void)state;
    quantile_clear(&q);
    assert_int_equal(quantile_at(&q, 500), 0);
    assert_int_equal(quantile_at(&q, 1000), 0);
}

static void small_values_are_exact(void **state)
{
    static struct quantile q;

    (void)state;
    quantile_clear(&q);
    for (int64_t i = 1; i <= 20; i++)
        quantile_add(&q, i);
    assert_int_equal(quantile_at(&q, 500), 10);
    assert_int_equal(quantile_at(&q, 950), 19);
    assert_int_equal(quantile_at(&q, 990), 20);
    assert_int_equal(quantile_at(&q, 0), 1);
}

/* One value at a time, over the whole range and at the edges of buckets. */
static void an_answer_is_at_most_one_part_in_32_too_high(void **state)
{
    (void)state;
    for (int bit = 0; bit < QUANTILE_MAX_BITS; bit++) {
        for (int64_t off = -1; off <= 1; off++) {
            static struct quantile q;
            int64_t value = ((int64_t)1 << bit) + off + ((int64_t)1 << bit) / 3;

            if (value < 0 || value >= (int64_t)1 << QUANTILE_MAX_BITS)
                continue;
            quantile_clear(&q);
            quantile_add(&q, value);
            int64_t found = quantile_at(&q, 500);

            if (found < value || found - value > value / 32)
                fail_msg("%lld reads as %lld", (long long)value, (long long)found);
        }
    }
}

static void a_few_slow_ones_show_only_at_the_end(void **state)
{
    static struct quantile q;

    (void)state;
    quantile_clear(&q);
    for (int i = 0; i < 980; i++)
        quantile_add(&q, 1000);
    for (int i = 0; i < 20; i++)
        quantile_add(&q, 1000000);
    assert_in_range(quantile_at(&q, 500), 1000, 1031);
    assert_in_range(quantile_at(&q, 980), 1000, 1031);
    assert_in_range(quantile_at(&q, 981), 1000000, 1031250);
    assert_in_range(quantile_at(&q, 990), 1000000, 1031250);
}

static void what_is_out_of_range_counts_at_its_end(void **state)
{
    static struct quantile q;

    (void)state;
    quantile_clear(&q);
    quantile_add(&q, -5);
    assert_int_equal(quantile_at(&q, 1000), 0);
    quantile_add(&q, INT64_MAX);
    assert_int_equal(quantile_at(&q, 1000), ((int64_t)1 << QUANTILE_MAX_BITS) - 1);
    assert_int_equal(q.n, 2);
}

static void merging_is_adding(void **state)
{
    static struct quantile a;
    static struct quantile b;

    (void)state;
    quantile_clear(&a);
    quantile_clear(&b);
    quantile_add(&a, 3);
    quantile_merge(&a, &b);
    assert_int_equal(a.n, 1);
    quantile_add(&b, 7);
    quantile_add(&b, 9);
    quantile_merge(&a, &b);
    assert_int_equal(a.n, 3);
    assert_int_equal(quantile_at(&a, 500), 7);
    quantile_clear(&a);
    assert_int_equal(quantile_at(&a, 500), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_zero),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(an_answer_is_at_most_one_part_in_32_too_high),
        cmocka_unit_test(a_few_slow_ones_show_only_at_the_end),
        cmocka_unit_test(what_is_out_of_range_counts_at_its_end),
        cmocka_unit_test(merging_is_adding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
