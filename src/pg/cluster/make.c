/*
 * cluster_make: initdb and our settings. All of it happens in data.new, which is renamed only when
 * it is complete and on disk, so a crash at any point leaves either no cluster or a whole one.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <locale.h>
#include <pwd.h>

#include "pg/cluster/internal.h"

#define INITDB_OUTPUT_MAX 16384
#define INITDB_TAIL_MAX   400 /* the reason is at the end, after a long report of what went well */
#define IDENT_MAX         2048

/* What decides about safety stands at its default on purpose: fsync, synchronous_commit and
 * full_page_writes are on. */
static const char settings[] =
    "# Settings of Pawl's private PostgreSQL, read after postgresql.conf. To change one, write it below the include\n"
    "# line at the end of postgresql.conf, or use ALTER SYSTEM.\n"
    "\n"
    "# Reached through the unix socket only, by its owner and root. Where the socket is, is said at the start.\n"
    "listen_addresses = ''\n"
    "unix_socket_permissions = 0700\n"
    "\n"
    "# Enough for workers, a server and people looking on; modest, because it shares the machine.\n"
    "max_connections = 100\n"
    "shared_buffers = 128MB\n"
    "max_wal_size = 1GB\n"
    "min_wal_size = 80MB\n"
    "\n"
    "# A queue makes dead rows all day: clean up soon and without pausing.\n"
    "autovacuum_naptime = 10s\n"
    "autovacuum_vacuum_cost_delay = 0\n"
    "\n"
    "# All statements are short; compiling them costs more than it gives.\n"
    "jit = off\n"
    "\n"
    "# Shared memory in files of the data directory: a login manager that removes a user's shared memory when the\n"
    "# user logs out would otherwise break a running server.\n"
    "dynamic_shared_memory_type = mmap\n"
    "\n"
    "# One log a day, a week in all: last Monday's is overwritten on Monday. Terse, so that no payload gets into it.\n"
    "logging_collector = on\n"
    "log_directory = '../log'\n"
    "log_filename = 'server.%a.log'\n"
    "log_file_mode = 0600\n"
    "log_rotation_age = 1d\n"
    "log_rotation_size = 0\n"
    "log_truncate_on_rotation = on\n"
    "log_error_verbosity = terse\n"
    "log_parameter_max_length = 0\n"
    "log_checkpoints = off\n"
    "log_line_prefix = '%m [%p] %q%u@%d %a '\n"
    "log_timezone = 'UTC'\n"
    "timezone = 'UTC'\n"
    "\n"
    "cluster_name = 'pawl'\n";

static const char hba[] =
    "# Only the operating system users of the map \"pawl\" in pg_ident.conf, through the unix socket, as user pawl.\n"
    "# TYPE  DATABASE  USER  METHOD\n"
    "local   all       " CLUSTER_USER "  peer map=pawl\n";

int data_major(const struct cluster *cluster, int *ret_major, struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc < 0)
        return rc;
    struct stat st;
    if (lstat(cluster->data, &st) < 0) {
        /* Root's own empty directory is closed to the server's user until the home is made. */
        if (errno == ENOENT || errno == ENOTDIR || (errno == EACCES && geteuid() == 0)) {
            *ret_major = 0;
            return 0;
        }
        return err_set_errno(err, errno, "could not look at %s", cluster->data);
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/PG_VERSION", cluster->data);
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, 64);
    rc = file_read(path, 64, false, &text);
    int major = rc < 0 ? 0 : (int)strtol(buf_str(&text), NULL, 10);
    if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR)
        return err_set_errno(err, -rc, "could not read %s", path);
    if (major <= 0) {
        err_set(err, PAWL_ESTATE, "%s is not a PostgreSQL data directory", cluster->data);
        return err_hint(err, "Restore it from a backup, or move it away to begin anew.");
    }
    *ret_major = major;
    return 0;
}

