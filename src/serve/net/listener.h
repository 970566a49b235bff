/* listener: one socket that clients connect to. It accepts a bounded number in a turn, and survives having no
 * descriptors left. Loop's thread. */
#ifndef SERVE_NET_LISTENER_H
#define SERVE_NET_LISTENER_H

#include <stddef.h>

#include <uv.h>

#include "base/list.h"
#include "serve/net/net.h"

#define LISTENER_PATH_MAX 108 /* of a unix socket, as the kernel has it */

struct listener {
    struct list link; /* net->listeners */
    struct net *net;
    struct tls *tls; /* borrowed */
    uv_poll_t poll;
    int fd;
    bool resting;                 /* accept failed in a way that waiting may cure */
    char path[LISTENER_PATH_MAX]; /* of a unix socket, to be removed; or empty */
};

/* Once a tick: a listener that rested tries again. True while it needs ticks. */
bool listener_tick(struct listener *listener);
void listener_close(struct listener *listener);
void listener_address(const struct listener *listener, char *out, size_t size);

/* For net.c and peer.c. */
void net_tick_wanted(struct net *net);

#endif
