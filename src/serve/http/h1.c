/*
 * h1: the requests of one connection in order. While a request is being answered the parser stands
 * still and nothing is read: bytes that came behind the request wait in `rest`, at most one read's
 * worth.
 */
#include "serve/http/h1.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ctype.h>
#include <http_parser.h>

#include "base/arena.h"
#include "base/clock.h"
#include "serve/http/exchange.h"
#include "serve/net/peer.h"
#include "wire/queue.h"

#define FIELDS_MAX  64
#define REST_MAX    IO_INPUT_SIZE
#define ANSWER_HEAD 2048
#define TARGET_MAX  8192

struct h1_field {
    const char *name; /* in the arena; lower case */
    const char *value;
};

struct h1 {
    struct peer *peer;
    struct http *http;
    http_parser parser;
    struct rpc_peer who;
    struct http_exchange exchange;
    struct arena arena; /* of one request's head */
    struct buf target;
    struct buf name;  /* of the header being read */
    struct buf value; /* of the same header */
    struct h1_field fields[FIELDS_MAX];
    size_t n_fields;
    size_t header_bytes;
    struct buf rest;
    struct queue queue;
    int64_t begun_us; /* when the head of this request began, or the connection became idle */
    int refusal;      /* the status that refuses the request; 0: none */
    bool in_request;
    bool in_value;
    bool keep_alive;
    bool busy;    /* a request is being answered */
    bool chunked; /* pieces are sent, each with its length */
    bool closing; /* this answer is the last */
};

static const struct http_sink h1_sink;

/* ── the parser's callbacks ── */

static int on_begin(http_parser *parser)
{
    struct h1 *h1 = parser->data;

    arena_clear(&h1->arena);
    buf_clear(&h1->target);
    buf_clear(&h1->name);
    buf_clear(&h1->value);
    h1->n_fields = h1->header_bytes = 0;
    h1->refusal = 0;
    h1->in_request = true;
    h1->in_value = false;
    h1->begun_us = h1->peer->net->now_us;
    return 0;
}

/* A whole header was read. */
static void keep_field(struct h1 *h1)
{
    if (!h1->in_value)
        return;
    h1->in_value = false;
    if (h1->n_fields == FIELDS_MAX || h1->name.failed || h1->value.failed) {
        h1->refusal = 431;
    } else {
        for (size_t i = 0; i < h1->name.len; i++)
            h1->name.data[i] = (char)tolower((unsigned char)h1->name.data[i]);
        struct h1_field field = {arena_strdup(&h1->arena, buf_str(&h1->name)),
                                 arena_strdup(&h1->arena, buf_str(&h1->value))};
        if (field.name != NULL && field.value != NULL)
            h1->fields[h1->n_fields++] = field;
        else
            h1->refusal = 431;
    }
    buf_clear(&h1->name);
    buf_clear(&h1->value);
}

static int count_head(struct h1 *h1, size_t len)
{
    h1->header_bytes += len;
    if (h1->header_bytes <= (size_t)h1->http->limits->header_bytes)
        return 0;
    h1->refusal = 431;
    return -1;
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    struct h1 *h1 = parser->data;

    buf_append(&h1->target, at, len);
    return count_head(h1, len);
}

static int on_field(http_parser *parser, const char *at, size_t len)
{
    struct h1 *h1 = parser->data;

    keep_field(h1);
    buf_append(&h1->name, at, len);
    return count_head(h1, len);
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
    struct h1 *h1 = parser->data;

    h1->in_value = true;
    buf_append(&h1->value, at, len);
    return count_head(h1, len);
}

static const char *h1_header(const void *data, const char *name)
{
    const struct h1 *h1 = data;

    for (size_t i = 0; i < h1->n_fields; i++)
        if (strcmp(h1->fields[i].name, name) == 0)
            return h1->fields[i].value;
    return NULL;
}

static int on_head(http_parser *parser)
{
    struct h1 *h1 = parser->data;

    keep_field(h1);
    h1->exchange = (struct http_exchange){.sink = &h1_sink, .stream = h1, .peer = &h1->who};
    if (h1->target.failed)
        h1->refusal = 431;
    if (exchange_init(&h1->exchange,
                      h1->http,
                      http_method_str((enum http_method)parser->method),
                      buf_str(&h1->target)) < 0)
        return -1;
    parser->upgrade = 0; /* the answer says that there is no upgrade */
    h1->keep_alive = http_should_keep_alive(parser) != 0;
    if (h1->refusal)
        return -1;
    if (parser->content_length != UINT64_MAX &&
        parser->content_length > (uint64_t)h1->http->limits->body_bytes) {
        h1->refusal = 413;
        return -1;
    }
    const char *expect = h1_header(h1, "expect");
    if (expect != NULL && strcasecmp(expect, "100-continue") == 0) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        uint8_t *room = queue_reserve(&h1->queue, sizeof(go_on) - 1);
        if (room == NULL)
            return -1;
        memcpy(room, go_on, sizeof(go_on) - 1);
    }
    return 0;
}

