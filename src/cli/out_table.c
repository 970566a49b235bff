/*
 * out_table: rows for people. Every cell is rendered once to find the widths, then written padded;
 * on a terminal the widest text columns give way until a line fits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/text.h"
#include "cli/out_internal.h"
#include "cli/term.h"

#define GAP       2 /* blanks between columns */
#define WIDTH_CUT 8 /* a column is not cut below this */

/* A cell as it is shown, in layout.text. */
struct shown {
    size_t at, len, width;
};

struct layout {
    struct buf text;
    struct shown *cells;
    size_t *widths;
};

static const char *tone_color(enum out_tone tone)
{
    switch (tone) {
    case TONE_GOOD:
        return TERM_GREEN;
    case TONE_BAD:
        return TERM_RED;
    case TONE_BUSY:
        return TERM_CYAN;
    case TONE_DIM:
        return TERM_DIM;
    case TONE_PLAIN:
        break;
    }
    return NULL;
}

static void layout_deinit(struct layout *layout)
{
    buf_deinit(&layout->text);
    free(layout->cells);
    free(layout->widths);
}

static bool is_cuttable(enum out_kind kind)
{
    return kind == OUT_TEXT || kind == OUT_BYTES;
}

static void show_number(struct buf *text, enum out_kind kind, int64_t num, int64_t now_us)
{
    char words[TEXT_DURATION_LEN > OUT_RELATIVE_LEN ? TEXT_DURATION_LEN : OUT_RELATIVE_LEN];
    switch (kind) {
    case OUT_TIME:
        out_relative(num, now_us, words);
        buf_puts(text, words);
        break;
    case OUT_DURATION:
        text_format_duration(num, words);
        buf_puts(text, words);
        break;
    case OUT_BOOL:
        buf_puts(text, num ? "yes" : "no");
        break;
    case OUT_TEXT:
    case OUT_INT:
    case OUT_BYTES:
        buf_printf(text, "%lld", (long long)num);
        break;
    }
}

static struct shown
show_cell(const struct out *out, size_t column, size_t cell_at, int64_t now_us, struct buf *text)
{
    const struct out_cell *cell = &out->cells[cell_at];
    struct shown shown = {.at = text->len};
    if (cell->type == CELL_TEXT)
        out_escape(text, buf_str(&out->text) + cell->at, cell->len, out->single);
    else if (cell->type == CELL_INT)
        show_number(text, out->columns[column].kind, cell->num, now_us);
    else
        buf_putc(text, '-');
    shown.len = text->len - shown.at;
    shown.width = out_width(buf_str(text) + shown.at, shown.len);
    return shown;
}

static size_t title_width(const struct out_column *column)
{
    return out_width(column->title, strlen(column->title));
}

/* The widest cuttable column gives way, one place at a time, until the line fits or nothing can
 * give. */
static void fit(const struct out *out, size_t *widths)
{
    size_t total = 0;
    for (size_t c = 0; c < out->n_columns; c++) {
        if (!out->columns[c].title)
            continue;
        if (is_cuttable(out->columns[c].kind) && widths[c] > out->width)
            widths[c] = out->width;
        total += widths[c] + (total ? GAP : 0);
    }
    while (total > out->width) {
        size_t widest = out->n_columns;
        for (size_t c = 0; c < out->n_columns; c++) {
            if (!out->columns[c].title || !is_cuttable(out->columns[c].kind))
                continue;
            size_t least = title_width(&out->columns[c]);
            if (widths[c] > (least > WIDTH_CUT ? least : WIDTH_CUT) &&
                (widest == out->n_columns || widths[c] > widths[widest]))
                widest = c;
        }
        if (widest == out->n_columns)
            return;
        widths[widest]--;
        total--;
    }
}

/* At most width columns of s, the last one an ellipsis when something is left out. */
static size_t put_cut(struct buf *line, const char *s, size_t len, size_t have, size_t width)
{
    if (have <= width) {
        buf_append(line, s, len);
        return have;
    }
    size_t at = 0, used = 0;
    while (at < len) {
        size_t n = utf8_next(s + at, len - at);
        n = n ? n : 1;
        size_t w = out_width(s + at, n);
        if (used + w > width - 1)
            break;
        used += w;
        at += n;
    }
    buf_append(line, s, at);
    buf_puts(line, "…");
    return used + 1;
}

static void put_blanks(struct buf *line, size_t n)
{
    buf_printf(line, "%*s", (int)n, "");
}

