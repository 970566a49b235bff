/* wish: what operators want of workers, read whenever a notification says that it changed; and
 * presence, written beside the server's own row when it changed, at most once in a few seconds.
 * Idle workers cost nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "serve/dispatch/dispatch_internal.h"
#include "store/statements.h"

#define PRESENCE_US        (5LL * US_PER_S)
#define PRESENCE_SOON_US   (1LL * US_PER_S) /* after a worker came or went */
#define PRESENCE_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define NAMES_SHOWN_MAX    20

/* ── wishes ── */

static void forget_wishes(struct dispatch *d)
{
    size_t pos = 0;
    void *wish;

    while ((wish = map_next(&d->wishes, &pos, NULL, NULL)) != NULL)
        free(wish);
    map_deinit(&d->wishes);
    map_init(&d->wishes, 10000);
}

static void read_wishes(struct dispatch *d, const PGresult *r)
{
    forget_wishes(d);
    for (int row = 0; row < PQntuples(r); row++) {
        struct worker_wish *wish = calloc(1, sizeof(*wish));
        const char *worker;

        if (wish == NULL)
            return;
        worker_wishes_row(r, row, &worker, wish);
        if (map_put(&d->wishes, worker, strlen(worker), wish) < 0)
            free(wish);
    }
}

static void ask_wishes(struct dispatch *d);

static void on_wishes(void *data, const struct batch_end *end)
{
    struct dispatch *d = data;
    struct stream *stream = NULL;

    d->asking_wishes = false;
    if (end->verdict != PG_VERDICT_OK) {
        /* A new connection reads the wishes again. */
        log_warn_err(d->options.log, "worker_wishes", end->err, LOG_INT("tries", 1));
        return;
    }
    read_wishes(d, end->results[0]);
    while ((stream = streams_next(&d->streams, stream)) != NULL)
        stream_apply_wish(stream, wish_of(d, stream->worker));
    if (d->wishes_again)
        ask_wishes(d);
}

static void ask_wishes(struct dispatch *d)
{
    struct batch *batch = batch_new(d->conn);

    d->wishes_again = false;
    if (batch == NULL || batch_add(batch, STMT(worker_wishes)) == NULL) {
        batch_free(batch);
        return;
    }
    d->asking_wishes = true;
    batch_submit(batch, DISPATCH_DEADLINE_MS, on_wishes, d);
}

void wish_on_notify(struct dispatch *d, const char *channel, const char *payload)
{
    (void)channel;
    (void)payload; /* all wishes are read: there are few */
    if (d->asking_wishes)
        d->wishes_again = true;
    else
        ask_wishes(d);
}

const struct worker_wish *wish_of(const struct dispatch *d, const char *worker)
{
    return map_get(&d->wishes, worker, strlen(worker));
}

/* ── presence ── */

static void put_names(struct json_writer *w, const char *const *names, size_t n)
{
    char text[2048];
    struct buf out;

    buf_init_fixed(&out, text, sizeof(text));
    for (size_t i = 0; i < n && i < NAMES_SHOWN_MAX; i++)
        buf_printf(&out, "%s%s", i > 0 ? "," : "", names[i]);
    if (n > NAMES_SHOWN_MAX)
        buf_puts(&out, ",...");
    json_str(w, buf_str(&out));
}

static void put_stream(struct json_writer *w, const struct stream *stream)
{
    json_object_begin(w);
    json_key(w, "id");
    json_str(w, stream->worker);
    json_key(w, "name");
    json_str(w, stream->name);
    json_key(w, "queues");
    put_names(w, stream->queues, stream->n_queues);
    json_key(w, "kinds");
    put_names(w, stream->kinds, stream->n_kinds);
    json_key(w, "address");
    json_str(w, stream->address);
    json_key(w, "credits");
    json_int(w, stream->credits);
    json_key(w, "running");
    json_int(w, stream->used);
    if (stream->per_1000_s > 0) {
        char rate[32];

        snprintf(rate, sizeof(rate), "%g", (double)stream->per_1000_s / 1000);
        json_key(w, "rate_per_s");
        json_str(w, rate);
    }
    json_key(w, "ended");
    json_int(w, (int64_t)stream->ended);
    json_key(w, "draining");
    json_bool(w, stream->draining);
    json_key(w, "since_us");
    json_int(w, stream->since_us);
    json_object_end(w);
}

static void on_told(void *data, const struct batch_end *end)
{
    struct dispatch *d = data;

    /* The presence is written beside the server's own row; without that row it is tried again. */
    if (end->verdict == PG_VERDICT_OK && PQntuples(end->results[0]) > 0) {
        free(d->presence);
        d->presence = d->presence_sent;
    } else {
        free(d->presence_sent);
    }
    d->presence_sent = NULL;
}

void wish_tick(struct dispatch *d)
{
    int64_t now_us = dispatch_now_us();
    struct stream *stream = NULL;
    struct batch *batch;
    struct params *params;
    struct json_writer w;
    struct buf out;

    if (d->presence_sent != NULL ||
        now_us - d->presence_us < (d->crowd_changed ? PRESENCE_SOON_US : PRESENCE_US) ||
        !dispatch_connected(d))
        return;
    d->presence_us = now_us;
    d->crowd_changed = false;
    /* Without LISTEN there are no notifications. */
    if ((d->options.unprepared || primary_pooled(d->options.primary)) && !d->asking_wishes)
        ask_wishes(d);
    buf_init(&out, PRESENCE_BYTES_MAX);
    json_init(&w, &out);
    json_array_begin(&w);
    while ((stream = streams_next(&d->streams, stream)) != NULL)
        put_stream(&w, stream);
    json_array_end(&w);
    if (out.failed || (d->presence != NULL && strcmp(d->presence, buf_str(&out)) == 0)) {
        buf_deinit(&out);
        return;
    }
    d->presence_sent = buf_take(&out, NULL);
    batch = batch_new(d->conn);
    params = batch != NULL ? batch_add(batch, STMT(worker_streams)) : NULL;
    if (params == NULL) {
        batch_free(batch);
        free(d->presence_sent);
        d->presence_sent = NULL;
        return;
    }
    worker_streams_bind(params, coordinator_worker(d->coordinator), d->presence_sent);
    batch_submit(batch, DISPATCH_DEADLINE_MS, on_told, d);
}

void wish_deinit(struct dispatch *d)
{
    forget_wishes(d);
    map_deinit(&d->wishes);
    free(d->presence);
    free(d->presence_sent);
}
