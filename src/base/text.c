/*
 * text: parsers that take the whole text or refuse it with a reason, and the formats that people
 * read. Calendar arithmetic is the C library's; every field is checked before, because it would
 * carry over silently.
 */
#include "base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <ctype.h>

#include "base/clock.h"

/* How much of what was typed an error repeats. */
#define SHOWN           "\"%.60s\""

#define S_PER_MIN       60
#define S_PER_HOUR      3600
#define S_PER_DAY       86400

#define DURATION_MAX_MS ((int64_t)3650 * S_PER_DAY * MS_PER_S) /* ten years */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int text_parse_int(
    const char *text, int64_t min, int64_t max, int64_t *ret_value, struct pawl_err *err)
{
    const char *at = text ? text : "";
    bool negative = *at == '-';
    bool overflow = false;
    int64_t value = 0;

    if (negative)
        at++;
    const char *digits = at;
    for (; is_digit(*at); at++) {
        /* Towards the sign's own end, so that INT64_MIN needs no special case. */
        int64_t digit = negative ? -(*at - '0') : *at - '0';
        overflow |= __builtin_mul_overflow(value, 10, &value);
        overflow |= __builtin_add_overflow(value, digit, &value);
    }
    if (at == digits || *at != '\0')
        return err_set(err, PAWL_EINVAL, SHOWN " is not a whole number", text ? text : "");
    if (overflow || value < min || value > max)
        return err_set(
            err, PAWL_EINVAL, SHOWN " is not between %" PRId64 " and %" PRId64, text, min, max);
    *ret_value = value;
    return 0;
}

struct duration_unit {
    const char *name;
    int64_t ms;
};

/* The unit written at `at` (all letters up to the next non-letter), or NULL. */
static const struct duration_unit *unit_at(const char *at, size_t *ret_len)
{
    static const struct duration_unit units[] = {
        {"d", (int64_t)S_PER_DAY * MS_PER_S},
        {"h", (int64_t)S_PER_HOUR * MS_PER_S},
        {"m", (int64_t)S_PER_MIN * MS_PER_S},
        {"s", MS_PER_S},
        {"ms", 1},
    };
    size_t len = 0;

    while (at[len] != '\0' && !is_digit(at[len]))
        len++;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strlen(units[i].name) == len && memcmp(units[i].name, at, len) == 0) {
            *ret_len = len;
            return &units[i];
        }
    }
    return NULL;
}

/* A run of digits; how many there were, and *ret_value or overflow. */
static size_t digits_at(const char *at, int64_t *ret_value, bool *overflow)
{
    int64_t value = 0;
    size_t n = 0;

    for (; is_digit(at[n]); n++) {
        *overflow |= __builtin_mul_overflow(value, 10, &value);
        *overflow |= __builtin_add_overflow(value, at[n] - '0', &value);
    }
    *ret_value = value;
    return n;
}

int text_parse_duration(const char *text, int64_t *ret_ms, struct pawl_err *err)
{
    const char *at = text ? text : "";
    int64_t total_ms = 0, last_unit_ms = INT64_MAX;
    bool overflow = false;

    do {
        int64_t number, ms;
        size_t n = digits_at(at, &number, &overflow);
        if (n == 0)
            goto refused;
        bool bare = at == text && at[n] == '\0';
        static const struct duration_unit seconds = {"s", MS_PER_S};
        size_t len = 0;
        const struct duration_unit *unit = bare ? &seconds : unit_at(at + n, &len);
        /* Large units first and each once: "30m1h" and "1s1s" are more likely slips than meant. */
        if (!unit || unit->ms >= last_unit_ms)
            goto refused;
        last_unit_ms = unit->ms;
        overflow |= __builtin_mul_overflow(number, unit->ms, &ms);
        overflow |= __builtin_add_overflow(total_ms, ms, &total_ms);
        at += n + len;
    } while (*at != '\0');

    if (overflow || total_ms > DURATION_MAX_MS)
        return err_set(err, PAWL_EINVAL, SHOWN " is longer than ten years (3650d)", text);
    *ret_ms = total_ms;
    return 0;

refused:
    err_set(err, PAWL_EINVAL, SHOWN " is not a duration", text ? text : "");
    err_hint(err, "Write it like 250ms, 90s, 5m, 2h, 1d or 1h30m; a bare number is seconds.");
    return PAWL_EINVAL;
}

