/* The parts of who may call: where a server listens, the text of a token, and the queues it is for. Without a database. */
#include "serve/api/access.h"

#include <string.h>

#include "serve/api/rules.h"
#include "serve/api/secret.h"
#include "support/cmocka.h"

enum verdict { REFUSED, OPEN, TOKENS };

/* One address, or a local one and that. */
static enum verdict
rules(const char *address, bool tls, bool certificates, bool open, enum serve_tokens tokens)
{
    const char *const listen[] = {address, "127.0.0.1:0"};
    struct pawl_err err;
    bool asked = false;
    int rc = rules_check(&(struct rules){.listen = listen,
                                         .n_listen = 2,
                                         .tls = tls,
                                         .client_certificates = certificates,
                                         .open = open,
                                         .tokens = tokens},
                         &asked,
                         &err);

    if (rc < 0)
        assert_int_equal(err.code, PAWL_EDENIED);
    return rc < 0 ? REFUSED : asked ? TOKENS : OPEN;
}

static void a_server_is_never_open_by_accident(void **state)
{
    static const char *const local[] = {
        "127.0.0.1:0", "127.8.0.1:1", "[::1]:0", "localhost:0", "unix:/tmp/x"};
    static const char *const others[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:80", "[2001:db8::1]:1"};

    (void)state;
    for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++) {
        assert_int_equal(rules(local[i], false, false, false, SERVE_TOKENS_AUTO), OPEN);
        assert_int_equal(rules(local[i], true, false, false, SERVE_TOKENS_AUTO), OPEN);
        assert_int_equal(rules(local[i], false, false, false, SERVE_TOKENS_REQUIRED), TOKENS);
        assert_int_equal(rules(local[i], false, false, false, SERVE_TOKENS_OFF), OPEN);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_int_equal(rules(others[i], false, false, false, SERVE_TOKENS_AUTO), REFUSED);
        assert_int_equal(rules(others[i], false, false, false, SERVE_TOKENS_REQUIRED), REFUSED);
        assert_int_equal(rules(others[i], true, false, false, SERVE_TOKENS_AUTO), TOKENS);
        assert_int_equal(rules(others[i], true, true, false, SERVE_TOKENS_AUTO), TOKENS);
        assert_int_equal(rules(others[i], true, false, false, SERVE_TOKENS_OFF), REFUSED);
        assert_int_equal(rules(others[i], true, true, false, SERVE_TOKENS_OFF), OPEN);
        /* Told by name. */
        assert_int_equal(rules(others[i], false, false, true, SERVE_TOKENS_AUTO), OPEN);
        assert_int_equal(rules(others[i], false, false, true, SERVE_TOKENS_REQUIRED), TOKENS);
        assert_int_equal(rules(others[i], false, false, true, SERVE_TOKENS_OFF), OPEN);
    }
}

static void an_address_that_is_none_is_refused(void **state)
{
    static const char *const listen[] = {"nonsense"};
    struct pawl_err err;
    bool asked;

    (void)state;
    assert_int_equal(rules_check(&(struct rules){.listen = listen, .n_listen = 1}, &asked, &err),
                     PAWL_EINVAL);
}

static void a_secret_is_random_and_known_by_its_hash(void **state)
{
    char one[SECRET_TEXT_LEN + 1];
    char two[SECRET_TEXT_LEN + 1];
    unsigned char hash[ACCESS_HASH_LEN];
    unsigned char again[ACCESS_HASH_LEN];
    unsigned char other[ACCESS_HASH_LEN];
    unsigned ever = 0; /* digits of the last place that occur */

    (void)state;
    secret_make(one);
    secret_make(two);
    assert_int_equal(strlen(one), SECRET_TEXT_LEN);
    assert_string_not_equal(one, two);
    assert_true(secret_hash(one, strlen(one), hash));
    assert_true(secret_hash(one, strlen(one), again));
    assert_true(secret_hash(two, strlen(two), other));
    assert_memory_equal(hash, again, sizeof(hash));
    assert_memory_not_equal(hash, other, sizeof(hash));
    /* 256 bits in 43 digits of 6: the last digit has 4 of them. */
    for (int i = 0; i < 2000; i++) {
        const char *digits = "AEIMQUYcgkosw048";
        const char *at;

        secret_make(one);
        at = strchr(digits, one[SECRET_TEXT_LEN - 1]);
        assert_non_null(at);
        ever |= 1u << (at - digits);
    }
    assert_int_equal(ever, 0xffff);
}

static void what_cannot_be_a_secret_is_not_hashed(void **state)
{
    char text[SECRET_TEXT_LEN + 1];
    unsigned char hash[ACCESS_HASH_LEN];

    (void)state;
    secret_make(text);
    assert_false(secret_hash(text, SECRET_TEXT_LEN - 1, hash));
    assert_false(secret_hash("", 0, hash));
    text[0] = 'P';
    assert_false(secret_hash(text, SECRET_TEXT_LEN, hash));
    text[0] = 'p';
    text[20] = '=';
    assert_false(secret_hash(text, SECRET_TEXT_LEN, hash));
    text[20] = '\0';
    assert_false(secret_hash(text, SECRET_TEXT_LEN, hash));
}

static void a_token_sees_its_queues(void **state)
{
    struct access some = {.queues = {"orders", "team-*", "x"}, .n_queues = 3};
    struct access all = {.n_queues = 0};

    (void)state;
    assert_true(access_sees(&some, "orders"));
    assert_true(access_sees(&some, "team-"));
    assert_true(access_sees(&some, "team-a/b"));
    assert_true(access_sees(&some, "x"));
    assert_false(access_sees(&some, "order"));
    assert_false(access_sees(&some, "orders2"));
    assert_false(access_sees(&some, "team"));
    assert_false(access_sees(&some, "xy"));
    assert_false(access_sees(&some, "default"));
    assert_true(access_sees(&all, "anything"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_never_open_by_accident),
        cmocka_unit_test(an_address_that_is_none_is_refused),
        cmocka_unit_test(a_secret_is_random_and_known_by_its_hash),
        cmocka_unit_test(what_cannot_be_a_secret_is_not_hashed),
        cmocka_unit_test(a_token_sees_its_queues),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