/* Which users of the operating system may be database user pawl. */
static int ident_write(const struct cluster *cluster, const char *path, struct pawl_err *err)
{
    const struct passwd *root = getpwuid(0);
    CLEANUP(buf_deinit)
    struct buf text;
    buf_init(&text, IDENT_MAX);
    buf_puts(
        &text,
        "# The owner of this directory, as whom the server runs, and root.\n# MAP  SYSTEM-USER  DATABASE-USER\n");
    buf_printf(&text, "pawl  \"%s\"  " CLUSTER_USER "\n", cluster->user);
    buf_printf(&text, "pawl  \"%s\"  " CLUSTER_USER "\n", root ? root->pw_name : "root");
    if (text.failed)
        return err_set(err, PAWL_ELIMIT, "the user name is too long");
    return file_write(path, buf_str(&text), false, err);
}

static int settings_write(const struct cluster *cluster, const char *dir, struct pawl_err *err)
{
    static const struct {
        const char *name;
        const char *text;
        bool append;
    } files[] = {
        {"pawl.conf", settings, false},
        {"postgresql.conf", "\n# Pawl's settings; yours go below.\ninclude 'pawl.conf'\n", true},
        {"pg_hba.conf", hba, false},
    };

    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        int rc = file_write(path, files[i].text, files[i].append, err);
        if (rc < 0)
            return rc;
    }
    snprintf(path, sizeof path, "%s/pg_ident.conf", dir);
    int rc = ident_write(cluster, path, err);
    return rc < 0 ? rc : dir_sync(dir, err);
}

static int initdb_run(const struct cluster *cluster,
                      struct arena *arena,
                      const char *dir,
                      struct pawl_err *err)
{
    locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    const char *locale = utf8 ? "--locale=C.UTF-8" : "--locale=C";
    if (utf8)
        freelocale(utf8);
    const char *program = arena_printf(arena, "%s/initdb", cluster->bindir);
    if (!program)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    const char *const argv[] = {
        program,
        "--pgdata",
        dir,
        "--data-checksums",
        "--username",
        CLUSTER_USER,
        "--auth-local=peer",
        "--auth-host=reject",
        "--encoding=UTF8",
        locale,
        "--no-instructions",
        NULL,
    };
    CLEANUP(buf_deinit)
    struct buf output;
    buf_init(&output, INITDB_OUTPUT_MAX);
    int status = 0;
    int rc = process_run(cluster, argv, &output, &status, err);
    if (rc < 0 || status == 0)
        return rc;
    int code = cluster_code_from_output(buf_str(&output));
    err_set(err, code, "could not make a PostgreSQL cluster in %s", cluster->home);
    err_detail(err, "%s", cluster_last_lines(buf_str(&output), output.len, INITDB_TAIL_MAX));
    if (code == PAWL_EFULL)
        err_hint(
            err,
            "Make room for it (some 50 MB), or set PAWL_HOME to a directory on a larger disk.");
    return code;
}

int cluster_make(const struct cluster *cluster, struct arena *arena, struct pawl_err *err)
{
    const char *dir = arena_printf(arena, "%s.new", cluster->data);
    if (!dir)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc == 0)
        rc = tree_remove(dir, err); /* of one that was interrupted */
    if (rc < 0)
        return rc;
    fs_leave(&rights);
    rc = initdb_run(cluster, arena, dir, err);
    if (rc < 0) {
        /* A full disk may be why: give back what was taken. If that fails too, the first reason is
         * the better one. */
        if (fs_enter(&rights, cluster, NULL) < 0 || tree_remove(dir, NULL) < 0)
            return rc;
        return rc;
    }
    rc = fs_enter(&rights, cluster, err);
    if (rc == 0)
        rc = settings_write(
            cluster, dir, err); /* initdb has written its own files through to the disk */
    if (rc < 0)
        return rc;
    if (rename(dir, cluster->data) < 0)
        return err_set_errno(err, errno, "could not rename %s", dir);
    return dir_sync(cluster->home, err);
}