/* Exactly n digits at *at, which moves behind them; -1 when there are fewer. */
static int fixed_digits(const char **at, int n)
{
    int value = 0;

    for (int i = 0; i < n; i++, (*at)++) {
        if (!is_digit(**at))
            return -1;
        value = value * 10 + (**at - '0');
    }
    return value;
}

static bool skip(const char **at, const char *any_of)
{
    if (**at == '\0' || !strchr(any_of, **at))
        return false;
    (*at)++;
    return true;
}

/* ".5" to ".123456789" as microseconds; what is finer than that is dropped. Nothing there is 0; -1
 * is refused. */
static int64_t fraction_us(const char **at)
{
    int64_t us = 0;
    int n = 0;

    if (!skip(at, "."))
        return 0;
    for (; is_digit(**at); (*at)++, n++)
        if (n < 6)
            us = us * 10 + (**at - '0');
    if (n < 1 || n > 9)
        return -1;
    for (; n < 6; n++)
        us *= 10;
    return us;
}

/* "Z", "+02:00", "-03:30". */
static bool offset_s(const char **at, int64_t *ret_s)
{
    if (skip(at, "Zz")) {
        *ret_s = 0;
        return true;
    }
    bool west = **at == '-';
    if (!skip(at, "+-"))
        return false;
    int hours = fixed_digits(at, 2);
    if (hours < 0 || hours > 23 || !skip(at, ":"))
        return false;
    int minutes = fixed_digits(at, 2);
    if (minutes < 0 || minutes > 59)
        return false;
    int64_t s = hours * S_PER_HOUR + minutes * S_PER_MIN;
    *ret_s = west ? -s : s;
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* "YYYY-MM-DD" + T + "HH:MM:SS", each field in its range. A leap second is refused: neither we nor
 * the database can keep it. */
static bool date_time(const char **at, struct tm *tm)
{
    int year = fixed_digits(at, 4);
    if (year < 0 || !skip(at, "-"))
        return false;
    int month = fixed_digits(at, 2);
    if (month < 1 || month > 12 || !skip(at, "-"))
        return false;
    int day = fixed_digits(at, 2);
    if (day < 1 || day > days_in_month(year, month) || !skip(at, "Tt "))
        return false;
    int hour = fixed_digits(at, 2);
    if (hour < 0 || hour > 23 || !skip(at, ":"))
        return false;
    int minute = fixed_digits(at, 2);
    if (minute < 0 || minute > 59 || !skip(at, ":"))
        return false;
    int second = fixed_digits(at, 2);
    if (second < 0 || second > 59)
        return false;
    *tm = (struct tm){
        .tm_year = year - 1900,
        .tm_mon = month - 1,
        .tm_mday = day,
        .tm_hour = hour,
        .tm_min = minute,
        .tm_sec = second,
    };
    return true;
}

int text_parse_time(const char *text, int64_t *ret_unix_us, struct pawl_err *err)
{
    const char *at = text ? text : "";
    int64_t us = 0, offset = 0;
    struct tm tm;

    bool fine = date_time(&at, &tm);
    fine = fine && (us = fraction_us(&at)) >= 0;
    fine = fine && offset_s(&at, &offset) && *at == '\0';
    if (!fine) {
        err_set(err, PAWL_EINVAL, SHOWN " is not a time", text ? text : "");
        err_hint(err, "Write it like 2026-11-15T12:00:00Z or 2026-11-15T13:00:00+01:00.");
        return PAWL_EINVAL;
    }
    *ret_unix_us = ((int64_t)timegm(&tm) - offset) * US_PER_S + us;
    return 0;
}

void text_format_time(int64_t unix_us, char out[TEXT_TIME_LEN])
{
    int64_t us = (unix_us % US_PER_S + US_PER_S) % US_PER_S;
    time_t seconds = (time_t)(unix_us / US_PER_S - (unix_us % US_PER_S < 0));
    struct tm tm = {0};
    char rest[sizeof("-01-01T00:00:00")];

    gmtime_r(&seconds, &tm); /* an int64 of microseconds is within 300000 years: it cannot fail */
    if (strftime(rest, sizeof(rest), "-%m-%dT%H:%M:%S", &tm) == 0)
        rest[0] = '\0';
    /* strftime's %Y would not fill up the year with zeros. */
    snprintf(out, TEXT_TIME_LEN, "%04d%s.%03dZ", tm.tm_year + 1900, rest, (int)(us / US_PER_MS));
}

void text_format_duration(int64_t us, char out[TEXT_DURATION_LEN])
{
    const char *minus = us < 0 ? "-" : "";
    uint64_t abs_us = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    uint64_t s = abs_us / US_PER_S;

    struct pair {
        uint64_t upto_s;
        uint64_t big_s, small_s;
        const char *big, *small;
    };
    static const struct pair pairs[] = {
        {S_PER_HOUR, S_PER_MIN, 1, "min", "s"},
        {S_PER_DAY, S_PER_HOUR, S_PER_MIN, "h", "min"},
        {UINT64_MAX, S_PER_DAY, S_PER_HOUR, "d", "h"},
    };

    if (abs_us < US_PER_MS) {
        snprintf(out, TEXT_DURATION_LEN, "%s%d \u00b5s", minus, (int)abs_us);
    } else if (s == 0) {
        snprintf(out, TEXT_DURATION_LEN, "%s%d ms", minus, (int)(abs_us / US_PER_MS));
    } else if (s < S_PER_MIN) {
        int tenth = (int)(abs_us % US_PER_S / (US_PER_S / 10));
        if (tenth > 0)
            snprintf(out, TEXT_DURATION_LEN, "%s%d.%d s", minus, (int)s, tenth);
        else
            snprintf(out, TEXT_DURATION_LEN, "%s%d s", minus, (int)s);
    } else {
        const struct pair *pair = pairs;
        while (s >= pair->upto_s)
            pair++;
        int big = (int)(s / pair->big_s), small = (int)(s % pair->big_s / pair->small_s);
        if (small > 0)
            snprintf(
                out, TEXT_DURATION_LEN, "%s%d %s %d %s", minus, big, pair->big, small, pair->small);
        else
            snprintf(out, TEXT_DURATION_LEN, "%s%d %s", minus, big, pair->big);
    }
}

#define WORD_MAX 64 /* nobody means a verb with a longer word */

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b, letter case
 * aside. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = min_of(min_of(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]))
                row[j] = min_of(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_len];
}

