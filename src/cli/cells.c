/* cells: shared by the verbs that show jobs and queues. */
#include "cli/cells.h"

#include <string.h>

#include "base/defer.h"

#define ERROR_SHOWN_MAX 2000 /* bytes on a line; `pawl job show` has them all */

void cell_time(struct out *out, int64_t us)
{
    if (us == 0)
        out_null(out);
    else
        out_int(out, us);
}

void cell_bytes(struct out *out, struct bytes bytes)
{
    if (bytes.data == NULL)
        out_null(out);
    else
        out_textn(out, bytes.data, bytes.len);
}

void put_error_line(struct buf *out, const char *error)
{
    const char *end = error + strnlen(error, ERROR_SHOWN_MAX);
    const char *between = "";

    for (const char *line = error; line < end;) {
        size_t len = strcspn(line, "\n");

        len = len < (size_t)(end - line) ? len : (size_t)(end - line);
        if (len > 0) {
            buf_puts(out, between);
            out_escape(out, line, len, false);
            /* The first line says how it ended, the others are what the command said last. */
            between = line == error ? ": " : " / ";
        }
        line += len + 1;
    }
}

void cell_error(const struct cli *cli, struct out *out, const char *error)
{
    CLEANUP(buf_deinit)
    struct buf line;

    buf_init(&line, 8 * ERROR_SHOWN_MAX);
    if (error == NULL || cli->output != OUT_TABLE) {
        out_text(out, error);
        return;
    }
    put_error_line(&line, error);
    out_textn(out, buf_str(&line), line.len);
}
