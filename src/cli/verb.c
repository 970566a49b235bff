/*
 * verb: from argv to an exit status. Parses, sets the stage for the verb (arena, logger, colour),
 * runs it, and is the one place that shows an error to a person.
 */
#include "cli/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "cli/term.h"
#include "cli/verb_parse.h"

#define TEXT_MAX (1024ul * 1024) /* of anything printed here */

/* Lines after the first are indented, so that no part of an error can pass for a new one. */
static void err_part(struct buf *out, const char *label, const char *text, bool color)
{
    if (!*text)
        return;
    buf_printf(out, "  %s%s:%s ", color ? TERM_DIM : "", label, color ? TERM_RESET : "");
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    while (len > 0) {
        size_t n = strcspn(text, "\n");
        n = n < len ? n : len;
        out_escape(out, text, n, false);
        if (n < len)
            buf_puts(out, "\n    ");
        n += n < len;
        text += n;
        len -= n;
    }
    buf_putc(out, '\n');
}

void cli_err_format(const struct pawl_err *err, bool color, struct buf *out)
{
    buf_printf(out, "%spawl:%s ", color ? TERM_BOLD TERM_RED : "", color ? TERM_RESET : "");
    const char *message = *err->message ? err->message : err_code_text(err->code);
    out_escape(out, message, strlen(message), false);
    buf_putc(out, '\n');
    err_part(out, "detail", err->detail, color);
    err_part(out, "sqlstate", err->sqlstate, color);
    err_part(out, "hint", err->hint, color);
}

/* stderr is the last resort: when it cannot be written either, the exit status still tells. */
static void put_stderr(const struct buf *out)
{
    fflush(stdout);
    fwrite(buf_str(out), 1, out->len, stderr);
    fflush(stderr);
}

void cli_err_print(const struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&out, TEXT_MAX);
    cli_err_format(err, term_color(STDERR_FILENO), &out);
    put_stderr(&out);
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    if (cli->quiet)
        return;
    bool color = term_color(STDERR_FILENO);
    CLEANUP(buf_deinit)
    struct buf text;
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&text, TEXT_MAX);
    buf_init(&out, TEXT_MAX);
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    buf_printf(&out, "%snote:%s ", color ? TERM_DIM : "", color ? TERM_RESET : "");
    out_escape(&out, buf_str(&text), text.len, true);
    buf_putc(&out, '\n');
    put_stderr(&out);
}

struct out *cli_out_new(const struct cli *cli, const struct out_column *columns, size_t n)
{
    struct out *out = out_new(cli->output, columns, n, cli->color);
    if (out && cli->quiet)
        out_none(out, NULL);
    return out;
}

int verb_usage(struct cli *cli, struct pawl_err *err, const char *fmt, ...)
{
    struct buf text;
    buf_init(&text, sizeof err->message);
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    err_set(err, PAWL_EINVAL, "%s", buf_str(&text));
    err_hint(err, "See %s --help.", cli->path);
    buf_deinit(&text);
    return PAWL_EINVAL;
}

static int print_help(const struct verb_call *call, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&out, TEXT_MAX);
    verb_help(call->path, call->depth, term_width(STDOUT_FILENO), term_color(STDOUT_FILENO), &out);
    if (out.failed)
        return err_set(err, PAWL_ENOMEM, "could not make the help text");
    return out_write(buf_str(&out), out.len, err);
}

/* --log-level, then PAWL_LOG, then what suits the verb. */
static int
find_log_level(const struct verb_call *call, enum log_level *ret_level, struct pawl_err *err)
{
    const struct verb_globals *globals = &call->globals;
    const char *env = getenv("PAWL_LOG");
    if (globals->log_level_set) {
        *ret_level = (enum log_level)globals->log_level;
    } else if (globals->quiet) {
        *ret_level = LOG_ERROR;
    } else if (env && *env) {
        if (log_level_parse(env, ret_level) != 0) {
            err_set(err, PAWL_EINVAL, "invalid value \"%.60s\" of the variable PAWL_LOG", env);
            err_detail(err, "It must be debug, info, warn, error or off.");
            return PAWL_EINVAL;
        }
    } else {
        *ret_level = call->path[call->depth - 1]->long_running ? LOG_INFO : LOG_WARN;
    }
    return 0;
}

static int run(const struct verb_call *call, struct arena *arena, struct pawl_err *err)
{
    const struct verb *verb = call->path[call->depth - 1];
    enum log_level level;
    int rc = find_log_level(call, &level, err);
    if (rc != 0)
        return rc;
    struct log log;
    log_init(&log, STDERR_FILENO, level);

    CLEANUP(buf_deinit)
    struct buf path;
    buf_init(&path, 256);
    verb_path_put(call->path, call->depth, &path);
    struct cli cli = {
        .arena = arena,
        .log = &log,
        .db = call->globals.db,
        .output = (enum out_format)call->globals.output,
        .quiet = call->globals.quiet,
        .color = term_color(STDOUT_FILENO),
        .root = call->path[0],
        .path = buf_str(&path),
        .verb = verb,
        .options = call->options,
        .args = call->args,
        .n_args = call->n_args,
    };
    return verb->run(&cli, err);
}

static int parse_and_run(const struct verb *root, int argc, char **argv, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    arena_init(&arena, CLI_MEMORY_MAX);
    struct verb_call call;
    int rc = verb_parse(root, argc, argv, &arena, &call, err);
    if (rc != 0)
        return rc;
    if (call.globals.help)
        return print_help(&call, err);
    if (call.globals.version)
        return out_write("pawl " PAWL_VERSION "\n", strlen("pawl " PAWL_VERSION "\n"), err);
    if (call.missing) {
        /* Help is what they need, but nothing was done. */
        rc = print_help(&call, err);
        return rc ? rc : PAWL_EINVAL;
    }
    return run(&call, &arena, err);
}

int verb_main(const struct verb *root, int argc, char **argv)
{
    struct pawl_err err;
    err_clear(&err);
    int rc = parse_and_run(root, argc, argv, &err);

    /* What a verb printed by itself may still be in stdio's buffer, or may have failed unseen. */
    struct pawl_err write_err;
    int write_rc = out_write("", 0, &write_err);
    if (out_reader_gone() && (rc == 0 || rc == PAWL_EINTERRUPTED))
        return 0;
    if (rc == 0 && write_rc != 0) {
        rc = write_rc;
        err = write_err;
    }
    if (rc != 0 && err.code != 0)
        cli_err_print(&err);
    return err_code_exit(rc);
}
