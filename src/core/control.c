/*
 * control: taking a step's line apart. json_check says whether it is JSON; values that are passed on are
 * cut out of the text, so that no number loses a digit on the way.
 */
#include "core/control.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/json.h"
#include "core/json_walk.h"

#define DELAY_MAX_MS (10LL * 366 * 86400 * 1000) /* as long as a job may be scheduled ahead */
#define NUMBER_LEN   24
#define CHILDREN_MAX 100000

/* Members of the line. X(name in C, name in JSON) */
#define MEMBERS(X)           \
    X(NEXT, "next")          \
    X(AWAIT, "await")        \
    X(SPAWN, "spawn")        \
    X(DONE, "done")          \
    X(RETRY, "retry")        \
    X(STOP, "stop")          \
    X(REJECT, "reject")      \
    X(SNOOZE, "snooze_ms")   \
    X(CANCEL, "cancel")      \
    X(STATE, "state")        \
    X(DELAY, "delay_ms")     \
    X(TIMEOUT, "timeout_ms") \
    X(JOIN, "join")

#define MEMBER_ENUM(name, text) M_##name,

enum member { MEMBERS(MEMBER_ENUM) N_MEMBERS };

#undef MEMBER_ENUM

#define MEMBER_TEXT(name, text) text,
static const char *const member_names[] = {MEMBERS(MEMBER_TEXT)};
#undef MEMBER_TEXT

/* Outcomes: the member that makes them, what they may have beside it, and what they must have. */
static const struct shape {
    enum member member;
    enum outcome_kind kind;
    unsigned may;
    unsigned must;
} shapes[] = {

#define BIT(m) (1u << M_##m)
    /* These first: `next` alone is the outcome only when it accompanies none of them. */
    {M_AWAIT, OUTCOME_AWAIT, BIT(NEXT) | BIT(STATE) | BIT(TIMEOUT), BIT(NEXT)},
    {M_SPAWN, OUTCOME_SPAWN, BIT(NEXT) | BIT(STATE) | BIT(JOIN), BIT(NEXT)},
    {M_DONE, OUTCOME_DONE, 0, 0},
    {M_RETRY, OUTCOME_RETRY, BIT(DELAY), 0},
    {M_STOP, OUTCOME_FAIL, 0, 0},
    {M_REJECT, OUTCOME_REJECT, 0, 0},
    {M_SNOOZE, OUTCOME_SNOOZE, 0, 0},
    {M_CANCEL, OUTCOME_CANCEL, 0, 0},
    {M_NEXT, OUTCOME_NEXT, BIT(STATE) | BIT(DELAY), 0},
};

#define N_SHAPES (sizeof(shapes) / sizeof(*shapes))

/* A line that is being read. */
struct reading {
    struct json_span members[N_MEMBERS]; /* data NULL: not there */
    unsigned there;                      /* bits of those that are */
    const char *queue;
    struct arena *arena;
    struct pawl_err *err;
};

/* ── values ── */

static int refuse(const struct reading *r, const char *member, const char *what)
{
    return err_set(r->err, PAWL_EINVAL, "\"%s\" must be %s", member, what);
}

static int
read_text(const struct reading *r, const char *member, struct json_span span, const char **ret_text)
{
    int rc = json_span_string(span, r->arena, ret_text, r->err);

    return rc == PAWL_EINVAL ? refuse(r, member, "a text without \\u0000") : rc;
}

static int read_int(const struct reading *r,
                    const char *member,
                    struct json_span span,
                    int64_t min,
                    int64_t max,
                    int64_t *ret_value)
{
    char text[NUMBER_LEN];

    if (span.len > 0 && span.len < sizeof(text) && (span.data[0] == '-' || span.data[0] != '"')) {
        memcpy(text, span.data, span.len);
        text[span.len] = '\0';
        if (text_parse_int(text, min, max, ret_value, NULL) == 0)
            return 0;
    }
    return err_set(r->err,
                   PAWL_EINVAL,
                   "\"%s\" must be a whole number between %lld and %lld",
                   member,
                   (long long)min,
                   (long long)max);
}

static bool is_word(struct json_span span, const char *word)
{
    return span.len == strlen(word) && memcmp(span.data, word, span.len) == 0;
}

