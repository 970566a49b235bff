/*
 * conn_proxy: stand-ins for the network, on the test's own loop: a port that relays to the real
 * server, and can stop relaying, swallow what the server says and cut; a port that accepts and
 * closes. Header only.
 */
#ifndef TESTS_CONN_PROXY_H
#define TESTS_CONN_PROXY_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "conn_fixture.h"

#define PROXY_LINKS_MAX 64
#define PROXY_CHUNK     65536
#define PROXY_RECORD    65536

enum proxy_mode {
    PROXY_RELAY,
    PROXY_CUT_ON_ANSWER,    /* the next bytes from the server are lost, and the link with them */
    PROXY_CUT_BEFORE_READY, /* all the server says gets through but the end of the transaction */
    PROXY_HOLD,             /* both sides stay open and hear nothing any more */
    PROXY_STALL,            /* the proxy does not even read any more */
    PROXY_REFUSE,           /* accepts and closes at once */
};

struct proxy;

struct proxy_link {
    struct proxy *proxy;
    uv_tcp_t client;
    uv_pipe_t server;
    bool used;
    bool closing;
    int open; /* handles that libuv still holds */
};

struct proxy {
    struct fixture *f;
    uv_tcp_t listener;
    enum proxy_mode mode;
    char socket[256];   /* the server's */
    char conninfo[768]; /* the way through the proxy */
    int accepted;
    int held; /* chunks from the client that were not passed on */

    struct {
        char data[PROXY_RECORD];
        size_t n;
    } said[2]; /* what was passed on, of all links: by the client, by the server */
    struct proxy_link links[PROXY_LINKS_MAX];
    char chunk[PROXY_CHUNK];
};

struct proxy_write {
    uv_write_t req;
    struct proxy_link *cut; /* after it; may be NULL */
    char data[];
};

static inline void proxy_link_closed(uv_handle_t *handle)
{
    struct proxy_link *link = handle->data;
    if (--link->open == 0)
        link->used = false;
}

static inline void proxy_cut(struct proxy_link *link)
{
    if (!link->used || link->closing)
        return;
    link->closing = true;
    uv_close((uv_handle_t *)&link->client, proxy_link_closed);
    uv_close((uv_handle_t *)&link->server, proxy_link_closed);
}

static inline void proxy_cut_all(struct proxy *proxy)
{
    for (int i = 0; i < PROXY_LINKS_MAX; i++)
        proxy_cut(&proxy->links[i]);
}

static inline void proxy_alloc_cb(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)size;
    struct proxy_link *link = handle->data;
    *buf = uv_buf_init(link->proxy->chunk, PROXY_CHUNK);
}

static inline void proxy_wrote_cb(uv_write_t *req, int status)
{
    (void)status;
    struct proxy_write *w = (struct proxy_write *)req;
    if (w->cut != NULL)
        proxy_cut(w->cut);
    free(w);
}

/* ReadyForQuery: the answer to a sync. */
static inline bool proxy_ends_ready(const char *data, ssize_t n)
{
    return n >= 6 && memcmp(data + n - 6, "Z\0\0\0\5", 5) == 0;
}

static inline void proxy_read_cb(uv_stream_t *from, ssize_t n, const uv_buf_t *buf)
{
    struct proxy_link *link = from->data;
    struct proxy *proxy = link->proxy;
    bool from_server = from == (uv_stream_t *)&link->server;
    if (n == 0 || link->closing)
        return;
    if (n < 0 || (from_server && proxy->mode == PROXY_CUT_ON_ANSWER)) {
        proxy_cut(link);
        return;
    }
    if (proxy->mode == PROXY_HOLD || proxy->mode == PROXY_STALL) {
        proxy->held += !from_server;
        if (proxy->mode == PROXY_STALL)
            uv_read_stop(from);
        return;
    }
    struct proxy_link *cut = NULL;
    if (from_server && proxy->mode == PROXY_CUT_BEFORE_READY && proxy_ends_ready(buf->base, n)) {
        n -= 6;
        cut = link;
    }
    if (proxy->said[from_server].n + (size_t)n <= PROXY_RECORD) {
        memcpy(proxy->said[from_server].data + proxy->said[from_server].n, buf->base, (size_t)n);
        proxy->said[from_server].n += (size_t)n;
    }
    struct proxy_write *w = malloc(sizeof(*w) + (size_t)n);
    assert_non_null(w);
    w->cut = cut;
    memcpy(w->data, buf->base, (size_t)n);
    uv_buf_t out = uv_buf_init(w->data, (unsigned)n);
    uv_write(&w->req,
             from_server ? (uv_stream_t *)&link->client : (uv_stream_t *)&link->server,
             &out,
             1,
             proxy_wrote_cb);
}

