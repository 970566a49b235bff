/* mailbox: a ring under a mutex. Measured against the work around it the lock costs nothing
 * (docs/internals/engine.md). */
#include "engine/mailbox.h"

#include <assert.h>
#include <stdlib.h>

int mailbox_init(struct mailbox *box, size_t capacity, struct pawl_err *err)
{
    pthread_mutexattr_t attr;

    *box = (struct mailbox){.capacity = capacity, .ring = calloc(capacity, sizeof(*box->ring))};
    if (box->ring == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    /* It is held for so short a time that whoever finds it taken should not go to sleep over it. */
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&box->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_cond_init(&box->not_empty, NULL);
    return 0;
}

void mailbox_deinit(struct mailbox *box)
{
    assert(box->n == 0 && box->waiting == 0);
    pthread_mutex_destroy(&box->mutex);
    pthread_cond_destroy(&box->not_empty);
    free(box->ring);
    box->ring = NULL;
}

size_t mailbox_put(struct mailbox *box, void *const *items, size_t n, bool *ret_was_empty)
{
    pthread_mutex_lock(&box->mutex);
    size_t room = box->closed ? 0 : box->capacity - box->n;
    size_t taken = n < room ? n : room;
    size_t waiting = box->waiting;

    if (ret_was_empty != NULL)
        *ret_was_empty = box->n == 0;
    for (size_t i = 0; i < taken; i++)
        box->ring[(box->first + box->n + i) % box->capacity] = items[i];
    box->n += taken;
    pthread_mutex_unlock(&box->mutex);
    /* Outside the lock, so that who wakes up does not run into it at once. */
    for (size_t i = 0; i < taken && i < waiting; i++)
        pthread_cond_signal(&box->not_empty);
    return taken;
}

/* With the lock held. */
static void *shift(struct mailbox *box)
{
    void *item = box->ring[box->first];

    box->first = (box->first + 1) % box->capacity;
    box->n--;
    return item;
}

size_t mailbox_take(struct mailbox *box, void **ret_items, size_t most)
{
    size_t n = 0;

    pthread_mutex_lock(&box->mutex);
    while (n < most && box->n > 0)
        ret_items[n++] = shift(box);
    pthread_mutex_unlock(&box->mutex);
    return n;
}

void *mailbox_wait(struct mailbox *box)
{
    void *item = NULL;

    pthread_mutex_lock(&box->mutex);
    while (box->n == 0 && !box->closed) {
        box->waiting++;
        pthread_cond_wait(&box->not_empty, &box->mutex);
        box->waiting--;
    }
    if (box->n > 0)
        item = shift(box);
    pthread_mutex_unlock(&box->mutex);
    return item;
}

void mailbox_close(struct mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    box->closed = true;
    pthread_cond_broadcast(&box->not_empty);
    pthread_mutex_unlock(&box->mutex);
}
