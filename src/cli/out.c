/*
 * out: collecting the cells of a row, rows as JSON, and the one way to standard output. Laying out
 * tables is out_table.c's business.
 */
#include "cli/out.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <poll.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/out_internal.h"
#include "cli/term.h"
#include "core/json.h"

static bool reader_gone; /* of stdout; main thread only */

bool out_reader_gone(void)
{
    return reader_gone;
}

/* stdio may have met the error earlier and lost its errno: the pipe itself still knows. */
static bool is_gone(FILE *file, int errnum)
{
    if (errnum == EPIPE || errnum == ECONNRESET)
        return true;
    struct pollfd poll_fd = {.fd = fileno(file)};
    return poll_fd.fd >= 0 && poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLERR);
}

static int write_to(FILE *file, const char *data, size_t len, struct pawl_err *err)
{
    errno = 0;
    bool failed_before = ferror(file);
    if (!failed_before && (len == 0 || fwrite(data, 1, len, file) == len) && fflush(file) == 0)
        return 0;
    int errnum = errno;
    if (is_gone(file, errnum)) {
        if (file == stdout)
            reader_gone = true;
        return err_set(err, PAWL_EINTERRUPTED, "nobody reads the output any more");
    }
    return err_set_errno(err, errnum ? errnum : EIO, "could not write the output");
}

int out_write(const char *data, size_t len, struct pawl_err *err)
{
    return write_to(stdout, data, len, err);
}

struct out *out_new(enum out_format format, const struct out_column *columns, size_t n, bool color)
{
    struct out *out = calloc(1, sizeof *out);
    if (!out)
        return NULL;
    out->format = format;
    out->columns = columns;
    out->n_columns = n;
    out->color = color;
    out->none = "(none)";
    out->file = stdout;
    out->width = term_width(STDOUT_FILENO);
    buf_init(&out->text, OUT_PENDING_MAX + OUT_ROW_MAX);
    buf_init(&out->line, OUT_PENDING_MAX + OUT_ROW_MAX);
    return out;
}

void out_free(struct out *out)
{
    if (!out)
        return;
    buf_deinit(&out->text);
    buf_deinit(&out->line);
    free(out->cells);
    free(out);
}

void out_single(struct out *out)
{
    out->single = true;
}

void out_none(struct out *out, const char *note)
{
    out->none = note;
}

void out_to(struct out *out, FILE *file, size_t width)
{
    out->file = file;
    out->width = width;
}

bool out_failed(const struct out *out)
{
    return out->err.code != 0;
}

/* A new cell of the current row; NULL after an error. */
static struct out_cell *cell_add(struct out *out, enum cell_type type)
{
    if (out_failed(out))
        return NULL;
    assert(out->n_cells < (out->rows + 1) * out->n_columns); /* more cells than columns */
    if (out->n_cells == out->cap_cells) {
        size_t cap = out->cap_cells ? out->cap_cells * 2 : 4 * (out->n_columns + 1);
        struct out_cell *cells = reallocarray(out->cells, cap, sizeof *cells);
        if (!cells) {
            err_set(&out->err, PAWL_ENOMEM, "could not keep the rows to show");
            return NULL;
        }
        out->cells = cells;
        out->cap_cells = cap;
    }
    struct out_cell *cell = &out->cells[out->n_cells++];
    *cell = (struct out_cell){.type = type};
    return cell;
}

void out_null(struct out *out)
{
    (void)cell_add(out, CELL_NULL);
}

void out_textn(struct out *out, const char *s, size_t len)
{
    struct out_cell *cell = cell_add(out, CELL_TEXT);
    if (!cell)
        return;
    cell->at = out->text.len;
    cell->len = len;
    if (buf_append(&out->text, s, len) != 0)
        err_set(&out->err, PAWL_ELIMIT, "a row is too large to show");
}

void out_text(struct out *out, const char *s)
{
    if (s)
        out_textn(out, s, strlen(s));
    else
        out_null(out);
}

void out_int(struct out *out, int64_t value)
{
    struct out_cell *cell = cell_add(out, CELL_INT);
    if (cell)
        cell->num = value;
}

void out_tone(struct out *out, enum out_tone tone)
{
    if (out->n_cells > out->rows * out->n_columns)
        out->cells[out->n_cells - 1].tone = tone;
}

