/* outcome: what a run came to, in the words of the wire. Bytes and texts are borrowed from the slot. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "remote/remote_internal.h"

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

static ProtobufCBinaryData bytes(const char *data, size_t len)
{
    return (ProtobufCBinaryData){data != NULL ? len : 0, (uint8_t *)(uintptr_t)data};
}

/* A message of the type in the arena, made ready. */
#define NEW(var, Type, init)            \
    Type *var = arena_new(arena, Type); \
    if ((var) == NULL)                  \
        return PAWL_ENOMEM;             \
    init(var)

static int pack_await(const struct outcome *o, Pawl__V1__Report *report, struct arena *arena)
{
    NEW(await, Pawl__V1__AwaitOutcome, pawl__v1__await_outcome__init);
    char *names = arena_strdup(arena, o->on->awaits != NULL ? o->on->awaits : "");
    size_t n = 1;

    for (const char *c = names; c != NULL && *c != '\0'; c++)
        n += *c == ',';
    await->signals = arena_new_array(arena, n, char *);
    if (names == NULL || await->signals == NULL)
        return PAWL_ENOMEM;
    for (char *name; (name = strsep(&names, ",")) != NULL;)
        await->signals[await->n_signals++] = name;
    await->step = unconst(o->on->step);
    await->machine_data = bytes(o->on->state, o->on->state_len);
    /* On the wire 0 is for ever: a look that waits for nothing takes a millisecond. */
    await->timeout_ms = o->delay_ms > 0 ? o->delay_ms : o->delay_ms == 0 ? 1 : 0;
    report->outcome_case = PAWL__V1__REPORT__OUTCOME_AWAIT;
    report->await = await;
    return 0;
}

static int
pack_child(const struct child_new *from, Pawl__V1__Child **ret_child, struct arena *arena)
{
    NEW(child, Pawl__V1__Child, pawl__v1__child__init);
    NEW(job, Pawl__V1__NewJob, pawl__v1__new_job__init);
    job->queue = unconst(from->queue);
    job->kind = unconst(from->kind);
    job->payload = bytes(from->payload, from->payload_len);
    job->payload_is_bytes = true; /* as it is, also when it is empty */
    job->priority_choice_case = PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    job->priority = (uint32_t)from->priority;
    job->max_attempts = (uint32_t)from->max_attempts;
    child->job = job;
    *ret_child = child;
    return 0;
}

static int pack_spawn(const struct outcome *o, Pawl__V1__Report *report, struct arena *arena)
{
    NEW(spawn, Pawl__V1__SpawnOutcome, pawl__v1__spawn_outcome__init);
    spawn->children = arena_new_array(arena, o->on->n_children + 1, Pawl__V1__Child *);
    if (spawn->children == NULL)
        return PAWL_ENOMEM;
    for (size_t i = 0; i < o->on->n_children; i++) {
        int rc = pack_child(&o->on->children[i], &spawn->children[i], arena);

        if (rc < 0)
            return rc;
        spawn->n_children++;
    }
    spawn->step = unconst(o->on->step);
    spawn->machine_data = bytes(o->on->state, o->on->state_len);
    spawn->fail_fast = (o->on->join_flags & JOIN_FAIL_FAST) != 0;
    spawn->cancel = (o->on->join_flags & JOIN_CANCEL) != 0;
    if (o->on->join_at > 0)
        spawn->quorum = (uint32_t)(o->on->n_children - (size_t)o->on->join_at);
    report->outcome_case = PAWL__V1__REPORT__OUTCOME_SPAWN;
    report->spawn = spawn;
    return 0;
}

static int pack_next(const struct outcome *o, Pawl__V1__Report *report, struct arena *arena)
{
    NEW(next, Pawl__V1__NextOutcome, pawl__v1__next_outcome__init);
    next->step = unconst(o->on->step);
    next->machine_data = bytes(o->on->state, o->on->state_len);
    next->delay_ms = o->delay_ms > 0 ? o->delay_ms : 0;
    report->outcome_case = PAWL__V1__REPORT__OUTCOME_NEXT;
    report->next = next;
    return 0;
}

