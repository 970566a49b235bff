/*
 * job_fields: the one description of a new job (struct pawl_job_new). JOB_FIELDS has the name, the
 * type, the range and the words of each field. The options of `pawl enqueue`, the members of a line
 * of its file, checks, errors, messages to and from a server and the parameters of statements are
 * made from that table. tests/style/fields.py compares what cannot be made from it: pawl.h, the
 * protocol, the SQL functions, the clients and the guide. Pure; any thread.
 */
#ifndef CORE_JOB_FIELDS_H
#define CORE_JOB_FIELDS_H

#include <limits.h>
#include <stddef.h>

#include "base/arena.h"
#include "core/job.h"
#include "pawl.h"

#define JOB_TRACE_MAX    1024                           /* bytes; a W3C traceparent has 55 */
#define JOB_DELAY_MAX_MS (10LL * 366 * 86400 * 1000)    /* as long as the command line takes */
#define JOB_TIME_MAX_US  (253402300800LL * 1000000 - 1) /* the end of the year 9999 */

/* What a field is in C, and how it travels. 0 and NULL mean "left out", except in FIELD_SMALL. */
enum job_field_type {
    FIELD_NAME,   /* const char *, as name_check wants it */
    FIELD_KIND,   /* the same with a version behind it, and must be there */
    FIELD_TEXT,   /* const char *, UTF-8, of `least` to `most` bytes */
    FIELD_BYTES,  /* a pointer, and its length in the member behind it */
    FIELD_SMALL,  /* int; int2 in SQL: the priority */
    FIELD_INT,    /* int */
    FIELD_ID,     /* int64_t */
    FIELD_SPAN,   /* int64_t, ms */
    FIELD_SPAN32, /* int64_t, ms; int4 in SQL */
    FIELD_TIME,   /* int64_t, µs since 1970 */
    FIELD_WORD,   /* an enum: the place of one of `words`, the first of which is the default */
    FIELD_WORDS,  /* unsigned: a bit for each of `words` */
    FIELD_TEXTS,  /* const char *const * to names, and how many in the member behind it */
};

/* Where a field goes in the database. */
enum job_field_home {
    FIELD_PLAIN,  /* a column that every job has: a parameter of every statement */
    FIELD_OPTION, /* a parameter of its own, where a job is more than plain */
    FIELD_META,   /* a member of the column meta, which is JSON */
};

/*
 * X(how, name, type, home, member, wire, least, most, range, words, letter, option, value, help)
 *
 * how     OPT, or BARE: no option of its own on the command line
 * name    in files of jobs and in errors; SQL and Python have that of `wire`, without its unit
 * member  of struct pawl_job_new
 * wire    WIRE(member of NewJob in pawl.proto), or NO_WIRE
 * range   what a time or a duration must be, in words
 * letter, option, value, help   of the option, as in cli/verb.h
 *
 * Plain fields come first: the order is that of the parameters in SQL.
 */
