/* pawl up: everything for development in one command: the private PostgreSQL, a server on it, and what to paste next. */
#include <limits.h>

#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "cli/serving.h"
#include "pg/sync.h"

struct up_options {
    struct option_list listen;
};

static void put_lines(struct buf *out, const char *pawl, const char *address)
{
    buf_printf(out, "listening on %s\n\n", address);
    buf_printf(out, "In another terminal, a worker (any command is a handler):\n");
    buf_printf(out, "  %s work --server %s --exec 'hello=cat'\n\n", pawl, address);
    buf_printf(out, "A job for it, and what came of it:\n");
    buf_printf(out, "  %s enqueue hello '{\"n\":1}'\n", pawl);
    buf_printf(out, "  %s job list\n\n", pawl);
    buf_printf(out, "A worker in Python (pip install ./clients/python):\n");
    buf_printf(out, "  import pawl\n");
    buf_printf(out, "  worker = pawl.Worker('%s')\n", address);
    buf_printf(out, "  @worker.handler('hello')\n");
    buf_printf(out, "  def hello(job): return job.payload\n");
    buf_printf(out, "  worker.run()\n\n");
    buf_printf(out, "A worker in Node.js (npm install ./clients/node):\n");
    buf_printf(out, "  import { Worker } from 'pawl-client';\n");
    buf_printf(out, "  const worker = new Worker({ address: '%s' });\n", address);
    buf_printf(out, "  worker.handle('hello', async (job) => job.payload);\n");
    buf_printf(out, "  await worker.run();\n\n");
    buf_printf(out, "Ctrl-C stops the server, and the PostgreSQL that it started.\n");
}

static int say_next(void *data, const char *address, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;
    char pawl[PATH_MAX];

    (void)data;
    buf_init(&out, 16 * 1024);
    cli_how_to_call(pawl, sizeof(pawl));
    put_lines(&out, pawl, address);
    return out.failed ? err_set(err, PAWL_ENOMEM, "out of memory")
                      : out_write(buf_str(&out), out.len, err);
}

static int serve(struct cli *cli, const struct target *target, struct pawl_err *err)
{
    const struct up_options *options = cli->options;
    struct serve_options serve_options = serving_defaults(cli, target);
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_open(cli, target, &conn, err); /* migrates what is ours */

    if (rc < 0)
        return cli_denied(target, "pawl_server", err);
    sync_close(&conn);
    if (options->listen.n > 0) {
        serve_options.listen = options->listen.items;
        serve_options.n_listen = options->listen.n;
    }
    return serving_run(cli, &serve_options, say_next, NULL, err);
}

static int run(struct cli *cli, struct pawl_err *err)
{
    struct target target;
    bool started = false;
    int rc = cli_target(cli, &target, &started, err);

    if (rc < 0)
        return rc;
    rc = serve(cli, &target, err);
    return started ? cli_stop_private(cli, rc, err) : rc;
}

static const struct option_spec options[] = {
    {.name = "listen",
     .letter = 'l',
     .kind = OPTION_LIST,
     .offset = offsetof(struct up_options, listen),
     .value = "ADDRESS",
     .help = "Listen on ADDRESS, as pawl serve does (default " SERVING_LISTEN ")"},
    {0},
};

static const struct example examples[] = {
    {"pawl up", "A server at " SERVING_LISTEN ", and what to paste next."},
    {"pawl up --listen 127.0.0.1:0", "On a free port."},
    {NULL, NULL},
};

const struct verb verb_up = {
    .name = "up",
    .group = "Jobs",
    .summary = "Private PostgreSQL and server in one, for development",
    .description =
        "Starts the private PostgreSQL, making it if there is none, and a server on it that listens for this machine "
        "only, and prints what to paste next: a worker, a job. Ctrl-C stops the server, and the PostgreSQL if it was "
        "started here; jobs stay. With --db it serves that database instead.\n\n"
        "It is pawl serve with nothing to set up. For more than development use that.",
    .options = options,
    .options_size = sizeof(struct up_options),
    .examples = examples,
    .run = run,
    .long_running = true,
};
