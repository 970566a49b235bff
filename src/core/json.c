/*
 * json: the check is jansson's; here are its error codes in our words, and the way around its one
 * limit that stored bytes need not have, numbers that do not fit a double.
 */
#include "core/json.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/defer.h"

/* Integers go through double as well, so that one of 40 digits is no error. */
#define LOAD_FLAGS \
    (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

static bool loads(const char *bytes, size_t len, json_error_t *error)
{
    json_t *value = json_loadb(bytes, len, LOAD_FLAGS, error);

    json_decref(value);
    return value != NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * A copy in which no number is large: of every run of digits outside strings only the first two are
 * kept and blanks are added behind the number. Two digits, because "01" must stay as wrong as "012"
 * was. So the copy is valid exactly when the original is, and every byte outside numbers keeps its
 * place. NULL without memory.
 */
static char *with_small_numbers(const char *bytes, size_t len)
{
    char *copy = malloc(len);
    bool in_string = false;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t end = i, to = i, run = 0;
        while (!in_string && end < len &&
               (is_digit(bytes[end]) || (bytes[end] && strchr("+-.eE", bytes[end])))) {
            run = is_digit(bytes[end]) ? run + 1 : 0;
            if (run <= 2)
                copy[to++] = bytes[end];
            end++;
        }
        if (end > i) {
            memset(copy + to, ' ', end - to);
            i = end;
            continue;
        }
        copy[i] = bytes[i];
        if (in_string && bytes[i] == '\\' && i + 1 < len) {
            copy[i + 1] = bytes[i + 1];
            i++;
        } else if (bytes[i] == '"') {
            in_string = !in_string;
        }
        i++;
    }
    return copy;
}

static const char *reason(enum json_error_code code)
{
    switch (code) {
    case json_error_stack_overflow:
        return "it is nested deeper than 2048 levels";
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "something follows after the value";
    case json_error_invalid_utf8:
        return "it is not UTF-8";
    case json_error_duplicate_key:
        return "a key occurs twice in one object";
    case json_error_null_byte_in_key:
        return "a key holds \\u0000";
    default:
        return "a value, a quote, a comma or a bracket is wrong or missing";
    }
}

static int refuse(struct pawl_err *err, const char *why, int line, int column)
{
    /* Nearly all of it is one line, and often that is a line of something else. */
    if (line == 1)
        return err_set(err, PAWL_EINVAL, "not valid JSON: %s, at column %d", why, column);
    return err_set(
        err, PAWL_EINVAL, "not valid JSON: %s, at line %d, column %d", why, line, column);
}

/* jansson takes a NUL after the value for its end. JSON holds no NUL anywhere: in strings it is
 * written \u0000. */
static int refuse_nul(struct pawl_err *err, const char *bytes, const char *nul)
{
    int line = 1, column = 1;

    for (; bytes < nul; bytes++, column++) {
        if (*bytes == '\n') {
            line++;
            column = 0;
        }
    }
    return refuse(err, "it holds a NUL byte", line, column);
}

int json_check(const char *bytes, size_t len, struct pawl_err *err)
{
    json_error_t error;

    if (len == 0)
        return err_set(err, PAWL_EINVAL, "not valid JSON: it is empty");
    const char *nul = memchr(bytes, '\0', len);
    if (nul)
        return refuse_nul(err, bytes, nul);
    if (loads(bytes, len, &error))
        return 0;
    if (json_error_code(&error) == json_error_numeric_overflow) {
        AUTO_FREE char *copy = with_small_numbers(bytes, len);
        if (!copy)
            return err_set(err, PAWL_ENOMEM, "could not check the JSON: out of memory");
        if (loads(copy, len, &error))
            return 0;
    }
    /* jansson mostly says nothing when an allocation failed. */
    if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0')
        return err_set(err, PAWL_ENOMEM, "could not check the JSON: out of memory");
    return refuse(err, reason(json_error_code(&error)), error.line, error.column);
}

bool json_is_valid(const char *bytes, size_t len)
{
    return json_check(bytes, len, NULL) == 0;
}
