/* app: puts transport, coordinator and services together, and closes them in the right order. */
#include "serve/app.h"

#include <stdlib.h>

#include "base/clock.h"
#include "serve/api/accept.h"
#include "serve/api/api.h"
#include "serve/dispatch/dispatch.h"
#include "store/statements.h"

/* After everything is settled: time to answer calls and to close connections. A call that came
 * last may wait for a flush that is under way, and then for its own flush. */
#define GOODBYE_MS  (2 * ACCEPT_DEADLINE_MS)
#define SETTLE_MS   5000   /* for the last reports of workers, when the database is away */
#define JOBS_MAX    100000 /* that all workers hold together */
#define POLL_MS     200
#define POLL_MAX_MS 5000
#define LOOK_MS     250 /* between two looks at readiness */
#define STALL_MS    (30 * MS_PER_S)

enum serve_state {
    SERVE_RUNNING,
    SERVE_DRAINING, /* streams are asked to end; reports are still taken */
    SERVE_SETTLING, /* no stream is left; the coordinator settles the last outcomes */
    SERVE_CLOSING,  /* connections get GOAWAY */
    SERVE_STOPPED,
};

struct serve_app {
    const struct serve_options *options; /* borrowed */
    uv_loop_t *loop;
    struct log *log;
    struct primary primary; /* of all connections */
    struct transport *transport;
    struct tls *tls; /* NULL: none */
    struct coordinator *coordinator;
    struct dispatch *dispatch; /* WorkerService, and the hands of the coordinator */
    struct api *api;           /* JobService and QueueService; NULL while there is none */
    enum serve_state state;
    uv_timer_t look; /* looks whether the server is ready */
    const char *why; /* static; why the server is not ready. NULL: it is */
    bool insist;     /* serve_app_stop was called twice */
    int n_closing;   /* parts that are not closed yet */
    size_t left;
};

/* ── the end ── */

static void part_closed(struct serve_app *app)
{
    if (--app->n_closing > 0)
        return;
    app->state = SERVE_STOPPED;
    app->options->stopped(app->options->data, app->left);
}

