/*
 * text: numbers, durations, times and near misses in words people type and read. Strict: the whole text must be
 * the thing, and what is out of range is refused, never clipped.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decimal, with an optional minus. */
int text_parse_int(const char *text,
                   int64_t min,
                   int64_t max,
                   int64_t *ret_value,
                   struct pawl_err *err) MUST_CHECK;

/* "250ms", "90s", "5m", "2h", "1d", "1h30m"; a bare number is seconds. At most 10 years. Not negative. */
int text_parse_duration(const char *text, int64_t *ret_ms, struct pawl_err *err) MUST_CHECK;

/* RFC 3339: "2026-11-15T12:00:00Z", with an offset, fraction optional, a blank in place of the T allowed. */
int text_parse_time(const char *text, int64_t *ret_unix_us, struct pawl_err *err) MUST_CHECK;

#define TEXT_TIME_LEN 32
/* "2026-11-15T12:00:00.123Z", always UTC. */
void text_format_time(int64_t unix_us, char out[TEXT_TIME_LEN]);

#define TEXT_DURATION_LEN 32
/* Two units at most: "350 µs", "12 ms", "3.2 s", "4 min 10 s", "2 h 5 min", "3 d 4 h". Negative gets a minus. */
void text_format_duration(int64_t us, char out[TEXT_DURATION_LEN]);

/* Of the first len bytes of text in UTF-8, how many are left when a character that was cut in two goes. */
size_t text_whole(const char *text, size_t len);

/* The candidate nearest to what was typed by edit distance, if it is near enough to be meant; else NULL. */
const char *text_nearest(const char *typed, const char *const *candidates, size_t n);

#endif
