/* pawl serve: the dispatch server. Thin: serve/app.h puts it together, cli/serving.h runs it. */
#include "base/clock.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/serving.h"
#include "client/job.h"
#include "pg/sync.h"

#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS ((int64_t)24 * 60 * 60 * MS_PER_S)

struct serve_verb_options {
    struct option_list listen;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_ca;
    bool insecure_open;
    int tokens;
    int64_t lease_ms;
    int64_t drain_ms;
    int64_t connections;
    int64_t max_message;
    bool unprepared;
};

static int check_usage(struct cli *cli, struct pawl_err *err)
{
    const struct serve_verb_options *options = cli->options;

    if ((options->tls_cert == NULL) != (options->tls_key == NULL))
        return verb_usage(cli, err, "--tls-cert and --tls-key go together");
    if (options->tls_ca != NULL && options->tls_cert == NULL)
        return verb_usage(cli, err, "--tls-ca needs --tls-cert and --tls-key");
    if (options->lease_ms < LEASE_MIN_MS || options->lease_ms > LEASE_MAX_MS)
        return verb_usage(cli, err, "--lease must be between 1s and 1d");
    return 0;
}

/* Whatever is wrong with the database is said now and clearly; later troubles are waited out. */
static int find_database(struct cli *cli, struct target *ret_target, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_connect(cli, "pawl_server", &conn, ret_target, err);

    if (rc == 0 && client_claim_try(conn, "default", MS_PER_S, err) < 0)
        rc = cli_denied(ret_target, "pawl_server", err);
    return rc;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct serve_verb_options *options = cli->options;
    struct target target = {0};
    struct serve_options serve_options = serving_defaults(cli, &target);
    int rc = check_usage(cli, err);

    if (options->listen.n > 0) {
        serve_options.listen = options->listen.items;
        serve_options.n_listen = options->listen.n;
    }
    serve_options.tls_certificate = options->tls_cert;
    serve_options.tls_key = options->tls_key;
    serve_options.tls_authority = options->tls_ca;
    serve_options.open = options->insecure_open;
    serve_options.tokens = (enum serve_tokens)options->tokens;
    serve_options.lease_ms = options->lease_ms;
    serve_options.drain_ms = options->drain_ms;
    serve_options.unprepared = options->unprepared;
    if (options->connections > 0)
        serve_options.limits.connections_max = options->connections;
    if (options->max_message > 0)
        serve_options.limits.message_bytes = options->max_message;
    if (rc == 0)
        rc = find_database(cli, &target, err);
    return rc < 0 ? rc : serving_run(cli, &serve_options, NULL, NULL, err);
}

static void defaults(void *data)
{
    struct serve_verb_options *options = data;

    options->lease_ms = 30 * MS_PER_S;
    options->drain_ms = 30 * MS_PER_S;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct serve_verb_options, field)

/* In the order of enum serve_tokens. */
static const char *const token_choices[] = {"auto", "required", "off", NULL};

static const struct option_spec options[] = {
    {.name = "listen",
     .letter = 'l',
     OPTION(OPTION_LIST, listen),
     .value = "ADDRESS",
     .help =
         "Listen on ADDRESS: HOST:PORT, [IPV6]:PORT or unix:PATH; port 0 takes a free one. May be given more than "
         "once (default " SERVING_LISTEN ")"},
    {.name = "tls-cert",
     OPTION(OPTION_TEXT, tls_cert),
     .value = "FILE",
     .help =
         "The server's certificate with its chain, PEM. SIGHUP reads it again (default: no TLS)"},
    {.name = "tls-key", OPTION(OPTION_TEXT, tls_key), .value = "FILE", .help = "Its key, PEM"},
    {.name = "tls-ca",
     OPTION(OPTION_TEXT, tls_ca),
     .value = "FILE",
     .help = "Clients must show a certificate of this authority (default: they need none)"},
    {.name = "insecure-open",
     OPTION(OPTION_FLAG, insecure_open),
     .help =
         "Listen where other machines can connect although nothing is encrypted or nobody is asked for a token"},
    {.name = "tokens",
     OPTION(OPTION_CHOICE, tokens),
     .value = "WHEN",
     .choices = token_choices,
     .help =
         "Whether clients need an access token (pawl token create): auto, required or off. auto asks for one where "
         "other machines can connect (default auto)"},
    {.name = "lease",
     OPTION(OPTION_DURATION, lease_ms),
     .value = "TIME",
     .help =
         "How long a silent worker is believed alive before its jobs are given to others (default 30s)"},
    {.name = "drain",
     OPTION(OPTION_DURATION, drain_ms),
     .value = "TIME",
     .help =
         "How long workers may take to finish after SIGTERM before their streams are ended (default 30s)"},
    {.name = "max-connections",
     OPTION(OPTION_INT, connections),
     .value = "N",
     .help = "Connections at once (default 4096)",
     .min = 1,
     .max = 1000000},
    {.name = "max-message",
     OPTION(OPTION_INT, max_message),
     .value = "BYTES",
     .help = "The largest message that is taken (default 17 MiB: room for the largest payload)",
     .min = 1024,
     .max = 1024 * 1024 * 1024},
    {.name = "unprepared",
     OPTION(OPTION_FLAG, unprepared),
     .help = "Use no prepared statements and no LISTEN: for a pooler in transaction mode"},
    {0},
};

static const struct example examples[] = {
    {"pawl serve", "For this machine, on " SERVING_LISTEN "."},
    {"pawl serve --listen unix:/run/pawl/pawl.sock --listen 127.0.0.1:0",
     "On a socket file and on a free port."},
    {"pawl serve --listen '[::]:7295' --tls-cert server.pem --tls-key server.key",
     "For others, encrypted; they need tokens."},
    {NULL, NULL},
};

const struct verb verb_serve = {
    .name = "serve",
    .summary = "Give jobs to workers in any language, over gRPC",
    .group = "Jobs",
    .description =
        "Workers hold one stream to the server and get jobs pushed as they are due; they need no access to the "
        "database. The server claims once for all of them. Each job is claimed, and the claim committed, before it is "
        "sent; a worker that dies loses its jobs to others after its lease. Any number of servers may run on one "
        "database, and a worker may report to another one than the one that gave it the job.\n\n"
        "On the same port there is plain HTTP: /health, /ready and /metrics. "
        "When it listens it says so, a line for each address.\n\n"
        "SIGTERM or Ctrl-C asks the workers to finish and to connect elsewhere, settles what they report and ends; a "
        "second one ends at once. SIGHUP reads the certificate again.",
    .options = options,
    .options_size = sizeof(struct serve_verb_options),
    .defaults = defaults,
    .examples = examples,
    .run = run,
    .long_running = true,
};
