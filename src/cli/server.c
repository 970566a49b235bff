/* server: from options to what pawl.h takes. A token is never an argument: everybody sees those. */
#include "cli/server.h"

#include <errno.h>
#include <fcntl.h>
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

int server_token(const struct cli *cli,
                 const struct server_choice *choice,
                 const char **ret_token,
                 struct pawl_err *err)
{
    if (choice->token_file != NULL)
        return read_token(cli, choice->token_file, ret_token, err);
    *ret_token = NULL;
    return 0;
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
