/* rand: different every time, even enough, and UUIDs of the right shape. */
#include "base/rand.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/defer.h"
#include "check.h"

static void every_byte_is_filled(void **state)
{
    /* More than the kernel gives without a signal being able to cut it short. */
    enum { N = 4096, ROUNDS = 16 };

    unsigned char seen[N] = {0};

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char data[N] = {0};
        rand_bytes(data, sizeof(data));
        for (size_t i = 0; i < N; i++)
            seen[i] |= data[i];
    }
    for (size_t i = 0; i < N; i++) /* 16 zeros in a row at one place: once in 10^35 runs */
        assert_int_not_equal(seen[i], 0);
    rand_bytes(NULL, 0);
}

static void on_alarm(int number)
{
    (void)number;
}

/* Signals cut long calls short, or into EINTR; what was filled stays and the rest is asked for
 * again. */
static void signals_leave_no_gap(void **state)
{
    const size_t len = (size_t)8 << 20, page = 4096;
    AUTO_FREE unsigned char *data = calloc(1, len);
    const struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};

    (void)state;
    assert_non_null(data);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    rand_bytes(data, len);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_IGN); /* one may still be on its way */
    for (size_t at = 0; at < len; at += page) {
        unsigned char any = 0;
        for (size_t i = at; i < at + 32; i++)
            any |= data[i];
        assert_int_not_equal(any, 0);
    }
}

static void numbers_differ(void **state)
{
    (void)state;
    assert_true(rand_u64() != rand_u64());
}

static void numbers_stay_below_their_bound(void **state)
{
    static const uint64_t bounds[] = {1, 2, 3, 10, 1ULL << 32, (1ULL << 63) + 1, UINT64_MAX};

    (void)state;
    assert_int_equal(rand_below(0), 0);
    for (size_t b = 0; b < LEN(bounds); b++)
        for (int i = 0; i < 200; i++)
            assert_true(rand_below(bounds[b]) < bounds[b]);
}

static void every_number_below_the_bound_comes_up_evenly(void **state)
{
    enum { BOUND = 6, N = 6000 };

    int count[BOUND] = {0};

    (void)state;
    for (int i = 0; i < N; i++)
        count[rand_below(BOUND)]++;
    for (int i = 0; i < BOUND; i++) /* 1000 expected, a deviation of 29: ten of those away */
        assert_in_range(count[i], 700, 1300);
}

static void a_uuid_is_version_4_and_reads_as_one(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct uuid uuid = uuid_random();
        char text[UUID_TEXT_LEN + 1];
        uuid_format(&uuid, text);
        assert_int_equal(strlen(text), UUID_TEXT_LEN);
        assert_int_equal(strspn(text, "0123456789abcdef-"), UUID_TEXT_LEN);
        assert_int_equal(text[14], '4');
        assert_non_null(strchr("89ab", text[19]));
    }
    const struct uuid fixed = {{0x00,
                                0x01,
                                0x23,
                                0x45,
                                0x67,
                                0x89,
                                0xab,
                                0xcd,
                                0xef,
                                0xff,
                                0xfe,
                                0xdc,
                                0xba,
                                0x98,
                                0x76,
                                0x54}};
    char text[UUID_TEXT_LEN + 1];
    uuid_format(&fixed, text);
    assert_string_equal(text, "00012345-6789-abcd-efff-fedcba987654");
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

static void uuids_do_not_repeat(void **state)
{
    enum { N = 10000 };
    AUTO_FREE struct uuid *uuids = calloc(N, sizeof(struct uuid));

    (void)state;
    for (int i = 0; i < N; i++)
        uuids[i] = uuid_random();
    qsort(uuids, N, sizeof(struct uuid), compare);
    for (int i = 1; i < N; i++)
        assert_memory_not_equal(&uuids[i - 1], &uuids[i], sizeof(struct uuid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_filled),
        cmocka_unit_test(signals_leave_no_gap),
        cmocka_unit_test(numbers_differ),
        cmocka_unit_test(numbers_stay_below_their_bound),
        cmocka_unit_test(every_number_below_the_bound_comes_up_evenly),
        cmocka_unit_test(a_uuid_is_version_4_and_reads_as_one),
        cmocka_unit_test(uuids_do_not_repeat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
