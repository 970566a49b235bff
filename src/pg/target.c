/*
 * target: from --db and the environment to the keywords libpq connects with, our defaults added
 * where the string is silent. A password is never shown: not in `shown`, and not in the error about
 * a string that libpq refused.
 */
#include "pg/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/text.h"
#include "pg/sqlstate.h"

#define HINT_FORMS                                                   \
    "Write it as postgresql://user@host:5432/database or as words: " \
    "\"host=... port=... dbname=... user=...\"."
#define HINT_ENCODE                                                       \
    "In a URL's user name and password write %%40 for '@', %%3A for ':' " \
    "and %%2F for '/'."

/* Used where the connection string says nothing else. A peer that vanished without a word (no FIN)
 * is noticed within 5 s: idle for 2 s, then a probe a second, given up 4 s after the last sign of
 * life; unanswered data likewise. The fallback name yields to PGAPPNAME and to a service's. */
static const struct {
    const char *keyword;
    const char *value;
} defaults[] = {
    {"connect_timeout", "5"},
    {"keepalives", "1"},
    {"keepalives_idle", "2"},
    {"keepalives_interval", "1"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "4000"},
    {"fallback_application_name", "pawl"},
};

/* Naming one of these means "that server", not our own cluster. An empty variable is as good as
 * none. */
static const char *const server_variables[] = {
    "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER"};

static const char *env(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

const char *target_value(const struct target *target, const char *keyword)
{
    for (size_t i = 0; i < TARGET_KEYWORDS_MAX && target->keywords[i]; i++) {
        if (!strcmp(target->keywords[i], keyword))
            return target->values[i];
    }
    return NULL;
}

/* Sets or replaces. The last slot stays NULL: it ends the list. */
static int put(struct target *target,
               struct arena *arena,
               const char *keyword,
               const char *value,
               struct pawl_err *err)
{
    size_t i = 0;

    while (i < TARGET_KEYWORDS_MAX - 1 && target->keywords[i] &&
           strcmp(target->keywords[i], keyword) != 0)
        i++;
    if (i == TARGET_KEYWORDS_MAX - 1)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the connection string has more than %d options",
                       TARGET_KEYWORDS_MAX - 1);
    target->keywords[i] = arena_strdup(arena, keyword);
    target->values[i] = arena_strdup(arena, value);
    if (!target->keywords[i] || !target->values[i])
        return err_set(err, PAWL_ENOMEM, "out of memory for the connection string");
    return 0;
}

static const char *source_name(enum target_source source)
{
    switch (source) {
    case TARGET_OPTION:
        return "the connection string given with --db";
    case TARGET_ENVIRONMENT:
        return "the connection string in PAWL_DATABASE_URL";
    case TARGET_PG_VARIABLES:
        return "the connection named by the PG* variables";
    case TARGET_CALLER:
        return "the connection string";
    case TARGET_PRIVATE:
        break;
    }
    return "the connection string of pawl's own database";
}

static bool is_url(const char *conninfo)
{
    return !strncmp(conninfo, "postgresql://", 13) || !strncmp(conninfo, "postgres://", 11);
}

/* libpq's own words, but for what it quotes: that may be a piece of a password which it took for
 * something else. */
static int
refuse(enum target_source source, const char *conninfo, const char *why, struct pawl_err *err)
{
    bool secret = strcasestr(conninfo, "password") || strchr(conninfo, '@');
    char line[512];
    char masked[512];
    size_t len = 0;
    bool quoted = false;

    pg_one_line(line, sizeof(line), why);
    for (const char *at = line; *at; at++) {
        bool keep = !secret || !quoted || *at == '"' || *at == '=';
        if (*at == '"')
            quoted = !quoted;
        if (secret && (unsigned char)*at >= 0x80) {
            /* A translation, which may quote in other ways. */
            len = 0;
            break;
        }
        if (keep)
            masked[len++] = *at;
        else if (masked[len - 1] == '"')
            masked[len++] = '*';
    }
    masked[len] = '\0';
    err_set(err, PAWL_EINVAL, "%s is not valid", source_name(source));
    if (len > 0)
        err_detail(err, "%s.", masked);
    err_hint(err, HINT_FORMS);
    return PAWL_EINVAL;
}

