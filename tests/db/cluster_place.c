/*
 * cluster_place: see the header.
 */
#include "cluster_place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka.h"

#define ARENA_MAX (1024 * 1024)

void place_init(struct place *place, const char *name)
{
    memset(place, 0, sizeof *place);
    const char *tmp = getenv("PAWL_TEST_TMP");
    snprintf(place->top, sizeof place->top, "%s/place-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(place->top));
    assert_int_equal(chmod(place->top, 0755), 0);
    if (geteuid() != 0)
        assert_int_equal(chmod(place->top, 0700), 0);
    assert_true(snprintf(place->home, sizeof place->home, "%s/%s", place->top, name) < PATH_MAX);
    setenv("PAWL_HOME", place->home, 1);
    arena_init(&place->arena, ARENA_MAX);
}

void place_ok(const struct place *place, int rc)
{
    if (rc != 0)
        fail_msg("%d: %s\n%s\n%s", rc, place->err.message, place->err.detail, place->err.hint);
}

void place_locate(struct place *place)
{
    place_ok(place, cluster_locate(&place->cluster, &place->arena, &place->err));
}

bool place_start(struct place *place)
{
    bool started = false;
    place_ok(place, cluster_start(&place->cluster, &place->arena, &started, &place->err));
    return started;
}

void place_stop(struct place *place)
{
    place_ok(place, cluster_stop(&place->cluster, &place->arena, &place->err));
}

void place_deinit(struct place *place)
{
    place_locate(place);
    place_ok(place, cluster_destroy(&place->cluster, &place->arena, &place->err));
    struct stat st;
    assert_int_equal(lstat(place->cluster.run, &st), -1);
    if (rmdir(place->top) != 0)
        fail_msg("%s is not empty: %s", place->top, strerror(errno));
    arena_deinit(&place->arena);
    unsetenv("PAWL_HOME");
}

enum cluster_state place_state(struct place *place, pid_t *ret_pid)
{
    enum cluster_state state = CLUSTER_ABSENT;
    place_ok(place, cluster_state(&place->cluster, &state, ret_pid, &place->err));
    return state;
}

const char *place_path(struct place *place, const char *name)
{
    const char *path = arena_printf(&place->arena, "%s/%s", place->home, name);
    assert_non_null(path);
    return path;
}

void place_write(struct place *place, const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    if (geteuid() == 0)
        assert_int_equal(fchown(fileno(file), place->cluster.uid, place->cluster.gid), 0);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
}

mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

PGconn *place_connect(struct place *place)
{
    const char *conninfo = cluster_conninfo(&place->cluster, &place->arena);
    assert_non_null(conninfo);
    PGconn *conn = PQconnectdb(conninfo);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s: %s", conninfo, PQerrorMessage(conn));
    return conn;
}

void assert_query(struct place *place, const char *sql, const char *expected)
{
    PGconn *conn = place_connect(place);
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
    PQfinish(conn);
}

void assert_holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

void assert_start_fails(struct place *place, int code)
{
    bool started = true;
    int rc = cluster_locate(&place->cluster, &place->arena, &place->err);
    if (rc == 0)
        rc = cluster_start(&place->cluster, &place->arena, &started, &place->err);
    if (rc != code)
        fail_msg("%d instead of %d: %s: %s", rc, code, place->err.message, place->err.detail);
    assert_true(place->err.message[0] && place->err.hint[0]);
}

void place_clean_environment(void)
{
    static const char *const unwanted[] = {"PAWL_RUN_AS",
                                           "PAWL_PG_BINDIR",
                                           "XDG_DATA_HOME",
                                           "PGHOST",
                                           "PGPORT",
                                           "PGUSER",
                                           "PGDATABASE",
                                           "PGSERVICE"};
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
        unsetenv(unwanted[i]);
    /* The version that the tests were told to use, if any (tools/run-tests --pg). */
    const char *bindir = getenv("PAWL_TEST_PG_BINDIR");
    if (bindir)
        setenv("PAWL_PG_BINDIR", bindir, 1);
}