static int
read_bool(const struct reading *r, const char *member, struct json_span span, bool *ret_value)
{
    if (!is_word(span, "true") && !is_word(span, "false"))
        return refuse(r, member, "true or false");
    *ret_value = span.data[0] == 't';
    return 0;
}

/* Which of `names` the key is. */
static int read_key(const struct reading *r,
                    struct json_span key,
                    const char *const *names,
                    size_t n,
                    const char *where,
                    size_t *ret_i)
{
    const char *name;
    int rc = json_span_string(key, r->arena, &name, r->err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_i = i;
            return 0;
        }
    }
    const char *meant = text_nearest(name, names, n);
    /* It comes from outside, and errors are shown. */
    bool plain = name_check("member", name, NULL) == 0;

    err_set(r->err,
            PAWL_EINVAL,
            plain ? "%s has the unknown member \"%s\"" : "%s has an unknown member",
            where,
            name);
    return meant != NULL ? err_detail(r->err, "Is \"%s\" meant?", meant) : r->err->code;
}

/* ── await ── */

static int read_awaits(const struct reading *r, struct going_on *on)
{
    struct json_span list = r->members[M_AWAIT];
    struct json_span item;
    size_t pos = 0;
    char *joined;
    char *at;

    if (list.data[0] != '[')
        return refuse(r, "await", "a list of names");
    /* The names without quotes and with commas are shorter than the list. */
    joined = at = arena_alloc(r->arena, list.len + 1);
    if (joined == NULL)
        return err_set(r->err, PAWL_ENOMEM, "out of memory");
    while (json_walk_item(list.data, list.len, &pos, &item)) {
        const char *name;
        int rc = read_text(r, "await", item, &name);

        if (rc == 0)
            rc = name_check("signal", name, r->err);
        if (rc < 0)
            return rc;
        if (at > joined)
            *at++ = ',';
        memcpy(at, name, strlen(name));
        at += strlen(name);
    }
    *at = '\0';
    on->awaits = joined;
    return 0;
}

/* ── spawn ── */

static int read_child_member(const struct reading *r,
                             size_t member,
                             struct json_span value,
                             struct child_new *child)
{
    int64_t number = 0;
    int rc = 0;

    switch (member) {
    case 0:
        return read_text(r, "kind", value, &child->kind);
    case 1:
        child->payload = value.data;
        child->payload_len = value.len;
        return 0;
    case 2:
        return read_text(r, "queue", value, &child->queue);
    case 3:
        rc = read_int(r, "priority", value, PAWL_PRIORITY_MIN, PAWL_PRIORITY_MAX, &number);
        if (rc == 0)
            child->priority = (int16_t)number;
        return rc;
    default:
        rc = read_int(r, "max_attempts", value, 1, JOB_MAX_ATTEMPTS_LIMIT, &number);
        if (rc == 0)
            child->max_attempts = (int32_t)number;
        return rc;
    }
}

static int read_child(const struct reading *r, struct json_span item, struct child_new *ret_child)
{
    static const char *const names[] = {"kind", "payload", "queue", "priority", "max_attempts"};
    struct child_new child = {
        .queue = r->queue,
        .payload = "{}",
        .payload_len = 2,
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts = JOB_MAX_ATTEMPTS_DEFAULT,
    };
    struct json_span key;
    struct json_span value;
    size_t pos = 0;
    size_t i = 0;

    if (item.data[0] != '{')
        return refuse(r, "spawn", "a list of objects");
    while (json_walk(item.data, item.len, &pos, &key, &value)) {
        int rc = read_key(r, key, names, sizeof(names) / sizeof(*names), "a child", &i);

        if (rc == 0)
            rc = read_child_member(r, i, value, &child);
        if (rc < 0)
            return rc;
    }
    if (child.kind == NULL)
        return err_set(r->err, PAWL_EINVAL, "a child has no \"kind\"");
    *ret_child = child;
    return 0;
}

