/* server: a `pawl serve` as workers and producers know it: where it is, who we are, and TLS. */
#ifndef LIB_SERVER_H
#define LIB_SERVER_H

#include "base/err.h"
#include "remote/address.h"

struct tls;

#define SERVER_TOKEN_MAX 400

struct server {
    struct address address;
    char token[SERVER_TOKEN_MAX + 1]; /* empty: none */
    struct tls *tls;                  /* owned; NULL: plain */
};

/* What the options say; nothing of them is kept. A token of NULL: what PAWL_TOKEN says. */
int server_init(struct server *server,
                const struct pawl_server_options *options,
                struct pawl_err *err) MUST_CHECK;
void server_deinit(struct server *server);

static inline const char *server_token(const struct server *server)
{
    return server->token[0] != '\0' ? server->token : NULL;
}

#endif
