/* rules: checks each address, then all of them together. */
#include "serve/api/rules.h"

#include "serve/net/net.h"

int rules_check(const struct rules *rules, bool *ret_tokens, struct pawl_err *err)
{
    const char *open_to = NULL; /* an address that other machines can reach */

    for (size_t i = 0; i < rules->n_listen; i++) {
        bool local;
        int rc = net_is_local(rules->listen[i], &local, err);

        if (rc < 0)
            return rc;
        if (!local)
            open_to = rules->listen[i];
    }
    if (open_to != NULL && !rules->open && !rules->tls) {
        err_set(err, PAWL_EDENIED, "%s can be reached by others, and there is no TLS", open_to);
        return err_hint(
            err,
            "Give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure-open "
            "if it is meant.");
    }
    if (open_to != NULL && !rules->open && rules->tokens == SERVE_TOKENS_OFF &&
        !rules->client_certificates) {
        err_set(err, PAWL_EDENIED, "%s can be reached by others, and nobody is asked who", open_to);
        return err_hint(err,
                        "Let clients need access tokens (--tokens required) or certificates "
                        "(--tls-ca), or say --insecure-open if it is meant.");
    }
    *ret_tokens = rules->tokens == SERVE_TOKENS_REQUIRED ||
                  (rules->tokens == SERVE_TOKENS_AUTO && open_to != NULL && !rules->open);
    return 0;
}
