/*
 * rules: where the server may listen, and whether it asks for access tokens. Beyond this machine it needs TLS and asks for
 * tokens, unless it is told by name that it is meant to be open; on loopback addresses and unix sockets it asks for none
 * unless it is told to. Blocks while it looks a host name up.
 */
#ifndef SERVE_API_RULES_H
#define SERVE_API_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum serve_tokens {
    SERVE_TOKENS_AUTO, /* where others can connect */
    SERVE_TOKENS_REQUIRED,
    SERVE_TOKENS_OFF,
};

struct rules {
    const char *const *listen;
    size_t n_listen;
    bool tls;
    bool client_certificates; /* clients show a certificate of an authority of ours */
    bool open;                /* told by name */
    enum serve_tokens tokens;
};

/* ret_tokens: whether clients are asked for tokens. */
int rules_check(const struct rules *rules, bool *ret_tokens, struct pawl_err *err) MUST_CHECK;

#endif
