/* breaker: a window of slices, three states. */
#include "engine/breaker.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

void breakers_init(struct breakers *all, const struct breaker_options *options)
{
    *all = (struct breakers){
        .options =
            {
                .percent = options->percent,
                .window_ms = or_default(options->window_ms, 30LL * MS_PER_S),
                .min_runs = options->min_runs > 0 ? options->min_runs : 10,
                .open_ms = or_default(options->open_ms, 5LL * MS_PER_S),
                .open_max_ms = or_default(options->open_max_ms, 300LL * MS_PER_S),
                .probes = options->probes > 0 ? options->probes : 2,
            },
    };
    map_init(&all->by_kind, BREAKERS_MAX);
}

static void breaker_free(struct breaker *b)
{
    free(b->kind);
    free(b);
}

void breakers_deinit(struct breakers *all)
{
    size_t pos = 0;
    struct breaker *b;

    while ((b = breakers_next(all, &pos)) != NULL)
        breaker_free(b);
    map_deinit(&all->by_kind);
}

const char *breaker_state_text(enum breaker_state state)
{
    static const char *const texts[] = {"closed", "open", "half-open"};

    return texts[state];
}

struct breaker *breakers_find(const struct breakers *all, const char *kind)
{
    return map_get(&all->by_kind, kind, strlen(kind));
}

struct breaker *breakers_next(const struct breakers *all, size_t *pos)
{
    return map_next(&all->by_kind, pos, NULL, NULL);
}

/* NULL: there are too many kinds, or no memory; then this one goes without. */
static struct breaker *find_or_make(struct breakers *all, const char *kind)
{
    struct breaker *b = breakers_find(all, kind);

    if (b != NULL)
        return b;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return NULL;
    b->kind = strdup(kind);
    if (b->kind == NULL || map_put(&all->by_kind, kind, strlen(kind), b) < 0) {
        breaker_free(b);
        return NULL;
    }
    return b;
}

static int64_t slice_of(const struct breakers *all, int64_t now_us)
{
    int64_t slice_us = all->options.window_ms * US_PER_MS / BREAKER_SLICES;

    return now_us / (slice_us > 0 ? slice_us : 1) + 1; /* 0 is a slice that was never used */
}

void breaker_window(const struct breakers *all,
                    const struct breaker *b,
                    int64_t now_us,
                    uint64_t *ret_runs,
                    uint64_t *ret_errors)
{
    int64_t now = slice_of(all, now_us);
    uint64_t runs = 0;
    uint64_t errors = 0;

    for (size_t i = 0; i < BREAKER_SLICES; i++) {
        if (b->slices[i].number == 0 || now - b->slices[i].number >= BREAKER_SLICES)
            continue;
        runs += b->slices[i].runs;
        errors += b->slices[i].errors;
    }
    *ret_runs = runs;
    *ret_errors = errors;
}

static void count(struct breakers *all, struct breaker *b, bool error, int64_t now_us)
{
    int64_t number = slice_of(all, now_us);
    size_t i = (size_t)(number % BREAKER_SLICES);

    if (b->slices[i].number != number) {
        b->slices[i].number = number;
        b->slices[i].runs = b->slices[i].errors = 0;
    }
    b->slices[i].runs++;
    b->slices[i].errors += error;
}

static enum breaker_change
open_for(struct breakers *all, struct breaker *b, int64_t open_ms, int64_t now_us)
{
    if (b->state == BREAKER_CLOSED)
        all->n_open++;
    b->state = BREAKER_OPEN;
    b->open_ms = open_ms < all->options.open_max_ms ? open_ms : all->options.open_max_ms;
    b->until_us = now_us + b->open_ms * US_PER_MS;
    return BREAKER_OPENED;
}

static enum breaker_change
report_closed(struct breakers *all, struct breaker *b, bool error, int64_t now_us)
{
    uint64_t runs;
    uint64_t errors;

    count(all, b, error, now_us);
    if (!error)
        return BREAKER_UNCHANGED;
    breaker_window(all, b, now_us, &runs, &errors);
    if (runs < all->options.min_runs || errors * 100 < runs * (uint64_t)all->options.percent)
        return BREAKER_UNCHANGED;
    return open_for(all, b, all->options.open_ms, now_us);
}

static enum breaker_change
report_probe(struct breakers *all, struct breaker *b, enum breaker_report report, int64_t now_us)
{
    b->probing--;
    if (report == BREAKER_ERROR)
        return open_for(all, b, 2 * b->open_ms, now_us);
    if (report == BREAKER_FINE && ++b->passed >= all->options.probes) {
        b->state = BREAKER_CLOSED;
        all->n_open--;
        memset(b->slices, 0, sizeof(b->slices)); /* what was before is forgiven */
        return BREAKER_MENDED;
    }
    return BREAKER_UNCHANGED;
}

enum breaker_change breakers_report(struct breakers *all,
                                    const char *kind,
                                    enum breaker_report report,
                                    unsigned probe,
                                    int64_t now_us,
                                    struct breaker **ret_breaker)
{
    bool counts = report != BREAKER_NOTHING;
    struct breaker *b = counts ? find_or_make(all, kind) : breakers_find(all, kind);
    enum breaker_change change = BREAKER_UNCHANGED;

    if (b == NULL)
        return change;
    if (b->state == BREAKER_CLOSED && counts)
        change = report_closed(all, b, report == BREAKER_ERROR, now_us);
    else if (b->state == BREAKER_HALF && probe != 0 && probe == b->round)
        change = report_probe(all, b, report, now_us);
    *ret_breaker = b;
    return change;
}

enum breaker_change breaker_tick(struct breaker *b, int64_t now_us)
{
    if (b->state != BREAKER_OPEN || now_us < b->until_us)
        return BREAKER_UNCHANGED;
    b->state = BREAKER_HALF;
    if (++b->round == 0)
        b->round = 1;
    b->probing = b->passed = 0;
    b->next_queue = b->n_empty = 0;
    b->look_us = now_us;
    b->look_ms = 0;
    return BREAKER_HALVED;
}

size_t breaker_room(const struct breakers *all, const struct breaker *b)
{
    unsigned taken = b->probing + b->passed;

    return b->state == BREAKER_HALF && taken < all->options.probes ? all->options.probes - taken
                                                                   : 0;
}

void breaker_looked(struct breaker *b, bool found, size_t n_queues, int64_t now_us)
{
    b->next_queue++;
    if (found) {
        b->n_empty = 0;
        b->look_ms = 0;
        return;
    }
    if (++b->n_empty < n_queues)
        return;
    b->n_empty = 0;
    b->look_ms = b->look_ms > 0 ? 2 * b->look_ms : BREAKER_LOOK_MS;
    if (b->look_ms > BREAKER_LOOK_MAX_MS)
        b->look_ms = BREAKER_LOOK_MAX_MS;
    b->look_us = now_us + b->look_ms * US_PER_MS;
}

unsigned breaker_probe(struct breaker *b)
{
    b->probing++;
    return b->round;
}