/* {"base64": "..."}; OpenSSL counts in int, and a payload is far below that. */
static void json_base64(struct json_writer *w, const char *s, size_t len)
{
    size_t need = (len + 2) / 3 * 4;
    unsigned char *text = malloc(need + 1);
    json_object_begin(w);
    json_key(w, "base64");
    if (text)
        EVP_EncodeBlock(text, (const unsigned char *)s, (int)len);
    else
        w->out->failed = true;
    json_strn(w, text ? (const char *)text : "", text ? need : 0);
    json_object_end(w);
    free(text);
}

/* JSON has line ends only between its tokens, where a blank does as well and keeps one object on
 * one line. */
static void json_raw_line(struct json_writer *w, const char *s, size_t len)
{
    json_raw(w, s, len);
    if (w->out->failed)
        return;
    for (char *p = w->out->data + w->out->len - len, *end = p + len; p < end; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
}

static void json_bytes(struct json_writer *w, const char *s, size_t len)
{
    if (json_is_valid(s, len))
        json_raw_line(w, s, len);
    else if (utf8_valid(s, len))
        json_strn(w, s, len);
    else
        json_base64(w, s, len);
}

static void json_number(struct json_writer *w, enum out_kind kind, int64_t num)
{
    char text[TEXT_TIME_LEN];
    if (kind == OUT_BOOL) {
        json_bool(w, num != 0);
    } else if (kind == OUT_TIME && num == INT64_MAX) {
        json_none(w);
    } else if (kind == OUT_TIME) {
        text_format_time(num, text);
        json_str(w, text);
    } else {
        json_int(w, num);
    }
}

void out_json_object(struct json_writer *w, const struct out *out)
{
    json_object_begin(w);
    for (size_t i = 0; i < out->n_columns; i++) {
        const struct out_column *column = &out->columns[i];
        const struct out_cell *cell = &out->cells[i];
        const char *s = buf_str(&out->text) + cell->at;
        char key[64];
        snprintf(key, sizeof key, "%s%s", column->key, column->kind == OUT_DURATION ? "_us" : "");
        json_key(w, key);
        if (cell->type == CELL_NULL)
            json_none(w);
        else if (cell->type == CELL_INT)
            json_number(w, column->kind, cell->num);
        else if (column->kind == OUT_BYTES)
            json_bytes(w, s, cell->len);
        else
            json_strn(w, s, cell->len);
    }
    json_object_end(w);
}

static void flush_line(struct out *out)
{
    if (!out_failed(out) && out->line.failed)
        err_set(&out->err, PAWL_ELIMIT, "a row is too large to show");
    if (!out_failed(out))
        (void)write_to(out->file, out->line.data, out->line.len, &out->err);
    buf_clear(&out->line);
    buf_clear(&out->text);
    out->rows_out += out->rows;
    out->rows = 0;
    out->n_cells = 0;
}

static void flush_table(struct out *out, int64_t now_us)
{
    if (out->single)
        out_single_render(out, now_us);
    else
        out_table_render(out, now_us);
    flush_line(out);
}

static void flush_json(struct out *out)
{
    if (out->format == OUT_JSON && !out->single)
        buf_puts(&out->line, out->rows_out == 0 ? "[\n  " : ",\n  ");
    struct json_writer w;
    json_init(&w, &out->line);
    out_json_object(&w, out);
    if (out->format == OUT_JSONL || out->single)
        buf_putc(&out->line, '\n');
    flush_line(out);
}

void out_row(struct out *out)
{
    while (!out_failed(out) && out->n_cells < (out->rows + 1) * out->n_columns)
        out_null(out);
    if (out_failed(out))
        return;
    out->rows++;
    if (out->format != OUT_TABLE)
        flush_json(out);
    else if (out->rows == OUT_ROWS_MAX || out->text.len >= OUT_PENDING_MAX)
        flush_table(out, clock_wall_us(&clock_system));
}

int out_end(struct out *out, int64_t now_us, struct pawl_err *err)
{
    if (out->rows > 0)
        flush_table(out, now_us);
    if (out->format == OUT_JSON && !out->single) {
        buf_puts(&out->line, out->rows_out == 0 ? "[]\n" : "\n]\n");
        flush_line(out);
    }
    if (out->format == OUT_TABLE && out->rows_out == 0 && out->none && !out_failed(out)) {
        bool color = term_color(STDERR_FILENO);
        fprintf(stderr, "%s%s%s\n", color ? TERM_DIM : "", out->none, color ? TERM_RESET : "");
    }
    if (out_failed(out) && err)
        *err = out->err;
    return out->err.code;
}