static void put_cell(struct out *out,
                     size_t column,
                     const char *s,
                     const struct shown *shown,
                     const char *color,
                     size_t width,
                     bool last)
{
    struct buf *line = &out->line;
    size_t used = shown->width < width ? shown->width : width;
    bool right = out->columns[column].kind == OUT_INT;
    if (right)
        put_blanks(line, width - used);
    if (color && out->color)
        buf_puts(line, color);
    used = put_cut(line, s, shown->len, shown->width, width);
    if (color && out->color)
        buf_puts(line, TERM_RESET);
    if (!right && !last)
        put_blanks(line, width - used);
    if (!last)
        put_blanks(line, GAP);
}

static size_t last_shown(const struct out *out)
{
    size_t last = 0;
    for (size_t c = 0; c < out->n_columns; c++)
        if (out->columns[c].title)
            last = c;
    return last;
}

static int layout_init(struct layout *layout, struct out *out, int64_t now_us)
{
    buf_init(&layout->text, OUT_PENDING_MAX + OUT_ROW_MAX);
    layout->cells = calloc(out->n_cells + 1, sizeof *layout->cells);
    layout->widths = calloc(out->n_columns + 1, sizeof *layout->widths);
    if (!layout->cells || !layout->widths)
        return err_set(&out->err, PAWL_ENOMEM, "could not lay out the rows");
    for (size_t c = 0; c < out->n_columns; c++)
        if (out->columns[c].title)
            layout->widths[c] = title_width(&out->columns[c]);
    for (size_t i = 0; i < out->n_cells; i++) {
        size_t c = i % out->n_columns;
        if (!out->columns[c].title)
            continue;
        layout->cells[i] = show_cell(out, c, i, now_us, &layout->text);
        if (layout->cells[i].width > layout->widths[c])
            layout->widths[c] = layout->cells[i].width;
    }
    if (layout->text.failed)
        return err_set(&out->err, PAWL_ELIMIT, "the rows are too large to show");
    return 0;
}

void out_table_render(struct out *out, int64_t now_us)
{
    CLEANUP(layout_deinit)
    struct layout layout = {0};
    if (layout_init(&layout, out, now_us) != 0)
        return;
    if (out->width)
        fit(out, layout.widths);
    size_t last = last_shown(out);
    for (size_t c = 0; c < out->n_columns && out->rows_out == 0; c++) {
        const char *title = out->columns[c].title;
        if (!title)
            continue;
        struct shown shown = {.len = strlen(title), .width = title_width(&out->columns[c])};
        put_cell(out, c, title, &shown, TERM_BOLD, layout.widths[c], c == last);
    }
    if (out->rows_out == 0)
        buf_putc(&out->line, '\n');
    for (size_t i = 0; i < out->n_cells; i++) {
        size_t c = i % out->n_columns;
        if (out->columns[c].title)
            put_cell(out,
                     c,
                     buf_str(&layout.text) + layout.cells[i].at,
                     &layout.cells[i],
                     out->cells[i].type == CELL_NULL ? TERM_DIM : tone_color(out->cells[i].tone),
                     layout.widths[c],
                     c == last);
        if (c == out->n_columns - 1)
            buf_putc(&out->line, '\n');
    }
}

/* Lines after the first stand under the first. */
static void put_lines(struct buf *line, const char *s, size_t len, size_t indent)
{
    while (len > 0 && s[len - 1] == '\n')
        len--;
    for (;;) {
        const char *end = memchr(s, '\n', len);
        size_t n = end ? (size_t)(end - s) : len;
        buf_append(line, s, n);
        buf_putc(line, '\n');
        if (!end)
            return;
        put_blanks(line, indent);
        s += n + 1;
        len -= n + 1;
    }
}

void out_single_render(struct out *out, int64_t now_us)
{
    CLEANUP(layout_deinit)
    struct layout layout = {0};
    if (layout_init(&layout, out, now_us) != 0)
        return;
    size_t indent = 0;
    for (size_t c = 0; c < out->n_columns; c++)
        if (out->columns[c].title && title_width(&out->columns[c]) > indent)
            indent = title_width(&out->columns[c]);
    indent += 1 + GAP; /* the colon */
    for (size_t i = 0; i < out->n_cells; i++) {
        size_t c = i % out->n_columns;
        const struct shown *shown = &layout.cells[i];
        const char *title = out->columns[c].title;
        if (!title || out->cells[i].type == CELL_NULL)
            continue;
        buf_printf(&out->line,
                   "%s%s:%s",
                   out->color ? TERM_BOLD : "",
                   title,
                   out->color ? TERM_RESET : "");
        put_blanks(&out->line, indent - 1 - title_width(&out->columns[c]));
        const char *color = out->color ? tone_color(out->cells[i].tone) : NULL;
        if (color)
            buf_puts(&out->line, color);
        put_lines(&out->line, buf_str(&layout.text) + shown->at, shown->len, indent);
        if (color)
            buf_puts(&out->line, TERM_RESET);
    }
}
