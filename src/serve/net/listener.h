/* listener: one socket that clients connect to. It accepts a bounded number of clients in a
 * turn, and survives a process without free descriptors. Loop's thread. */
#ifndef SERVE_NET_LISTENER_H
#define SERVE_NET_LISTENER_H

#include <stddef.h>

#include <uv.h>

#include "base/list.h"
#include "serve/net/net.h"

#define LISTENER_PATH_MAX 108 /* of a unix socket, the kernel's limit */

struct listener {
    struct list link; /* net->listeners */
    struct net *net;
    struct tls *tls; /* borrowed */
    uv_poll_t poll;
    int fd;
    bool resting;                 /* accept failed, and may work later */
    char path[LISTENER_PATH_MAX]; /* of a unix socket, removed at the end; or empty */
};

/* Called by the tick: a resting listener tries again. True while it needs ticks. */
bool listener_tick(struct listener *listener);
void listener_close(struct listener *listener);
void listener_address(const struct listener *listener, char *out, size_t size);

/* For net.c and peer.c. */
void net_tick_wanted(struct net *net);

#endif
