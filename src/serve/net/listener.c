/*
 * listener: sockets, addresses and accept(2). Without a free descriptor the spare one is given up,
 * so that the client is accepted and closed instead of hanging in the backlog and waking the loop
 * for ever.
 */
#include "serve/net/listener.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <netdb.h>

#include "base/defer.h"
#include "serve/net/peer.h"

#define BACKLOG        1024
#define ACCEPTS_A_TURN 64
#define UNIX_PREFIX    "unix:"
#define UNSENT_IN_KERNEL \
    (128 * 1024) /* bytes; a larger buffer would only hide that a client does not read */

static void format_address(const struct sockaddr_storage *a, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)a;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, size, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else
        snprintf(out, size, "unix");
}

static void take(struct listener *listener, int fd, const struct sockaddr_storage *from)
{
    struct net *net = listener->net;
    char address[PEER_ADDRESS_MAX];
    const int on = 1, unsent = UNSENT_IN_KERNEL;

    if (net->n_peers >= (size_t)net->options.limits->connections_max) {
        net->counters.refused_full++;
        close(fd);
        return;
    }
    if (from->ss_family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    }
    format_address(from, address, sizeof(address));
    peer_accept(net, fd, listener->tls, address);
}

/* Accepts and closes one client by means of the spare descriptor. False: even that one is gone. */
static bool turn_away(struct listener *listener)
{
    struct net *net = listener->net;

    if (net->spare_fd < 0)
        return false;
    close(net->spare_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        net->counters.refused_descriptors++;
        close(fd);
    }
    net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void rest(struct listener *listener)
{
    uv_poll_stop(&listener->poll);
    listener->resting = true;
    net_tick_wanted(listener->net);
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNIX};
        socklen_t len = sizeof(from);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take(listener, fd, &from);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        if ((errno == EMFILE || errno == ENFILE) && turn_away(listener))
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_warn(
                listener->net->options.log, "listener_rest", LOG_STR("error", strerror(errno)));
            rest(listener);
            return;
        }
        /* The other errors are those of one client that is gone already. */
    }
}

bool listener_tick(struct listener *listener)
{
    struct net *net = listener->net;

    if (!listener->resting)
        return false;
    if (net->spare_fd < 0)
        net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->resting = false;
    uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
    return true;
}

/* A socket on which nobody answers was left over by a process that is gone. */
static int remove_stale(const struct sockaddr_un *un, struct pawl_err *err)
{
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;

    if (lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return 0;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0)
        return err_set(err, PAWL_ESTATE, "another process listens on %s", un->sun_path);
    if (errno == ECONNREFUSED)
        unlink(un->sun_path);
    return 0;
}

static int listen_unix(struct listener *listener, const char *path, struct pawl_err *err)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    if (strlen(path) == 0 || strlen(path) >= sizeof(un.sun_path))
        return err_set(err,
                       PAWL_EINVAL,
                       "the path of a unix socket has 1 to %zu bytes",
                       sizeof(un.sun_path) - 1);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    int rc = remove_stale(&un, err);
    if (rc < 0)
        return rc;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0 || bind(listener->fd, (const struct sockaddr *)&un, sizeof(un)) < 0)
        return err_set_errno(err, errno, "could not listen on %s", path);
    snprintf(listener->path, sizeof(listener->path), "%s", path);
    /* Nobody can connect before listen, so nobody sees the mode that umask gave the socket. */
    if (chmod(path, S_IRUSR | S_IWUSR) < 0 || listen(listener->fd, BACKLOG) < 0)
        return err_set_errno(err, errno, "could not listen on %s", path);
    return 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int bind_tcp(struct listener *listener,
                    const struct addrinfo *info,
                    bool open,
                    const char *address,
                    struct pawl_err *err)
{
    const int on = 1;

    if (!is_loopback(info->ai_addr) && listener->tls == NULL && !open) {
        err_set(err, PAWL_EDENIED, "%s can be reached by others, and there is no TLS", address);
        return err_hint(err, "Give a certificate, listen on 127.0.0.1, or say that it is meant.");
    }
    listener->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return err_set_errno(err, errno, "could not listen on %s", address);
    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6)
        setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(listener->fd, info->ai_addr, info->ai_addrlen) < 0 ||
        listen(listener->fd, BACKLOG) < 0)
        return err_set_errno(err, errno, "could not listen on %s", address);
    return 0;
}

/* The addresses of HOST:PORT, to be freed with freeaddrinfo. */
static int resolve(const char *address, struct addrinfo **ret_info, struct pawl_err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const char *colon = strrchr(address, ':');
    char host[256];

    if (colon == NULL || colon == address || (size_t)(colon - address) >= sizeof(host))
        return err_set(err, PAWL_EINVAL, "\"%s\" is not HOST:PORT or unix:PATH", address);
    size_t len = (size_t)(colon - address);
    bool brackets = address[0] == '[' && address[len - 1] == ']';
    snprintf(host, sizeof(host), "%.*s", (int)(brackets ? len - 2 : len), address + brackets);
    int rc = getaddrinfo(host, colon + 1, &hints, ret_info);
    if (rc == 0)
        return 0;
    err_set(err, PAWL_EINVAL, "could not make an address of \"%s\"", address);
    return err_detail(err, "%s.", gai_strerror(rc));
}

static int
listen_tcp(struct listener *listener, const char *address, bool open, struct pawl_err *err)
{
    struct addrinfo *info = NULL;
    int rc = resolve(address, &info, err);

    if (rc < 0)
        return rc;
    rc = bind_tcp(listener, info, open, address, err);
    freeaddrinfo(info);
    return rc;
}

int net_is_local(const char *address, bool *ret_local, struct pawl_err *err)
{
    struct addrinfo *info = NULL;

    *ret_local = true;
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return 0;
    int rc = resolve(address, &info, err);
    if (rc < 0)
        return rc;
    *ret_local = is_loopback(info->ai_addr);
    freeaddrinfo(info);
    return 0;
}

static void listener_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void listener_close(struct listener *listener)
{
    list_remove(&listener->link);
    uv_close((uv_handle_t *)&listener->poll, listener_closed);
    close(listener->fd);
    if (listener->path[0])
        unlink(listener->path);
}

void listener_address(const struct listener *listener, char *out, size_t size)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);

    if (listener->path[0]) {
        snprintf(out, size, UNIX_PREFIX "%s", listener->path);
        return;
    }
    getsockname(listener->fd, (struct sockaddr *)&a, &len);
    format_address(&a, out, size);
}

int net_listen(
    struct net *net, const char *address, struct tls *tls, bool open, struct pawl_err *err)
{
    struct listener *listener = calloc(1, sizeof(*listener));

    if (listener == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory to listen on %s", address);
    listener->net = net;
    listener->tls = tls;
    listener->fd = -1;
    int rc;
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        rc = listen_unix(listener, address + strlen(UNIX_PREFIX), err);
    else
        rc = listen_tcp(listener, address, open, err);
    if (rc == 0) {
        rc = uv_poll_init(net->options.loop, &listener->poll, listener->fd);
        if (rc < 0)
            err_set_errno(err, -rc, "could not listen on %s", address);
    }
    if (rc < 0) {
        if (listener->fd >= 0)
            close(listener->fd);
        if (listener->path[0])
            unlink(listener->path);
        free(listener);
        return err != NULL ? err->code : PAWL_EFAILED;
    }
    listener->poll.data = listener;
    uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
    list_push(&net->listeners, &listener->link);
    return 0;
}