static inline void proxy_connected_cb(uv_connect_t *req, int status)
{
    struct proxy_link *link = req->data;
    free(req);
    if (status != 0) {
        if (status != UV_ECANCELED)
            proxy_cut(link);
        return;
    }
    uv_read_start((uv_stream_t *)&link->client, proxy_alloc_cb, proxy_read_cb);
    uv_read_start((uv_stream_t *)&link->server, proxy_alloc_cb, proxy_read_cb);
}

static inline void proxy_accept_cb(uv_stream_t *listener, int status)
{
    struct proxy *proxy = listener->data;
    struct proxy_link *link = NULL;
    assert_int_equal(status, 0);
    for (int i = 0; i < PROXY_LINKS_MAX && link == NULL; i++) {
        if (!proxy->links[i].used)
            link = &proxy->links[i];
    }
    assert_non_null(link);
    *link = (struct proxy_link){.proxy = proxy, .used = true, .open = 2};
    uv_tcp_init(listener->loop, &link->client);
    uv_pipe_init(listener->loop, &link->server, 0);
    link->client.data = link;
    link->server.data = link;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&link->client), 0);
    proxy->accepted++;
    if (proxy->mode == PROXY_REFUSE) {
        proxy_cut(link);
        return;
    }
    uv_connect_t *req = malloc(sizeof(*req));
    assert_non_null(req);
    req->data = link;
    uv_pipe_connect(req, &link->server, proxy->socket, proxy_connected_cb);
}

/* The way to the test's database through 127.0.0.1:port. */
static inline void proxy_conninfo(struct proxy *proxy, int port)
{
    snprintf(proxy->conninfo,
             sizeof(proxy->conninfo),
             "%s host=127.0.0.1 port=%d sslmode=disable gssencmode=disable",
             proxy->f->db.conninfo,
             port);
}

/* By the fixture's teardown, so that a test that fails half way leaves nothing on the loop. */
static inline void proxy_stop(void *data)
{
    struct proxy *proxy = data;
    proxy->mode = PROXY_REFUSE;
    proxy_cut_all(proxy);
    if (!uv_is_closing((uv_handle_t *)&proxy->listener))
        uv_close((uv_handle_t *)&proxy->listener, NULL);
}

static inline struct proxy *proxy_new(struct fixture *f)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    assert_non_null(proxy);
    proxy->f = f;
    snprintf(proxy->socket,
             sizeof(proxy->socket),
             "%s/.s.PGSQL.%s",
             PQhost(f->db.conn),
             PQport(f->db.conn));
    struct sockaddr_in addr;
    int len = sizeof(addr);
    uv_ip4_addr("127.0.0.1", 0, &addr);
    uv_tcp_init(&f->loop, &proxy->listener);
    proxy->listener.data = proxy;
    assert_int_equal(uv_tcp_bind(&proxy->listener, (const struct sockaddr *)&addr, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&proxy->listener, 16, proxy_accept_cb), 0);
    uv_tcp_getsockname(&proxy->listener, (struct sockaddr *)&addr, &len);
    proxy_conninfo(proxy, ntohs(addr.sin_port));
    f->network = proxy;
    f->network_stop = proxy_stop;
    return proxy;
}

#endif
