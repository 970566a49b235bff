/* sources: streams, the sources they share, and which stream of a source gets the next job. */
#include <stdlib.h>
#include <string.h>

#include "serve/dispatch/dispatch_internal.h"

#define BURST_SHARE 10 /* a tenth of a second's worth */

/* ── names ── */

static const char *intern(struct streams *streams, const char *text)
{
    size_t len = strlen(text);
    char *name = map_get(&streams->names, text, len);

    if (name != NULL)
        return name;
    name = strdup(text);
    if (name != NULL && map_put(&streams->names, text, len, name) < 0) {
        free(name);
        name = NULL;
    }
    return name;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorted names without duplicates; NULL: no memory, or too many names. */
static const char **
intern_all(struct streams *streams, const char *const *texts, size_t n, size_t *ret_n)
{
    const char **names = calloc(n > 0 ? n : 1, sizeof(*names));
    size_t kept = 0;

    for (size_t i = 0; names != NULL && i < n; i++) {
        names[i] = intern(streams, texts[i]);
        if (names[i] == NULL) {
            free(names);
            return NULL;
        }
    }
    if (names == NULL)
        return NULL;
    qsort(names, n, sizeof(*names), by_text);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || names[kept - 1] != names[i])
            names[kept++] = names[i];
    }
    *ret_n = kept;
    return names;
}

/* ── sources ── */

static bool
is_source(const struct source *source, const char *queue, const char *const *kinds, size_t n_kinds)
{
    return source->queue == queue && source->n_kinds == n_kinds &&
           memcmp(source->kinds, kinds, n_kinds * sizeof(*kinds)) == 0;
}

static struct source *source_new(const char *queue, const char *const *kinds, size_t n_kinds)
{
    struct source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return NULL;
    source->kinds = calloc(n_kinds > 0 ? n_kinds : 1, sizeof(*kinds));
    if (source->kinds == NULL) {
        free(source);
        return NULL;
    }
    memcpy(source->kinds, kinds, n_kinds * sizeof(*kinds));
    source->n_kinds = n_kinds;
    source->queue = queue;
    for (size_t i = 0; i < STREAM_LEVELS; i++)
        list_init(&source->levels[i]);
    return source;
}

static void source_free(struct source *source)
{
    if (source != NULL)
        free(source->kinds);
    free(source);
}

/* Takes a new number, or that of a source without streams. */
static int source_add(struct streams *streams, struct source *source, size_t *ret_i)
{
    struct coordinator *c = streams->d->coordinator;

    for (size_t i = 0; i <= streams->n_sources && i < STREAMS_SOURCES_MAX; i++) {
        bool unused = i < streams->n_sources && streams->sources[i]->n_streams == 0;

        /* A source that was used lately may be wanted again soon: numbers are reused only when
         * half of them are taken. */
        if (i < streams->n_sources && (!unused || streams->n_sources < STREAMS_SOURCES_MAX / 2))
            continue;
        int rc = coordinator_set_source(c, i, source->queue, source->kinds, source->n_kinds);

        if (rc == PAWL_EFULL)
            continue;
        if (rc < 0)
            return rc;
        if (i == streams->n_sources)
            streams->n_sources++;
        else
            source_free(streams->sources[i]);
        streams->sources[i] = source;
        *ret_i = i;
        return 0;
    }
    return PAWL_EFULL;
}

static int source_find(struct streams *streams,
                       const char *queue,
                       const char *const *kinds,
                       size_t n_kinds,
                       size_t *ret_i)
{
    for (size_t i = 0; i < streams->n_sources; i++) {
        if (is_source(streams->sources[i], queue, kinds, n_kinds)) {
            *ret_i = i;
            return 0;
        }
    }
    struct source *source = source_new(queue, kinds, n_kinds);
    int rc = source != NULL ? source_add(streams, source, ret_i) : PAWL_ENOMEM;

    if (rc < 0)
        source_free(source);
    return rc;
}

/* ── load ── */

static size_t level_of(const struct stream *stream)
{
    if (stream->used == 0)
        return 0;
    size_t level = 1 + (size_t)stream->used * (STREAM_LEVELS - 2) / stream->credits;

    return level < STREAM_LEVELS ? level : STREAM_LEVELS - 1;
}

