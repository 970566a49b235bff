"""Rules for a single C file: no functions that invite mistakes, no SQL in string literals, no file beyond 600 lines."""

import re
import sys

from tap import Tap, files, line_of, read, without_comments

LINES_MAX = 600
# One public header is the manual of the library; the dump of the schema is made, not written.
MAY_BE_LONG = ['include/pawl.h', 'sql/schema.sql']

# Function: what to use instead.
BANNED = {
    'strcpy': 'buf_ or snprintf', 'strcat': 'buf_', 'strncpy': 'snprintf', 'strncat': 'buf_', 'stpcpy': 'buf_',
    'sprintf': 'snprintf', 'vsprintf': 'vsnprintf', 'gets': 'fgets or getline', 'strtok': 'strchr or strsep',
    'atoi': 'strtol with its errors checked', 'atol': 'strtol', 'atoll': 'strtoll', 'atof': 'strtod',
    'scanf': 'strtol', 'sscanf': 'strtol', 'fscanf': 'strtol',
    'system': 'posix_spawn', 'popen': 'posix_spawn', 'alloca': 'the arena',
    'tmpnam': 'mkdtemp or mkstemp', 'tempnam': 'mkdtemp or mkstemp', 'mktemp': 'mkdtemp or mkstemp',
    'rand': 'base/rand', 'random': 'base/rand', 'srand': 'base/rand',
    'gmtime': 'gmtime_r', 'localtime': 'localtime_r', 'ctime': 'strftime', 'asctime': 'strftime',
    'usleep': 'nanosleep, or a timer',
}
CALL = re.compile(r'(?<![\w.>])(' + '|'.join(BANNED) + r')\s*\(')

# A command tag is compared, not sent: a bare word is allowed in a comparison.
SQL = re.compile(r'"\s*(?:(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|BEGIN|COMMIT|ROLLBACK)\s+\S[^"\n]*"'
                 r'|(?:BEGIN|COMMIT|ROLLBACK);?")')
COMPARED = re.compile(r'(?:strcmp|strncmp|streq|text_eq)\s*\([^;{]*$')


def banned(path, text):
    code = without_comments(text, strings=False)
    return [f'{path}:{line_of(code, m.start())}: {m.group(1)}: use {BANNED[m.group(1)]}' for m in CALL.finditer(code)]


def sql(path, text):
    code = without_comments(text)
    return [f'{path}:{line_of(code, m.start())}: SQL in a string literal: it belongs in sql/query/'
            for m in SQL.finditer(code) if not COMPARED.search(code[:m.start()])]


def size(path, text):
    lines = text.count('\n')
    return [f'{path}: {lines} lines; split it by responsibility (at most {LINES_MAX})'] if lines > LINES_MAX else []


def planted(tap, name, rule, text, count):
    found = rule('planted.c', text)
    tap.result(name, [] if len(found) == count else [f'{len(found)} problems instead of {count}: {found}'])


def main(root):
    tap = Tap()
    planted(tap, 'a banned call is caught', banned, 'strcpy(a, b);\nx = atoi (s);\n', 2)
    planted(tap, 'names, comments and strings are not calls', banned,
            '/* strcpy(a) */ my_strcpy(a); ops->system(x); "gets(x)"; strtok_r(a);\n', 0)
    planted(tap, 'SQL in a literal is caught', sql, 'f("SELECT 1");\nf("  BEGIN");\nf("UPDATE a "\n "SET b");\n', 3)
    planted(tap, 'words, comments and command tags are not SQL', sql,
            '/* "SELECT 1" */ f("selected"); f("UPDATED x");\nif (strcmp(tag, "COMMIT") == 0)\n', 0)
    planted(tap, 'a file that is too long is caught', size, '\n' * (LINES_MAX + 1), 1)

    product = files(root, ['src', 'include'], ('.c', '.h'))
    for name, rule, paths in (
            ('no banned functions in src', banned, product),
            ('no SQL in string literals in src', sql, product),
            (f'no source file beyond {LINES_MAX} lines', size,
             product + files(root, ['tests', 'bench', 'examples', 'sql', 'tools'], ('.c', '.h', '.py', '.bats', '.sql')))):
        problems = []
        for path in paths:
            if rule is not size or path not in MAY_BE_LONG:
                problems += rule(path, read(root, path))
        tap.result(name, problems)
    tap.end()


main(sys.argv[1])
