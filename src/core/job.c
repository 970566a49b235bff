/* job: the names of states and outcomes, and what may name a queue or a kind. */
#include "core/job.h"

#include <inttypes.h>
#include <string.h>

struct name_row {
    int number;
    const char *text;
};

#define STATE_ROW(name, number, text, terminal) {(number), (text)},
static const struct name_row states[] = {JOB_STATES(STATE_ROW)};
#undef STATE_ROW

#define OUTCOME_ROW(name, number, text) {(number), (text)},
static const struct name_row outcomes[] = {JOB_OUTCOMES(OUTCOME_ROW)};
#undef OUTCOME_ROW

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

static const char *text_of(const struct name_row *rows, size_t n, int number)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].number == number)
            return rows[i].text;
    return "unknown";
}

const char *job_state_text(int state)
{
    return text_of(states, LEN(states), state);
}

int job_state_parse(const char *text, enum job_state *ret_state)
{
    for (size_t i = 0; text && i < LEN(states); i++) {
        if (strcmp(states[i].text, text) == 0) {
            *ret_state = (enum job_state)states[i].number;
            return 0;
        }
    }
    return PAWL_EINVAL;
}

const char *outcome_text(int kind)
{
    return text_of(outcomes, LEN(outcomes), kind);
}

/* Not isalnum: what a name may hold does not depend on the locale. */
static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool may_begin(char c)
{
    return is_alnum(c) || c == '_';
}

static bool may_hold(char c)
{
    return may_begin(c) || c == '.' || c == ':' || c == '/' || c == '-';
}

static int refuse_byte(const char *what, size_t at, char c, struct pawl_err *err)
{
    const char *verb = at == 0 ? "begin with" : "hold";

    /* The name itself is not repeated: it may hold what a terminal would obey. */
    if (c > ' ' && c <= '~')
        err_set(err, PAWL_EINVAL, "a %s's name cannot %s '%c'", what, verb, c);
    else if (c == ' ')
        err_set(err, PAWL_EINVAL, "a %s's name cannot %s a blank", what, verb);
    else
        err_set(err,
                PAWL_EINVAL,
                "a %s's name cannot %s the byte 0x%02x",
                what,
                verb,
                (unsigned char)c);
    err_detail(err, "It is byte %zu of the name.", at + 1);
    err_hint(err,
             "Use letters, digits and _ . : / - only, beginning with a letter, a digit or _; "
             "at most %d bytes.",
             PAWL_NAME_MAX);
    return PAWL_EINVAL;
}

/* The first `len` bytes of a name, which has `whole_len` of them with its version. */
static int
check_bytes(const char *what, const char *name, size_t len, size_t whole_len, struct pawl_err *err)
{
    for (size_t i = 0; i < len && i < PAWL_NAME_MAX; i++)
        if (i == 0 ? !may_begin(name[i]) : !may_hold(name[i]))
            return refuse_byte(what, i, name[i], err);
    if (whole_len > PAWL_NAME_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "a %s's name cannot be longer than %d bytes; this one has %zu",
                       what,
                       PAWL_NAME_MAX,
                       whole_len);
    return 0;
}

int name_check(const char *what, const char *name, struct pawl_err *err)
{
    if (!name || !*name)
        return err_set(err, PAWL_EINVAL, "a %s's name cannot be empty", what);
    return check_bytes(what, name, strlen(name), strlen(name), err);
}

int kind_check(const char *kind, struct pawl_err *err)
{
    const char *at = kind ? strchr(kind, '@') : NULL;

    if (!at || at == kind)
        return name_check("kind", kind, err);
    if (at[1] == '\0' || at[1 + strspn(at + 1, "0123456789")] != '\0') {
        err_set(err, PAWL_EINVAL, "the version of a kind is not a number");
        err_hint(err, "It stands behind an @, as in order@2.");
        return PAWL_EINVAL;
    }
    return check_bytes("kind", kind, (size_t)(at - kind), strlen(kind), err);
}

int priority_check(int64_t priority, struct pawl_err *err)
{
    if (priority >= PAWL_PRIORITY_MIN && priority <= PAWL_PRIORITY_MAX)
        return 0;
    err_set(err,
            PAWL_EINVAL,
            "priority %" PRId64 " is not between %d and %d",
            priority,
            PAWL_PRIORITY_MIN,
            PAWL_PRIORITY_MAX);
    err_hint(err, "Higher is more urgent; the default is %d.", PAWL_PRIORITY_DEFAULT);
    return PAWL_EINVAL;
}
