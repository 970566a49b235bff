/*
 * rules: where the server may listen, and whether it requires access tokens. On an address that
 * other machines can reach, the server needs TLS and requires tokens, unless `open` is set; on
 * loopback addresses and unix sockets it requires tokens only when told to. Blocks while it looks
 * up a host name.
 */
#ifndef SERVE_API_RULES_H
#define SERVE_API_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum serve_tokens {
    SERVE_TOKENS_AUTO, /* only where other machines can connect */
    SERVE_TOKENS_REQUIRED,
    SERVE_TOKENS_OFF,
};

struct rules {
    const char *const *listen;
    size_t n_listen;
    bool tls;
    bool client_certificates; /* clients show a certificate of an authority of ours */
    bool open;                /* no TLS and no tokens, by an explicit option */
    enum serve_tokens tokens;
};

/* ret_tokens: clients need access tokens. */
int rules_check(const struct rules *rules, bool *ret_tokens, struct pawl_err *err) MUST_CHECK;

#endif
