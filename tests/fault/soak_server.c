/*
 * soak_server: `pawl serve` to be killed, frozen and told to go, as a program that writes down what it asks of the
 * database (calls.c) and dies at chosen moments (moments.c). Everything else of it is what is shipped.
 *
 * usage: soak_server EVENTS CONNINFO LEASE_MS ADDRESS
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "fault/events.h"
#include "fault/moments.h"
#include "serve/app.h"

#define DRAIN_MS    3000
#define POLL_MAX_MS 500

struct program {
    uv_loop_t loop;
    struct serve_app *app;
    uv_signal_t sigterm;
};

static void on_sigterm(uv_signal_t *handle, int signum)
{
    struct program *program = handle->data;

    (void)signum;
    events_write("signal");
    serve_app_stop(program->app);
}

static void on_stopped(void *data, size_t left)
{
    struct program *program = data;

    events_write("stopped %zu", left);
    uv_close((uv_handle_t *)&program->sigterm, NULL);
}

static int serve(struct program *program, const struct serve_options *options)
{
    struct pawl_err err;

    uv_loop_init(&program->loop);
    uv_signal_init(&program->loop, &program->sigterm);
    program->sigterm.data = program;
    uv_signal_start(&program->sigterm, on_sigterm, SIGTERM);
    if (serve_app_start(&program->loop, options, &program->app, &err) < 0) {
        fprintf(stderr, "soak_server: %s\n", err.message);
        return 1;
    }
    events_write("boot %d", (int)getpid());
    uv_run(&program->loop, UV_RUN_DEFAULT);
    serve_app_free(program->app);
    uv_run(&program->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&program->loop) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct program program;
    struct arena arena;
    struct target target;
    struct log log;
    struct pawl_err err;

    if (argc != 5) {
        fprintf(stderr, "usage: soak_server EVENTS CONNINFO LEASE_MS ADDRESS\n");
        return 2;
    }
    /* Nobody outlives the conductor. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    events_open(argv[1]);
    moments_listen();
    log_init(&log, STDERR_FILENO, LOG_WARN);
    arena_init(&arena, 64UL * 1024);
    if (target_set(&target, &arena, TARGET_OPTION, argv[2], &err) < 0) {
        fprintf(stderr, "soak_server: %s\n", err.message);
        return 2;
    }
    const char *listen[] = {argv[4]};
    const struct serve_options options = {
        .target = &target,
        .listen = listen,
        .n_listen = 1,
        .lease_ms = strtoll(argv[3], NULL, 10),
        .drain_ms = DRAIN_MS,
        .poll_max_ms = POLL_MAX_MS,
        .limits = serve_limits_default(),
        .log = &log,
        .stopped = on_stopped,
        .data = &program,
    };
    int status = serve(&program, &options);

    arena_deinit(&arena);
    return status;
}