static int read_children(const struct reading *r, struct going_on *on)
{
    struct json_span list = r->members[M_SPAWN];
    struct json_span item;
    struct child_new *children;
    size_t pos = 0;
    size_t n = 0;

    if (list.data[0] != '[')
        return refuse(r, "spawn", "a list of objects");
    while (json_walk_item(list.data, list.len, &pos, &item))
        n++;
    if (n > CHILDREN_MAX)
        return err_set(r->err,
                       PAWL_ELIMIT,
                       "\"spawn\" has %zu children, and the limit is %d",
                       n,
                       CHILDREN_MAX);
    children = arena_new_array(r->arena, n > 0 ? n : 1, struct child_new);
    if (children == NULL)
        return err_set(r->err, PAWL_ENOMEM, "out of memory");
    pos = 0;
    for (size_t i = 0; json_walk_item(list.data, list.len, &pos, &item); i++) {
        int rc = read_child(r, item, &children[i]);

        if (rc < 0)
            return rc;
    }
    on->children = children;
    on->n_children = n;
    return 0;
}

static int read_join(const struct reading *r, struct going_on *on)
{
    static const char *const names[] = {"quorum", "fail_fast", "cancel"};
    struct json_span join = r->members[M_JOIN];
    struct json_span key;
    struct json_span value;
    size_t pos = 0;

    if (join.data == NULL)
        return 0;
    if (join.data[0] != '{')
        return refuse(r, "join", "an object");
    while (json_walk(join.data, join.len, &pos, &key, &value)) {
        size_t i = 0;
        int64_t quorum = 0;
        bool is_set = false;
        int rc = read_key(r, key, names, sizeof(names) / sizeof(*names), "\"join\"", &i);

        if (rc == 0 && i == 0)
            rc = read_int(r, "quorum", value, 0, (int64_t)on->n_children, &quorum);
        else if (rc == 0)
            rc = read_bool(r, names[i], value, &is_set);
        if (rc < 0)
            return rc;
        if (i == 0)
            on->join_at = (int32_t)((int64_t)on->n_children - quorum);
        else if (is_set)
            on->join_flags |= i == 1 ? JOIN_FAIL_FAST : JOIN_CANCEL;
    }
    return 0;
}

/* ── the whole ── */

static int read_on(const struct reading *r, enum outcome_kind kind, struct control *control)
{
    struct going_on *on = &control->on;
    struct outcome *outcome = &control->outcome;
    struct json_span delay = r->members[kind == OUTCOME_AWAIT ? M_TIMEOUT : M_DELAY];
    int rc = read_text(r, "next", r->members[M_NEXT], &on->step);

    if (rc < 0)
        return rc;
    on->state = r->members[M_STATE].data;
    on->state_len = r->members[M_STATE].len;
    outcome->on = on;
    outcome->delay_ms = kind == OUTCOME_AWAIT ? -1 : 0;
    if (delay.data != NULL)
        rc = read_int(r,
                      kind == OUTCOME_AWAIT ? "timeout_ms" : "delay_ms",
                      delay,
                      0,
                      DELAY_MAX_MS,
                      &outcome->delay_ms);
    if (rc == 0 && kind == OUTCOME_AWAIT)
        rc = read_awaits(r, on);
    if (rc == 0 && kind == OUTCOME_SPAWN)
        rc = read_children(r, on);
    if (rc == 0 && kind == OUTCOME_SPAWN)
        rc = read_join(r, on);
    return rc < 0 ? rc : going_on_check(kind, on, r->err);
}

static int read_done(const struct reading *r, struct outcome *outcome)
{
    struct json_span result = r->members[M_DONE];

    if (result.len > PAWL_RESULT_MAX)
        return err_set(r->err,
                       PAWL_ELIMIT,
                       "the result has %zu bytes, and the limit is %d",
                       result.len,
                       PAWL_RESULT_MAX);
    outcome->result = result.data;
    outcome->result_len = result.len;
    return 0;
}

