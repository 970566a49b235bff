/*
 * The private PostgreSQL at work, on one real cluster in a home with an awkward name. Passes as
 * root and as an ordinary user. The tests leave it running for each other; the last one destroys
 * it.
 */
#include "pg/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>

#include "base/defer.h"
#include "cluster_place.h"
#include "support/cmocka.h"

/* A home that has to be quoted wherever its path is written, but still has its socket inside. */
#define AWKWARD_NAME "it's \"mine\" \\ here"

static struct place shared;

static void first_use_makes_a_database_one_can_talk_to(void **state)
{
    (void)state;
    assert_int_equal(place_state(&shared, NULL), CLUSTER_RUNNING);
    assert_query(&shared, "SELECT current_database() || ' ' || current_user", "pawl pawl");
}

static void a_second_start_changes_nothing(void **state)
{
    (void)state;
    pid_t before = 0;
    pid_t after = 0;
    place_state(&shared, &before);
    assert_false(place_start(&shared));
    place_state(&shared, &after);
    assert_int_equal(before, after);
}

static void it_is_durable_and_closed_to_the_network(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        {"data_checksums", "on"},
        {"fsync", "on"},
        {"synchronous_commit", "on"},
        {"full_page_writes", "on"},
        {"listen_addresses", ""},
        {"unix_socket_permissions", "0700"},
        {"server_encoding", "UTF8"},
        {"TimeZone", "UTC"},
        {"cluster_name", "pawl"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SHOW %s", settings[i][0]);
        assert_query(&shared, sql, settings[i][1]);
    }
}

static void authentication_is_peer_and_nothing_else(void **state)
{
    (void)state;
    assert_query(
        &shared,
        "SELECT string_agg(concat_ws(' ', type, database, user_name, auth_method, options, error), ';')"
        " FROM pg_hba_file_rules",
        "local {all} {pawl} peer {map=pawl}");
}

static void only_the_owner_may_enter(void **state)
{
    (void)state;
    assert_int_equal(mode_of(shared.home), 0700);
    assert_int_equal(mode_of(place_path(&shared, "data")), 0700);
    assert_int_equal(mode_of(place_path(&shared, "run")), 0700);
    assert_int_equal(mode_of(place_path(&shared, "log")), 0700);
    assert_int_equal(mode_of(place_path(&shared, "lock")), 0600);
    assert_int_equal(mode_of(place_path(&shared, "data/pg_hba.conf")), 0600);
    assert_int_equal(mode_of(place_path(&shared, "log/start.log")), 0600);
}

/* In a child that has become uid: 0 connected, 1 refused by authentication, 2 could not get to the
 * socket. */
