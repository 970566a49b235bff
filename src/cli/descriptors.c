/* descriptors: counting what is needed, and raising the soft limit. */
#include "cli/descriptors.h"

#include <sys/resource.h>

#define OWN \
    24 /* standard ones, the event loop, connections, a lookup of names, and what is opened in passing */
#define COMMAND \
    6 /* while it runs: pidfd, stdout, stderr, what it says, and stdin with its reader */
#define COMMAND_NEW 10 /* while it is being started: both ends of its pipes */

int descriptors_ensure(int64_t commands, struct pawl_err *err)
{
    rlim_t needed = (rlim_t)(OWN + COMMAND * commands + COMMAND_NEW);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= needed)
        return 0;
    rlim_t soft = limit.rlim_cur;

    limit.rlim_cur =
        limit.rlim_max == RLIM_INFINITY || limit.rlim_max > needed ? needed : limit.rlim_max;
    if (limit.rlim_cur > soft && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        soft = limit.rlim_cur;
    if (soft >= needed)
        return 0;
    err_set(err,
            PAWL_EFULL,
            "%llu open files are too few for %lld jobs at a time",
            (unsigned long long)soft,
            (long long)commands);
    err_detail(err, "They need up to %llu.", (unsigned long long)needed);
    return err_hint(
        err,
        "Raise the limit (ulimit -n %llu, or LimitNOFILE in a unit of systemd), or lower "
        "--concurrency.",
        (unsigned long long)needed);
}
