/* access: rows into entries. An entry stays the same object as long as its token is valid, so
 * that calls may point to it. */
#include "serve/api/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/api/auth.h"

void access_table_init(struct access_table *table)
{
    map_init(&table->by_hash, ACCESS_MAX);
}

static void access_free(struct access *access)
{
    free(access->texts);
    free(access);
}

void access_table_deinit(struct access_table *table)
{
    struct access *access;
    size_t pos = 0;

    while ((access = map_next(&table->by_hash, &pos, NULL, NULL)) != NULL)
        access_free(access);
    map_deinit(&table->by_hash);
}

struct access *access_find(const struct access_table *table,
                           const unsigned char hash[ACCESS_HASH_LEN])
{
    return map_get(&table->by_hash, hash, ACCESS_HASH_LEN);
}

static unsigned scopes_of(const char *text)
{
    unsigned scopes = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, ",");

#define SCOPE(name, number, word)                                             \
    if (len == sizeof(word) - 1 && memcmp(text, word, sizeof(word) - 1) == 0) \
        scopes |= (number);
        AUTH_SCOPES(SCOPE)
#undef SCOPE
        text += len + (text[len] == ',');
    }
    return scopes;
}

/* Copies the row into the entry. */
static int fill(struct access *access, const struct access_view *view, int64_t now_us)
{
    size_t name_len = strlen(view->name) + 1;
    size_t queues_len = strlen(view->queues) + 1;
    char *texts = malloc(name_len + queues_len);

    if (texts == NULL)
        return PAWL_ENOMEM;
    memcpy(texts, view->name, name_len);
    memcpy(texts + name_len, view->queues, queues_len);
    free(access->texts);
    access->texts = texts;
    access->name = texts;
    access->id = view->id;
    access->scopes = scopes_of(view->scopes);
    access->expires_us =
        view->expires_at != 0 ? now_us + (view->expires_at - view->now) : INT64_MAX;
    access->n_queues = 0;
    for (char *at = texts + name_len; *at != '\0' && access->n_queues < ACCESS_QUEUES_MAX;) {
        size_t len = strcspn(at, ",");
        bool last = at[len] == '\0';

        access->queues[access->n_queues++] = at;
        at[len] = '\0';
        at += len + !last;
    }
    access->seen = true;
    return 0;
}

static int take(struct access_table *table, const struct access_view *view, int64_t now_us)
{
    struct access *access = access_find(table, (const unsigned char *)view->hash.data);

    if (access != NULL)
        return fill(access, view, now_us);
    access = calloc(1, sizeof(*access));
    if (access == NULL)
        return PAWL_ENOMEM;
    memcpy(access->hash, view->hash.data, ACCESS_HASH_LEN);
    int rc = fill(access, view, now_us);

    if (rc == 0)
        rc = map_put(&table->by_hash, access->hash, ACCESS_HASH_LEN, access);
    if (rc < 0)
        access_free(access);
    return rc;
}

/* The map must not change while it is walked, so each round removes one entry. */
static void drop(struct access_table *table,
                 bool (*gone)(const struct access *access, int64_t now_us),
                 int64_t now_us,
                 void (*over)(void *data, struct access *access),
                 void *data)
{
    for (;;) {
        struct access *access;
        size_t pos = 0;

        while ((access = map_next(&table->by_hash, &pos, NULL, NULL)) != NULL &&
               !gone(access, now_us))
            ;
        if (access == NULL)
            return;
        (void)map_remove(&table->by_hash, access->hash, ACCESS_HASH_LEN);
        over(data, access);
        access_free(access);
    }
}

static bool was_not_seen(const struct access *access, int64_t now_us)
{
    (void)now_us;
    return !access->seen;
}

static bool has_expired(const struct access *access, int64_t now_us)
{
    return access->expires_us <= now_us;
}

int access_update(struct access_table *table,
                  const PGresult *rows,
                  int64_t now_us,
                  void (*over)(void *data, struct access *access),
                  void *data)
{
    struct access *access;
    size_t pos = 0;
    int rc = 0;

    while ((access = map_next(&table->by_hash, &pos, NULL, NULL)) != NULL)
        access->seen = false;
    for (int row = 0; row < PQntuples(rows); row++) {
        struct access_view view;

        access_list_row(rows, row, &view);
        int row_rc = take(table, &view, now_us);

        if (row_rc < 0)
            rc = row_rc;
    }
    drop(table, was_not_seen, now_us, over, data);
    return rc;
}

int64_t access_expire(struct access_table *table,
                      int64_t now_us,
                      void (*over)(void *data, struct access *access),
                      void *data)
{
    const struct access *access;
    int64_t next_us = INT64_MAX;
    size_t pos = 0;

    drop(table, has_expired, now_us, over, data);
    while ((access = map_next(&table->by_hash, &pos, NULL, NULL)) != NULL) {
        if (access->expires_us < next_us)
            next_us = access->expires_us;
    }
    return next_us;
}

bool access_sees(const struct access *access, const char *queue)
{
    for (size_t i = 0; i < access->n_queues; i++) {
        const char *name = access->queues[i];
        size_t len = strlen(name);

        if (len > 0 && name[len - 1] == '*' ? strncmp(queue, name, len - 1) == 0
                                            : strcmp(queue, name) == 0)
            return true;
    }
    return access->n_queues == 0;
}