static int connect_as(uid_t uid, const char *conninfo)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
            _exit(9);
        PGconn *conn = PQconnectdb(conninfo);
        if (PQstatus(conn) == CONNECTION_OK)
            _exit(0);
        _exit(strstr(PQerrorMessage(conn), "Peer authentication failed") ? 1 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void another_user_cannot_connect(void **state)
{
    (void)state;
    char map[256];
    snprintf(map, sizeof map, "%s, %s", shared.cluster.user, getpwuid(0)->pw_name);
    assert_query(
        &shared,
        "SELECT string_agg(sys_name, ', ' ORDER BY line_number) FROM pg_ident_file_mappings"
        " WHERE map_name = 'pawl' AND pg_username = 'pawl'",
        map);
    if (geteuid() != 0)
        return; /* cannot become another user to try it */
    const struct passwd *other = getpwnam("daemon");
    assert_non_null(other);
    assert_int_not_equal(other->pw_uid, shared.cluster.uid);
    const char *conninfo = cluster_conninfo(&shared.cluster, &shared.arena);
    assert_int_equal(connect_as(shared.cluster.uid, conninfo), 0);
    assert_int_equal(connect_as(other->pw_uid, conninfo), 2);
    /* Even when the directories are opened, the server itself refuses. */
    const char *paths[] = {
        shared.home, place_path(&shared, "run"), place_path(&shared, "run/.s.PGSQL.5432")};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(chmod(paths[i], 0777), 0);
    int refused = connect_as(other->pw_uid, conninfo);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(chmod(paths[i], 0700), 0);
    assert_int_equal(refused, 1);
}

static void the_server_inherits_nothing_from_its_starter(void **state)
{
    (void)state;
    place_stop(&shared);
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
    assert_true(place_start(&shared));
    close(pipe_fds[1]);
    char byte;
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* the end, so nobody else holds it */
    close(pipe_fds[0]);

    AUTO_FD int lock = open(place_path(&shared, "lock"), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);

    pid_t pid = 0;
    place_state(&shared, &pid);
    assert_int_not_equal(getsid(pid), getsid(0));
}

static void stopping_twice_is_no_mistake(void **state)
{
    (void)state;
    place_stop(&shared);
    pid_t pid = 1;
    assert_int_equal(place_state(&shared, &pid), CLUSTER_STOPPED);
    assert_int_equal(pid, 0);
    place_stop(&shared);
    assert_true(place_start(&shared));
}

/* A living process of the server's user that has nothing to do with it: PostgreSQL itself would
 * believe it. */
static pid_t stranger_new(void)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        uid_t uid = shared.cluster.uid;
        if (geteuid() == 0 && setresuid(uid, uid, uid) < 0)
            _exit(1);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void lock_files_naming_a_stranger_are_not_believed(void **state)
{
    (void)state;
    place_stop(&shared);
    pid_t stranger = stranger_new();
    char text[2 * PATH_MAX];
    snprintf(text,
             sizeof text,
             "%d\n%s\n1\n5432\n%s\n\n",
             (int)stranger,
             shared.cluster.data,
             shared.cluster.run);
    place_write(&shared, place_path(&shared, "data/postmaster.pid"), "we", text);
    place_write(&shared, place_path(&shared, "run/.s.PGSQL.5432.lock"), "we", text);
    enum cluster_state seen = place_state(&shared, NULL);
    int rc = cluster_start(&shared.cluster, &shared.arena, NULL, &shared.err);
    int lives = waitpid(stranger, NULL, WNOHANG);
    kill(stranger, SIGKILL);
    assert_int_equal(waitpid(stranger, NULL, 0), stranger);
    assert_int_equal(seen, CLUSTER_STOPPED);
    place_ok(&shared, rc);
    assert_int_equal(lives, 0); /* and nobody took it for the server and stopped it */
    assert_query(&shared, "SELECT 1", "1");
}

static void an_empty_lock_file_is_no_obstacle(void **state)
{
    (void)state;
    place_stop(&shared);
    place_write(&shared, place_path(&shared, "data/postmaster.pid"), "we", "");
    assert_true(place_start(&shared));
}

static void a_killed_server_is_started_again(void **state)
{
    (void)state;
    pid_t pid = 0;
    assert_int_equal(place_state(&shared, &pid), CLUSTER_RUNNING);
    assert_true(pid > 1);
    AUTO_FD int pidfd = pidfd_open(pid, 0);
    assert_true(pidfd >= 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 10000), 1);
    assert_int_equal(place_state(&shared, NULL), CLUSTER_STOPPED);
    assert_true(place_start(&shared));
    assert_query(&shared, "SELECT 1", "1");
}

static void a_first_use_cut_short_before_the_database_is_completed(void **state)
{
    (void)state;
    const char *mark = place_path(&shared, "data/pawl.database");
    const char *conninfo = cluster_conninfo(&shared.cluster, &shared.arena);
    const char *elsewhere = arena_printf(&shared.arena, "%s dbname=postgres", conninfo);
    PGconn *conn = PQconnectdb(elsewhere); /* the later keyword wins */
    PGresult *result = PQexec(conn, "DROP DATABASE pawl WITH (FORCE)");
    assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    PQfinish(conn);
    assert_int_equal(unlink(mark), 0);
    assert_false(place_start(&shared));
    assert_query(&shared, "SELECT current_database()", "pawl");
    assert_int_equal(unlink(mark),
                     0); /* cut short a moment later: the database is there, only not the mark */
    assert_false(place_start(&shared));
    assert_int_equal(access(mark, F_OK), 0);
}

static void why_it_does_not_start_is_told(void **state)
{
    (void)state;
    place_stop(&shared);
    const char *conf = place_path(&shared, "data/postgresql.auto.conf");
    place_write(&shared, conf, "we", "shared_buffers = 'a lot'\n");
    bool started = true;
    int rc = cluster_start(&shared.cluster, &shared.arena, &started, &shared.err);
    place_write(&shared, conf, "we", "");
    assert_int_equal(rc, PAWL_EFAILED);
    assert_true(started); /* untouched */
    assert_holds(shared.err.detail, "shared_buffers");
    assert_holds(shared.err.hint, shared.cluster.log);
    assert_true(place_start(&shared));
}