/* clang-format off */
#define JOB_FIELDS(X) \
    X(OPT, queue, NAME, PLAIN, queue, WIRE(queue), 0, 0, NULL, NULL, \
      'Q', "queue", "QUEUE", "The queue it goes to (default: default)") \
    X(BARE, kind, KIND, PLAIN, kind, WIRE(kind), 0, 0, NULL, NULL, 0, NULL, NULL, NULL) \
    X(BARE, payload, BYTES, PLAIN, payload, WIRE(payload), 0, PAWL_PAYLOAD_MAX, NULL, NULL, 0, NULL, NULL, NULL) \
    X(OPT, priority, SMALL, PLAIN, priority, WIRE(priority), PAWL_PRIORITY_MIN, PAWL_PRIORITY_MAX, NULL, NULL, \
      'p', "priority", "N", "0 to 9, higher runs first (default 4)") \
    X(OPT, delay, SPAN, PLAIN, delay_ms, WIRE(delay_ms), 0, JOB_DELAY_MAX_MS, "between 0 and ten years", NULL, \
      0, "delay", "TIME", "Not before this much time has passed: 90s, 5m, 1h30m, 2d") \
    X(OPT, at, TIME, PLAIN, at_us, WIRE(due_at_us), 0, JOB_TIME_MAX_US, "between 1970 and 9999", NULL, \
      0, "at", "WHEN", "Not before this time: 2027-01-31T09:00:00Z") \
    X(OPT, max_attempts, INT, PLAIN, max_attempts, WIRE(max_attempts), 1, JOB_MAX_ATTEMPTS_LIMIT, NULL, NULL, \
      0, "max-attempts", "N", "Give up after N attempts (default 20)") \
    X(OPT, timeout, SPAN32, PLAIN, timeout_ms, WIRE(timeout_ms), 1, INT32_MAX, "between 1 ms and 24 days", NULL, \
      0, "timeout", "TIME", "End an attempt that runs longer than this (default: no limit)") \
    X(OPT, unique_key, TEXT, OPTION, unique_key, WIRE(unique_key), 1, PAWL_KEY_MAX, NULL, NULL, \
      0, "unique-key", "KEY", "At most one job holds KEY until it is finished; prints the id of the one that does") \
    X(OPT, unique_scope, WORD, OPTION, unique_scope, WIRE(unique_scope), 0, 0, NULL, job_scopes, \
      0, "unique-scope", "SCOPE", "Whose key it is: of the queue and the kind, of the queue, or of all (default kind)") \
    X(BARE, unique_states, WORDS, OPTION, unique_states, WIRE(unique_states), 0, PAWL_UNIQUE_LIVE, NULL, job_key_states, \
      0, NULL, NULL, NULL) \
    X(OPT, unique_for, SPAN, OPTION, unique_for_ms, WIRE(unique_for_ms), 0, JOB_DELAY_MAX_MS, "between 0 and ten years", \
      NULL, 0, "unique-for", "TIME", "The key stays taken for this long after the end (default: not at all)") \
    X(OPT, on_conflict, WORD, OPTION, unique_mode, WIRE(on_conflict), 0, 0, NULL, job_conflicts, \
      0, "on-conflict", "WHAT", "When the key is taken: keep the job that holds it, replace its payload, priority and due " \
      "time, reschedule it, or refuse (default keep)") \
    X(OPT, lane, NAME, OPTION, lane, WIRE(lane), 0, 0, NULL, NULL, \
      0, "lane", "LANE", "The lane it runs in (default: none)") \
    X(OPT, tags, TEXTS, META, tags, WIRE(tags), 0, PAWL_TAGS_MAX, NULL, NULL, \
      0, "tag", "TAG", "A tag, kept with the job. May be given more than once") \
    X(OPT, trace, TEXT, META, trace, WIRE(trace), 0, JOB_TRACE_MAX, NULL, NULL, \
      0, "trace", "CONTEXT", "Trace context (W3C traceparent), given to the handler") \
    X(OPT, correlation, TEXT, META, correlation, WIRE(correlation), 1, PAWL_CORRELATION_MAX, NULL, NULL, \
      0, "correlation", "KEY", "What it is about: pawl signal broadcast KEY reaches all jobs of the same") \
    X(OPT, deadline, SPAN, OPTION, deadline_ms, WIRE(deadline_ms), 0, JOB_DELAY_MAX_MS, "between 0 and ten years", NULL, \
      0, "deadline", "TIME", "It fails so long after now, whatever it does or waits for (default: never)") \
    X(OPT, retry, WORD, OPTION, retry, WIRE(retry), 0, 0, NULL, job_retries, \
      0, "retry", "POLICY", "How the wait between attempts grows (default: as the kind says)") \
    X(OPT, retry_base, SPAN32, OPTION, retry_base_ms, WIRE(retry_base_ms), 0, INT32_MAX, "between 0 and 24 days", NULL, \
      0, "retry-base", "TIME", "The first wait (default: as the kind says)") \
    X(OPT, retry_cap, SPAN32, OPTION, retry_cap_ms, WIRE(retry_cap_ms), 0, INT32_MAX, "between 0 and 24 days", NULL, \
      0, "retry-cap", "TIME", "The longest wait (default: as the kind says)") \
    X(OPT, parent, ID, OPTION, parent_id, NO_WIRE, 1, INT64_MAX, NULL, NULL, \
      0, "parent", "ID", "The job that this one belongs to, for lists; nobody waits (default: none)")
/* clang-format on */

/* The words of fields, in the order of their enums in pawl.h. Each list ends with NULL. */
extern const char *const job_scopes[];
extern const char *const job_key_states[];
extern const char *const job_conflicts[];
extern const char *const job_retries[];

#define JOB_FIELD_ENUM(how, name, ...) JOB_FIELD_##name,

enum job_field_id { JOB_FIELDS(JOB_FIELD_ENUM) JOB_FIELDS_N };

#undef JOB_FIELD_ENUM

struct job_field {
    const char *name;
    enum job_field_type type;
    enum job_field_home home;
    size_t offset;    /* in struct pawl_job_new */
    const char *wire; /* NULL: a server does not know it */
    int64_t least, most;
    const char *range;
    const char *const *words;
};

extern const struct job_field job_fields[JOB_FIELDS_N]; /* by enum job_field_id */

static inline const void *job_field_at(const struct job_field *field,
                                       const struct pawl_job_new *job)
{
    return (const char *)job + field->offset;
}

static inline void *job_field_to(const struct job_field *field, struct pawl_job_new *job)
{
    return (char *)job + field->offset;
}

/* The field is not left out. */
bool job_field_is_set(const struct job_field *field, const struct pawl_job_new *job);

/* Whether the field may be as it is. given: the caller has named it, so 0 is a value. */
int job_field_check(const struct job_field *field,
                    const struct pawl_job_new *job,
                    bool given,
                    struct pawl_err *err) MUST_CHECK;

/* Puts the place of a word into a field of words, or adds its bit. */
int job_field_word(const struct job_field *field,
                   const char *word,
                   struct pawl_job_new *job,
                   struct pawl_err *err) MUST_CHECK;

/* All of it. ret_field: what is wrong. */
int job_new_check(const struct pawl_job_new *job,
                  const struct job_field **ret_field,
                  struct pawl_err *err) MUST_CHECK;

/* What was left out of queue, payload and max_attempts. The database knows the other defaults. */
void job_new_fill(struct pawl_job_new *job);

/* The job has nothing but plain fields. */
bool job_new_is_plain(const struct pawl_job_new *job);
/* The job has nothing but what a child may have: kind, queue, payload, priority, max_attempts. */
bool job_new_is_child(const struct pawl_job_new *job);
/* Two plain jobs that differ in their payload at most. */
bool job_new_is_same(const struct pawl_job_new *a, const struct pawl_job_new *b);

/* What a job counts against limits of bytes: its payload and its texts. */
size_t job_new_bytes(const struct pawl_job_new *job);

/* The fields of FIELD_META as JSON, in the arena; *ret_meta NULL: none. False: out of memory. */
bool job_new_meta(const struct pawl_job_new *job,
                  struct arena *arena,
                  const char **ret_meta) MUST_CHECK;

#endif
