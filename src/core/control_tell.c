/* control_tell: what a step is told about where its machine is. */
#include <string.h>

#include "base/json.h"
#include "core/control.h"
#include "core/json.h"

static void put_list(struct json_writer *w, const char *key, const char *list)
{
    json_key(w, key);
    json_raw(w, list != NULL ? list : "[]", list != NULL ? strlen(list) : 2);
}

static void put_state(struct json_writer *w, const struct machine *machine)
{
    json_key(w, "state");
    if (machine->state == NULL)
        json_none(w);
    else if (json_is_valid(machine->state, machine->state_len))
        json_raw(w, machine->state, machine->state_len);
    else
        json_strn(w, machine->state, machine->state_len);
}

int control_tell(const struct job *job, struct buf *out)
{
    static const struct machine first = {0};
    const struct machine *machine = job->machine != NULL ? job->machine : &first;
    struct json_writer w;

    json_init(&w, out);
    json_object_begin(&w);
    json_key(&w, "step");
    json_str(&w, machine->step);
    put_state(&w, machine);
    put_list(&w, "signals", machine->signals);
    put_list(&w, "children", machine->children);
    json_key(&w, "children_left");
    json_int(&w, machine->children_left);
    json_key(&w, "timed_out");
    json_bool(&w, machine->timed_out);
    json_key(&w, "attempt");
    json_int(&w, job->attempt);
    json_object_end(&w);
    return out->failed ? PAWL_ENOMEM : 0;
}
