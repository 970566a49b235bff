/* enqueue_rich: the options of `pawl enqueue` for jobs that are more than plain, and the same as members of a line of a
 * file. */
#ifndef CLI_ENQUEUE_RICH_H
#define CLI_ENQUEUE_RICH_H

#include "cli/verb.h"
#include "pawl.h"

struct enqueue_rich {
    const char *unique_key;
    int unique_scope; /* index of enqueue_scopes, which is enum pawl_unique_scope */
    int64_t unique_for_ms;
    int on_conflict; /* index of enqueue_conflicts, which is enum pawl_unique_mode */
    const char *lane;
    struct option_list tags;
    const char *trace;
    int retry; /* index of enqueue_retries, which is enum pawl_retry */
    int64_t retry_base_ms;
    int64_t retry_cap_ms;
    int64_t parent_id;
    const char *correlation;
    int64_t deadline_ms;
};

extern const char *const enqueue_scopes[];
extern const char *const enqueue_conflicts[];
extern const char *const enqueue_retries[]; /* the first one is the kind's own */

/* What the options say. Strings are borrowed. */
int enqueue_rich_read(const struct enqueue_rich *rich,
                      struct pawl_job_new *job,
                      struct pawl_err *err) MUST_CHECK;

/* The rows of the table, for an options struct that has a `struct enqueue_rich rich`. */
#define ENQUEUE_RICH_OPTIONS(type)                                                               \
    {.name = "unique-key",                                                                       \
     .kind = OPTION_TEXT,                                                                        \
     .offset = offsetof(type, rich.unique_key),                                                  \
     .value = "KEY",                                                                             \
     .help =                                                                                     \
         "At most one job holds KEY until it is finished; prints the id of the one that does"},  \
        {.name = "unique-scope",                                                                 \
         .kind = OPTION_CHOICE,                                                                  \
         .offset = offsetof(type, rich.unique_scope),                                            \
         .value = "SCOPE",                                                                       \
         .choices = enqueue_scopes,                                                              \
         .help = "Whose key it is: of the queue and the kind, of the queue, or of all "          \
                 "(default kind)"},                                                              \
        {.name = "unique-for",                                                                   \
         .kind = OPTION_DURATION,                                                                \
         .offset = offsetof(type, rich.unique_for_ms),                                           \
         .value = "TIME",                                                                        \
         .help = "The key stays taken for this long after the end (default: not at all)"},       \
        {.name = "on-conflict",                                                                  \
         .kind = OPTION_CHOICE,                                                                  \
         .offset = offsetof(type, rich.on_conflict),                                             \
         .value = "WHAT",                                                                        \
         .choices = enqueue_conflicts,                                                           \
         .help =                                                                                 \
             "When the key is taken: keep the job that holds it, replace its payload, priority " \
             "and due time, reschedule it, or refuse (default keep)"},                           \
        {.name = "lane",                                                                         \
         .kind = OPTION_TEXT,                                                                    \
         .offset = offsetof(type, rich.lane),                                                    \
         .value = "LANE",                                                                        \
         .help = "The lane it runs in (default: none)"},                                         \
        {.name = "tag",                                                                          \
         .kind = OPTION_LIST,                                                                    \
         .offset = offsetof(type, rich.tags),                                                    \
         .value = "TAG",                                                                         \
         .help = "A tag, kept with the job. May be given more than once"},                       \
        {.name = "trace",                                                                        \
         .kind = OPTION_TEXT,                                                                    \
         .offset = offsetof(type, rich.trace),                                                   \
         .value = "CONTEXT",                                                                     \
         .help = "Trace context (W3C traceparent), given to the handler"},                       \
        {.name = "correlation",                                                                  \
         .kind = OPTION_TEXT,                                                                    \
         .offset = offsetof(type, rich.correlation),                                             \
         .value = "KEY",                                                                         \
         .help = "What it is about: pawl signal broadcast KEY reaches all jobs of the same"},    \
        {.name = "deadline",                                                                     \
         .kind = OPTION_DURATION,                                                                \
         .offset = offsetof(type, rich.deadline_ms),                                             \
         .value = "TIME",                                                                        \
         .help = "It fails so long after now, whatever it does or waits for (default: never)"},  \
        {.name = "retry",                                                                        \
         .kind = OPTION_CHOICE,                                                                  \
         .offset = offsetof(type, rich.retry),                                                   \
         .value = "POLICY",                                                                      \
         .choices = enqueue_retries,                                                             \
         .help = "How the wait between attempts grows (default: as the kind says)"},             \
        {.name = "retry-base",                                                                   \
         .kind = OPTION_DURATION,                                                                \
         .offset = offsetof(type, rich.retry_base_ms),                                           \
         .value = "TIME",                                                                        \
         .help = "The first wait (default: as the kind says)"},                                  \
        {.name = "retry-cap",                                                                    \
         .kind = OPTION_DURATION,                                                                \
         .offset = offsetof(type, rich.retry_cap_ms),                                            \
         .value = "TIME",                                                                        \
         .help = "The longest wait (default: as the kind says)"},                                \
    {                                                                                            \
        .name = "parent", .kind = OPTION_INT, .offset = offsetof(type, rich.parent_id),          \
        .value = "ID", .help = "The job that waits for this one (default: none)", .min = 1,      \
        .max = INT64_MAX                                                                         \
    }

#endif
