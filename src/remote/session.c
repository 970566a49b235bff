/*
 * session: one connection to the server, from looking up its name to its end: the socket, TLS, and why it
 * ended. wire/io.h reads and writes; http2.c has what is said on the connection.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <netdb.h>

#include "remote/channel_internal.h"

#define CONNECT_DEFAULT_MS   10000
#define KEEPALIVE_DEFAULT_MS 20000
#define KEEPALIVE_ANSWER_MS  10000
#define READS_MAX            4    /* of IO_INPUT_SIZE in one turn of the loop */
#define WRITES_MAX           8    /* of IO_CHUNK in one turn */
#define TLS_RECORD_ALERT     0x15 /* what a server that wants TLS answers to anything else */
#define TLS_WHY_LEN          256

/* A lookup outlives the session that wanted it: it cannot always be cancelled. */
struct resolving {
    uv_getaddrinfo_t request;
    struct channel *channel;
    struct session *session; /* NULL: nobody waits */
};

static const struct io_ops session_io;

static void poll_cb(uv_poll_t *poll, int status, int events);
static void connect_next(struct session *session, int errnum);

static int set_refused(struct session *session, struct pawl_err *err)
{
    return err_set(err,
                   PAWL_ECONN,
                   "could not connect to the server at %s",
                   session->channel->options.server->text);
}

static void kill_with(struct session *session, const char *detail, const char *hint)
{
    struct pawl_err err;

    if (session->state >= SESSION_OPEN)
        err_set(&err,
                PAWL_ECONN,
                "lost the connection to the server at %s",
                session->channel->options.server->text);
    else
        set_refused(session, &err);
    if (detail != NULL)
        err_detail(&err, "%s", detail);
    if (hint != NULL)
        err_hint(&err, "%s", hint);
    session_kill(session, &err);
}

struct session *session_new(struct channel *channel)
{
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    session->channel = channel;
    io_init(&session->io, &session_io, session, &channel->buffers);
    session->made_ms = session->read_ms = uv_now(channel->options.loop);
    list_init(&session->link);
    list_init(&session->calls);
    return session;
}

/* --- connecting --- */

static void poll_closed(uv_handle_t *handle)
{
    struct channel *channel = handle->data;

    free(handle);
    channel_handle_closed(channel);
}

static void drop_socket(struct session *session)
{
    if (session->poll != NULL) {
        session->poll->data = session->channel;
        uv_close((uv_handle_t *)session->poll, poll_closed);
    }
    session->poll = NULL;
    session->events = 0;
    if (session->io.fd >= 0)
        close(session->io.fd);
    session->io.fd = -1;
}

static void want(struct session *session)
{
    bool writable = session->io.blocked || session->more || session->state == SESSION_CONNECTING;
    int events = writable ? UV_WRITABLE : 0;

    if (session->state > SESSION_CONNECTING)
        events |= UV_READABLE;
    if (session->state == SESSION_DEAD || events == session->events)
        return;
    session->events = events;
    uv_poll_start(session->poll, events, poll_cb);
}

