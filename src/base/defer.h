/*
 * defer: cleanup attributes for locals, so that every way out of a function gives back what it took.
 *
 *     CLEANUP(buf_deinit) struct buf out;
 *     return TAKE_PTR(job);      hand a pointer to the caller and keep the cleanup from freeing it
 */
#ifndef BASE_DEFER_H
#define BASE_DEFER_H

#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

#define TAKE_PTR(p)                 \
    __extension__({                 \
        __typeof__(p) taken_ = (p); \
        (p) = NULL;                 \
        taken_;                     \
    })

static inline void free_cleanup(void *p)
{
    free(*(void **)p);
}

static inline void fd_cleanup(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define AUTO_FREE CLEANUP(free_cleanup)
#define AUTO_FD   CLEANUP(fd_cleanup)

#endif
