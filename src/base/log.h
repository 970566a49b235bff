/*
 * log: structured events, one a line, for people when it goes to a terminal and as JSON lines otherwise.
 *
 *     log_info(log, "job_claim", LOG_STR("queue", queue), LOG_INT("claimed", n));
 *
 * An event's name is the stem it shares with the SQL statement and the metric. Control bytes are escaped, so a
 * line cannot be forged. Payloads are never logged. Any thread may call; a line is written by one write(2).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

enum log_format { LOG_TEXT, LOG_JSON };

enum log_field_kind { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_BOOL };

struct log_field {
    const char *key;
    enum log_field_kind kind;
    const char *str; /* borrowed for the call; NULL is left out of the line */
    int64_t num;
};

#define LOG_STR(k, v)  ((struct log_field){.key = (k), .kind = LOG_FIELD_STR, .str = (v)})
#define LOG_INT(k, v)  ((struct log_field){.key = (k), .kind = LOG_FIELD_INT, .num = (int64_t)(v)})
#define LOG_BOOL(k, v) ((struct log_field){.key = (k), .kind = LOG_FIELD_BOOL, .num = (v)})

struct log {
    int fd; /* borrowed */
    enum log_level level;
    enum log_format format;
    bool color;
    const struct clock *clock; /* borrowed */
    /* Gets each line instead of fd, without its newline, from whichever thread logs; NULL: fd. */
    void (*sink)(void *data, const char *line);
    void *sink_data;
};

/* Text with colour (unless NO_COLOR is set) when fd is a terminal, JSON lines otherwise. */
void log_init(struct log *log, int fd, enum log_level level);

void log_write(struct log *log,
               enum log_level level,
               const char *event,
               const struct log_field *fields,
               size_t n_fields);

/* An error with its code, SQLSTATE, message, detail and hint, besides the given fields. */
void log_err(struct log *log,
             enum log_level level,
             const char *event,
             const struct pawl_err *err,
             const struct log_field *fields,
             size_t n_fields);

#define LOG_FIELDS(...)                      \
    (const struct log_field[]){__VA_ARGS__}, \
        (sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* log may be NULL: a library without a logger is silent. */
#define log_at(log, level, event, ...) log_write((log), (level), (event), LOG_FIELDS(__VA_ARGS__))
#define log_debug(log, event, ...)     log_at((log), LOG_DEBUG, (event), __VA_ARGS__)
#define log_info(log, event, ...)      log_at((log), LOG_INFO, (event), __VA_ARGS__)
#define log_warn(log, event, ...)      log_at((log), LOG_WARN, (event), __VA_ARGS__)
#define log_error(log, event, ...)     log_at((log), LOG_ERROR, (event), __VA_ARGS__)
#define log_warn_err(log, event, err, ...) \
    log_err((log), LOG_WARN, (event), (err), LOG_FIELDS(__VA_ARGS__))
#define log_error_err(log, event, err, ...) \
    log_err((log), LOG_ERROR, (event), (err), LOG_FIELDS(__VA_ARGS__))

/* "debug", "info", "warn", "error", "off"; -1 for anything else. */
int log_level_parse(const char *text, enum log_level *ret_level) MUST_CHECK;

#endif
