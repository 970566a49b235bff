/* server: from options to what a channel needs. */
#include "lib/server.h"

#include <stdlib.h>
#include <string.h>

#include "wire/tls.h"

static int find_token(struct server *server, const char *token, struct pawl_err *err)
{
    if (token == NULL)
        token = getenv("PAWL_TOKEN");
    if (token == NULL || token[0] == '\0')
        return 0;
    size_t len = strlen(token);

    if (len > SERVER_TOKEN_MAX)
        return err_set(err, PAWL_EINVAL, "the token is too long to be one");
    for (const char *c = token; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            return err_set(err, PAWL_EINVAL, "the token has characters that no token has");
    }
    memcpy(server->token, token, len + 1);
    return 0;
}

int server_init(struct server *server,
                const struct pawl_server_options *options,
                struct pawl_err *err)
{
    *server = (struct server){0};
    int rc = address_parse(options->address, &server->address, err);

    if (rc == 0)
        rc = find_token(server, options->token, err);
    if (rc == 0 &&
        (server->address.tls || options->tls_ca != NULL || options->tls_certificate != NULL))
        rc = tls_client_new(&(struct tls_client_options){.authority = options->tls_ca,
                                                         .certificate = options->tls_certificate,
                                                         .key = options->tls_key},
                            &server->tls,
                            err);
    return rc;
}

void server_deinit(struct server *server)
{
    tls_free(server->tls);
    server->tls = NULL;
}
