/* server: from options to what a channel needs. A token is never an argument: everybody sees those. */
#include "cli/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"

#define TOKEN_MAX 400

/* The first line. */
static int
read_token(const struct cli *cli, const char *file, const char **ret_token, struct pawl_err *err)
{
    char text[TOKEN_MAX + 1];
    AUTO_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

    if (n < 0)
        return err_set_errno(err, errno, "could not read the token from %s", file);
    size_t len = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;

    text[len] = '\0';
    len = strcspn(text, "\r\n");
    if (len == 0 || len >= TOKEN_MAX)
        return err_set(err, PAWL_EINVAL, "there is no token in the first line of %s", file);
    *ret_token = arena_strndup(cli->arena, text, len);
    return *ret_token != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

static int check_token(const char *token, struct pawl_err *err)
{
    for (const char *c = token; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            return err_set(err, PAWL_EINVAL, "the token has characters that no token has");
    }
    return 0;
}

int server_access_init(struct server_access *access,
                       const struct cli *cli,
                       const struct server_choice *choice,
                       struct pawl_err *err)
{
    const char *token = getenv("PAWL_TOKEN");
    bool tls = choice->tls_ca != NULL || choice->tls_cert != NULL;
    int rc = address_parse(choice->server, &access->address, err);

    access->tls = NULL;
    access->token = token != NULL && token[0] != '\0' ? token : NULL;
    if (rc == 0 && choice->token_file != NULL)
        rc = read_token(cli, choice->token_file, &access->token, err);
    if (rc == 0 && access->token != NULL)
        rc = check_token(access->token, err);
    if (rc == 0 && (tls || access->address.tls))
        rc = tls_client_new(&(struct tls_client_options){.authority = choice->tls_ca,
                                                         .certificate = choice->tls_cert,
                                                         .key = choice->tls_key},
                            &access->tls,
                            err);
    return rc;
}

void server_access_deinit(struct server_access *access)
{
    tls_free(access->tls);
    access->tls = NULL;
}

int server_choice_check(struct cli *cli, const struct server_choice *choice, struct pawl_err *err)
{
    if (choice->server == NULL && (choice->token_file != NULL || choice->tls_ca != NULL ||
                                   choice->tls_cert != NULL || choice->tls_key != NULL))
        return verb_usage(cli, err, "--token-file and --tls-… go with --server");
    if (choice->server != NULL && cli->db != NULL)
        return verb_usage(cli, err, "--db does not go with --server");
    return 0;
}
