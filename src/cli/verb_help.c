/*
 * verb_help: help for people, made from the table. Wrapped to the terminal between 80 and 100
 * columns: wider lines are hard to read, and narrower terminals wrap by themselves.
 */
#include <string.h>

#include "base/defer.h"
#include "cli/term.h"
#include "cli/verb_parse.h"

#define HELP_WIDTH_MIN 80
#define HELP_WIDTH_MAX 100
#define LABEL_MAX      28 /* a longer label gets a line of its own */

struct help {
    struct buf *out;
    size_t width;
    bool color;
};

static void blanks(struct help *h, size_t n)
{
    buf_printf(h->out, "%*s", (int)n, "");
}

static void heading(struct help *h, const char *text)
{
    buf_printf(h->out, "\n%s%s:%s\n", h->color ? TERM_BOLD : "", text, h->color ? TERM_RESET : "");
}

/* Refills one paragraph, which begins at column `at`; further lines are indented. Ends the line. */
static void fill(struct help *h, const char *text, size_t len, size_t indent, size_t at)
{
    size_t column = at;
    bool first = true; /* word of its line */
    for (size_t i = 0; i < len;) {
        size_t skip = strspn(text + i, " \n");
        i += skip;
        if (i >= len)
            break;
        size_t n = strcspn(text + i, " \n");
        n = n < len - i ? n : len - i;
        size_t w = out_width(text + i, n);
        if (!first && column + 1 + w > h->width) {
            buf_putc(h->out, '\n');
            blanks(h, indent);
            column = indent;
            first = true;
        }
        if (!first)
            buf_putc(h->out, ' ');
        buf_append(h->out, text + i, n);
        column += w + (first ? 0 : 1);
        first = false;
        i += n;
    }
    buf_putc(h->out, '\n');
}

/* Paragraphs are separated by an empty line; lines that begin with a blank stay as they are. */
static void paragraphs(struct help *h, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        buf_putc(h->out, '\n');
        if (*text == ' ')
            buf_printf(h->out, "%.*s\n", (int)len, text);
        else
            fill(h, text, len, 0, 0);
        text += len;
        text += strspn(text, "\n");
    }
}

/* "  label      text", the text wrapped under itself. */
static void entry(struct help *h, const char *label, const char *text, size_t label_width)
{
    size_t w = out_width(label, strlen(label));
    size_t indent = 2 + label_width + 2;
    buf_printf(h->out, "  %s", label);
    if (w > label_width) {
        buf_putc(h->out, '\n');
        blanks(h, indent);
    } else {
        blanks(h, indent - 2 - w);
    }
    fill(h, text, strlen(text), indent, indent);
}

static void option_label(const struct option_spec *spec, struct buf *label)
{
    buf_clear(label);
    if (spec->letter)
        buf_printf(label, "-%c, --%s", spec->letter, spec->name);
    else
        buf_printf(label, "    --%s", spec->name);
    if (spec->kind != OPTION_FLAG)
        buf_printf(label, " %s", spec->value);
}

static void options(struct help *h, const char *title, const struct option_spec *specs)
{
    CLEANUP(buf_deinit)
    struct buf label;
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&label, 512);
    buf_init(&text, 4096);
    size_t width = 0;
    for (const struct option_spec *spec = specs; spec && spec->name; spec++) {
        option_label(spec, &label);
        size_t w = out_width(buf_str(&label), label.len);
        if (!spec->hidden && w <= LABEL_MAX && w > width)
            width = w;
    }
    bool any = false;
    for (const struct option_spec *spec = specs; spec && spec->name; spec++) {
        if (spec->hidden)
            continue;
        if (!any)
            heading(h, title);
        any = true;
        option_label(spec, &label);
        buf_clear(&text);
        verb_option_help_put(spec, &text);
        entry(h, buf_str(&label), buf_str(&text), width);
    }
}

static void verbs(struct help *h, const struct verb *const *list)
{
    size_t width = 0;
    for (size_t i = 0; list[i]; i++)
        if (!list[i]->hidden && strlen(list[i]->name) > width)
            width = strlen(list[i]->name);
    const char *group = NULL;
    for (size_t i = 0; list[i]; i++) {
        if (list[i]->hidden)
            continue;
        const char *name = list[i]->group ? list[i]->group : "Commands";
        if (!group || strcmp(group, name) != 0)
            heading(h, name);
        group = name;
        entry(h, list[i]->name, list[i]->summary, width);
    }
}

static void examples(struct help *h, const char *title, const struct example *list)
{
    if (!list)
        return;
    heading(h, title);
    for (; list->command; list++) {
        buf_printf(h->out,
                   "  %s%s%s\n",
                   h->color ? TERM_CYAN : "",
                   list->command,
                   h->color ? TERM_RESET : "");
        if (list->text) {
            blanks(h, 6);
            fill(h, list->text, strlen(list->text), 6, 6);
        }
    }
}

void verb_help(
    const struct verb *const *path, size_t depth, size_t width, bool color, struct buf *out)
{
    const struct verb *verb = path[depth - 1];
    struct help h = {.out = out, .width = width, .color = color};
    if (h.width < HELP_WIDTH_MIN)
        h.width = HELP_WIDTH_MIN;
    if (h.width > HELP_WIDTH_MAX)
        h.width = HELP_WIDTH_MAX;

    buf_printf(out, "%sUsage:%s ", color ? TERM_BOLD : "", color ? TERM_RESET : "");
    verb_usage_put(path, depth, out);
    buf_printf(out, "\n\n%s.\n", verb->summary);
    if (verb->description)
        paragraphs(&h, verb->description);
    if (verb->verbs)
        verbs(&h, verb->verbs);
    options(&h, "Options", verb->options);
    options(&h, depth == 1 ? "Options" : "Global options", verb_global_options);
    examples(&h, depth == 1 ? "First steps" : "Examples", verb->examples);
    if (verb->verbs) {
        buf_puts(out, "\nMore about a command: ");
        buf_puts(out, path[0]->name);
        buf_puts(out, " help");
        for (size_t i = 1; i < depth; i++)
            buf_printf(out, " %s", path[i]->name);
        buf_puts(out, " COMMAND\n");
    }
}
