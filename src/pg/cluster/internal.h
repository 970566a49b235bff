/*
 * cluster_internal: what the files of the private cluster share with each other and with nobody
 * else. cluster.c decides; home, find, make, pid, process and files each do one thing for it.
 */
#ifndef PG_CLUSTER_INTERNAL_H
#define PG_CLUSTER_INTERNAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/defer.h"
#include "pg/cluster.h"

#define CLUSTER_START_MS \
    60000 /* for the server to accept connections; crash recovery goes on beyond it */
#define CLUSTER_STOP_MS    60000  /* for a fast shutdown */
#define CLUSTER_LOCK_MS    150000 /* one who makes and starts it is let finish */
#define CLUSTER_PROGRAM_MS 120000 /* initdb on a slow disk */
#define CLUSTER_TAIL_MAX   900 /* bytes of a program's output shown in an error; fits its detail */

/* What a log says about why: full disk and refused permission have codes of their own. */
int cluster_code_from_output(const char *text);

/* Where the last lines of text begin that fit into max bytes. */
const char *cluster_last_lines(const char *text, size_t len, size_t max);

/* --- cluster/files.c: files inside the home, touched with the server user's rights --- */

/* While one lives, root's file access has the rights of the server's user (this thread only).
 * Nothing for others. */
struct fs_rights {
    bool changed;
    int dumpable; /* the kernel forgets it on every change */
};

int fs_enter(struct fs_rights *rights,
             const struct cluster *cluster,
             struct pawl_err *err) MUST_CHECK;
void fs_leave(struct fs_rights *rights);
#define AUTO_FS CLEANUP(fs_leave)

/* An ordinary file of at most max bytes into buf (replacing what it held); symlinks, fifos and
 * devices are refused. Quiet: returns 0 or a negative errno. from_end: the last max bytes of a
 * longer file instead of an error. */
int file_read(const char *path, size_t max, bool from_end, struct buf *ret_text) MUST_CHECK;

/* Creates (or, with append, extends) a file of mode 0600 and waits until the disk has it. */
int file_write(const char *path, const char *text, bool append, struct pawl_err *err) MUST_CHECK;

int dir_sync(const char *path, struct pawl_err *err) MUST_CHECK;

/* Makes a directory of mode 0700, or accepts one that is a real directory, the server user's, and
 * closed to others. */
int dir_own(const struct cluster *cluster, const char *path, struct pawl_err *err) MUST_CHECK;

/* Removes a file or a whole directory, never following a symlink. 0 when there is nothing. */
int tree_remove(const char *path, struct pawl_err *err) MUST_CHECK;

/* --- cluster/home.c: the home directory and its lock --- */

/* Makes the home, gives it to the server's user. Refuses a directory with other people's things in
 * it. */
int home_make(const struct cluster *cluster, struct pawl_err *err) MUST_CHECK;

/* The lock file, exclusively. create false: PAWL_ENOTFOUND when there is none. Close the descriptor
 * to let go. */
int home_lock(const struct cluster *cluster, bool create, int *ret_fd, struct pawl_err *err)
    MUST_CHECK;

/* --- cluster/locate.c --- */

/* Whether the server's user can get to path (or to the deepest directory of it that exists). Root
 * only. */
bool locate_reachable(const struct cluster *cluster, const char *path);

/* --- cluster/make.c --- */

/* initdb and our settings, into data.new, then renamed. The lock is held. */
int cluster_make(const struct cluster *cluster,
                 struct arena *arena,
                 struct pawl_err *err) MUST_CHECK;

/* The directory's PG_VERSION: 0 when there is no data directory; negative code when there is
 * something else. */
int data_major(const struct cluster *cluster, int *ret_major, struct pawl_err *err) MUST_CHECK;

/* --- cluster/pid.c: what postmaster.pid says and whether it is true --- */

enum server_phase { SERVER_STARTING, SERVER_READY, SERVER_STOPPING };

struct server_status {
    pid_t pid; /* 0: no server runs */
    enum server_phase phase;
};

int server_status(const struct cluster *cluster,
                  struct server_status *ret_status,
                  struct pawl_err *err) MUST_CHECK;

/* After a power loss: lock files that name a living process which is not our server. PostgreSQL
 * would believe them. */
int server_clear_stale(const struct cluster *cluster, struct pawl_err *err) MUST_CHECK;

/* Until it is ready (returns 0, ret_ready true), gone (0, false), or PAWL_ETIMEOUT. */
int server_wait_ready(const struct cluster *cluster,
                      pid_t pid,
                      bool *ret_ready,
                      struct pawl_err *err) MUST_CHECK;

/* SIGINT, then wait for the end. */
int server_shut_down(const struct cluster *cluster, pid_t pid, struct pawl_err *err) MUST_CHECK;

/* --- cluster/process.c: programs, as the server's user, with a clean environment and no
 * descriptors of ours --- */

/* Runs argv (argv[0] an absolute path) to its end. What it prints goes to output, bounded, the end
 * kept. ret_status: as of waitpid. Fails only when it could not be run or took too long. */
int process_run(const struct cluster *cluster,
                const char *const *argv,
                struct buf *output,
                int *ret_status,
                struct pawl_err *err) MUST_CHECK;

/* Starts argv in a session of its own, not as our child; output to the file log_path, emptied
 * before. */
int process_detach(const struct cluster *cluster,
                   const char *const *argv,
                   const char *log_path,
                   pid_t *ret_pid,
                   struct pawl_err *err) MUST_CHECK;

/* Waits for a descriptor to become readable. 1, 0 after timeout_ms, or a negative errno. EINTR goes
 * on waiting. */
int wait_readable(int fd, int64_t timeout_ms) MUST_CHECK;

#endif