size_t text_whole(const char *text, size_t len)
{
    size_t rest = 0; /* bytes behind the first of the last character */

    while (rest < 3 && rest + 1 < len && ((unsigned char)text[len - 1 - rest] & 0xc0) == 0x80)
        rest++;
    if (len == 0)
        return 0;
    unsigned char first = (unsigned char)text[len - 1 - rest];
    size_t whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;

    return whole > rest + 1 ? len - 1 - rest : len;
}

const char *text_nearest(const char *typed, const char *const *candidates, size_t n)
{
    const char *nearest = NULL, *begun = NULL;
    size_t len = typed ? strlen(typed) : 0;

    if (len == 0 || len > WORD_MAX)
        return NULL;
    /* A third of the letters may be wrong, but never all of them. */
    size_t allowed = len / 3 > 1 ? len / 3 : 1;
    for (size_t i = 0; i < n; i++) {
        size_t other_len = strlen(candidates[i]);
        if (other_len > WORD_MAX)
            continue;
        size_t distance = edit_distance(typed, len, candidates[i], other_len);
        if (distance <= allowed && distance < (len > other_len ? len : other_len)) {
            if (distance == 0)
                return candidates[i];
            nearest = candidates[i];
            allowed = distance - 1; /* from here on only a nearer one; the first of equals wins */
        }
        if (strncasecmp(typed, candidates[i], len) == 0 && (!begun || other_len < strlen(begun)))
            begun = candidates[i];
    }
    return nearest ? nearest : begun;
}
