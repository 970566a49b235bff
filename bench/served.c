/* served: starting the server, and looking at it from outside. */
#include "bench/served.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netdb.h>
#include <poll.h>
#include <spawn.h>

#include "base/buf.h"
#include "base/defer.h"
#include "bench/tables.h"

#define READY_MS     20000
#define LOOK_MS      20
#define CONNINFO_MAX (16 * 1024)
#define ENVIRON_MAX  1000
#define ENV_NAME     "PAWL_DATABASE_URL="
#define SAYS         "listening on "

extern char **environ;

/* keyword='value' …, as libpq takes it. */
static void put_conninfo(struct buf *out, const struct target *target)
{
    buf_puts(out, ENV_NAME);
    for (size_t i = 0; target->keywords[i] != NULL; i++) {
        buf_printf(out, "%s%s='", i > 0 ? " " : "", target->keywords[i]);
        for (const char *c = target->values[i]; c != NULL && *c != '\0'; c++) {
            if (*c == '\'' || *c == '\\')
                buf_putc(out, '\\');
            buf_putc(out, *c);
        }
        buf_putc(out, '\'');
    }
}

/* Ours, with the database in the place of any other. In a variable, because everybody sees arguments. */
static int make_environ(char **ret_env, char *database)
{
    size_t n = 0;

    for (char **entry = environ; *entry != NULL && n < ENVIRON_MAX; entry++) {
        if (strncmp(*entry, ENV_NAME, strlen(ENV_NAME)) != 0)
            ret_env[n++] = *entry;
    }
    ret_env[n++] = database;
    ret_env[n] = NULL;
    return 0;
}

static int spawn(struct bench *b, struct served *served, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf database;
    char *env[ENVIRON_MAX + 2];
    char self[PATH_MAX];
    char *argv[] = {self,
                    (char *)(uintptr_t) "serve",
                    (char *)(uintptr_t) "--listen",
                    (char *)(uintptr_t) "127.0.0.1:0",
                    NULL};
    posix_spawn_file_actions_t actions;
    int out[2];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[len > 0 ? len : 0] = '\0';
    buf_init(&database, CONNINFO_MAX);
    put_conninfo(&database, &b->target);
    if (database.failed || make_environ(env, database.data) < 0)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (pipe2(out, O_CLOEXEC) < 0)
        return err_set_errno(err, errno, "could not make a pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int errnum = posix_spawn(&served->pid, self, &actions, NULL, argv, env);

    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    served->from = out[0];
    if (errnum != 0)
        served->pid = 0;
    return errnum == 0 ? 0 : err_set_errno(err, errnum, "could not start %s", self);
}

/* The line that says where it listens. */
static int read_address(struct bench *b, struct served *served, struct pawl_err *err)
{
    char text[512];
    size_t len = 0;
    int64_t until_us = bench_now_us() + READY_MS * US_PER_MS;

    while (memchr(text, '\n', len) == NULL) {
        struct pollfd fd = {.fd = served->from, .events = POLLIN};
        int rc = bench_go_on(b, err);

        if (rc < 0)
            return rc;
        if (bench_now_us() > until_us || len == sizeof(text) - 1)
            return err_set(err, PAWL_ETIMEOUT, "the server did not say where it listens");
        if (poll(&fd, 1, LOOK_MS) <= 0)
            continue;
        ssize_t n = read(served->from, text + len, sizeof(text) - 1 - len);

        if (n <= 0)
            return err_set(err, PAWL_EFAILED, "the server ended before its time");
        len += (size_t)n;
    }
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, SAYS, strlen(SAYS)) != 0)
        return err_set(err, PAWL_EFAILED, "the server said something else: %s", text);
    return address_parse(text + strlen(SAYS), &served->address, err);
}

/* GET /ready, once. */
static bool is_ready(const struct served *served)
{
    static const char request[] = "GET /ready HTTP/1.0\r\n\r\n";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *address = NULL;
    char answer[64] = "";
    bool ready = false;

    if (getaddrinfo(served->address.host, served->address.port, &hints, &address) != 0)
        return false;
    AUTO_FD int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) == 0 &&
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0 &&
        recv(fd, answer, sizeof(answer) - 1, 0) > 0)
        ready = strstr(answer, " 200") != NULL;
    freeaddrinfo(address);
    return ready;
}

int served_start(struct bench *b, struct served *ret_served, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + READY_MS * US_PER_MS;

    *ret_served = (struct served){.from = -1};
    int rc = spawn(b, ret_served, err);

    if (rc == 0)
        rc = read_address(b, ret_served, err);
    while (rc == 0 && !is_ready(ret_served)) {
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() > until_us)
            rc = err_set(err, PAWL_ETIMEOUT, "the server did not become ready");
        bench_sleep_ms(b, LOOK_MS);
    }
    return rc;
}

int served_stop(struct served *served, struct pawl_err *err)
{
    int status = 0;

    if (served->from >= 0)
        close(served->from);
    served->from = -1;
    if (served->pid <= 0)
        return 0;
    kill(served->pid, SIGTERM);
    while (waitpid(served->pid, &status, 0) < 0 && errno == EINTR)
        ;
    served->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, PAWL_EFAILED, "the server did not end well");
}

/* A number behind a name in a file of /proc. */
static int64_t proc_number(pid_t pid, const char *file, const char *name)
{
    char path[64];
    char line[1024];
    int64_t value = -1;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    FILE *in = fopen(path, "re");

    if (in == NULL)
        return -1;
    while (value < 0 && fgets(line, sizeof(line), in) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoll(line + strlen(name), NULL, 10);
    }
    fclose(in);
    return value;
}

int64_t served_rss_kb(const struct served *served)
{
    return proc_number(served->pid, "status", "VmRSS:");
}

int64_t served_cpu_us(const struct served *served)
{
    char path[64];
    char line[1024];
    long long user = 0;
    long long system = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)served->pid);
    FILE *in = fopen(path, "re");
    char *at = in != NULL && fgets(line, sizeof(line), in) != NULL ? strrchr(line, ')') : NULL;

    if (in != NULL)
        fclose(in);
    /* proc(5): the two are fields 14 and 15; the name, which may hold blanks, is field 2. */
    for (int field = 2; at != NULL && field < 14; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return 0;
    user = strtoll(at, &at, 10);
    system = strtoll(at, NULL, 10);
    return (user + system) * US_PER_S / sysconf(_SC_CLK_TCK);
}

int served_finish(struct served *served, int rc, struct pawl_err *err)
{
    struct pawl_err stop_err;

    if (served_stop(served, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = err->code;
    }
    return rc;
}

int served_prepare(struct bench *b, int64_t jobs, struct pawl_err *err)
{
    int rc = tables_clear(b, 0, err);

    if (rc == 0 && jobs > 0)
        rc = tables_fill(b, jobs, PAWL_PRIORITY_DEFAULT, false, err);
    return rc == 0 ? tables_tidy(b, err) : rc;
}
