/*
 * Where the private PostgreSQL lives: each test has a home of its own and leaves nothing of it.
 * Passes as root and as an ordinary user.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pwd.h>

#include "cluster_place.h"
#include "pg/cluster.h"
#include "support/cmocka.h"

static void two_at_once_make_one_cluster(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            bool started = false;
            int rc = cluster_locate(&place.cluster, &place.arena, &place.err);
            if (rc == 0)
                rc = cluster_start(&place.cluster, &place.arena, &started, &place.err);
            _exit(rc < 0 ? 1 : started ? 11 : 10);
        }
    }
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    assert_int_equal(sum, 21); /* both are happy, one of them started it */
    place_locate(&place);
    assert_false(place_start(&place));
    place_deinit(&place);
}

static void a_long_path_has_its_socket_elsewhere(void **state)
{
    (void)state;
    struct place place;
    char name[120];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    place_init(&place, name);
    place_locate(&place);
    assert_true(strncmp(place.cluster.run, "/tmp/pawl-", strlen("/tmp/pawl-")) == 0);

    /* Half a cluster, left by one that was interrupted, is done away with. */
    assert_int_equal(mkdir(place.home, 0700), 0);
    assert_int_equal(mkdir(place_path(&place, "data.new"), 0700), 0);
    place_write(&place, place_path(&place, "data.new/PG_VERSION"), "we", "15\n");
    if (geteuid() == 0) {
        assert_int_equal(chown(place.home, place.cluster.uid, place.cluster.gid), 0);
        assert_int_equal(
            chown(place_path(&place, "data.new"), place.cluster.uid, place.cluster.gid), 0);
    }
    assert_int_equal(place_state(&place, NULL), CLUSTER_ABSENT);

    /* Somebody was there first. */
    assert_int_equal(symlink("/tmp", place.cluster.run), 0);
    assert_start_fails(&place, PAWL_EDENIED);
    assert_int_equal(unlink(place.cluster.run), 0);
    if (geteuid() == 0) {
        assert_int_equal(mkdir(place.cluster.run, 0700), 0); /* a good directory, but root's */
        assert_start_fails(&place, PAWL_EDENIED);
        assert_int_equal(rmdir(place.cluster.run), 0);
    }

    assert_true(place_start(&place));
    assert_int_equal(access(place_path(&place, "data.new"), F_OK), -1);
    assert_int_equal(mode_of(place.cluster.run), 0700);
    assert_query(&place, "SELECT 1", "1");
    place_deinit(&place);
}

static void without_postgresql_it_says_what_to_install_and_leaves_nothing(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    setenv("PAWL_PG_BINDIR", "/usr/share", 1);
    assert_start_fails(&place, PAWL_EMISSING);
    assert_holds(place.err.hint, "PAWL_PG_BINDIR");
    place_clean_environment();
    assert_int_equal(access(place.home, F_OK), -1);
    place_deinit(&place);
}

static void a_home_open_to_others_is_refused(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    assert_int_equal(mkdir(place.home, 0700), 0);
    assert_int_equal(chmod(place.home, 0750), 0);
    assert_start_fails(&place, PAWL_EDENIED);
    assert_holds(place.err.hint, "chmod 700");
    assert_int_equal(rmdir(place.home), 0);
    place_deinit(&place);
}

static void a_home_out_of_reach_is_refused(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "closed/home");
    const char *closed = arena_printf(&place.arena, "%s/closed", place.top);
    assert_int_equal(mkdir(closed, 0700), 0);
    if (geteuid() != 0)
        assert_int_equal(chmod(closed, 0500), 0);
    assert_start_fails(&place, PAWL_EDENIED);
    assert_holds(place.err.hint, "PAWL_HOME");
    assert_int_equal(rmdir(closed), 0); /* nothing was left in it */
    place_deinit(&place);
}

static void a_home_with_other_things_in_it_is_left_alone(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    assert_int_equal(mkdir(place.home, 0700), 0);
    assert_int_equal(mkdir(place_path(&place, "data"), 0700), 0);
    const char *precious = place_path(&place, "precious");
    FILE *file = fopen(precious, "we");
    assert_non_null(file);
    fclose(file);
    place_locate(&place);
    int rc = cluster_destroy(&place.cluster, &place.arena, &place.err);
    assert_int_equal(rc, PAWL_ENOTFOUND);
    assert_int_equal(access(place_path(&place, "data"), F_OK), 0);
    assert_int_equal(rmdir(place_path(&place, "data")), 0);
    assert_start_fails(&place, PAWL_ESTATE);
    assert_int_equal(access(place_path(&place, "data"), F_OK), -1);

    /* A file that is called lock does not make it ours, whoever owns the directory. */
    if (geteuid() == 0)
        assert_int_equal(chown(place.home, place.cluster.uid, place.cluster.gid), 0);
    place_write(&place, place_path(&place, "lock"), "we", "something else\n");
    assert_true(cluster_destroy(&place.cluster, &place.arena, &place.err) < 0);
    assert_start_fails(&place, PAWL_ESTATE);
    assert_int_equal(unlink(place_path(&place, "lock")), 0);
    assert_int_equal(unlink(precious), 0);
    assert_int_equal(rmdir(place.home), 0);
    place_deinit(&place);
}