static void the_network_stays_closed_whatever_the_settings_say(void **state)
{
    (void)state;
    place_stop(&shared);
    const char *conf = place_path(&shared, "data/postgresql.auto.conf");
    place_write(&shared, conf, "we", "listen_addresses = '*'\nport = 5999\n");
    assert_true(place_start(&shared));
    assert_query(&shared, "SHOW listen_addresses", "");
    place_write(&shared, conf, "we", "");
}

static void the_version_that_made_it_must_be_there(void **state)
{
    (void)state;
    place_stop(&shared);
    const char *path = place_path(&shared, "data/PG_VERSION");
    place_write(&shared, path, "we", "99\n");
    int rc = cluster_start(&shared.cluster, &shared.arena, NULL, &shared.err);
    enum cluster_state seen = place_state(&shared, NULL);
    char made_by[16];
    snprintf(made_by, sizeof made_by, "%d\n", shared.cluster.major);
    place_write(&shared, path, "we", made_by);
    assert_int_equal(rc, PAWL_EMISSING);
    assert_int_equal(seen, CLUSTER_STOPPED);
    assert_holds(shared.err.hint,
                 getenv("PAWL_PG_BINDIR") != NULL ? "of PostgreSQL 99" : "postgresql-99");
    assert_true(place_start(&shared));
}

static void destroying_does_not_follow_links(void **state)
{
    (void)state;
    const char *outside = arena_printf(&shared.arena, "%s/outside", shared.top);
    const char *file = arena_printf(&shared.arena, "%s/outside/file", shared.top);
    assert_int_equal(mkdir(outside, 0777), 0);
    assert_int_equal(chmod(outside, 0777), 0);
    place_write(&shared, file, "we", "precious\n");
    assert_int_equal(symlink(outside, place_path(&shared, "data/pg_tblspc/1")), 0);
    assert_int_equal(symlink(file, place_path(&shared, "log/link")), 0);
    place_ok(&shared, cluster_destroy(&shared.cluster, &shared.arena, &shared.err));
    assert_int_equal(access(shared.home, F_OK), -1);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(outside), 0);
    place_ok(&shared,
             cluster_destroy(
                 &shared.cluster, &shared.arena, &shared.err)); /* nothing there: nothing to do */
}

static int shared_setup(void **state)
{
    (void)state;
    place_init(&shared, AWKWARD_NAME);
    place_locate(&shared);
    assert_int_equal(place_state(&shared, NULL), CLUSTER_ABSENT);
    return place_start(&shared) ? 0 : -1;
}

static int shared_teardown(void **state)
{
    (void)state;
    setenv("PAWL_HOME", shared.home, 1);
    place_deinit(&shared);
    return 0;
}

int main(void)
{
    place_clean_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_use_makes_a_database_one_can_talk_to),
        cmocka_unit_test(a_second_start_changes_nothing),
        cmocka_unit_test(it_is_durable_and_closed_to_the_network),
        cmocka_unit_test(authentication_is_peer_and_nothing_else),
        cmocka_unit_test(only_the_owner_may_enter),
        cmocka_unit_test(another_user_cannot_connect),
        cmocka_unit_test(the_server_inherits_nothing_from_its_starter),
        cmocka_unit_test(stopping_twice_is_no_mistake),
        cmocka_unit_test(lock_files_naming_a_stranger_are_not_believed),
        cmocka_unit_test(an_empty_lock_file_is_no_obstacle),
        cmocka_unit_test(a_killed_server_is_started_again),
        cmocka_unit_test(a_first_use_cut_short_before_the_database_is_completed),
        cmocka_unit_test(why_it_does_not_start_is_told),
        cmocka_unit_test(the_network_stays_closed_whatever_the_settings_say),
        cmocka_unit_test(the_version_that_made_it_must_be_there),
        cmocka_unit_test(destroying_does_not_follow_links),
    };
    return cmocka_run_group_tests_name("cluster", tests, shared_setup, shared_teardown);
}
