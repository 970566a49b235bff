/*
 * echo_server: a server with the echo service, for tests and measurements.
 *
 *     echo_server [--listen ADDRESS]... [--tls ADDRESS]... [--certificate F --key F [--authority F]]
 *                 [--limit NAME=VALUE]...
 *
 * Prints "listening ADDRESS" for each, then "ready". Takes commands on standard input, one a line, and answers each
 * with a line: "reload", "serving NAME 0|1", "stop GRACE_MS". Its end is the end: nothing stays behind a test.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <getopt.h>

#include "base/text.h"
#include "echo.h"
#include "serve/transport.h"

#define ADDRESSES_MAX 8

static struct {
    uv_loop_t loop;
    struct log log;
    struct transport_options options;
    struct tls_options tls_options;
    struct tls *tls;
    struct transport *server;
    uv_poll_t input;
    struct buf line;
    const char *plain[ADDRESSES_MAX];
    size_t n_plain;
    const char *encrypted[ADDRESSES_MAX];
    size_t n_encrypted;
    bool stopping;
} self;

static void die(const struct pawl_err *err)
{
    fprintf(stderr, "echo_server: %s. %s %s\n", err->message, err->detail, err->hint);
    exit(1);
}

static void say(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

static void stopped(void *data)
{
    (void)data;
    transport_free(self.server);
    self.server = NULL;
    say("stopped");
    if (!uv_is_closing((uv_handle_t *)&self.input))
        uv_close((uv_handle_t *)&self.input, NULL);
}

static void command(char *line)
{
    struct pawl_err err;
    char *word = strsep(&line, " ");

    if (strcmp(word, "reload") == 0) {
        say(tls_reload(self.tls, &err) == 0 ? "ok" : err.message);
    } else if (strcmp(word, "serving") == 0 && line) {
        char *name = strsep(&line, " ");
        say(line && health_set(
                        self.server ? transport_health(self.server) : NULL, name, *line == '1') == 0
                ? "ok"
                : "failed");
    } else if (strcmp(word, "stop") == 0 && line) {
        int64_t grace_ms;
        if (text_parse_int(line, 0, 3600000, &grace_ms, &err) < 0)
            die(&err);
        say("stopping");
        transport_stop(self.server, grace_ms, stopped, NULL);
    } else
        say("unknown command");
}

static void input_cb(uv_poll_t *poll, int status, int events)
{
    char bytes[4096];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    (void)status;
    (void)events;
    if (n <= 0) {
        uv_close((uv_handle_t *)poll, NULL);
        if (self.server) {
            transport_stop(self.server, 0, stopped, NULL);
            transport_stop(self.server, 0, stopped, NULL);
        }
        return;
    }
    for (ssize_t i = 0; i < n && !uv_is_closing((uv_handle_t *)poll); i++) {
        if (bytes[i] != '\n') {
            buf_putc(&self.line, bytes[i]);
            continue;
        }
        if (self.line.len > 0)
            command(self.line.data);
        buf_clear(&self.line);
    }
}

/* What tests want to know about the process. */
static void handle_state(struct http_exchange *exchange, void *data)
{
    struct rusage usage;

    (void)data;
    getrusage(RUSAGE_SELF, &usage);
    http_reply_text(exchange,
                    200,
                    "{\"held\": %" PRId64 ", \"gone\": %" PRId64 ", \"refused_sends\": %" PRId64
                    ", \"cpu_us\": %" PRId64 ", \"max_rss_kb\": %ld}",
                    echo_state.held,
                    echo_state.gone,
                    echo_state.refused_sends,
                    (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * US_PER_S +
                        usage.ru_utime.tv_usec + usage.ru_stime.tv_usec,
                    usage.ru_maxrss);
}

static void handle_body(struct http_exchange *exchange, void *data)
{
    const struct buf *body = http_body(exchange);

    (void)data;
    http_reply(exchange, 200, "application/octet-stream", buf_str(body), body->len);
}

/* Lines, as many as the query says, as fast as they are read. */
struct events {
    int64_t sent;
    int64_t wanted;
};

static void events_on(struct http_exchange *exchange, void *data)
{
    struct events *events = data;
    char line[64];

    while (events->sent < events->wanted) {
        int n = snprintf(line, sizeof(line), "data: %" PRId64 "\n\n", events->sent + 1);
        if (http_write(exchange, line, (size_t)n) < 0) {
            echo_state.refused_sends++;
            return;
        }
        events->sent++;
    }
    if (strstr(http_query(exchange), "stay"))
        return;
    echo_state.held--;
    free(events);
    http_end(exchange);
}

static void events_gone(struct http_exchange *exchange, void *data)
{
    (void)exchange;
    echo_state.held--;
    echo_state.gone++;
    free(data);
}

static void events_drain(struct http_exchange *exchange, void *data)
{
    echo_state.held--;
    free(data);
    http_end(exchange);
}

static const struct http_exchange_ops events_ops = {
    .gone = events_gone, .writable = events_on, .drain = events_drain};

static void handle_events(struct http_exchange *exchange, void *data)
{
    struct events *events = calloc(1, sizeof(*events));

    (void)data;
    if (!events) {
        http_reply_text(exchange, 503, "no memory");
        return;
    }
    events->wanted = strtoll(http_query(exchange), NULL, 10);
    echo_state.held++;
    http_hold(exchange, &events_ops, events);
    http_begin(exchange, 200, "text/event-stream");
    events_on(exchange, events);
}

static const struct http_route routes[] = {
    {.method = "GET", .path = "/events", .streams = true, .handle = handle_events},
    {.method = "GET", .path = "/state", .handle = handle_state},
    {.method = "POST", .path = "/body", .prefix = true, .handle = handle_body},
};

static void set_limit(char *text)
{
    struct pawl_err err;
    char *name = strsep(&text, "=");
    int64_t *limit = serve_limits_find(&self.options.limits, name);

    if (!limit || !text) {
        fprintf(stderr, "echo_server: no limit %s\n", name);
        exit(2);
    }
    if (text_parse_int(text, 0, INT64_MAX / 1000000, limit, &err) < 0)
        die(&err);
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"tls", required_argument, NULL, 't'},
                                            {"certificate", required_argument, NULL, 'c'},
                                            {"key", required_argument, NULL, 'k'},
                                            {"authority", required_argument, NULL, 'a'},
                                            {"limit", required_argument, NULL, 'm'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
        switch (c) {
        case 'l':
            if (self.n_plain < ADDRESSES_MAX)
                self.plain[self.n_plain++] = optarg;
            break;
        case 't':
            if (self.n_encrypted < ADDRESSES_MAX)
                self.encrypted[self.n_encrypted++] = optarg;
            break;
        case 'c':
            self.tls_options.certificate = optarg;
            break;
        case 'k':
            self.tls_options.key = optarg;
            break;
        case 'a':
            self.tls_options.client_authority = optarg;
            break;
        case 'm':
            set_limit(optarg);
            break;
        default:
            exit(2);
        }
}

static void start(void)
{
    struct pawl_err err;
    char address[128];

    if (transport_new(&self.options, &self.server, &err) < 0 ||
        rpc_register(transport_rpc(self.server), &echo_service, &err) < 0)
        die(&err);
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (http_add(transport_http(self.server), &routes[i], &err) < 0)
            die(&err);
    if (reflection_add(transport_reflection(self.server), reflection_echo_files) < 0)
        exit(1);
    if (self.n_encrypted > 0 && tls_new(&self.tls_options, &self.tls, &err) < 0)
        die(&err);
    for (size_t i = 0; i < self.n_plain; i++)
        if (transport_listen(self.server, self.plain[i], NULL, false, &err) < 0)
            die(&err);
    for (size_t i = 0; i < self.n_encrypted; i++)
        if (transport_listen(self.server, self.encrypted[i], self.tls, false, &err) < 0)
            die(&err);
    for (size_t i = 0; transport_address(self.server, i, address, sizeof(address)); i++)
        printf("listening %s\n", address);
    say("ready");
}

int main(int argc, char **argv)
{
    self.options.limits = serve_limits_default();
    parse(argc, argv);
    uv_loop_init(&self.loop);
    log_init(&self.log, STDERR_FILENO, LOG_INFO);
    self.options.loop = echo_state.loop = &self.loop;
    self.options.log = &self.log;
    buf_init(&self.line, 4096);
    start();
    uv_poll_init(&self.loop, &self.input, STDIN_FILENO);
    uv_poll_start(&self.input, UV_READABLE, input_cb);
    uv_run(&self.loop, UV_RUN_DEFAULT);
    tls_free(self.tls);
    buf_deinit(&self.line);
    int rc = uv_loop_close(&self.loop);
    if (rc < 0)
        fprintf(stderr, "echo_server: the loop still has handles\n");
    return rc < 0;
}