static void bad_names_for_a_home_are_refused(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    const char *too_long = arena_printf(&place.arena,
                                        "%s/%0*d/%0*d/%0*d/%0*d/%0*d",
                                        place.top,
                                        200,
                                        0,
                                        200,
                                        0,
                                        200,
                                        0,
                                        200,
                                        0,
                                        200,
                                        0);
    const char *names[] = {"/", "/tmp/a\nb", "/dev/null", too_long};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv("PAWL_HOME", names[i], 1);
        int rc = cluster_locate(&place.cluster, &place.arena, &place.err);
        if (rc != PAWL_EINVAL && rc != PAWL_EFAILED)
            fail_msg("%s: %d", names[i], rc);
    }
    setenv("PAWL_HOME", place.home, 1);
    setenv("PAWL_RUN_AS", "root", 1);
    assert_int_equal(cluster_locate(&place.cluster, &place.arena, &place.err), PAWL_EINVAL);
    unsetenv("PAWL_RUN_AS");
    place_deinit(&place);
}

static void the_home_is_where_the_environment_says(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    char cwd[PATH_MAX];
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(place.top), 0);
    setenv("PAWL_HOME", "home//", 1);
    place_locate(&place);
    assert_int_equal(chdir(cwd), 0);
    assert_string_equal(place.cluster.home, place.home);

    unsetenv("PAWL_HOME");
    setenv("XDG_DATA_HOME", place.top, 1);
    place_locate(&place);
    assert_string_equal(place.cluster.home, arena_printf(&place.arena, "%s/pawl", place.top));
    setenv("XDG_DATA_HOME", "relative", 1);
    if (geteuid() != 0) {
        setenv("HOME", place.top, 1);
        place_locate(&place);
        assert_string_equal(place.cluster.home,
                            arena_printf(&place.arena, "%s/.local/share/pawl", place.top));
    }
    unsetenv("XDG_DATA_HOME");
    setenv("PAWL_HOME", place.home, 1);
    place_deinit(&place);
}

static void a_home_of_another_user_decides_who_runs_it(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, "home");
    if (geteuid() != 0) {
        setenv("PAWL_HOME", "/root", 1);
        assert_start_fails(&place, PAWL_EDENIED);
    } else {
        const struct passwd *other = getpwnam("daemon");
        assert_non_null(other);
        assert_int_equal(mkdir(place.home, 0700), 0);
        assert_int_equal(chown(place.home, other->pw_uid, other->pw_gid), 0);
        place_locate(&place);
        assert_string_equal(place.cluster.user, "daemon");
        setenv("PAWL_RUN_AS", "nobody", 1);
        assert_start_fails(&place, PAWL_EINVAL);
        unsetenv("PAWL_RUN_AS");
        assert_int_equal(rmdir(place.home), 0);
        setenv("PAWL_RUN_AS", "nobody", 1);
        place_locate(&place);
        assert_string_equal(place.cluster.user, "nobody");
        unsetenv("PAWL_RUN_AS");
    }
    setenv("PAWL_HOME", place.home, 1);
    place_deinit(&place);
}

int main(void)
{
    place_clean_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_at_once_make_one_cluster),
        cmocka_unit_test(a_long_path_has_its_socket_elsewhere),
        cmocka_unit_test(without_postgresql_it_says_what_to_install_and_leaves_nothing),
        cmocka_unit_test(a_home_open_to_others_is_refused),
        cmocka_unit_test(a_home_out_of_reach_is_refused),
        cmocka_unit_test(a_home_with_other_things_in_it_is_left_alone),
        cmocka_unit_test(bad_names_for_a_home_are_refused),
        cmocka_unit_test(the_home_is_where_the_environment_says),
        cmocka_unit_test(a_home_of_another_user_decides_who_runs_it),
    };
    return cmocka_run_group_tests_name("cluster home", tests, NULL, NULL);
}