/* 0, or an errno. */
static int open_socket(struct session *session, const struct sockaddr *address, socklen_t len)
{
    struct channel *channel = session->channel;
    const int on = 1;

    session->io.fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (session->io.fd < 0)
        return errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(session->io.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    session->poll = calloc(1, sizeof(*session->poll));
    if (session->poll == NULL)
        return ENOMEM;
    if (uv_poll_init(channel->options.loop, session->poll, session->io.fd) < 0) {
        free(session->poll);
        session->poll = NULL;
        return ENOMEM;
    }
    channel->n_handles++;
    session->poll->data = session;
    session->state = SESSION_CONNECTING;
    if (connect(session->io.fd, address, len) < 0 && errno != EINPROGRESS)
        return errno == EAGAIN ? ECONNREFUSED : errno; /* a unix socket whose backlog is full */
    want(session);
    return 0;
}

static void connected(struct session *session)
{
    struct channel *channel = session->channel;

    session->state = SESSION_GREETING;
    if (channel->options.tls != NULL)
        session->io.tls = tls_session_connect(channel->options.tls, channel->options.server->host);
    if ((channel->options.tls != NULL && session->io.tls == NULL) || http2_new(session) < 0) {
        kill_with(session, "There is no memory for it.", NULL);
        return;
    }
    session->dirty = true;
    want(session);
}

/* The next of the addresses, after errnum kept us from the one before. */
static void connect_next(struct session *session, int errnum)
{
    while (session->next != NULL) {
        const struct addrinfo *address = session->next;

        session->next = address->ai_next;
        drop_socket(session);
        errnum = open_socket(session, address->ai_addr, address->ai_addrlen);
        if (errnum == 0)
            return;
    }
    struct pawl_err err;

    set_refused(session, &err);
    err_detail(&err, "%s.", strerror(errnum));
    if (errnum == ECONNREFUSED || errnum == ENOENT)
        err_hint(&err, "Is `pawl serve` running there?");
    session_kill(session, &err);
}

static void unresolved(struct session *session, const char *why)
{
    struct pawl_err err;

    set_refused(session, &err);
    err_detail(&err, "%s: %s.", session->channel->options.server->host, why);
    session_kill(session, &err);
}

static void resolved_cb(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
    struct resolving *resolving = (struct resolving *)(void *)request;
    struct session *session = resolving->session;
    struct channel *channel = resolving->channel;

    free(resolving);
    if (session == NULL) {
        uv_freeaddrinfo(addresses);
    } else {
        session->resolving = NULL;
        session->addresses = addresses;
        session->next = addresses;
        if (status < 0)
            unresolved(session, uv_strerror(status));
        else
            connect_next(session, 0);
    }
    channel_handle_closed(channel);
}

static void resolve(struct session *session)
{
    const struct address *server = session->channel->options.server;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct resolving *resolving;

    /* An address needs no thread to look it up. */
    if (getaddrinfo(server->host, server->port, &hints, &session->addresses) == 0) {
        session->next = session->addresses;
        connect_next(session, 0);
        return;
    }
    session->addresses = NULL;
    hints.ai_flags = 0;
    resolving = calloc(1, sizeof(*resolving));
    if (resolving == NULL) {
        unresolved(session, "out of memory");
        return;
    }
    resolving->session = session;
    resolving->channel = session->channel;
    int rc = uv_getaddrinfo(session->channel->options.loop,
                            &resolving->request,
                            resolved_cb,
                            server->host,
                            server->port,
                            &hints);
    if (rc < 0) {
        free(resolving);
        unresolved(session, uv_strerror(rc));
        return;
    }
    session->resolving = resolving;
    session->channel->n_handles++;
}

void session_begin(struct session *session)
{
    const struct address *server = session->channel->options.server;

    if (!server->is_unix) {
        resolve(session);
        return;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, server->host, strlen(server->host)); /* address_parse knows its size */
    int errnum = open_socket(session, (struct sockaddr *)&address, sizeof(address));

    if (errnum != 0)
        connect_next(session, errnum);
}

/* --- reading --- */

static int plain_input(void *data, const uint8_t *bytes, size_t len)
{
    struct session *session = data;

    session->dirty = true;
    if (len == 0 || session->state == SESSION_DEAD)
        return 0;
    if (!session->heard && session->io.tls == NULL && bytes[0] == TLS_RECORD_ALERT) {
        kill_with(session, "It wants TLS.", "Write https:// in front of its address.");
        return 0;
    }
    session->heard = true;
    return http2_input(session, bytes, len);
}

static void tls_trouble(struct session *session)
{
    char why[TLS_WHY_LEN];

    tls_session_why(session->io.tls, why, sizeof(why));
    if (strstr(why, "wrong version number") != NULL || strstr(why, "http request") != NULL)
        kill_with(session,
                  "It does not speak TLS.",
                  "Leave out https:// and --tls-ca, if the network between is to be trusted.");
    else if (strstr(why, "certificate") != NULL && strstr(why, "does not hold") != NULL) {
        struct pawl_err err;

        set_refused(session, &err);
        err_detail(&err, "TLS: %s.", why);
        err_hint(&err, "--tls-ca names the file of the authority that signed it.");
        session_kill(session, &err);
    } else {
        struct pawl_err err;

        set_refused(session, &err);
        err_detail(&err, "TLS: %s.", why);
        session_kill(session, &err);
    }
}

static void not_http2(struct session *session)
{
    bool met = session->state >= SESSION_OPEN;

    kill_with(session,
              met ? "What came is not HTTP/2." : "It does not speak HTTP/2.",
              met ? NULL : "Is it the address of `pawl serve`?");
}

/* was_ready: before these bytes came. */
static void refused(struct session *session, bool was_ready, int code)
{
    if (!was_ready && !io_ready(&session->io))
        tls_trouble(session);
    else if (code == PAWL_ECONN)
        kill_with(session, "It was closed by the server.", NULL);
    else
        not_http2(session);
}

static void broken(struct session *session, int errnum)
{
    bool closed = errnum == ECONNRESET || errnum == EPIPE;

    if (closed && session->state < SESSION_OPEN && session->io.tls == NULL)
        kill_with(session,
                  "It closed the connection at once.",
                  "Is it the address of `pawl serve`, and does it want TLS (https://)?");
    else
        kill_with(session, closed ? "It was closed by the server." : strerror(errnum), NULL);
}

static void readable(struct session *session)
{
    session->read_ms = uv_now(session->channel->options.loop);
    session->dirty |= session->io.tls != NULL;
    for (int i = 0; i < READS_MAX && session->state != SESSION_DEAD; i++) {
        bool was_ready = io_ready(&session->io);
        int code = 0;
        enum io_read result = io_read(&session->io, &code);

        if (result == IO_REFUSED)
            refused(session, was_ready, code);
        else if (result == IO_END)
            broken(session, session->io.errnum != 0 ? session->io.errnum : ECONNRESET);
        if (result != IO_MORE)
            return;
    }
}

static int socket_error(const struct session *session)
{
    int errnum = 0;
    socklen_t len = sizeof(errnum);

    return getsockopt(session->io.fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 ? errno : errnum;
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct session *session = poll->data;

    if (session->state == SESSION_CONNECTING) {
        int errnum = socket_error(session);

        if (errnum != 0)
            connect_next(session, errnum);
        else
            connected(session);
        return;
    }
    if (status < 0) { /* whatever libuv says, the socket knows better */
        int errnum = socket_error(session);

        broken(session, errnum != 0 ? errnum : ECONNRESET);
        return;
    }
    if (events & UV_WRITABLE) {
        session->io.blocked = session->more = false;
        session->dirty = true;
    }
    if (events & UV_READABLE)
        readable(session);
    want(session);
}

/* --- writing --- */

static int plain_output(void *data, struct buf *out)
{
    return http2_output(data, out);
}

static const struct io_ops session_io = {.input = plain_input, .output = plain_output};

void session_flush(struct session *session)
{
    if (!session->dirty || session->io.blocked || session->state < SESSION_GREETING ||
        session->state == SESSION_DEAD)
        return;
    session->dirty = false;
    int rc = io_write(&session->io, WRITES_MAX);

    session->more = rc > 0;
    if (rc < 0) {
        if (rc == PAWL_ECONN)
            broken(session, session->io.errnum);
        else
            kill_with(session, "There is no memory for what is to be sent.", NULL);
        return;
    }
    if (session->state != SESSION_DEAD && http2_is_over(session))
        not_http2(session);
    /* A server that said goodbye, and has nothing of ours any more. */
    if (session->state == SESSION_LEAVING && session->n_calls == 0 && !session->io.blocked)
        kill_with(session, "It was closed by the server.", NULL);
    if (session->state != SESSION_DEAD)
        want(session);
}

/* --- time and the end --- */

uint64_t session_tick(struct session *session, uint64_t now_ms)
{
    const struct channel_options *o = &session->channel->options;
    uint64_t connect_ms = (uint64_t)(o->connect_ms > 0 ? o->connect_ms : CONNECT_DEFAULT_MS);
    uint64_t keepalive_ms =
        (uint64_t)(o->keepalive_ms > 0 ? o->keepalive_ms : KEEPALIVE_DEFAULT_MS);

    if (session->state < SESSION_OPEN) {
        if (now_ms >= session->made_ms + connect_ms)
            kill_with(session,
                      "It did not answer in time.",
                      "Is it the address of `pawl serve`, and does a firewall let it through?");
        return session->made_ms + connect_ms;
    }
    if (session->asked_ms > 0 && session->read_ms >= session->asked_ms)
        session->asked_ms = 0;
    if (session->asked_ms > 0) {
        if (now_ms >= session->asked_ms + KEEPALIVE_ANSWER_MS)
            kill_with(session, "It does not answer any more.", NULL);
        return session->asked_ms + KEEPALIVE_ANSWER_MS;
    }
    if (now_ms < session->read_ms + keepalive_ms)
        return session->read_ms + keepalive_ms;
    session->asked_ms = now_ms;
    if (nghttp2_submit_ping(session->h2, NGHTTP2_FLAG_NONE, NULL) < 0)
        kill_with(session, "There is no memory for it.", NULL);
    session->dirty = true;
    return now_ms + KEEPALIVE_ANSWER_MS;
}

void session_kill(struct session *session, const struct pawl_err *err)
{
    if (session->state == SESSION_DEAD)
        return;
    session->err = *err;
    session->state = SESSION_DEAD;
    if (session->poll != NULL)
        uv_poll_stop(session->poll);
    channel_session_dead(session->channel, session);
}

void session_free(struct session *session)
{
    struct list *link;

    while ((link = list_shift(&session->calls)) != NULL)
        call_free(LIST_ENTRY(link, struct call, link));
    nghttp2_session_del(session->h2);
    if (session->resolving != NULL) {
        session->resolving->session = NULL;
        (void)uv_cancel((uv_req_t *)&session->resolving->request);
    }
    if (session->addresses != NULL)
        uv_freeaddrinfo(session->addresses);
    drop_socket(session);
    io_deinit(&session->io);
    list_remove(&session->link);
    free(session);
}