static int pack_retry(const struct outcome *o, Pawl__V1__Report *report, struct arena *arena)
{
    NEW(retry, Pawl__V1__RetryOutcome, pawl__v1__retry_outcome__init);
    retry->error = unconst(o->error);
    if (o->delay_ms >= 0) {
        retry->delay_choice_case = PAWL__V1__RETRY_OUTCOME__DELAY_CHOICE_DELAY_MS;
        retry->delay_ms = o->delay_ms;
    }
    report->outcome_case = PAWL__V1__REPORT__OUTCOME_RETRY;
    report->retry = retry;
    return 0;
}

static int pack_simple(const struct outcome *o, Pawl__V1__Report *report, struct arena *arena)
{
    switch (o->kind) {
    case OUTCOME_DONE: {
        NEW(done, Pawl__V1__DoneOutcome, pawl__v1__done_outcome__init);
        done->result = bytes(o->result, o->result_len);
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_DONE;
        report->done = done;
        return 0;
    }
    case OUTCOME_FAIL: {
        NEW(fail, Pawl__V1__FailOutcome, pawl__v1__fail_outcome__init);
        fail->error = unconst(o->error);
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_FAIL;
        report->fail = fail;
        return 0;
    }
    case OUTCOME_REJECT: {
        NEW(reject, Pawl__V1__RejectOutcome, pawl__v1__reject_outcome__init);
        reject->error = unconst(o->error);
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_REJECT;
        report->reject = reject;
        return 0;
    }
    case OUTCOME_SNOOZE: {
        NEW(snooze, Pawl__V1__SnoozeOutcome, pawl__v1__snooze_outcome__init);
        snooze->delay_ms = o->delay_ms > 0 ? o->delay_ms : 0;
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_SNOOZE;
        report->snooze = snooze;
        return 0;
    }
    case OUTCOME_CANCEL: {
        NEW(cancel, Pawl__V1__CancelOutcome, pawl__v1__cancel_outcome__init);
        cancel->reason = unconst(o->error);
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_CANCEL;
        report->cancel = cancel;
        return 0;
    }
    default: {
        NEW(release, Pawl__V1__ReleaseOutcome, pawl__v1__release_outcome__init);
        report->outcome_case = PAWL__V1__REPORT__OUTCOME_RELEASE;
        report->release = release;
        return 0;
    }
    }
}

/* Which signals the step has seen: another server than the one that assigned it may settle it. */
static int pack_shown(const struct remote_slot *slot, Pawl__V1__Report *report, struct arena *arena)
{
    const char *at = slot->machine.shown;
    size_t n = 1;

    if (at == NULL)
        return 0;
    for (const char *c = at; *c != '\0'; c++)
        n += *c == ',';
    report->signal_ids = arena_new_array(arena, n, int64_t);
    if (report->signal_ids == NULL)
        return PAWL_ENOMEM;
    while (report->n_signal_ids < n) {
        char *end;

        report->signal_ids[report->n_signal_ids++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

int remote_outcome_pack(const struct remote_slot *slot,
                        Pawl__V1__Report *report,
                        struct arena *arena)
{
    const struct outcome *o = &slot->outcome;

    pawl__v1__report__init(report);
    report->job_id = slot->run.job.id;
    report->token = (ProtobufCBinaryData){sizeof(slot->run.job.token.bytes),
                                          (uint8_t *)(uintptr_t)slot->run.job.token.bytes};
    report->run_us = o->run_us;
    int rc = pack_shown(slot, report, arena);

    if (rc < 0)
        return rc;
    switch (o->kind) {
    case OUTCOME_NEXT:
        return pack_next(o, report, arena);
    case OUTCOME_AWAIT:
        return pack_await(o, report, arena);
    case OUTCOME_SPAWN:
        return pack_spawn(o, report, arena);
    case OUTCOME_RETRY:
        return pack_retry(o, report, arena);
    default:
        return pack_simple(o, report, arena);
    }
}
