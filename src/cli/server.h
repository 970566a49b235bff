/* server: a `pawl serve` that a verb talks to instead of a database: where it is, who we are, and TLS. */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <stddef.h>

#include "cli/verb.h"

/* As the options of a verb say it. All may be NULL. */
struct server_choice {
    const char *server;     /* --server */
    const char *token_file; /* --token-file; else PAWL_TOKEN */
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
};

/* What the token file says; NULL: there is none, and pawl.h looks at PAWL_TOKEN. In the arena. */
int server_token(const struct cli *cli,
                 const struct server_choice *choice,
                 const char **ret_token,
                 struct pawl_err *err) MUST_CHECK;

/* The options of a verb that can talk to a server; `type` is its options struct, which has a struct server_choice `choice`. */
#define SERVER_OPTION(type, field) \
    .kind = OPTION_TEXT, .offset = offsetof(type, choice) + offsetof(struct server_choice, field)
#define SERVER_OPTIONS(type, what)                                                              \
    {.name = "server",                                                                          \
     SERVER_OPTION(type, server),                                                               \
     .value = "ADDRESS",                                                                        \
     .help = what " the `pawl serve` at ADDRESS (HOST:PORT, https://HOST:PORT or unix:/PATH), " \
                  "without a database; the token for it is in PAWL_TOKEN"},                     \
        {.name = "token-file",                                                                  \
         SERVER_OPTION(type, token_file),                                                       \
         .value = "FILE",                                                                       \
         .help = "With --server: the first line of FILE is the token, instead of PAWL_TOKEN"},  \
        {.name = "tls-ca",                                                                      \
         SERVER_OPTION(type, tls_ca),                                                           \
         .value = "FILE",                                                                       \
         .help = "With --server: TLS, and the server's certificate must be of this authority "  \
                 "(default with https://: one that this machine trusts)"},                      \
        {.name = "tls-cert",                                                                    \
         SERVER_OPTION(type, tls_cert),                                                         \
         .value = "FILE",                                                                       \
         .help = "With --server: the certificate to show to the server"},                       \
    {                                                                                           \
        .name = "tls-key", SERVER_OPTION(type, tls_key), .value = "FILE",                       \
        .help = "With --server: its key (default: it is in the same file)"                      \
    }

/* Without --server the others mean nothing. */
int server_choice_check(struct cli *cli,
                        const struct server_choice *choice,
                        struct pawl_err *err) MUST_CHECK;

#endif
