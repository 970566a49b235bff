/*
 * verb_text: names of verbs and options as every generator and every message writes them, and
 * finding a verb by its name.
 */
#include <string.h>

#include "base/text.h"
#include "cli/verb_parse.h"

#define CANDIDATES_MAX 64

void verb_path_put(const struct verb *const *path, size_t depth, struct buf *out)
{
    for (size_t i = 0; i < depth; i++)
        buf_printf(out, "%s%s", i ? " " : "", path[i]->name);
}

static bool has_options(const struct verb *verb)
{
    for (const struct option_spec *spec = verb->options; spec && spec->name; spec++)
        if (!spec->hidden)
            return true;
    return false;
}

void verb_usage_put(const struct verb *const *path, size_t depth, struct buf *out)
{
    const struct verb *verb = path[depth - 1];
    verb_path_put(path, depth, out);
    if (has_options(verb) || depth == 1)
        buf_puts(out, " [OPTIONS]");
    if (verb->verbs)
        buf_puts(out, depth == 1 ? " COMMAND [ARGUMENTS]" : " COMMAND");
    if (verb->args)
        buf_printf(out, " %s", verb->args);
}

void verb_choices_put(const char *const *choices, struct buf *out)
{
    for (size_t i = 0; choices[i]; i++)
        buf_printf(out, "%s%s", i == 0 ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
}

void verb_option_help_put(const struct option_spec *spec, struct buf *out)
{
    buf_puts(out, spec->help ? spec->help : "");
    if (spec->kind != OPTION_CHOICE)
        return;
    buf_printf(out, ". %s is ", spec->value);
    verb_choices_put(spec->choices, out);
}

int verb_find(const struct verb *const *path,
              size_t depth,
              const char *name,
              const struct verb **ret_verb,
              struct pawl_err *err)
{
    const struct verb *const *verbs = path[depth - 1]->verbs;
    const char *names[CANDIDATES_MAX];
    size_t n = 0;
    struct buf where;
    buf_init(&where, 256);
    verb_path_put(path, depth, &where);
    for (; verbs && *verbs; verbs++) {
        if (strcmp((*verbs)->name, name) == 0) {
            *ret_verb = *verbs;
            buf_deinit(&where);
            return 0;
        }
        if (!(*verbs)->hidden && n < CANDIDATES_MAX)
            names[n++] = (*verbs)->name;
    }
    const char *near = text_nearest(name, names, n);
    if (depth == 1)
        err_set(err, PAWL_EINVAL, "unknown command \"%.60s\"", name);
    else
        err_set(err, PAWL_EINVAL, "unknown command \"%.60s\" of %s", name, buf_str(&where));
    if (near)
        err_hint(err, "Did you mean %s %s? See %s --help.", buf_str(&where), near, buf_str(&where));
    else
        err_hint(err, "See %s --help for what there is.", buf_str(&where));
    buf_deinit(&where);
    return PAWL_EINVAL;
}