static int on_body(http_parser *parser, const char *at, size_t len)
{
    struct h1 *h1 = parser->data;

    if (buf_append(&h1->exchange.body, at, len) == 0)
        return 0;
    h1->refusal = 413;
    return -1;
}

static int on_complete(http_parser *parser)
{
    struct h1 *h1 = parser->data;

    h1->in_request = false;
    h1->busy = true;
    http_parser_pause(parser, 1);
    return 0;
}

static const http_parser_settings settings = {
    .on_message_begin = on_begin,
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

/* ── answers ── */

/* The request is answered. The flush parses `rest`, never a handler. */
static void h1_over(struct h1 *h1)
{
    h1->busy = false;
    h1->begun_us = h1->peer->net->now_us;
}

static void h1_answer(void *data, const struct http_answer *answer)
{
    struct h1 *h1 = data;
    char storage[ANSWER_HEAD];
    struct buf head;

    bool newer = h1->parser.http_major > 1 || h1->parser.http_minor > 0;
    if (h1->peer->draining || !h1->keep_alive || (answer->begins && !newer))
        h1->closing = true;
    h1->chunked = answer->begins && newer;
    buf_init_fixed(&head, storage, sizeof(storage));
    buf_printf(&head, "HTTP/1.1 %d %s\r\n", answer->status, http_status_text(answer->status));
    buf_printf(&head, "content-type: %s\r\n", answer->content_type);
    if (h1->chunked)
        buf_puts(&head, "transfer-encoding: chunked\r\n");
    else if (!answer->begins)
        buf_printf(&head, "content-length: %zu\r\n", answer->len);

    for (size_t i = 0; i < answer->n_extra; i++)
        buf_printf(&head, "%s: %s\r\n", answer->extra[i].name, answer->extra[i].value);
    buf_puts(&head, h1->closing ? "connection: close\r\n\r\n" : "\r\n");
    size_t body_len = answer->body != NULL ? answer->len : 0;
    uint8_t *room = head.failed ? NULL : queue_reserve(&h1->queue, head.len + body_len);
    if (room == NULL) {
        peer_kill(h1->peer);
        return;
    }
    memcpy(room, head.data, head.len);
    if (body_len > 0)
        memcpy(room + head.len, answer->body, body_len);
    if (answer->begins)
        peer_watch(h1->peer, true);
    else
        h1_over(h1);
    peer_dirty(h1->peer);
}

static int h1_write(void *data, const void *bytes, size_t len)
{
    struct h1 *h1 = data;
    char length[24] = "";
    size_t n = h1->chunked ? (size_t)snprintf(length, sizeof(length), "%zx\r\n", len) : 0;
    size_t tail = h1->chunked ? 2 : 0;

    uint8_t *room = queue_reserve(&h1->queue, n + len + tail);
    if (room == NULL)
        return PAWL_ENOMEM;
    memcpy(room, length, n);
    memcpy(room + n, bytes, len);
    memcpy(room + n + len, "\r\n", tail);
    peer_dirty(h1->peer);
    return 0;
}

static void h1_end(void *data)
{
    static const char last[] = "0\r\n\r\n";
    struct h1 *h1 = data;
    uint8_t *room = h1->chunked ? queue_reserve(&h1->queue, sizeof(last) - 1) : NULL;

    if (room != NULL)
        memcpy(room, last, sizeof(last) - 1);
    else
        h1->closing =
            /* the connection ends: without memory the client sees that something is missing */
            true;
    peer_watch(h1->peer, false);
    h1_over(h1);
    peer_dirty(h1->peer);
}

static size_t h1_queued(const void *data)
{
    const struct h1 *h1 = data;

    return h1->queue.len;
}

static const struct http_sink h1_sink = {.answer = h1_answer,
                                         .header = h1_header,
                                         .write = h1_write,
                                         .end = h1_end,
                                         .queued = h1_queued};

/* Answers a request that cannot be taken, and ends the connection. */
static void refuse(struct h1 *h1, enum http_errno error)
{
    int status = h1->refusal ? h1->refusal : error == HPE_HEADER_OVERFLOW ? 431 : 400;

    if (h1->exchange.target == NULL) {
        h1->exchange = (struct http_exchange){.sink = &h1_sink, .stream = h1, .peer = &h1->who};
        if (exchange_init(&h1->exchange, h1->http, "GET", "/") < 0)
            return;
    }
    h1->keep_alive = false;
    h1->in_request = false;
    h1->busy = true;
    if (status == 413)
        http_reply_text(&h1->exchange,
                        413,
                        "the body is larger than the limit of %zu bytes",
                        h1->exchange.body.max);
    else if (status == 431)
        http_reply_text(&h1->exchange, 431, "the headers are larger than the limit");
    else
        http_reply_text(&h1->exchange, 400, "this is not HTTP: %s", http_errno_description(error));
}

static void dispatch(struct h1 *h1)
{
    if (http_is_rpc(h1_header(h1, "content-type")))
        http_reply_text(&h1->exchange, 415, "calls need HTTP/2, and this is HTTP/1.1");
    else
        exchange_dispatch(&h1->exchange);
}

/* Parses until a request waits for its answer. Negative: no more input is taken. */
static int h1_parse(struct h1 *h1, const uint8_t *data, size_t len)
{
    while (len > 0) {
        if (h1->closing)
            return 0; /* bytes behind the last request are ignored */
        if (h1->busy)
            return buf_append(&h1->rest, data, len);
        http_parser_pause(&h1->parser, 0);
        size_t n = http_parser_execute(&h1->parser, &settings, (const char *)data, len);
        enum http_errno error = HTTP_PARSER_ERRNO(&h1->parser);
        if (error != HPE_OK && error != HPE_PAUSED) {
            refuse(h1, error);
            return PAWL_EINVAL;
        }
        data += n;
        len -= n;
        if (h1->busy) {
            dispatch(h1);
            if (!h1->busy)
                exchange_deinit(&h1->exchange);
        }
    }
    return 0;
}

static int h1_input(struct peer *peer, const uint8_t *data, size_t len)
{
    struct h1 *h1 = peer->state;
    int rc = h1_parse(h1, data, len);

    if (h1->busy)
        peer_pause(peer, true);
    peer_dirty(peer);
    return rc;
}

/* Parses what waited behind a request that has been answered by now. */
static int h1_resume(struct h1 *h1)
{
    if (h1->busy)
        return 0;
    exchange_deinit(&h1->exchange);
    if (h1->rest.len > 0) {
        struct buf rest = h1->rest;
        buf_init(&h1->rest, REST_MAX);
        int rc = h1_parse(h1, (const uint8_t *)rest.data, rest.len);
        buf_deinit(&rest);
        if (rc < 0)
            peer_close(h1->peer);
    }
    if (!h1->busy && h1->peer->paused)
        peer_pause(h1->peer, false);
    return 0;
}

static int h1_output(struct peer *peer, struct buf *out)
{
    struct h1 *h1 = peer->state;

    if (!h1->in_request)
        (void)h1_resume(h1);
    if (h1->queue.len == 0)
        return 0;
    size_t n = h1->queue.len < IO_CHUNK ? h1->queue.len : IO_CHUNK;
    char *room = buf_reserve(out, n);
    if (room == NULL)
        return PAWL_ENOMEM;
    buf_wrote(out, queue_take(&h1->queue, room, n));
    if (h1->busy && h1->exchange.starved &&
        h1->queue.len < (size_t)h1->http->limits->queue_bytes / 2)
        exchange_writable(&h1->exchange);
    return 0;
}

static bool h1_finished(const struct peer *peer)
{
    const struct h1 *h1 = peer->state;

    if (h1->busy || h1->queue.len > 0)
        return false;
    return h1->closing || peer->eof || (peer->draining && !h1->in_request);
}

static void h1_drain(struct peer *peer)
{
    struct h1 *h1 = peer->state;

    if (h1->busy)
        exchange_drain(&h1->exchange);
    peer_dirty(peer); /* finished() looks at peer->draining */
}

static void h1_tick(struct peer *peer, int64_t now_us)
{
    struct h1 *h1 = peer->state;
    const struct serve_limits *limits = h1->http->limits;
    int64_t limit_ms = h1->in_request ? limits->handshake_ms : limits->idle_ms;

    if (h1->busy || limit_ms == 0 || now_us - h1->begun_us <= limit_ms * US_PER_MS)
        return;
    peer->net->counters.timed_out += h1->in_request;
    peer_close(peer);
}

static void h1_close(struct peer *peer)
{
    struct h1 *h1 = peer->state;

    exchange_deinit(&h1->exchange);
    arena_deinit(&h1->arena);
    buf_deinit(&h1->target);
    buf_deinit(&h1->name);
    buf_deinit(&h1->value);
    buf_deinit(&h1->rest);
    queue_deinit(&h1->queue);
    free(h1);
    peer->state = NULL;
}

static const struct peer_protocol h1_protocol = {
    .input = h1_input,
    .output = h1_output,
    .finished = h1_finished,
    .tick = h1_tick,
    .drain = h1_drain,
    .close = h1_close,
    .answers_after_eof = true,
};

int h1_attach(struct peer *peer, struct http *http)
{
    struct h1 *h1 = calloc(1, sizeof(*h1));
    size_t head = (size_t)http->limits->header_bytes;

    if (h1 == NULL)
        return PAWL_ENOMEM;
    h1->peer = peer;
    h1->http = http;
    h1->who = (struct rpc_peer){
        .address = peer->address,
        .subject = peer->io.tls != NULL ? tls_session_subject(peer->io.tls) : NULL,
        .tls = peer->io.tls != NULL,
    };
    arena_init(&h1->arena, 2 * head + FIELDS_MAX * 64);
    buf_init(&h1->target, TARGET_MAX);
    buf_init(&h1->name, head);
    buf_init(&h1->value, head);
    buf_init(&h1->rest, REST_MAX);
    h1->queue.total = &http->queued;
    h1->begun_us = peer->net->now_us;
    http_parser_init(&h1->parser, HTTP_REQUEST);
    h1->parser.data = h1;
    peer->protocol = &h1_protocol;
    peer->state = h1;
    return 0;
}
