/*
 * net: the turn. A prepare handle runs before the loop sleeps: it flushes dirty peers and frees
 * dead ones. No other code does either.
 */
#include "serve/net/net.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "serve/net/listener.h"
#include "serve/net/peer.h"

static int64_t now_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle is all that is needed */
}

static void handle_closed(uv_handle_t *handle)
{
    struct net *net = handle->data;

    if (--net->handles > 0)
        return;
    io_buffers_deinit(&net->buffers);
    if (net->spare_fd >= 0)
        close(net->spare_fd);
    if (net->stopped != NULL)
        net->stopped(net->stopped_data);
}

static void net_close(struct net *net)
{
    uv_close((uv_handle_t *)&net->prepare, handle_closed);
    uv_close((uv_handle_t *)&net->idle, handle_closed);
    uv_close((uv_handle_t *)&net->tick, handle_closed);
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct net *net = prepare->data;
    struct list todo;
    struct list *link;

    net->now_us = now_us();
    list_init(&todo);
    list_splice(&todo, &net->dirty);
    while ((link = list_shift(&todo)) !=
           NULL) /* a peer that a flush makes dirty waits for the next turn */
        peer_flush(LIST_ENTRY(link, struct peer, dirty_link));
    while ((link = list_shift(&net->dead)) != NULL)
        peer_free(LIST_ENTRY(link, struct peer, link));
    if (list_empty(&net->dirty))
        uv_idle_stop(&net->idle);
    else
        uv_idle_start(&net->idle, idle_cb);
    if (net->stopping && net->n_peers == 0 && list_empty(&net->listeners)) {
        net->stopping = false;
        net_close(net);
    }
}

static void tick_cb(uv_timer_t *timer)
{
    struct net *net = timer->data;
    bool wanted = net->stopping;

    net->now_us = now_us();
    LIST_FOREACH_SAFE(link, after, &net->peers) {
        peer_tick(LIST_ENTRY(link, struct peer, link), net->now_us);
    }
    LIST_FOREACH_SAFE(link, after, &net->listeners) {
        wanted |= listener_tick(LIST_ENTRY(link, struct listener, link));
    }
    if (!wanted && net->n_peers == 0)
        uv_timer_stop(timer);
}

int net_init(struct net *net, const struct net_options *options, struct pawl_err *err)
{
    *net = (struct net){.options = *options, .spare_fd = -1};
    list_init(&net->listeners);
    list_init(&net->peers);
    list_init(&net->dirty);
    list_init(&net->dead);
    if (io_buffers_init(&net->buffers) < 0)
        return err_set(err, PAWL_ENOMEM, "no memory for the server");
    net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    net->now_us = now_us();
    uv_prepare_init(options->loop, &net->prepare);
    uv_idle_init(options->loop, &net->idle);
    uv_timer_init(options->loop, &net->tick);
    net->prepare.data = net->idle.data = net->tick.data = net;
    net->handles = 3;
    uv_prepare_start(&net->prepare, prepare_cb);
    uv_unref((uv_handle_t *)&net->prepare);
    return 0;
}

/* The timer runs only while there are peers. */
void net_tick_wanted(struct net *net)
{
    if (!uv_is_active((uv_handle_t *)&net->tick))
        uv_timer_start(&net->tick, tick_cb, NET_TICK_MS, NET_TICK_MS);
}

void net_quiesce(struct net *net)
{
    net->quiet = true;
    LIST_FOREACH_SAFE(link, after, &net->listeners) {
        listener_close(LIST_ENTRY(link, struct listener, link));
    }
    LIST_FOREACH_SAFE(link, after, &net->peers) {
        peer_quiesce(LIST_ENTRY(link, struct peer, link));
    }
}

bool net_address(const struct net *net, size_t i, char *out, size_t size)
{
    LIST_FOREACH(link, &net->listeners) {
        if (i-- > 0)
            continue;
        listener_address(LIST_ENTRY(link, struct listener, link), out, size);
        return true;
    }
    return false;
}

void net_stop(struct net *net, int64_t grace_ms, void (*stopped)(void *data), void *data)
{
    assert(!net->stopping);
    net->stopping = true;
    net->stopped = stopped;
    net->stopped_data = data;
    net_quiesce(net);
    net_tick_wanted(net); /* also wakes an idle loop */
    LIST_FOREACH_SAFE(link, after, &net->peers) {
        peer_drain(LIST_ENTRY(link, struct peer, link), grace_ms);
    }
}

void net_kill(struct net *net)
{
    LIST_FOREACH_SAFE(link, after, &net->peers) {
        peer_kill(LIST_ENTRY(link, struct peer, link));
    }
}