/* A password that holds '@', ':' or '/' in the clear makes libpq see another host or port than was
 * meant, and would have it shown as one. So what came out of a URL is looked at before anybody
 * connects to it or prints it. */
static int check_url(const struct target *target, const char *conninfo, struct pawl_err *err)
{
    const char *host = target_value(target, "host");
    const char *dbname = target_value(target, "dbname");
    const char *authority = strstr(conninfo, "://") + 3;
    size_t len = strcspn(authority, "/?");
    bool at_in_path = strchr(authority + len, '@') && !memchr(authority, '@', len);

    if ((host && host[0] != '/' && host[0] != '@' && strpbrk(host, "@ ")) ||
        (dbname && at_in_path)) {
        err_set(err, PAWL_EINVAL, "%s is not valid", source_name(target->source));
        err_detail(err, "There is an '@' where the host or the database should be.");
        err_hint(
            err,
            "In a URL's user name and password write %%40 for '@', %%3A for ':' and %%2F for '/'.");
        return PAWL_EINVAL;
    }
    return 0;
}

/* libpq checks the port only when it connects, and then prints it. */
static int check_port(const struct target *target, struct pawl_err *err)
{
    const char *at = target_value(target, "port");

    while (at && *at) {
        char one[16];
        int64_t port;
        size_t len = strcspn(at, ",");
        snprintf(one, sizeof(one), "%.*s", (int)(len < sizeof(one) ? len : sizeof(one) - 1), at);
        if (len > 0 && (len >= sizeof(one) || text_parse_int(one, 1, 65535, &port, NULL) < 0)) {
            err_set(err,
                    PAWL_EINVAL,
                    "%s has a port that is not a number from 1 to 65535",
                    source_name(target->source));
            err_hint(
                err,
                "In a URL's user name and password write %%40 for '@', %%3A for ':' and %%2F for '/'.");
            return PAWL_EINVAL;
        }
        at += len + (at[len] == ',');
    }
    return 0;
}

/* What libpq would take from the environment, a PGSERVICE or the system for a keyword the string
 * does not give. */
static const char *default_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++) {
        if (!strcmp(o->keyword, keyword))
            return o->val && o->val[0] ? o->val : NULL;
    }
    return NULL;
}

static void conninfo_cleanup(PQconninfoOption **options)
{
    PQconninfoFree(*options); /* accepts NULL */
}

static void show(struct target *target)
{
    CLEANUP(conninfo_cleanup)
    PQconninfoOption *known = PQconndefaults();
    CLEANUP(buf_deinit)
    struct buf out;
    const char *keywords[] = {"host", "hostaddr", "port", "dbname", "user", "service"};
    const char *v[6];
    char line[sizeof(target->shown)];

    for (size_t i = 0; i < 6; i++) {
        v[i] = target_value(target, keywords[i]);
        /* What a service file named in the string adds is known to libpq alone. */
        if ((!v[i] || !v[i][0]) && (i == 5 || !target_value(target, "service")))
            v[i] = default_of(known, keywords[i]);
    }
    const char *host = v[0] ? v[0] : v[1];
    const char *dbname = v[3] ? v[3] : v[4];
    buf_init(&out, 4096);
    if (dbname)
        buf_printf(&out, "database \"%s\"", dbname);
    else
        buf_puts(&out, "the database");
    if (host && host[0] == '/')
        buf_printf(&out, " on socket %s", host);
    else if (host)
        buf_printf(&out, " on %s", host);
    else if (!v[5])
        buf_puts(&out, " on the local socket");
    if (v[2])
        buf_printf(&out, " port %s", v[2]);
    if (v[4])
        buf_printf(&out, " as user \"%s\"", v[4]);
    if (v[5])
        buf_printf(&out, " (service \"%s\")", v[5]);
    pg_one_line(line, sizeof(line), buf_str(&out));
    memcpy(target->shown, line, sizeof(line));
}

int target_set(struct target *target,
               struct arena *arena,
               enum target_source source,
               const char *conninfo,
               struct pawl_err *err)
{
    struct target made = {.source = source};
    CLEANUP(conninfo_cleanup)
    PQconninfoOption *options = NULL;
    char *errmsg = NULL;
    int rc = 0;

