/*
 * cluster_locate: where the private cluster lives and which user its server runs as. Reads the
 * environment and the file system, changes nothing.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grp.h>
#include <openssl/evp.h>
#include <pwd.h>

#include "pg/cluster/internal.h"

#define ROOT_HOME   "/var/lib/pawl"
#define HOME_MAX    900 /* PostgreSQL's own limit for a path is 1024 */
#define SOCKET_NAME "/.s.PGSQL." CLUSTER_PORT

/* An empty variable is as good as none. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* What was asked for, before it is made absolute. */
static int home_wanted(struct arena *arena, const char **ret_path, struct pawl_err *err)
{
    const char *path = NULL;
    const char *xdg = env("XDG_DATA_HOME");
    const char *user_home = env("HOME");
    if (env("PAWL_HOME")) {
        path = arena_strdup(arena, env("PAWL_HOME"));
    } else if (xdg && xdg[0] == '/') { /* a relative one is to be ignored, says its specification */
        path = arena_printf(arena, "%s/pawl", xdg);
    } else if (geteuid() == 0) {
        path = ROOT_HOME;
    } else {
        if (!user_home || user_home[0] != '/') {
            const struct passwd *pw = getpwuid(geteuid());
            user_home = pw ? pw->pw_dir : NULL;
        }
        if (!user_home || user_home[0] != '/') {
            err_set(err,
                    PAWL_EINVAL,
                    "cannot tell where to keep the database: this user has no home directory");
            return err_hint(
                err, "Set PAWL_HOME to a directory of your own, or name a database with --db.");
        }
        path = arena_printf(arena, "%s/.local/share/pawl", user_home);
    }
    if (!path)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    *ret_path = path;
    return 0;
}

/* Absolute and free of symlinks as far as it exists, so that one home has one name however it is
 * reached: the name decides about the socket's place. */
static int
home_canonical(struct arena *arena, const char *wanted, const char **ret_home, struct pawl_err *err)
{
    char cwd[PATH_MAX] = "";
    if (wanted[0] != '/' && !getcwd(cwd, sizeof cwd))
        return err_set_errno(err, errno, "could not tell the current directory");
    char *path = arena_printf(arena, "%s%s%s", cwd, wanted[0] == '/' ? "" : "/", wanted);
    if (!path)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';

    /* Cut the path shorter until what is left exists; the rest is then added as it was. */
    size_t cut = len;
    char resolved[PATH_MAX];
    for (;;) {
        char *prefix = arena_strndup(arena, path, cut > 0 ? cut : 1);
        if (!prefix)
            return err_set(err, PAWL_ENOMEM, "out of memory");
        if (realpath(prefix, resolved))
            break;
        if (cut == 0 || (errno != ENOENT && errno != EACCES && errno != ENOTDIR))
            return err_set_errno(err, errno, "could not resolve the path %s", path);
        while (cut > 0 && path[cut - 1] != '/')
            cut--;
        while (cut > 0 && path[cut - 1] == '/')
            cut--;
    }
    const char *rest = path + cut;
    const char *home = arena_printf(
        arena, "%s%s", strcmp(resolved, "/") == 0 && *rest == '/' ? "" : resolved, rest);
    if (!home)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    *ret_home = home;
    return 0;
}

