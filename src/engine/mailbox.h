/*
 * mailbox: how pointers change hands between threads: a bounded queue. What is put in belongs to
 * the mailbox until it is taken out, and then to the taker. A full mailbox takes no more: that is
 * back-pressure, and the sender's to deal with.
 *
 * Lock rule: the mutex guards all members and is held for a few instructions, never across a call
 * to anything else. Any thread may call anything but init and deinit.
 */
#ifndef ENGINE_MAILBOX_H
#define ENGINE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty;
    void **ring; /* owned */
    size_t capacity;
    size_t first; /* the oldest */
    size_t n;
    size_t waiting; /* threads in mailbox_wait */
    bool closed;
};

int mailbox_init(struct mailbox *box, size_t capacity, struct pawl_err *err) MUST_CHECK;
/* Nobody may be using it any more, and it must be empty. */
void mailbox_deinit(struct mailbox *box);

/* Puts in as many as fit and says how many. ret_was_empty (may be NULL): whether it was empty
 * before, so that a receiver who sleeps elsewhere is woken once and not for every item. */
size_t mailbox_put(struct mailbox *box, void *const *items, size_t n, bool *ret_was_empty);

/* Takes out at most `most` without waiting. */
size_t mailbox_take(struct mailbox *box, void **ret_items, size_t most);

/* Waits for one. NULL when the mailbox is closed and empty. */
void *mailbox_wait(struct mailbox *box);

/* Lets all waiters go when it is empty. What is in it can still be taken; nothing more can be put
 * in. */
void mailbox_close(struct mailbox *box);

#endif
