/* out_internal: what out.c (cells, JSON, writing) and out_table.c (laying out) share. Nobody else
 * includes it. */
#ifndef CLI_OUT_INTERNAL_H
#define CLI_OUT_INTERNAL_H

#include "base/json.h"
#include "cli/out.h"

/* Rendered text waits in memory up to this; then a table is written in parts. One row may be
 * larger. */
#define OUT_PENDING_MAX (8ul * 1024 * 1024)
/* A payload and a result whose every byte takes six in JSON, and the rest of the row. */
#define OUT_ROW_MAX (8ul * (PAWL_PAYLOAD_MAX + PAWL_RESULT_MAX))

enum cell_type { CELL_NULL, CELL_TEXT, CELL_INT };

struct out_cell {
    enum cell_type type;
    enum out_tone tone;
    int64_t num;
    size_t at, len; /* CELL_TEXT: where in out->text */
};

struct out {
    enum out_format format;
    const struct out_column *columns; /* borrowed */
    size_t n_columns;
    bool color;
    bool single;
    const char *none; /* borrowed */
    FILE *file;       /* borrowed */
    size_t width;     /* 0: nothing is cut */

    struct out_cell *cells; /* owned; whole rows, then the current one */
    size_t n_cells, cap_cells;
    struct buf text; /* what the cells point into */
    size_t rows;     /* waiting in cells */
    size_t rows_out; /* written so far */

    struct buf line; /* what is being rendered */
    struct pawl_err err;
};

/* The row that starts at cells[0], as one JSON object. */
void out_json_object(struct json_writer *w, const struct out *out);

/* Renders everything that waits into out->line. */
void out_table_render(struct out *out, int64_t now_us);
void out_single_render(struct out *out, int64_t now_us);

#endif