static int home_check(const char *home, struct pawl_err *err)
{
    if (strcmp(home, "/") == 0) {
        err_set(err, PAWL_EINVAL, "the root directory cannot be PAWL_HOME");
        return err_hint(err, "Use a directory of its own, such as " ROOT_HOME ".");
    }
    if (strlen(home) > HOME_MAX) {
        err_set(err, PAWL_EINVAL, "the path of PAWL_HOME is longer than %d bytes", HOME_MAX);
        return err_hint(err, "Use a shorter one, such as " ROOT_HOME ".");
    }
    for (const char *c = home; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_set(err, PAWL_EINVAL, "the path of PAWL_HOME contains a control character");
    return 0;
}

static int set_user(struct cluster *cluster,
                    struct arena *arena,
                    const struct passwd *pw,
                    struct pawl_err *err)
{
    cluster->uid = pw->pw_uid;
    cluster->gid = pw->pw_gid;
    cluster->user = arena_strdup(arena, pw->pw_name);
    return cluster->user ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

static int user_of(struct cluster *cluster, struct arena *arena, uid_t uid, struct pawl_err *err)
{
    const struct passwd *pw = getpwuid(uid);
    if (!pw) {
        err_set(err, PAWL_EINVAL, "user id %u has no name on this machine", (unsigned)uid);
        err_detail(err, "PostgreSQL runs only as a user that has a name.");
        return err_hint(
            err, "Add the user (useradd), run pawl as another one, or name a database with --db.");
    }
    return set_user(cluster, arena, pw, err);
}

/* home: of an existing home; NULL when there is none yet. */
static int user_choose(struct cluster *cluster,
                       struct arena *arena,
                       const struct stat *home,
                       struct pawl_err *err)
{
    const char *run_as = env("PAWL_RUN_AS");
    const struct passwd *wanted = NULL;
    if (run_as) {
        wanted = getpwnam(run_as);
        if (!wanted || wanted->pw_uid == 0) {
            err_set(err,
                    PAWL_EINVAL,
                    "PAWL_RUN_AS=%s is not an unprivileged user of this machine",
                    run_as);
            return err_hint(err, "Name a user that exists, or unset PAWL_RUN_AS.");
        }
    }
    uid_t me = geteuid();
    uid_t owner = home ? home->st_uid : me;
    if (me != 0 && owner != me) {
        err_set(err, PAWL_EDENIED, "%s belongs to another user", cluster->home);
        return err_hint(
            err,
            "Run pawl as that user, set PAWL_HOME to a directory of your own, or name a database "
            "with --db.");
    }
    if (wanted && owner != 0 && wanted->pw_uid != owner) {
        err_set(err,
                PAWL_EINVAL,
                "PAWL_RUN_AS=%s, but %s would not be that user's",
                run_as,
                cluster->home);
        return err_hint(err, "Unset PAWL_RUN_AS: the server runs as the owner of its home.");
    }
    if (owner != 0)
        return user_of(cluster, arena, owner, err);
    if (!wanted)
        wanted = getpwnam("postgres");
    if (!wanted)
        wanted = getpwnam("nobody");
    if (!wanted) {
        err_set(
            err, PAWL_EINVAL, "there is no user to run PostgreSQL as, which does not run as root");
        return err_hint(err, "Set PAWL_RUN_AS to an unprivileged user.");
    }
    return set_user(cluster, arena, wanted, err);
}

static int user_locate(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    struct stat st;
    if (stat(cluster->home, &st) < 0) {
        if (errno == ENOENT)
            return user_choose(cluster, arena, NULL, err);
        err_set_errno(err, errno, "could not look at %s", cluster->home);
        return err_hint(err,
                        "Set PAWL_HOME to a directory of your own, or name a database with --db.");
    }
    if (!S_ISDIR(st.st_mode)) {
        err_set(err, PAWL_EINVAL, "%s is not a directory", cluster->home);
        return err_hint(err, "Move it away or set PAWL_HOME to another place.");
    }
    int rc = user_choose(cluster, arena, &st, err);
    if (rc < 0)
        return rc;
    if ((st.st_mode & 077) != 0) {
        err_set(err,
                PAWL_EDENIED,
                "others may enter %s, where the database is to be kept",
                cluster->home);
        err_detail(err, "Its mode is %04o.", (unsigned)(st.st_mode & 07777));
        if ((st.st_mode & 02) != 0) /* a place like /tmp: closing it would do harm */
            return err_hint(err, "Set PAWL_HOME to a directory of its own.");
        return err_hint(
            err, "If it is meant for Pawl alone: chmod 700 %s. Else set PAWL_HOME.", cluster->home);
    }
    return 0;
}

/* A socket's address holds 107 bytes, and libpq takes a comma for the end of a host. */
static int run_locate(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    size_t room = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    cluster->run = arena_printf(arena, "%s/run", cluster->home);
    if (cluster->run &&
        (strlen(cluster->run) + strlen(SOCKET_NAME) > room || strchr(cluster->run, ','))) {
        unsigned char hash[EVP_MAX_MD_SIZE];
        size_t len = 0;
        if (!EVP_Q_digest(NULL, "SHA256", NULL, cluster->home, strlen(cluster->home), hash, &len) ||
            len < 8)
            return err_set(err, PAWL_EFAILED, "could not compute a hash");
        unsigned long long name = 0;
        for (size_t i = 0; i < 8; i++)
            name = name << 8 | hash[i];
        cluster->run = arena_printf(arena, "/tmp/pawl-%u-%016llx", (unsigned)cluster->uid, name);
    }
    return cluster->run ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

int cluster_locate(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    struct cluster found = {0};
    const char *wanted = NULL;
    int rc = home_wanted(arena, &wanted, err);
    if (rc == 0)
        rc = home_canonical(arena, wanted, &found.home, err);
    if (rc == 0)
        rc = home_check(found.home, err);
    if (rc == 0)
        rc = user_locate(&found, arena, err);
    if (rc == 0)
        rc = run_locate(&found, arena, err);
    if (rc < 0)
        return rc;
    found.data = arena_printf(arena, "%s/data", found.home);
    found.log = arena_printf(arena, "%s/log", found.home);
    if (!found.data || !found.log)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    *cluster = found;
    return 0;
}

bool locate_reachable(const struct cluster *cluster, const char *path)
{
    char cut[PATH_MAX];
    snprintf(cut, sizeof cut, "%s", path);
    pid_t pid = fork();
    if (pid < 0)
        return true; /* cannot tell; what fails later says so itself */
    if (pid == 0) {
        /* Asked as that user, with none of root's groups, because nothing else gives the kernel's
         * own answer. */
        if (setgroups(0, NULL) < 0 || setresgid(cluster->gid, cluster->gid, cluster->gid) < 0 ||
            setresuid(cluster->uid, cluster->uid, cluster->uid) < 0)
            _exit(0); /* the same */
        while (access(cut, X_OK) < 0 && errno == ENOENT) {
            char *slash = strrchr(cut, '/');
            if (!slash || slash == cut)
                break;
            *slash = '\0';
        }
        _exit(access(cut, X_OK) < 0 && errno == EACCES ? 1 : 0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return true;
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
