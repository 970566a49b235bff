/* writers: who was seen writing, and since when (engine/marks.h). Pure. */
#include <string.h>

#include "engine/marks.h"

uint64_t writers_seen(struct marks_writers *writers, const char *names, uint64_t poll)
{
    uint64_t ended = 0;
    bool crowd = writers->list == NULL;

    for (size_t i = 0; i < writers->n; i++)
        writers->list[i].open = false;
    for (const char *at = names; *at != '\0';) {
        size_t len = strcspn(at, " ");
        size_t i = 0;

        while (i < writers->n &&
               (strncmp(writers->list[i].who, at, len) != 0 || writers->list[i].who[len] != '\0'))
            i++;
        if (i == writers->n &&
            (writers->n == MARKS_WRITERS_MAX || len >= MARKS_WRITER_LEN || crowd)) {
            crowd = true;
        } else {
            if (i == writers->n) {
                writers->n++;
                writers->list[i].since = poll;
                memcpy(writers->list[i].who, at, len);
                writers->list[i].who[len] = '\0';
            }
            writers->list[i].open = true;
        }
        at += len + (at[len] == ' ');
    }
    for (size_t i = 0; i < writers->n;) {
        if (writers->list[i].open) {
            i++;
            continue;
        }
        if (ended == 0 || writers->list[i].since < ended)
            ended = writers->list[i].since;
        writers->list[i] = writers->list[--writers->n];
    }
    if (crowd && writers->crowd_since == 0)
        writers->crowd_since = poll;
    if (!crowd && writers->crowd_since != 0) {
        if (ended == 0 || writers->crowd_since < ended)
            ended = writers->crowd_since;
        writers->crowd_since = 0;
    }
    return ended;
}

uint64_t writers_oldest(const struct marks_writers *writers)
{
    uint64_t oldest = writers->crowd_since;

    for (size_t i = 0; i < writers->n; i++) {
        if (oldest == 0 || writers->list[i].since < oldest)
            oldest = writers->list[i].since;
    }
    return oldest;
}

void writers_forget(struct marks_writers *writers)
{
    writers->n = 0;
    writers->crowd_since = 0;
}
