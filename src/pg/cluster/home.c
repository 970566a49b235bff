/*
 * cluster_home: making the home directory, and the lock in it that lets one at a time make, start,
 * stop or destroy.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <dirent.h>

#include "base/clock.h"
#include "pg/cluster/internal.h"

/* What the lock file holds, and by which a home is known to be ours. */
#define LOCK_MARK    "Pawl's private PostgreSQL lives here. See pawl db status.\n"
#define LOCK_POLL_MS 20

static const char *const own_names[] = {"lock", "data", "data.new", "log", "run"};

static bool name_is_own(const char *name)
{
    for (size_t i = 0; i < sizeof own_names / sizeof own_names[0]; i++)
        if (strcmp(name, own_names[i]) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ret_foreign: holds something that is not ours. ret_empty: holds nothing at all. Reads through an
 * own descriptor. */
static int home_look(int home_fd, bool *ret_foreign, bool *ret_empty)
{
    int fd = openat(home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int errnum = errno;
        if (fd >= 0)
            close(fd);
        return -errnum;
    }
    *ret_foreign = false;
    *ret_empty = true;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            *ret_empty = false;
        if (!name_is_own(entry->d_name))
            *ret_foreign = true;
    }
    closedir(dir);
    return 0;
}

static int parents_make(const struct cluster *cluster, struct pawl_err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", cluster->home);
    /* The server's user must get through what root makes; what a user makes is the user's own
     * business. */
    mode_t mode = geteuid() == 0 ? 0755 : 0700;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, mode) == 0) {
            if (chmod(path, mode) < 0) /* whatever the umask says */
                return err_set_errno(err, errno, "could not set the mode of %s", path);
        } else if (errno != EEXIST) {
            err_set_errno(err, errno, "could not make the directory %s", path);
            return err_hint(
                err,
                "Set PAWL_HOME to a directory you may write to, or name a database with --db.");
        }
        *slash = '/';
    }
    return 0;
}

static int foreign_error(const struct cluster *cluster, struct pawl_err *err)
{
    err_set(err, PAWL_ESTATE, "%s holds files that are not Pawl's", cluster->home);
    return err_hint(err, "Set PAWL_HOME to a new or an empty directory.");
}

int home_make(const struct cluster *cluster, struct pawl_err *err)
{
    /* Of the directory around it: a home that is still root's is closed to that user until it is
     * given away. */
    char parent[PATH_MAX];
    const char *slash = strrchr(cluster->home, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - cluster->home) + 1, cluster->home);
    if (geteuid() == 0 && !locate_reachable(cluster, parent)) {
        err_set(err,
                PAWL_EDENIED,
                "user %s, who is to run PostgreSQL, cannot reach %s",
                cluster->user,
                parent);
        return err_hint(err,
                        "Set PAWL_HOME to a place that user can reach, such as /var/lib/pawl.");
    }
    int rc = parents_make(cluster, err);
    if (rc < 0)
        return rc;
    bool made = mkdir(cluster->home, 0700) == 0;
    if (!made && errno != EEXIST) {
        err_set_errno(err, errno, "could not make the directory %s", cluster->home);
        return err_hint(
            err, "Set PAWL_HOME to a directory you may write to, or name a database with --db.");
    }
    AUTO_FD int fd = open(cluster->home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set_errno(err, errno, "could not open the directory %s", cluster->home);
    bool foreign = false;
    bool empty = false;
    rc = home_look(fd, &foreign, &empty);
    if (rc < 0)
        return err_set_errno(err, -rc, "could not read the directory %s", cluster->home);
    if (st.st_uid ==
        cluster->uid) /* found as it should be; who else's things are there is asked of the lock */
        return 0;
    /* Only root comes here, with a directory of root's. One with something in it is not given away.
     */
    if (st.st_uid != 0 || geteuid() != 0 || !empty)
        return foreign_error(cluster, err);
    if (fchown(fd, cluster->uid, cluster->gid) < 0)
        return err_set_errno(
            err, errno, "could not give %s to user %s", cluster->home, cluster->user);
    return 0;
}

/* 0 and ret_fd -1: there is none and none was to be made. */
static int lock_open(
    const struct cluster *cluster, const char *path, bool create, int *ret_fd, struct pawl_err *err)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create) {
        AUTO_FD int home_fd = open(cluster->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool foreign = false;
        bool empty = false;
        if (home_fd >= 0 && home_look(home_fd, &foreign, &empty) == 0 && foreign)
            return foreign_error(cluster, err);
        fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    }
    /* EACCES for root: a directory of root's, which is never a home of ours. */
    if (fd < 0 && !create && (errno == ENOENT || (errno == EACCES && geteuid() == 0)))
        return err_set(err, PAWL_ENOTFOUND, "there is no Pawl database in %s", cluster->home);
    if (fd < 0)
        return err_set_errno(err, errno, "could not open %s", path);
    *ret_fd = fd;
    return 0;
}

/* Marks a new lock file; refuses one that somebody else wrote. */
static int lock_mark(const struct cluster *cluster, int fd, bool create, struct pawl_err *err)
{
    char text[sizeof LOCK_MARK] = "";
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_set_errno(err, errno, "could not look at the lock in %s", cluster->home);
    if (!S_ISREG(st.st_mode))
        return foreign_error(cluster, err);
    if (st.st_size == 0 && create) {
        ssize_t n = pwrite(fd, LOCK_MARK, strlen(LOCK_MARK), 0);
        if (n != (ssize_t)strlen(LOCK_MARK)) {
            int errnum = n < 0 ? errno : ENOSPC;
            (void)!ftruncate(fd, 0);
            return err_set_errno(err, errnum, "could not write the lock in %s", cluster->home);
        }
        return 0;
    }
    if (pread(fd, text, sizeof text - 1, 0) < 0)
        return err_set_errno(err, errno, "could not read the lock in %s", cluster->home);
    return strcmp(text, LOCK_MARK) == 0 ? 0 : foreign_error(cluster, err);
}

int home_lock(const struct cluster *cluster, bool create, int *ret_fd, struct pawl_err *err)
{
    AUTO_FS struct fs_rights rights;
    int rc = fs_enter(&rights, cluster, err);
    if (rc < 0)
        return rc;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", cluster->home);
    int64_t deadline_us = clock_mono_us(&clock_system) + (int64_t)CLUSTER_LOCK_MS * US_PER_MS;
    for (;;) {
        AUTO_FD int fd = -1;
        rc = lock_open(cluster, path, create, &fd, err);
        if (rc < 0)
            return rc;
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                return err_set_errno(err, errno, "could not lock %s", path);
            if (clock_mono_us(&clock_system) > deadline_us) {
                err_set(err,
                        PAWL_ETIMEOUT,
                        "another pawl has been busy with the database in %s",
                        cluster->home);
                return err_hint(err, "Find it with: fuser %s.", path);
            }
            nanosleep(&(struct timespec){.tv_nsec = (long)LOCK_POLL_MS * US_PER_MS * 1000}, NULL);
        }
        /* The one before us may have destroyed the home: then this is the lock of nothing. */
        struct stat ours;
        struct stat there;
        if (fstat(fd, &ours) < 0 || lstat(path, &there) < 0 || ours.st_dev != there.st_dev ||
            ours.st_ino != there.st_ino)
            continue;
        rc = lock_mark(cluster, fd, create, err);
        if (rc < 0)
            return rc;
        *ret_fd = fd;
        fd = -1;
        return 0;
    }
}
