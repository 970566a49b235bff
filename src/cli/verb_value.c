/*
 * verb_value: one option's value, checked and put where the table says. Every refusal names the
 * option, the value and what would have been accepted.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/verb_parse.h"

#define SHOWN_MAX 60 /* bytes of a wrong value that are repeated */

static int refuse(const struct option_spec *spec, const char *value, struct pawl_err *err)
{
    bool cut = strlen(value) > SHOWN_MAX;
    return err_set(err,
                   PAWL_EINVAL,
                   "invalid value \"%.*s%s\" for --%s",
                   SHOWN_MAX,
                   value,
                   cut ? "…" : "",
                   spec->name);
}

static int
set_int(const struct option_spec *spec, const char *value, int64_t *ret, struct pawl_err *err)
{
    if (text_parse_int(value, spec->min, spec->max, ret, NULL) == 0)
        return 0;
    refuse(spec, value, err);
    if (spec->max == INT64_MAX)
        return err_detail(err, "It must be a whole number, at least %" PRId64 ".", spec->min);
    return err_detail(
        err, "It must be a whole number from %" PRId64 " to %" PRId64 ".", spec->min, spec->max);
}

static int
set_choice(const struct option_spec *spec, const char *value, int *ret, struct pawl_err *err)
{
    size_t n = 0;
    for (; spec->choices[n]; n++) {
        if (strcmp(spec->choices[n], value) == 0) {
            *ret = (int)n;
            return 0;
        }
    }
    struct buf list;
    buf_init(&list, sizeof err->detail);
    verb_choices_put(spec->choices, &list);
    const char *near = text_nearest(value, spec->choices, n);
    refuse(spec, value, err);
    err_detail(err,
               "It must be %s.%s%s%s",
               buf_str(&list),
               near ? " Did you mean " : "",
               near ? near : "",
               near ? "?" : "");
    buf_deinit(&list);
    return PAWL_EINVAL;
}

static int set_list(const struct option_spec *spec,
                    const char *value,
                    struct option_list *list,
                    struct pawl_err *err)
{
    if (list->n == OPTION_LIST_MAX) {
        return err_set(err,
                       PAWL_EINVAL,
                       "--%s is given more than %d times, which is as often as it may be",
                       spec->name,
                       OPTION_LIST_MAX);
    }
    list->items[list->n++] = value;
    return 0;
}

static int set_at(const struct option_spec *spec, const char *value, void *at, struct pawl_err *err)
{
    int64_t number;
    int rc;

    switch (spec->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)at = value;
        return 0;
    case OPTION_LIST:
        return set_list(spec, value, at, err);
    case OPTION_INT:
        return set_int(spec, value, at, err);
    case OPTION_INT32:
        rc = set_int(spec, value, &number, err);
        if (rc == 0)
            *(int *)at = (int)number;
        return rc;
    case OPTION_CHOICE:
        return set_choice(spec, value, at, err);
    case OPTION_DURATION:
        if (text_parse_duration(value, at, NULL) == 0)
            return 0;
        refuse(spec, value, err);
        return err_detail(err,
                          "It must be a duration such as 250ms, 90s, 5m, 2h, 1d or 1h30m; a bare "
                          "number is seconds. At most 10 years.");
    case OPTION_TIME:
        if (text_parse_time(value, at, NULL) == 0)
            return 0;
        refuse(spec, value, err);
        return err_detail(err,
                          "It must be a time with its zone, such as 2026-11-15T12:00:00Z or "
                          "2026-11-15T12:00:00+01:00.");
    }
    return err_set(err, PAWL_EFAILED, "--%s has no kind", spec->name);
}

int verb_value_set(const struct option_spec *spec,
                   const char *value,
                   void *options,
                   struct pawl_err *err)
{
    char *base = options;
    int rc = set_at(spec, value, base + spec->offset, err);
    if (rc == 0 && spec->set_offset)
        *(bool *)(void *)(base + spec->set_offset) = true;
    return rc;
}