static uint32_t free_credits(const struct stream *stream)
{
    bool open = stream->begun && !stream->draining && !stream->stuffed;
    uint32_t now = open && stream->credits > stream->used ? stream->credits - stream->used : 0;

    return stream->per_1000_s > 0 && now > stream->allowed ? (uint32_t)stream->allowed : now;
}

void stream_update(struct stream *stream)
{
    struct streams *streams = &stream->d->streams;
    uint32_t now = free_credits(stream);

    for (size_t i = 0; i < stream->n_queues; i++) {
        struct seat *seat = &stream->seats[i];
        struct source *source = streams->sources[seat->source];

        source->room = source->room - stream->free + now;
        list_remove(&seat->link);
        if (now > 0) /* behind seats of the same load: round robin */
            list_push(&source->levels[level_of(stream)], &seat->link);
    }
    stream->free = now;
}

struct stream *streams_pick(struct streams *streams, size_t source)
{
    if (source >= streams->n_sources)
        return NULL;
    for (size_t i = 0; i < STREAM_LEVELS; i++) {
        struct list *level = &streams->sources[source]->levels[i];

        if (!list_empty(level))
            return LIST_ENTRY(level->next, struct seat, link)->stream;
    }
    return NULL;
}

/* ── rates ── */

uint32_t streams_burst(int64_t per_1000_s)
{
    int64_t burst = per_1000_s / BURST_SHARE / 1000; /* more than STREAMS_PACE_MS allow */

    return burst > 1 ? (uint32_t)burst : 1;
}

void stream_count_given(struct stream *stream)
{
    if (stream->per_1000_s > 0)
        stream->allowed -= 1;
}

void streams_set_rate(struct stream *stream, int64_t per_1000_s)
{
    stream->d->streams.n_paced += (per_1000_s > 0) - (size_t)(stream->per_1000_s > 0);
    stream->per_1000_s = per_1000_s;
    stream->allowed = 1;
    stream->allowed_us = clock_mono_us(stream->d->streams.clock);
    stream_update(stream);
}

void streams_pace(struct streams *streams)
{
    int64_t now_us = clock_mono_us(streams->clock);

    LIST_FOREACH(link, &streams->all) {
        struct stream *stream = LIST_ENTRY(link, struct stream, link);
        double burst = streams_burst(stream->per_1000_s);

        if (stream->per_1000_s == 0)
            continue;
        stream->allowed += (double)(now_us - stream->allowed_us) * (double)stream->per_1000_s /
                           (double)(1000 * US_PER_S);
        stream->allowed_us = now_us;
        if (stream->allowed > burst)
            stream->allowed = burst;
        if (free_credits(stream) != stream->free)
            stream_update(stream);
    }
}

/* ── streams ── */

static void stream_free(struct stream *stream)
{
    if (stream == NULL)
        return;
    free(stream->worker);
    free(stream->name);
    free(stream->queues);
    free(stream->kinds);
    free(stream->seats);
    free(stream);
}

static int check(const struct stream_options *options, struct pawl_err *err)
{
    if (options->n_queues == 0 || options->n_queues > STREAM_QUEUES_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "a stream for %zu queues, and the limit is %d",
                       options->n_queues,
                       STREAM_QUEUES_MAX);
    if (options->n_kinds == 0)
        return err_set(err, PAWL_EINVAL, "a stream for no kinds: there would be no job for it");
    if (options->n_kinds > STREAM_KINDS_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "a stream for %zu kinds, and the limit is %d",
                       options->n_kinds,
                       STREAM_KINDS_MAX);
    return 0;
}