static int read_outcome(const struct reading *r, const struct shape *shape, struct control *control)
{
    struct outcome *outcome = &control->outcome;
    struct json_span value = r->members[shape->member];
    const char *name = member_names[shape->member];
    int rc = 0;

    switch (shape->kind) {
    case OUTCOME_DONE:
        return read_done(r, outcome);
    case OUTCOME_RETRY:
    case OUTCOME_FAIL:
    case OUTCOME_REJECT:
        rc = read_text(r, name, value, &outcome->error);
        if (rc == 0 && (r->there & BIT(DELAY)) != 0)
            rc = read_int(r, "delay_ms", r->members[M_DELAY], 0, DELAY_MAX_MS, &outcome->delay_ms);
        return rc;
    case OUTCOME_SNOOZE:
        return read_int(r, name, value, 0, DELAY_MAX_MS, &outcome->delay_ms);
    case OUTCOME_CANCEL:
        return is_word(value, "true") ? 0 : refuse(r, name, "true");
    default:
        return read_on(r, shape->kind, control);
    }
}

/* The one outcome that is there, with nothing beside it that does not belong. */
static int find_shape(const struct reading *r, const struct shape **ret_shape)
{
    const struct shape *found = NULL;

    for (size_t i = 0; i < N_SHAPES; i++) {
        const struct shape *shape = &shapes[i];
        bool is_there = (r->there & (1u << shape->member)) != 0;

        if (!is_there || (found != NULL && (found->may & (1u << shape->member)) != 0))
            continue;
        if (found != NULL)
            return err_set(r->err,
                           PAWL_EINVAL,
                           "it says both \"%s\" and \"%s\"",
                           member_names[found->member],
                           member_names[shape->member]);
        found = shape;
    }
    if (found == NULL)
        return err_set(r->err, PAWL_EINVAL, "it says no outcome");
    for (size_t m = 0; m < N_MEMBERS; m++) {
        unsigned bit = 1u << m;

        if ((r->there & bit) != 0 && m != (size_t)found->member && (found->may & bit) == 0)
            return err_set(r->err,
                           PAWL_EINVAL,
                           "\"%s\" does not go with \"%s\"",
                           member_names[m],
                           member_names[found->member]);
        if ((r->there & bit) == 0 && (found->must & bit) != 0)
            return err_set(r->err,
                           PAWL_EINVAL,
                           "\"%s\" needs \"%s\"",
                           member_names[found->member],
                           member_names[m]);
    }
    *ret_shape = found;
    return 0;
}

/* Without the newline and blanks around it. */
static int one_line(const char *text, size_t len, struct json_span *ret_line, struct pawl_err *err)
{
    const char *newline;

    if (len > CONTROL_LINE_MAX)
        return err_set(err, PAWL_ELIMIT, "it has more than %d bytes", CONTROL_LINE_MAX);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL && text[len - 1] != '\0')
        len--;
    newline = len > 0 ? memchr(text, '\n', len) : NULL;
    if (newline != NULL)
        return err_set(err, PAWL_EINVAL, "it is more than one line");
    *ret_line = (struct json_span){text, len};
    return 0;
}

static int read_members(struct reading *r, struct json_span line)
{
    struct json_span key;
    struct json_span value;
    size_t pos = 0;
    int rc = json_check(line.data, line.len, r->err);

    if (rc < 0)
        return rc;
    if (!json_looks_object(line.data, line.len))
        return err_set(r->err, PAWL_EINVAL, "it is not an object");
    while (json_walk(line.data, line.len, &pos, &key, &value)) {
        size_t i = 0;

        rc = read_key(r, key, member_names, N_MEMBERS, "it", &i);
        if (rc < 0)
            return rc;
        r->members[i] = value;
        r->there |= 1u << i;
    }
    return 0;
}

int control_parse(const char *text,
                  size_t len,
                  const char *queue,
                  struct arena *arena,
                  struct control *ret_control,
                  struct pawl_err *err)
{
    struct pawl_err unused;
    struct reading r = {.queue = queue, .arena = arena, .err = err != NULL ? err : &unused};
    const struct shape *shape;
    struct json_span line = {0};
    struct control control = {.outcome = {.delay_ms = -1}};
    int rc = one_line(text, len, &line, r.err);

    if (rc == 0)
        rc = read_members(&r, line);
    if (rc == 0)
        rc = find_shape(&r, &shape);
    if (rc < 0)
        return rc;
    control.outcome.kind = shape->kind;
    rc = read_outcome(&r, shape, &control);
    if (rc < 0)
        return rc;
    *ret_control = control;
    if (control.outcome.on != NULL)
        ret_control->outcome.on = &ret_control->on;
    return 0;
}
