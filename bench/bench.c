/* bench: the database it works in, and how a run goes from case to case. */
#include "bench/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <poll.h>

#include "bench/tables.h"
#include "pg/sync.h"
#include "store/migrate.h"

#define QUICK 10

static const struct bench_case {
    const char *name;
    int (*run)(struct bench *b, struct pawl_err *err);
} cases[] = {
    {"drain", case_drain},
    {"backlog", case_backlog},
    {"xmin", case_xmin},
    {"future", case_future},
    {"processes", case_processes},
    {"enqueue", case_enqueue},
    {"wake", case_wake},
    {"idle", case_idle},
    {"headofline", case_headofline},
    {"library", case_library},
    {"machines", case_machines},
    {"sweep", case_sweep},
    {"lanes", case_lanes},
#ifdef PAWL_WITH_SERVE
    {"serve", case_serve},
    {"workers", case_workers},
    {"beside", case_beside},
#endif
};

#define N_CASES (sizeof(cases) / sizeof(*cases))

const char *const *bench_names(void)
{
    static const char *names[N_CASES + 1];

    for (size_t i = 0; i < N_CASES; i++)
        names[i] = cases[i].name;
    return names;
}

const char *bench_unknown(const char *const *names)
{
    for (; *names != NULL; names++) {
        size_t i = 0;

        while (i < N_CASES && strcmp(cases[i].name, *names) != 0)
            i++;
        if (i == N_CASES)
            return *names;
    }
    return NULL;
}

int64_t bench_now_us(void)
{
    return clock_mono_us(&clock_system);
}

void bench_sleep_ms(const struct bench *b, int64_t ms)
{
    int64_t until_us = bench_now_us() + ms * US_PER_MS;

    while (!b->interrupted && bench_now_us() < until_us)
        (void)poll(NULL, 0, (int)((until_us - bench_now_us() + US_PER_MS - 1) / US_PER_MS));
}

int64_t bench_ms(const struct bench *b, int64_t full)
{
    return b->options.quick ? full / QUICK : full;
}

int64_t bench_jobs(const struct bench *b, double share_of_jobs)
{
    int64_t n = (int64_t)((double)b->options.jobs * share_of_jobs);

    return n > 0 ? n : 1;
}

void bench_note(struct bench *b, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (b->options.note != NULL)
        b->options.note(b->options.data, text);
}

int bench_go_on(const struct bench *b, struct pawl_err *err)
{
    return b->interrupted ? err_set(err, PAWL_EINTERRUPTED, "stopped before the end") : 0;
}

void bench_interrupt(struct bench *b)
{
    char ignored[256];

    b->interrupted = 1;
    if (b->cancel != NULL)
        (void)PQcancel(b->cancel, ignored, sizeof(ignored));
}

int bench_target(struct target *ret_target,
                 const struct target *server,
                 struct arena *arena,
                 const char *db,
                 struct pawl_err *err)
{
    const char *name = arena_strdup(arena, db);
    size_t i = 0;

    if (name == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    while (i < TARGET_KEYWORDS_MAX - 1 && server->keywords[i] != NULL &&
           strcmp(server->keywords[i], "dbname") != 0)
        i++;
    if (i == TARGET_KEYWORDS_MAX - 1)
        return err_set(err, PAWL_ELIMIT, "the connection string has too many options");
    *ret_target = *server;
    ret_target->keywords[i] = "dbname";
    ret_target->values[i] = name;
    return 0;
}

static void say_nothing(void *data, int version, const char *name, const char *sql)
{
    (void)data;
    (void)version;
    (void)name;
    (void)sql;
}

int bench_open(struct bench *b, const struct bench_options *options, struct pawl_err *err)
{
    int applied;

    *b = (struct bench){.options = *options, .can_checkpoint = true};
    int rc = sync_connect(options->target, &b->admin, err);

    if (rc < 0)
        return rc;
    snprintf(b->db, sizeof(b->db), "pawl_bench_%016llx", (unsigned long long)rand_u64());
    rc = tables_exec(b->admin, err, "CREATE DATABASE %s TEMPLATE template0", b->db);
    if (rc < 0)
        b->db[0] = '\0';
    /* What a commit promises is part of what is measured. */
    if (rc == 0)
        rc = tables_exec(b->admin, err, "ALTER DATABASE %s SET synchronous_commit = on", b->db);
    if (rc == 0)
        rc = bench_target(&b->target, options->target, options->arena, b->db, err);
    if (rc == 0)
        rc = sync_connect(&b->target, &b->conn, err);
    if (rc == 0)
        rc = schema_migrate(b->conn, false, say_nothing, NULL, &applied, err);
    if (rc == 0)
        b->cancel = PQgetCancel(b->conn);
    if (rc < 0)
        bench_close(b);
    return rc;
}

void bench_close(struct bench *b)
{
    struct pawl_err err;
    PGcancel *cancel = b->cancel;

    b->cancel = NULL; /* before it is freed: a signal may come at any time */
    PQfreeCancel(cancel);
    sync_close(&b->conn);
    if (b->db[0] != '\0' && tables_exec(b->admin, &err, "DROP DATABASE %s WITH (FORCE)", b->db) < 0)
        log_error_err(b->options.log, "bench_close", &err, LOG_STR("database", b->db));
    b->db[0] = '\0';
    sync_close(&b->admin);
}

int bench_pairs(struct bench *b, bench_fn fn, void *data, struct pawl_err *err)
{
    int rc = 0;

    for (int64_t round = 0; rc == 0 && round < b->options.rounds; round++) {
        for (int i = 0; rc == 0 && i < 2; i++) {
            bool against = (round + i) % 2 == 0;

            rc = bench_go_on(b, err);
            if (rc == 0)
                rc = fn(b, data, against, err);
        }
    }
    return rc;
}

static bool is_wanted(const char *name, const char *const *names)
{
    if (*names == NULL)
        return true;
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0)
            return true;
    }
    return false;
}

int bench_run(struct bench *b, const char *const *names, struct pawl_err *err)
{
    for (size_t i = 0; i < N_CASES; i++) {
        if (!is_wanted(cases[i].name, names))
            continue;
        b->current = cases[i].name;
        bench_note(b, "%s …", b->current);
        int rc = bench_go_on(b, err);

        if (rc == 0)
            rc = cases[i].run(b, err);
        /* A statement that was cut short by a signal fails in its own words. */
        if (rc < 0 && b->interrupted)
            rc = bench_go_on(b, err);
        if (rc < 0)
            return err->code == PAWL_EINTERRUPTED ? rc : err_prefix(err, "%s", b->current);
    }
    return 0;
}
