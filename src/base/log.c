/*
 * log: one event becomes one line in a buffer on the stack and one write(2), so lines of different
 * threads do not mix and logging needs no memory. A line is bounded: a value that does not fit is
 * shortened and ends in an ellipsis, a field for which there is no room at all is left out, and
 * either way the line ends with cut=true.
 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#define LOG_LINE_MAX  4096 /* with the newline; PIPE_BUF, up to which a pipe keeps writes whole */
#define LOG_VALUE_MAX 2048 /* bytes of one value before escaping; more is not for a log */
#define LOG_EVENT_MAX 128  /* events are names */
#define LOG_TAIL_MAX  16   /* room kept for: ,"cut":true} and the newline */
#define ELLIPSIS      "\xe2\x80\xa6"

struct level_row {
    const char *name;
    const char *padded; /* for text, so that events stand in a column */
    const char *color;
};

static const struct level_row levels[] = {
    [LOG_DEBUG] = {"debug", "debug", "\x1b[2m"},
    [LOG_INFO] = {"info", "info ", "\x1b[32m"},
    [LOG_WARN] = {"warn", "warn ", "\x1b[33m"},
    [LOG_ERROR] = {"error", "error", "\x1b[31m"},
    [LOG_OFF] = {"off", "off  ", ""},
};

struct line {
    struct buf out;
    struct json_writer json; /* when the format is JSON */
    enum log_format format;
    bool cut;
};

void log_init(struct log *log, int fd, enum log_level level)
{
    bool terminal = isatty(fd) == 1;
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    *log = (struct log){
        .fd = fd,
        .level = level,
        .format = terminal ? LOG_TEXT : LOG_JSON,
        .color = terminal && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0),
        .clock = &clock_system,
    };
}

/* Nothing a person or a program could take for something else than one word. */
static bool is_bare(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' || s[i] == '=')
            return false;
    return len > 0;
}

static void put_value(struct line *line, const char *s, size_t len, bool shortened)
{
    if (line->format == LOG_TEXT && !shortened && is_bare(s, len)) {
        buf_append(&line->out, s, len);
        return;
    }
    buf_putc(&line->out, '"');
    json_escape(&line->out, s, len);
    if (shortened)
        buf_puts(&line->out, ELLIPSIS);
    buf_putc(&line->out, '"');
}

static void put_key(struct line *line, const char *key)
{
    if (line->format == LOG_JSON) {
        json_key(&line->json, key);
        line->json.after_key = false; /* the value is written beside the writer */
    } else {
        buf_printf(&line->out, " %s=", key);
    }
}

/* The largest length up to len that does not end within a character. */
static size_t whole_chars(const char *s, size_t len)
{
    while (len > 0 && ((unsigned char)s[len] & 0xc0) == 0x80)
        len--;
    return len;
}

static void put_str(struct line *line, const char *key, const char *s)
{
    size_t start = line->out.len;
    size_t full = strnlen(s, LOG_VALUE_MAX + 1);
    size_t len = full <= LOG_VALUE_MAX ? full : whole_chars(s, LOG_VALUE_MAX);

    for (;; len = whole_chars(s, len / 2)) {
        put_key(line, key);
        put_value(line, s, len, len < full);
        if (len < full)
            line->cut = true;
        if (!line->out.failed)
            return;
        /* Take it back and try with half of it; a bare key says nothing, so then it is left out. */
        line->cut = true;
        line->out.failed = false;
        line->out.len = start;
        line->out.data[start] = '\0';
        if (len < 2)
            return;
    }
}

static void put_scalar(struct line *line, const char *key, const char *text)
{
    size_t start = line->out.len;

    put_key(line, key);
    buf_puts(&line->out, text);
    if (line->out.failed) {
        line->cut = true;
        line->out.failed = false;
        line->out.len = start;
        line->out.data[start] = '\0';
    }
}

static void put_field(struct line *line, const struct log_field *field)
{
    char number[24];

    switch (field->kind) {
    case LOG_FIELD_STR:
        if (field->str)
            put_str(line, field->key, field->str);
        break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof(number), "%" PRId64, field->num);
        put_scalar(line, field->key, number);
        break;
    case LOG_FIELD_BOOL:
        put_scalar(line, field->key, field->num ? "true" : "false");
        break;
    }
}

