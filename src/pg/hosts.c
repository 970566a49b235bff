/*
 * hosts: what is said about the hosts of a target. With several hosts an error names each of them,
 * as far as there is room: a reader must not look for the fault at the wrong host.
 */
#include "pg/hosts.h"

#include <stdio.h>
#include <string.h>

#include "pg/sqlstate.h"

#define LABEL_ARENA_MAX 65536

static void
label_of(const char *host, const char *addr, const char *port, char label[HOST_LABEL_MAX])
{
    if (host == NULL || host[0] == '\0')
        host = addr;
    if (port == NULL || port[0] == '\0')
        port = "5432";
    if (host == NULL || host[0] == '\0')
        snprintf(label, HOST_LABEL_MAX, "the local socket");
    else if (host[0] == '/' || host[0] == '@')
        snprintf(label, HOST_LABEL_MAX, "%s/.s.PGSQL.%s", host, port);
    else
        snprintf(label, HOST_LABEL_MAX, "%s:%s", host, port);
}

void host_label(const struct target *target, size_t i, char label[HOST_LABEL_MAX])
{
    struct arena arena;
    struct target one;
    arena_init(&arena, LABEL_ARENA_MAX);
    if (target_host(target, i, &arena, &one, NULL) == 0)
        label_of(target_value(&one, "host"),
                 target_value(&one, "hostaddr"),
                 target_value(&one, "port"),
                 label);
    else
        snprintf(label, HOST_LABEL_MAX, "host %zu", i + 1);
    arena_deinit(&arena);
}

int host_err_standby(const char *label, struct pawl_err *err)
{
    err_set(err, PAWL_EREADONLY, "the database server at %s is a standby (read-only)", label);
    return err_hint(err,
                    "Name the primary, or all servers (host=a,b): the one that takes writes is "
                    "found among them.");
}

static bool says_on(const PGconn *conn, const char *parameter)
{
    const char *value = PQparameterStatus(conn, parameter);
    return value != NULL && strcmp(value, "on") == 0;
}

int host_check_writable(const PGconn *conn, struct pawl_err *err)
{
    char label[HOST_LABEL_MAX];
    label_of(PQhost(conn), PQhostaddr(conn), PQport(conn), label);
    if (says_on(conn, "in_hot_standby"))
        return host_err_standby(label, err);
    if (!says_on(conn, "default_transaction_read_only"))
        return 0;
    err_set(err, PAWL_EREADONLY, "the database at %s is set to read-only", label);
    err_detail(err, "default_transaction_read_only is on for this database or user.");
    return err_hint(err, "Switch it off, or name another server.");
}

/* "connection to server at "a", port 1 failed: Connection refused": which server is said already. */
static const char *reason(const struct pawl_err *err)
{
    const char *text = err->detail[0] != '\0' ? err->detail : err->message;
    const char *failed = strstr(text, " failed: ");
    return failed != NULL ? failed + strlen(" failed: ") : text;
}

void host_errors_add(struct host_errors *errors, const char *label, const struct pawl_err *err)
{
    char one[sizeof(errors->text)];
    char joined[2 * sizeof(errors->text) + 2];
    const char *why = err->code == PAWL_ECONN ? reason(err) : err->message;
    size_t len = strlen(why);
    if (len > 0 && why[len - 1] == '.')
        len--;
    snprintf(one, sizeof(one), "%s: %.*s", label, (int)len, why);
    snprintf(
        joined, sizeof(joined), "%s%s%s", errors->text, errors->text[0] != '\0' ? "; " : "", one);
    pg_one_line(errors->text, sizeof(errors->text), joined);
    if (errors->best.code == 0 || errors->best.code == PAWL_ECONN)
        errors->best = *err;
}

void host_errors_tell(const struct host_errors *errors, size_t n_hosts, struct pawl_err *ret_err)
{
    *ret_err = errors->best;
    if (n_hosts < 2)
        return;
    if (errors->best.code == PAWL_ECONN)
        snprintf(ret_err->message,
                 sizeof(ret_err->message),
                 "could not reach any of the %zu database servers",
                 n_hosts);
    snprintf(ret_err->detail, sizeof(ret_err->detail), "%s", errors->text);
    size_t len = strlen(ret_err->detail);
    if (len + 1 < sizeof(ret_err->detail))
        memcpy(ret_err->detail + len, ".", 2);
}
