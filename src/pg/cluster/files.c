/*
 * cluster_files: reading, writing and removing files of the private cluster's home. Root works
 * there with the rights of the server's user (fs_enter), because that user owns the directory and
 * could have planted links in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "pg/cluster/internal.h"

#define TREE_DEPTH_MAX 16 /* a data directory is 4 deep */

int fs_enter(struct fs_rights *rights, const struct cluster *cluster, struct pawl_err *err)
{
    *rights = (struct fs_rights){0};
    if (geteuid() != 0)
        return 0;
    rights->dumpable = prctl(PR_GET_DUMPABLE);
    rights->changed = true;
    setfsgid(cluster->gid);
    setfsuid(cluster->uid);
    /* They report no failure; asking for an impossible id changes nothing and tells the present
     * one. */
    if ((uid_t)setfsuid((uid_t)-1) != cluster->uid || (gid_t)setfsgid((gid_t)-1) != cluster->gid) {
        fs_leave(rights);
        err_set(err, PAWL_EDENIED, "could not take the rights of user %s", cluster->user);
        return err_hint(err, "Run pawl as an ordinary user, or as root with all its capabilities.");
    }
    return 0;
}

void fs_leave(struct fs_rights *rights)
{
    if (!rights->changed)
        return;
    setfsuid(0);
    setfsgid(0);
    if (rights->dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1);
    rights->changed = false;
}

static ssize_t read_full(int fd, char *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int file_read(const char *path, size_t max, bool from_end, struct buf *ret_text)
{
    /* O_NONBLOCK: a fifo in its place must not hang us. */
    AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > (off_t)max) {
        if (!from_end)
            return -EFBIG;
        if (lseek(fd, st.st_size - (off_t)max, SEEK_SET) < 0)
            return -errno;
    }
    buf_clear(ret_text);
    char *space = buf_reserve(ret_text, max);
    if (!space)
        return -ENOMEM;
    ssize_t n = read_full(fd, space, max);
    if (n < 0)
        return (int)n;
    buf_wrote(ret_text, (size_t)n);
    return 0;
}

int file_write(const char *path, const char *text, bool append, struct pawl_err *err)
{
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
    AUTO_FD int fd = open(path, flags, 0600);
    if (fd < 0)
        return err_set_errno(err, errno, "could not create the file %s", path);
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(err, errno, "could not write the file %s", path);
        text += n;
        len -= (size_t)n;
    }
    if (fsync(fd) < 0)
        return err_set_errno(err, errno, "could not write the file %s to disk", path);
    return 0;
}

int dir_sync(const char *path, struct pawl_err *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, errno, "could not open the directory %s", path);
    if (fsync(fd) < 0)
        return err_set_errno(err, errno, "could not write the directory %s to disk", path);
    return 0;
}

int dir_own(const struct cluster *cluster, const char *path, struct pawl_err *err)
{
    if (mkdir(path, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return err_set_errno(err, errno, "could not make the directory %s", path);
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_set_errno(err, errno, "could not look at %s", path);
    if (S_ISDIR(st.st_mode) && st.st_uid == cluster->uid && (st.st_mode & 077) == 0)
        return 0;
    err_set(err, PAWL_EDENIED, "%s cannot be used for Pawl's PostgreSQL", path);
    err_detail(
        err, "It must be a real directory of user %s that nobody else may enter.", cluster->user);
    return err_hint(err, "Find out who made it, then remove it or move it away.");
}

static int entry_remove(int parent, const char *name, unsigned depth);

static int dir_empty(int parent, const char *name, unsigned depth)
{
    if (depth >= TREE_DEPTH_MAX)
        return -ELOOP;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int errnum = errno;
        close(fd);
        return -errnum;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = entry_remove(dirfd(dir), entry->d_name, depth + 1);
    }
    closedir(dir);
    return rc;
}

static int entry_remove(int parent, const char *name, unsigned depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    int rc = dir_empty(parent, name, depth);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int tree_remove(const char *path, struct pawl_err *err)
{
    int rc = entry_remove(AT_FDCWD, path, 0);
    return rc < 0 ? err_set_errno(err, -rc, "could not remove %s", path) : 0;
}