static struct stream *stream_new(struct streams *streams, const struct stream_options *options)
{
    struct stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->d = streams->d;
    stream->until_empty = options->until_empty;
    stream->client = options->client;
    stream->credits = options->credits < STREAM_CREDITS_MAX ? options->credits : STREAM_CREDITS_MAX;
    list_init(&stream->link);
    list_init(&stream->runs);
    list_init(&stream->outbox);
    list_init(&stream->touched);
    stream->worker = strdup(options->worker);
    stream->name = strdup(options->name);
    stream->queues = intern_all(streams, options->queues, options->n_queues, &stream->n_queues);
    stream->kinds = intern_all(streams, options->kinds, options->n_kinds, &stream->n_kinds);
    stream->seats = calloc(options->n_queues, sizeof(*stream->seats));
    if (stream->worker == NULL || stream->name == NULL || stream->queues == NULL ||
        stream->kinds == NULL || stream->seats == NULL) {
        stream_free(stream);
        return NULL;
    }
    return stream;
}

int streams_open(struct streams *streams,
                 const struct stream_options *options,
                 struct stream **ret_stream,
                 struct pawl_err *err)
{
    int rc = check(options, err);
    struct stream *stream = rc == 0 ? stream_new(streams, options) : NULL;

    if (rc < 0)
        return rc;
    if (stream == NULL)
        return err_set(err, PAWL_EFULL, "no memory, or too many names, for the stream");
    for (size_t i = 0; rc == 0 && i < stream->n_queues; i++) {
        struct seat *seat = &stream->seats[i];

        list_init(&seat->link);
        seat->stream = stream;
        rc = source_find(streams, stream->queues[i], stream->kinds, stream->n_kinds, &seat->source);
        if (rc == 0)
            streams->sources[seat->source]->n_streams++;
        else
            stream->n_queues = i;
    }
    if (rc < 0) {
        for (size_t i = 0; i < stream->n_queues; i++)
            streams->sources[stream->seats[i].source]->n_streams--;
        stream_free(stream);
        err_set(err, PAWL_EFULL, "workers ask for too many different queues and sets of kinds");
        return err_hint(err, "Use another server, or the same kinds for more workers.");
    }
    list_push(&streams->all, &stream->link);
    streams->n++;
    *ret_stream = stream;
    return 0;
}

void stream_look(const struct stream *stream)
{
    for (size_t i = 0; stream->until_empty && i < stream->n_queues; i++)
        coordinator_wake_source(stream->d->coordinator, stream->seats[i].source);
}

bool streams_is_over(const struct stream *stream)
{
    if (!stream->until_empty || !stream->begun || stream->used > 0 || stream->n_reported > 0)
        return false;
    for (size_t i = 0; i < stream->n_queues; i++) {
        if (!coordinator_source_empty(stream->d->coordinator, stream->seats[i].source))
            return false;
    }
    return true;
}

void streams_begin(struct stream *stream)
{
    stream->begun = true;
    stream_look(stream);
    stream_update(stream);
}

void streams_close(struct stream *stream)
{
    struct streams *streams = &stream->d->streams;

    stream->draining = true;
    streams_set_rate(stream, 0);
    stream_drop_runs(stream);
    for (size_t i = 0; i < stream->n_queues; i++)
        streams->sources[stream->seats[i].source]->n_streams--;
    list_remove(&stream->touched);
    list_remove(&stream->link);
    streams->n--;
    stream_free(stream);
}

void streams_set_credits(struct stream *stream, uint32_t credits)
{
    stream->credits = credits < STREAM_CREDITS_MAX ? credits : STREAM_CREDITS_MAX;
    stream_update(stream);
}

void streams_drain(struct stream *stream)
{
    stream->draining = true;
    stream_update(stream);
}

struct stream *streams_next(const struct streams *streams, const struct stream *after)
{
    struct list *next = after != NULL ? after->link.next : streams->all.next;

    return next == &streams->all ? NULL : LIST_ENTRY(next, struct stream, link);
}

void streams_deinit(struct streams *streams)
{
    size_t pos = 0;
    void *value;

    for (size_t i = 0; i < streams->n_sources; i++)
        source_free(streams->sources[i]);
    while ((value = map_next(&streams->names, &pos, NULL, NULL)) != NULL)
        free(value);
    pos = 0;
    while ((value = map_next(&streams->runs, &pos, NULL, NULL)) != NULL) {
        struct stream_run *run = value;

        report_forget(run);
        free(run->worker);
        free(run);
    }
    map_deinit(&streams->names);
    map_deinit(&streams->runs);
}
