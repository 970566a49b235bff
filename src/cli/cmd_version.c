/* pawl version: what this is and what it was built on, as a report of a fault needs it. */
#include <stdio.h>

#include <libpq-fe.h>
#include <openssl/crypto.h>
#include <uv.h>

#include "base/clock.h"
#include "cli/cmds.h"

static const struct out_column columns[] = {
    {"pawl", "pawl", OUT_TEXT},
    {"libpq", "libpq", OUT_TEXT},
    {"libuv", "libuv", OUT_TEXT},
    {"openssl", "OpenSSL", OUT_TEXT},
};

static int run(struct cli *cli, struct pawl_err *err)
{
    struct out *out = cli_out_new(cli, columns, sizeof columns / sizeof *columns);
    if (!out)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    char libpq[32];
    snprintf(libpq, sizeof libpq, "%d.%d", PQlibVersion() / 10000, PQlibVersion() % 10000);
    out_single(out);
    out_text(out, PAWL_VERSION);
    out_text(out, libpq);
    out_text(out, uv_version_string());
    out_text(out, OpenSSL_version(OPENSSL_VERSION_STRING));
    out_row(out);
    int rc = out_end(out, clock_wall_us(&clock_system), err);
    out_free(out);
    return rc;
}

static const struct example examples[] = {
    {"pawl version -o json", "For a program."},
    {NULL, NULL},
};

const struct verb verb_version = {
    .name = "version",
    .summary = "Show the version of pawl and of the libraries it runs on",
    .group = "About pawl",
    .examples = examples,
    .run = run,
};
