/*
 * verb_completion: a bash script with the table in it, so that completing starts no process. It
 * needs nothing but bash 4: neither the bash-completion package nor its helpers.
 */
#include <string.h>

#include "cli/verb_parse.h"

static const char head[] =
    "# bash completion for pawl, made by `pawl completion bash`.\n"
    "# shellcheck shell=bash disable=SC2034\n"
    "\n"
    "# Sets, for a command: verbs, what may follow it; options; valued, the options that take a value; files, when\n"
    "# its arguments are files.\n"
    "_pawl_command()\n"
    "{\n"
    "    verbs='' options='' valued='' files=''\n"
    "    case $1 in\n";

static const char middle[] =
    "    esac\n"
    "}\n"
    "\n"
    "# Sets, for an option of a command: words, what its value may be; files, when it is one.\n"
    "_pawl_value()\n"
    "{\n"
    "    words='' files=''\n"
    "    case $1 in\n";

/* The walk: global options may stand anywhere, and a value is not a verb even if it looks like one.
 */
static const char tail[] =
    "    esac\n"
    "}\n"
    "\n"
    "_pawl()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} path=pawl asked='' wanting='' ended='' helping='' i word\n"
    "    local verbs options valued files words\n"
    "    COMPREPLY=()\n"
    "    _pawl_command \"$path\"\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ -n $wanting ]]; then\n"
    "            [[ $word == = ]] || wanting=\n"
    "        elif [[ -z $ended && $word == -- ]]; then\n"
    "            ended=1\n"
    "        elif [[ -z $ended && $word == -* ]]; then\n"
    "            [[ \" $valued \" == *\" $word \"* ]] && wanting=$word\n"
    "        elif [[ \" $verbs \" == *\" $word \"* ]]; then\n"
    "            path+=\" $word\"\n"
    "            _pawl_command \"$path\"\n"
    "            if [[ $verbs == @all ]]; then\n"
    "                path=pawl helping=1\n"
    "                _pawl_command \"$path\"\n"
    "            fi\n"
    "        else\n"
    "            asked=1\n"
    "        fi\n"
    "    done\n"
    "    if [[ -n $wanting ]]; then\n"
    "        [[ $cur == = ]] && cur=\n"
    "        _pawl_value \"$path $wanting\"\n"
    "    elif [[ -z $ended && -z $helping && $cur == -* ]]; then\n"
    "        words=$options files=\n"
    "    elif [[ -z $asked ]]; then\n"
    "        words=$verbs\n"
    "    fi\n"
    "    if [[ -n $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _pawl pawl\n";

static void option_names(struct buf *out, const struct option_spec *specs, bool valued_only)
{
    for (const struct option_spec *spec = specs; spec && spec->name; spec++) {
        if (spec->hidden || (valued_only && spec->kind == OPTION_FLAG))
            continue;
        buf_printf(out, "--%s ", spec->name);
        if (spec->letter)
            buf_printf(out, "-%c ", spec->letter);
    }
}

static bool is_file(const char *value)
{
    return value && (strstr(value, "FILE") || strstr(value, "DIR") || strstr(value, "PATH"));
}

static void command_case(const struct verb **path, size_t depth, struct buf *out)
{
    const struct verb *verb = path[depth - 1];
    buf_puts(out, "    '");
    verb_path_put(path, depth, out);
    buf_puts(out, "')\n        verbs='");
    if (verb->args_are_verbs)
        buf_puts(out, "@all");
    for (size_t i = 0; verb->verbs && verb->verbs[i]; i++)
        if (!verb->verbs[i]->hidden)
            buf_printf(out, "%s ", verb->verbs[i]->name);
    buf_puts(out, "'\n        options='");
    option_names(out, verb->options, false);
    option_names(out, verb_global_options, false);
    buf_puts(out, "'\n        valued='");
    option_names(out, verb->options, true);
    option_names(out, verb_global_options, true);
    buf_printf(out, "'\n        files=%s\n        ;;\n", is_file(verb->args) ? "1" : "");
    for (size_t i = 0; depth < VERB_DEPTH_MAX && verb->verbs && verb->verbs[i]; i++) {
        path[depth] = verb->verbs[i];
        if (!verb->verbs[i]->hidden)
            command_case(path, depth + 1, out);
    }
}

/* Choices and files; of any other value the shell knows nothing. where: the command, or "*" for
 * every one. */
static void option_cases(const char *where, const struct option_spec *specs, struct buf *out)
{
    for (const struct option_spec *spec = specs; spec && spec->name; spec++) {
        bool file = spec->kind != OPTION_FLAG && is_file(spec->value);
        if (spec->hidden || (spec->kind != OPTION_CHOICE && !file))
            continue;
        buf_printf(out, "    %s' --%s'", where, spec->name);
        if (spec->letter)
            buf_printf(out, " | %s' -%c'", where, spec->letter);
        buf_puts(out, ") ");
        if (file) {
            buf_puts(out, "files=1 ;;\n");
            continue;
        }
        buf_puts(out, "words='");
        for (size_t i = 0; spec->choices[i]; i++)
            buf_printf(out, "%s%s", i ? " " : "", spec->choices[i]);
        buf_puts(out, "' ;;\n");
    }
}

static void value_cases(const struct verb **path, size_t depth, struct buf *out)
{
    const struct verb *verb = path[depth - 1];
    struct buf where;
    buf_init(&where, 256);
    buf_putc(&where, '\'');
    verb_path_put(path, depth, &where);
    buf_putc(&where, '\'');
    option_cases(buf_str(&where), verb->options, out);
    buf_deinit(&where);
    for (size_t i = 0; depth < VERB_DEPTH_MAX && verb->verbs && verb->verbs[i]; i++) {
        path[depth] = verb->verbs[i];
        if (!verb->verbs[i]->hidden)
            value_cases(path, depth + 1, out);
    }
}

void verb_completion_bash(const struct verb *root, struct buf *out)
{
    const struct verb *path[VERB_DEPTH_MAX] = {root};
    buf_puts(out, head);
    command_case(path, 1, out);
    buf_puts(out, middle);
    value_cases(path, 1, out);
    option_cases("*", verb_global_options, out);
    buf_puts(out, tail);
}
