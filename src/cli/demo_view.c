/* demo_view: bars and lines. */
#include "cli/demo_view.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/defer.h"
#include "cli/out.h"
#include "cli/term.h"

#define BAR_WIDTH     30
#define LINE_EVERY_US (2 * (int64_t)US_PER_S)

void demo_view_init(struct demo_view *view, bool terminal, bool color)
{
    *view = (struct demo_view){.terminal = terminal, .color = color, .printed_us = INT64_MIN};
}

static void put_color(struct buf *out, const struct demo_view *view, const char *color)
{
    if (view->color)
        buf_puts(out, color);
}

static void put_bar(struct buf *out, const struct demo_view *view, const struct demo_queue *queue)
{
    int64_t ended = queue->done + queue->failed;
    int64_t full = queue->jobs > 0 ? ended * BAR_WIDTH / queue->jobs : BAR_WIDTH;

    put_color(out, view, queue->failed > 0 ? TERM_RED : TERM_GREEN);
    for (int64_t i = 0; i < BAR_WIDTH; i++) {
        if (i == full)
            put_color(out, view, TERM_DIM);
        buf_puts(out, i < full ? "█" : "░");
    }
    put_color(out, view, TERM_RESET);
}

/* What the rest of them do, where that is worth saying. */
static void put_rest(struct buf *out, const struct demo_queue *queue)
{
    if (queue->running > 0)
        buf_printf(out, "  %lld running", (long long)queue->running);
    if (queue->retrying > 0)
        buf_printf(out, "  %lld waiting for the next try", (long long)queue->retrying);
    if (queue->scheduled > 0)
        buf_printf(out, "  %lld not yet due", (long long)queue->scheduled);
    if (queue->failed > 0)
        buf_printf(out, "  %lld failed", (long long)queue->failed);
}

static void
put_bars(struct buf *out, struct demo_view *view, const struct demo_queue *queues, size_t n)
{
    if (view->drawn > 0)
        buf_printf(out, "\033[%zuA", view->drawn);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "\r\033[K  %-12s ", queues[i].name);
        put_bar(out, view, &queues[i]);
        buf_printf(out,
                   " %3lld/%-3lld",
                   (long long)(queues[i].done + queues[i].failed),
                   (long long)queues[i].jobs);
        put_rest(out, &queues[i]);
        buf_putc(out, '\n');
    }
    view->drawn = n;
}

static void put_line(struct buf *out, const struct demo_queue *queues, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out,
                   "%s%s %lld/%lld",
                   i > 0 ? ", " : "",
                   queues[i].name,
                   (long long)(queues[i].done + queues[i].failed),
                   (long long)queues[i].jobs);
    }
    buf_putc(out, '\n');
}

int demo_view_draw(struct demo_view *view,
                   const struct demo_queue *queues,
                   size_t n,
                   int64_t now_us,
                   bool last,
                   struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf out;

    buf_init(&out, 64 * 1024);
    if (view->terminal) {
        put_bars(&out, view, queues, n);
    } else {
        if (!last && view->printed_us != INT64_MIN && now_us - view->printed_us < LINE_EVERY_US)
            return 0;
        view->printed_us = now_us;
        put_line(&out, queues, n);
    }
    return out_write(buf_str(&out), out.len, err);
}
