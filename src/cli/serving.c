/* serving: signals, the line that says it listens, and the loop. */
#include "cli/serving.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "engine/memory.h"

#define ADDRESS_MAX 256

struct serving {
    struct cli *cli;
    uv_loop_t loop;
    struct serve_app *app;
    uv_signal_t signals[3];
    bool stopping;
    size_t left;
};

static const int watched[] = {SIGTERM, SIGINT, SIGHUP};

static void close_signals(struct serving *serving)
{
    for (size_t i = 0; i < sizeof(watched) / sizeof(*watched); i++)
        uv_close((uv_handle_t *)&serving->signals[i], NULL);
}

static void on_stopped(void *data, size_t left)
{
    struct serving *serving = data;

    serving->left = left;
    close_signals(serving);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct serving *serving = handle->data;

    if (signum == SIGHUP) {
        serve_app_reload(serving->app);
        return;
    }
    log_info(
        serving->cli->log,
        "signal",
        LOG_STR("name", signum == SIGINT ? "SIGINT" : "SIGTERM"),
        LOG_STR("then", serving->stopping ? "ending now" : "draining; once more ends it at once"));
    serving->stopping = true;
    serve_app_stop(serving->app);
}

static void watch(struct serving *serving)
{
    for (size_t i = 0; i < sizeof(watched) / sizeof(*watched); i++) {
        uv_signal_init(&serving->loop, &serving->signals[i]);
        serving->signals[i].data = serving;
        uv_signal_start(&serving->signals[i], on_signal, watched[i]);
    }
}

/* Tests and supervisors read it: one line for each address, then the log. */
static int say_addresses(const struct serving *serving, struct pawl_err *err)
{
    char address[ADDRESS_MAX];
    char line[ADDRESS_MAX + 32];
    int rc = 0;

    for (size_t i = 0; rc == 0 && serve_app_address(serving->app, i, address, sizeof(address));
         i++) {
        int len = snprintf(line, sizeof(line), "listening on %s\n", address);

        rc = out_write(line, (size_t)len, err);
    }
    return rc;
}

static int say_ready(const struct serving *serving,
                     int (*ready)(void *data, const char *address, struct pawl_err *err),
                     void *data,
                     struct pawl_err *err)
{
    char address[ADDRESS_MAX] = "";

    if (ready == NULL)
        return say_addresses(serving, err);
    (void)serve_app_address(serving->app, 0, address, sizeof(address));
    return ready(data, address, err);
}

struct serve_options serving_defaults(struct cli *cli, const struct target *target)
{
    static const char *const listen[] = {SERVING_LISTEN};

    return (struct serve_options){
        .target = target,
        .listen = listen,
        .n_listen = 1,
        .lease_ms = 30 * MS_PER_S,
        .drain_ms = 30 * MS_PER_S,
        .memory_percent = MEMORY_GROUP_PERCENT,
        .memory_machine_percent = MEMORY_MACHINE_PERCENT,
        .limits = serve_limits_default(),
        .log = cli->log,
    };
}

int serving_run(struct cli *cli,
                struct serve_options *options,
                int (*ready)(void *data, const char *address, struct pawl_err *err),
                void *data,
                struct pawl_err *err)
{
    /* One in a process; it outlives a start that failed, as its parts do. */
    static struct serving serving;
    int rc = uv_loop_init(&serving.loop);

    serving.cli = cli;
    if (rc < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop: %s", uv_strerror(rc));
    options->stopped = on_stopped;
    options->data = &serving;
    rc = serve_app_start(&serving.loop, options, &serving.app, err);
    if (rc < 0)
        return rc; /* the process ends, and the loop with it */
    watch(&serving);
    rc = say_ready(&serving, ready, data, err);
    if (rc < 0)
        return rc;
    uv_run(&serving.loop, UV_RUN_DEFAULT);
    serve_app_free(serving.app);
    uv_run(&serving.loop, UV_RUN_DEFAULT);
    uv_loop_close(&serving.loop);
    if (serving.left == 0)
        return 0;
    err_set(err,
            PAWL_EINTERRUPTED,
            "stopped with %zu job%s unfinished",
            serving.left,
            serving.left == 1 ? "" : "s");
    return err_hint(err, "Workers that connect to another server take them up again.");
}