static void
put_head(struct line *line, const struct log *log, enum log_level level, const char *event)
{
    int64_t now_us = clock_wall_us(log->clock);
    char time[TEXT_TIME_LEN];

    if (line->format == LOG_JSON) {
        text_format_time(now_us, time);
        json_object_begin(&line->json);
        put_str(line, "time", time);
        put_str(line, "level", levels[level].name);
        put_str(line, "event", event);
        return;
    }
    /* A person at a terminal has a watch: local time, without the date. */
    int64_t us = (now_us % US_PER_S + US_PER_S) % US_PER_S;
    time_t seconds = (time_t)((now_us - us) / US_PER_S);
    struct tm tm;
    if (!localtime_r(&seconds, &tm) || strftime(time, sizeof(time), "%H:%M:%S", &tm) == 0)
        snprintf(time, sizeof(time), "--:--:--");
    buf_printf(&line->out, "%s.%03d ", time, (int)(us / US_PER_MS));
    if (log->color)
        buf_printf(&line->out, "%s%s\x1b[0m ", levels[level].color, levels[level].padded);
    else
        buf_printf(&line->out, "%s ", levels[level].padded);
    put_value(line, event, strnlen(event, LOG_EVENT_MAX), false);
}

/* One write(2) unless the kernel takes less; a line that a full or broken descriptor refuses is
 * lost, because a log must hold up nobody. */
static void send_line(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

struct fields {
    const struct log_field *fields;
    size_t n;
};

static void write_line(const struct log *log,
                       enum log_level level,
                       const char *event,
                       struct fields first,
                       struct fields second)
{
    int saved_errno = errno;
    char storage[LOG_LINE_MAX];
    struct line line = {.format = log->format};

    buf_init_fixed(&line.out, storage, sizeof(storage) - LOG_TAIL_MAX);
    json_init(&line.json, &line.out);
    put_head(&line, log, level, event);
    for (size_t i = 0; i < first.n; i++)
        put_field(&line, &first.fields[i]);
    for (size_t i = 0; i < second.n; i++)
        put_field(&line, &second.fields[i]);

    line.out.cap = sizeof(storage); /* now the room that was kept */
    line.out.max = sizeof(storage) - 1;
    if (line.cut)
        put_scalar(&line, "cut", "true");
    if (line.format == LOG_JSON)
        json_object_end(&line.json);
    if (log->sink != NULL) {
        log->sink(log->sink_data, buf_str(&line.out));
        errno = saved_errno;
        return;
    }
    buf_putc(&line.out, '\n');
    assert(!line.out.failed);
    send_line(log->fd, line.out.data, line.out.len);
    errno = saved_errno;
}

static bool wanted(const struct log *log, enum log_level level)
{
    return log && level >= log->level && level < LOG_OFF;
}

void log_write(struct log *log,
               enum log_level level,
               const char *event,
               const struct log_field *fields,
               size_t n_fields)
{
    if (wanted(log, level))
        write_line(log, level, event, (struct fields){fields, n_fields}, (struct fields){NULL, 0});
}

/* An empty text is no news. */
static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

void log_err(struct log *log,
             enum log_level level,
             const char *event,
             const struct pawl_err *err,
             const struct log_field *fields,
             size_t n_fields)
{
    if (!wanted(log, level))
        return;
    if (!err) {
        log_write(log, level, event, fields, n_fields);
        return;
    }
    const struct log_field about[] = {
        LOG_STR("code", err_code_name(err->code)),
        LOG_STR("sqlstate", or_null(err->sqlstate)),
        LOG_STR("message", or_null(err->message)),
        LOG_STR("detail", or_null(err->detail)),
        LOG_STR("hint", or_null(err->hint)),
    };
    write_line(log,
               level,
               event,
               (struct fields){fields, n_fields},
               (struct fields){about, sizeof(about) / sizeof(about[0])});
}

int log_level_parse(const char *text, enum log_level *ret_level)
{
    for (size_t i = 0; text && i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(text, levels[i].name) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}