    options = PQconninfoParse(conninfo, &errmsg);
    if (!options) {
        rc = errmsg ? refuse(source, conninfo, errmsg, err)
                    : err_set(err, PAWL_ENOMEM, "out of memory for the connection string");
        PQfreemem(errmsg);
        return rc;
    }
    for (const PQconninfoOption *o = options; o->keyword; o++) {
        if (o->val && (rc = put(&made, arena, o->keyword, o->val, err)) < 0)
            return rc;
    }
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        const char *value = defaults[i].value;
        if (!strcmp(defaults[i].keyword, "connect_timeout") && env("PGCONNECT_TIMEOUT"))
            value = env("PGCONNECT_TIMEOUT");
        if (target_value(&made, defaults[i].keyword))
            continue;
        if ((rc = put(&made, arena, defaults[i].keyword, value, err)) < 0)
            return rc;
    }
    /* Not a default: every text we send and read is UTF-8. */
    if ((rc = put(&made, arena, "client_encoding", "UTF8", err)) < 0)
        return rc;
    if (is_url(conninfo) && (rc = check_url(&made, conninfo, err)) < 0)
        return rc;
    if ((rc = check_port(&made, err)) < 0)
        return rc;
    made.conninfo = arena_strdup(arena, conninfo);
    if (made.conninfo == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory for the connection string");
    show(&made);
    *target = made;
    return 0;
}

int target_resolve(struct target *target,
                   struct arena *arena,
                   const char *db_option,
                   struct pawl_err *err)
{
    if (db_option && !db_option[strspn(db_option, " \t\n")]) {
        err_set(err, PAWL_EINVAL, "the connection string given with --db is empty");
        err_hint(err, HINT_FORMS);
        return PAWL_EINVAL;
    }
    if (db_option)
        return target_set(target, arena, TARGET_OPTION, db_option, err);
    if (env("PAWL_DATABASE_URL"))
        return target_set(target, arena, TARGET_ENVIRONMENT, env("PAWL_DATABASE_URL"), err);
    for (size_t i = 0; i < sizeof(server_variables) / sizeof(server_variables[0]); i++) {
        /* libpq reads the variables itself, and knows how they and a service file go together. */
        if (env(server_variables[i]))
            return target_set(target, arena, TARGET_PG_VARIABLES, "", err);
    }
    memset(target, 0, sizeof(*target));
    target->source = TARGET_PRIVATE;
    snprintf(target->shown, sizeof(target->shown), "pawl's own database");
    return 0;
}

/* The i-th of a comma-separated list; a list of one counts for all (libpq's rule for ports). NULL:
 * no such keyword. */
static const char *nth(struct arena *arena, const char *list, size_t i, bool *failed)
{
    const char *at = list;

    if (!list)
        return NULL;
    if (strchr(list, ',')) {
        for (; i > 0 && (at = strchr(at, ',')); i--)
            at++;
    }
    const char *copy = at ? arena_strndup(arena, at, strcspn(at, ",")) : "";
    *failed = *failed || !copy;
    return copy;
}

size_t target_hosts(const struct target *target)
{
    const char *attrs = target_value(target, "target_session_attrs");
    const char *list = target_value(target, "hostaddr");
    size_t n = 1;

    /* "prefer-standby" looks at all of them before it takes one: only libpq, with the whole list,
     * can do that. */
    if (attrs && !strcmp(attrs, "prefer-standby"))
        return 1;
    if (!list || !list[0])
        list = target_value(target, "host");
    for (const char *at = list; at && (at = strchr(at, ',')); at++)
        n++;
    return n;
}

int target_host(const struct target *target,
                size_t i,
                struct arena *arena,
                struct target *ret_target,
                struct pawl_err *err)
{
    static const char *const lists[] = {"host", "hostaddr", "port"};
    struct target one = *target;
    bool failed = false;

    if (target_hosts(target) > 1) {
        for (size_t k = 0; k < TARGET_KEYWORDS_MAX && one.keywords[k]; k++) {
            for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
                if (!strcmp(one.keywords[k], lists[l]))
                    one.values[k] = nth(arena, target->values[k], i, &failed);
            }
        }
    }
    if (failed)
        return err_set(err, PAWL_ENOMEM, "out of memory for the connection string");
    *ret_target = one;
    return 0;
}