static void on_part_closed(void *data)
{
    part_closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void api_closed(void *data)
{
    struct serve_app *app = data;

    app->api = NULL;
    part_closed(app);
}

/* No call comes any more. */
static void transport_stopped(void *data)
{
    struct serve_app *app = data;

    api_close(app->api, api_closed, app);
}

/* Everything is settled: the connections may close. */
static void coordinator_stopped(void *data, size_t left)
{
    struct serve_app *app = data;

    app->left = left;
    app->state = SERVE_CLOSING;
    app->n_closing = 3;
    uv_close((uv_handle_t *)&app->look, on_handle_closed);
    dispatch_close(app->dispatch, on_part_closed, app);
    transport_stop(app->transport, GOODBYE_MS, transport_stopped, app);
    if (app->insist)
        transport_stop(app->transport, 0, NULL, NULL);
}

static void drained(void *data)
{
    struct serve_app *app = data;

    app->state = SERVE_SETTLING;
    coordinator_stop(app->coordinator);
}

void serve_app_stop(struct serve_app *app)
{
    switch (app->state) {
    case SERVE_RUNNING:
        app->state = SERVE_DRAINING;
        transport_quiesce(app->transport);
        dispatch_drain(app->dispatch, app->options->drain_ms, drained, app);
        break;
    case SERVE_DRAINING:
        app->insist = true;
        dispatch_cut(app->dispatch);
        drained(app);
        coordinator_stop(app->coordinator);
        break;
    case SERVE_SETTLING:
        app->insist = true;
        coordinator_stop(app->coordinator);
        break;
    case SERVE_CLOSING:
        transport_stop(app->transport, 0, NULL, NULL);
        break;
    case SERVE_STOPPED:
        break;
    }
}

bool serve_app_address(const struct serve_app *app, size_t i, char *address, size_t size)
{
    return transport_address(app->transport, i, address, size);
}

void serve_app_reload(struct serve_app *app)
{
    struct pawl_err err = {0};

    if (app->tls == NULL) {
        log_info(app->log, "tls_reload", LOG_STR("then", "there is no certificate to read"));
        return;
    }
    if (tls_reload(app->tls, &err) < 0)
        log_warn_err(app->log, "tls_reload", &err, LOG_STR("then", "everything stays as it was"));
    else
        log_info(app->log, "tls_reload", LOG_STR("then", "new connections get it"));
}

static int open_server(struct serve_app *app, struct pawl_err *err)
{
    const struct serve_options *o = app->options;
    int rc = transport_new(
        &(struct transport_options){.loop = app->loop, .log = app->log, .limits = o->limits},
        &app->transport,
        err);

    if (rc == 0 && o->tls_certificate != NULL)
        rc = tls_new(&(struct tls_options){.certificate = o->tls_certificate,
                                           .key = o->tls_key,
                                           .client_authority = o->tls_authority},
                     &app->tls,
                     err);
    return rc;
}

/* JobService, QueueService, and the check of access tokens. */
static int open_api(struct serve_app *app, struct pawl_err *err)
{
    const struct serve_options *o = app->options;
    bool tokens;
    int rc = rules_check(&(struct rules){.listen = o->listen,
                                         .n_listen = o->n_listen,
                                         .tls = app->tls != NULL,
                                         .client_certificates = o->tls_authority != NULL,
                                         .open = o->open,
                                         .tokens = o->tokens},
                         &tokens,
                         err);

    if (rc < 0)
        return rc;
    return api_new(&(struct api_options){.loop = app->loop,
                                         .transport = app->transport,
                                         .target = o->target,
                                         .primary = &app->primary,
                                         .worker = coordinator_worker(app->coordinator),
                                         .tokens = tokens,
                                         .unprepared = o->unprepared,
                                         .log = app->log,
                                         .workers = dispatch_workers,
                                         .data = app->dispatch},
                   &app->api,
                   err);
}

static int open_engine(struct serve_app *app, struct pawl_err *err)
{
    const struct serve_options *o = app->options;
    int rc = dispatch_new(&(struct dispatch_options){.loop = app->loop,
                                                     .transport = app->transport,
                                                     .target = o->target,
                                                     .primary = &app->primary,
                                                     .log = o->log,
                                                     .lease_ms = o->lease_ms,
                                                     .unprepared = o->unprepared},
                          &app->dispatch,
                          err);

    if (rc < 0)
        return rc;
    app->coordinator =
        coordinator_new(app->loop,
                        &(struct coordinator_options){
                            .target = o->target,
                            .primary = &app->primary,
                            .hands = dispatch_hands(app->dispatch),
                            .concurrency = JOBS_MAX,
                            .lease_ms = o->lease_ms,
                            .poll_ms = POLL_MS,
                            .poll_max_ms = o->poll_max_ms > 0 ? o->poll_max_ms : POLL_MAX_MS,
                            .drain_ms = SETTLE_MS,
                            .memory_percent = o->memory_percent,
                            .memory_machine_percent = o->memory_machine_percent,
                            .stall_ms = STALL_MS,
                            .unprepared = o->unprepared,
                            .deaf = o->unprepared,
                            .clock = &clock_system,
                            .log = o->log,
                            .stopped = coordinator_stopped,
                            .data = app,
                        },
                        err);
    return app->coordinator != NULL ? 0 : err->code;
}

/* The server is ready when its database answers and commits. */
static void on_look(uv_timer_t *timer)
{
    struct serve_app *app = timer->data;
    bool connected = coordinator_connected(app->coordinator) && dispatch_connected(app->dispatch);
    const char *why = connected ? api_why_not(app->api) : "there is no connection to the database";

    if (app->state != SERVE_RUNNING || why == app->why)
        return;
    app->why = why;
    if (transport_set_ready(app->transport, why) < 0)
        log_warn(app->log, "health", LOG_STR("why", "out of memory"));
    if (why == NULL)
        log_info(app->log, "ready", LOG_BOOL("ready", true));
    else
        log_warn(app->log, "ready", LOG_BOOL("ready", false), LOG_STR("why", why));
}

static int start_listening(struct serve_app *app, struct pawl_err *err)
{
    const struct serve_options *o = app->options;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < o->n_listen; i++)
        rc = transport_listen(app->transport, o->listen[i], app->tls, o->open, err);
    return rc;
}

int serve_app_start(uv_loop_t *loop,
                    const struct serve_options *options,
                    struct serve_app **ret_app,
                    struct pawl_err *err)
{
    struct serve_app *app = calloc(1, sizeof(*app));

    if (app == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    app->options = options;
    app->loop = loop;
    app->log = options->log;
    primary_init(&app->primary, STMT(server_identity), app->log);
    app->why = "the server starts";
    uv_timer_init(loop, &app->look);
    app->look.data = app;

    int rc = open_server(app, err);

    if (rc == 0)
        rc = transport_set_ready(app->transport, app->why);
    if (rc == 0)
        rc = open_engine(app, err);
    if (rc == 0)
        rc = open_api(app, err);
    if (rc == 0)
        rc = start_listening(app, err);
    if (rc < 0)
        return rc; /* the process ends */
    dispatch_start(app->dispatch, app->coordinator, api_auth(app->api));
    coordinator_start(app->coordinator);
    uv_timer_start(&app->look, on_look, LOOK_MS, LOOK_MS);
    *ret_app = app;
    return 0;
}

void serve_app_free(struct serve_app *app)
{
    if (app == NULL)
        return;
    coordinator_free(app->coordinator);
    dispatch_free(app->dispatch);
    transport_free(app->transport);
    tls_free(app->tls);
    free(app);
}
