/*
 * list: a doubly linked list whose links live inside the objects, so that inserting and removing never
 * allocates. An object is on one list per link; a link that is on no list points to itself.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* The body may remove nothing but must not free the current one; use the _SAFE form for that. */
#define LIST_FOREACH(link, head) \
    for (struct list *link = (head)->next; link != (head); link = link->next)
#define LIST_FOREACH_SAFE(link, after, head)                                    \
    for (struct list *link = (head)->next, *after = link->next; link != (head); \
         link = after, after = link->next)

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

/* At the end. */
static inline void list_push(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* At the front. */
static inline void list_unshift(struct list *head, struct list *link)
{
    link->next = head->next;
    link->prev = head;
    head->next->prev = link;
    head->next = link;
}

/* Leaves the link pointing to itself, so removing twice is harmless. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link, taken off; NULL when empty. */
static inline struct list *list_shift(struct list *head)
{
    if (list_empty(head))
        return NULL;
    struct list *link = head->next;
    list_remove(link);
    return link;
}

/* Moves everything from one list to the end of another. */
static inline void list_splice(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
