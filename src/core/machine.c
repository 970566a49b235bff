/* machine: copying and checking how a machine goes on. */
#include "core/machine.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AWAITS_MAX   64     /* names in one await */
#define CHILDREN_MAX 100000 /* in one spawn */

/* Takes what it needs off a piece of memory that was measured before. */
static void *take(char **at, const void *from, size_t len)
{
    char *to = *at;

    memcpy(to, from, len);
    *at += len;
    return to;
}

static size_t text_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static size_t texts_size(const struct going_on *on)
{
    size_t size =
        text_size(on->step) + text_size(on->awaits) + (on->state != NULL ? on->state_len + 1 : 0);

    for (size_t i = 0; i < on->n_children; i++)
        size += text_size(on->children[i].queue) + text_size(on->children[i].kind) +
                on->children[i].payload_len + 1;
    return size;
}

struct going_on *going_on_copy(const struct going_on *on)
{
    size_t kids = on->n_children * sizeof(struct child_new);
    struct going_on *copy = malloc(sizeof(*copy) + kids + texts_size(on));

    if (copy == NULL)
        return NULL;
    struct child_new *children = (struct child_new *)(void *)(copy + 1);
    char *at = (char *)(copy + 1) + kids;

    *copy = *on;
    copy->step = on->step != NULL ? take(&at, on->step, text_size(on->step)) : NULL;
    copy->awaits = on->awaits != NULL ? take(&at, on->awaits, text_size(on->awaits)) : NULL;
    if (on->state != NULL) {
        copy->state = take(&at, on->state, on->state_len);
        *at++ = '\0';
    }
    for (size_t i = 0; i < on->n_children; i++) {
        const struct child_new *child = &on->children[i];

        children[i] = *child;
        children[i].queue = take(&at, child->queue, text_size(child->queue));
        children[i].kind = take(&at, child->kind, text_size(child->kind));
        children[i].payload = at;
        if (child->payload_len > 0)
            take(&at, child->payload, child->payload_len);
        *at++ = '\0';
    }
    copy->children = children;
    return copy;
}

void outcome_clear(struct outcome *copy)
{
    if (copy->result == NULL && copy->error == NULL && copy->on == NULL)
        return; /* most have nothing, and this is run twice for every job */
    free((char *)(uintptr_t)copy->result); /* ours: outcome_copy allocated them */
    free((char *)(uintptr_t)copy->error);
    free((struct going_on *)(uintptr_t)copy->on);
    copy->result = NULL;
    copy->error = NULL;
    copy->on = NULL;
}

void outcome_copy(const struct outcome *outcome, struct outcome *ret_copy)
{
    struct outcome copy = *outcome;
    bool failed = false;

    if (outcome->result != NULL) {
        /* One byte more, so that an empty result is not a missing one. */
        char *result = malloc(outcome->result_len + 1);

        if (result != NULL && outcome->result_len > 0)
            memcpy(result, outcome->result, outcome->result_len);
        copy.result = result;
        failed |= result == NULL;
    }
    if (outcome->error != NULL) {
        copy.error = strdup(outcome->error);
        failed |= copy.error == NULL;
    }
    if (outcome->on != NULL) {
        copy.on = going_on_copy(outcome->on);
        failed |= copy.on == NULL;
    }
    if (failed) {
        outcome_clear(&copy);
        copy = (struct outcome){.kind = OUTCOME_RETRY, .delay_ms = -1, .run_us = outcome->run_us};
    }
    *ret_copy = copy;
}

/* Names with commas between them. */
static int check_awaits(const char *awaits, struct pawl_err *err)
{
    char name[PAWL_NAME_MAX + 2];
    size_t n = 0;

    if (awaits == NULL || awaits[0] == '\0')
        return err_set(err, PAWL_EINVAL, "an await needs the name of a signal");
    for (const char *at = awaits; at != NULL; n++) {
        size_t len = strcspn(at, ",");

        if (n == AWAITS_MAX)
            return err_set(err, PAWL_ELIMIT, "an await names more than %d signals", AWAITS_MAX);
        if (len > PAWL_NAME_MAX)
            len = PAWL_NAME_MAX + 1; /* too long whatever follows */
        memcpy(name, at, len);
        name[len] = '\0';
        int rc = name_check("signal", name, err);

        if (rc < 0)
            return rc;
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    return 0;
}

static int check_children(const struct going_on *on, struct pawl_err *err)
{
    if (on->n_children > CHILDREN_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "a spawn of %zu children, and the limit is %d",
                       on->n_children,
                       CHILDREN_MAX);
    if (on->join_at < 0 || (size_t)on->join_at > on->n_children)
        return err_set(
            err, PAWL_EINVAL, "a join on %d of %zu children", on->join_at, on->n_children);
    for (size_t i = 0; i < on->n_children; i++) {
        const struct child_new *child = &on->children[i];
        int rc = name_check("queue", child->queue, err);

        if (rc == 0)
            rc = kind_check(child->kind, err);
        if (rc == 0)
            rc = priority_check(child->priority, err);
        if (rc < 0)
            return rc;
        if (child->max_attempts < 1 || child->max_attempts > JOB_MAX_ATTEMPTS_LIMIT)
            return err_set(err,
                           PAWL_EINVAL,
                           "max attempts %d is not between 1 and %d",
                           child->max_attempts,
                           JOB_MAX_ATTEMPTS_LIMIT);
        if (child->payload_len > PAWL_PAYLOAD_MAX)
            return err_set(err,
                           PAWL_ELIMIT,
                           "the payload of child %zu has %zu bytes, and the limit is %d",
                           i,
                           child->payload_len,
                           PAWL_PAYLOAD_MAX);
    }
    return 0;
}

int going_on_check(enum outcome_kind kind, const struct going_on *on, struct pawl_err *err)
{
    int rc = name_check("step", on->step, err);

    if (rc < 0)
        return rc;
    if (on->state != NULL && on->state_len > PAWL_STATE_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the state has %zu bytes, and the limit is %d",
                       on->state_len,
                       PAWL_STATE_MAX);
    if (kind == OUTCOME_AWAIT)
        return check_awaits(on->awaits, err);
    return kind == OUTCOME_SPAWN ? check_children(on, err) : 0;
}
