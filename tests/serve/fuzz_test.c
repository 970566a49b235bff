/* Random bytes and valid conversations with bytes changed, bounded and the same every time. The same target runs
 * without bounds under libFuzzer where the compiler is clang. */
#include <stdlib.h>
#include <string.h>

#include "conversation.h"
#include "fuzz_target.h"
#include "support/cmocka.h"

#define ROUNDS 400

/* xorshift: the same numbers on every machine. */
static uint32_t seed = 88172645;

static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % below;
}

static void try_random(enum fuzz_kind kind)
{
    static uint8_t bytes[600];

    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 1 + chance(sizeof(bytes) - 1);
        /* Small numbers are lengths and types more often than not. */
        uint32_t range = chance(2) ? 256 : 20;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)chance(range);
        bytes[0] = (uint8_t)kind;
        LLVMFuzzerTestOneInput(bytes, size);
    }
}

static void test_random_frames(void **state)
{
    (void)state;
    try_random(FUZZ_FRAMES);
}

static void test_random_gzip(void **state)
{
    (void)state;
    try_random(FUZZ_GZIP);
}

static void test_random_messages(void **state)
{
    (void)state;
    try_random(FUZZ_MESSAGE);
}

static void test_random_texts(void **state)
{
    (void)state;
    try_random(FUZZ_TEXTS);
}

static void test_random_connections(void **state)
{
    (void)state;
    try_random(FUZZ_CONNECTION);
}

static void test_mutated_connections(void **state)
{
    uint8_t valid[CONVERSATION_MAX], bytes[CONVERSATION_MAX];
    size_t size = conversation_make(valid + 1, sizeof(valid) - 1) + 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(bytes, valid, size);
        bytes[0] = FUZZ_CONNECTION;
        size_t len = size;
        for (uint32_t i = chance(6); i > 0; i--)
            bytes[1 + chance((uint32_t)size - 1)] = (uint8_t)chance(256);
        if (chance(4) == 0)
            len = 1 + chance((uint32_t)size - 1);
        LLVMFuzzerTestOneInput(bytes, len);
    }
}

static int end(void **state)
{
    (void)state;
    fuzz_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_frames),
        cmocka_unit_test(test_random_gzip),
        cmocka_unit_test(test_random_messages),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_random_connections),
        cmocka_unit_test(test_mutated_connections),
    };

    return cmocka_run_group_tests_name("serve_fuzz", tests, NULL, end);
}
