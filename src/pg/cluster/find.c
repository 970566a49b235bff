/*
 * cluster_find: which PostgreSQL to use. $PAWL_PG_BINDIR alone when it is set; otherwise the places
 * of Debian's and the PGDG's packages and $PATH. A new cluster gets the newest, an existing one the
 * major version that made it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glob.h>

#include "pg/cluster/internal.h"

#define VERSION_OUTPUT_MAX 16384
#define PATH_ENTRY_MAX     64 /* of $PATH looked at */

struct search {
    const struct cluster *cluster;
    struct arena *arena;
    int wanted;         /* major version; 0: the newest */
    const char *bindir; /* the best so far; NULL: none */
    const char *version;
    int major;
    int rejected; /* the newest that would not do; 0: none */
};

static bool has_programs(const char *bindir)
{
    static const char *const names[] = {"postgres", "initdb", "createdb"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", bindir, names[i]) >= (int)sizeof path ||
            access(path, X_OK) < 0)
            return false;
    }
    return true;
}

/* "postgres (PostgreSQL) 15.13 (Debian ...)": asks the program itself, because a directory's name
 * may lie. NULL when it gives no such answer. */
static const char *ask_version(const struct search *search, const char *bindir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/postgres", bindir) >= (int)sizeof path)
        return NULL;
    CLEANUP(buf_deinit)
    struct buf out;
    buf_init(&out, VERSION_OUTPUT_MAX);
    int status = 0;
    const char *const argv[] = {path, "--version", NULL};
    if (process_run(search->cluster, argv, &out, &status, NULL) < 0 || status != 0)
        return NULL;
    static const char before[] = "(PostgreSQL) ";
    const char *text = strstr(buf_str(&out), before);
    if (!text)
        return NULL;
    text += strlen(before);
    return arena_strndup(search->arena, text, strcspn(text, " \n"));
}

static void consider(struct search *search, const char *bindir)
{
    if (!has_programs(bindir))
        return;
    const char *version = ask_version(search, bindir);
    if (!version)
        return;
    int major = (int)strtol(version, NULL, 10); /* "17beta1" is 17 */
    if (search->wanted ? major != search->wanted : major < CLUSTER_MAJOR_MIN) {
        if (major > search->rejected)
            search->rejected = major;
        return;
    }
    if (major <= search->major)
        return;
    const char *kept = arena_strdup(search->arena, bindir);
    if (!kept)
        return;
    search->bindir = kept;
    search->version = version;
    search->major = major;
}

static void consider_packages(struct search *search)
{
    static const char *const patterns[] = {"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        glob_t found;
        if (glob(patterns[i], GLOB_ONLYDIR, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc; j++)
            consider(search, found.gl_pathv[j]);
        globfree(&found);
    }
}

static void consider_path(struct search *search)
{
    const char *path = getenv("PATH");
    for (unsigned n = 0; path && *path && n < PATH_ENTRY_MAX; n++) {
        size_t len = strcspn(path, ":");
        char dir[PATH_MAX];
        /* A relative entry depends on where one stands; that is no place to take a server from. */
        if (path[0] == '/' && len < sizeof dir) {
            memcpy(dir, path, len);
            dir[len] = '\0';
            consider(search, dir);
        }
        path += len;
        path += *path == ':';
    }
}

static int missing(const struct search *search, const char *bindir, struct pawl_err *err)
{
    if (search->wanted)
        err_set(err,
                PAWL_EMISSING,
                "the database in %s needs PostgreSQL %d, which is not installed",
                search->cluster->home,
                search->wanted);
    else
        err_set(
            err, PAWL_EMISSING, "PostgreSQL is not installed, or older than %d", CLUSTER_MAJOR_MIN);
    if (bindir)
        err_detail(err, "PAWL_PG_BINDIR=%s is the only place looked at.", bindir);
    else if (search->rejected)
        err_detail(err, "The newest other one found is PostgreSQL %d.", search->rejected);
    int major = search->wanted ? search->wanted : CLUSTER_MAJOR_MIN;
    if (bindir)
        return err_hint(
            err,
            "Unset PAWL_PG_BINDIR, or let it name the directory with postgres, initdb and createdb of "
            "PostgreSQL %d.",
            major);
    if (search->wanted)
        return err_hint(
            err, "Install the package postgresql-%d: apt-get install postgresql-%d.", major, major);
    return err_hint(
        err,
        "Install the Debian package postgresql-%d: apt-get install postgresql. Or name a database that "
        "runs elsewhere with --db.",
        major);
}

int cluster_find(struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    struct search search = {.cluster = cluster, .arena = arena};
    int rc = data_major(cluster, &search.wanted, err);
    if (rc < 0)
        return rc;
    const char *bindir = getenv("PAWL_PG_BINDIR");
    if (bindir && !*bindir)
        bindir = NULL;
    if (bindir) {
        if (bindir[0] != '/')
            return err_set(err, PAWL_EINVAL, "PAWL_PG_BINDIR=%s is not an absolute path", bindir);
        consider(&search, bindir);
    } else {
        consider_packages(&search);
        consider_path(&search);
    }
    if (!search.bindir)
        return missing(&search, bindir, err);
    cluster->bindir = search.bindir;
    cluster->version = search.version;
    cluster->major = search.major;
    return 0;
}
