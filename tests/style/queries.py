"""Every statement in sql/query opens with what a reader must know before changing it:

    -- Purpose: takes due jobs of one queue.
    -- Parameters: $1 text queue, ...
    -- Rows: id int8, ...
    -- Locks: the jobs it takes
    -- Index: job_pick

Each part may go on over further comment lines.
"""

import re
import sys

from tap import Tap, files, read

PARTS = ['Purpose', 'Parameters', 'Rows', 'Locks', 'Index']


def check(path, text):
    header = []
    for line in text.splitlines():
        if not line.startswith('--'):
            break
        header.append(line[2:].strip())
    problems = []
    for part in PARTS:
        if not any(re.match(part + r':\s*\S', line) for line in header):
            problems.append(f'{path}: the header has no "-- {part}: ..."')
    body = [line for line in text.splitlines()[len(header):] if line.strip() and not line.startswith('--')]
    if not body:
        problems.append(f'{path}: there is no statement')
    return problems


GOOD = '-- Purpose: does it.\n-- Parameters: none\n-- Rows: one\n-- Locks: none\n-- Index: job_pick\nSELECT 1;\n'


def planted(tap, name, text, count):
    found = check('sql/query/x.sql', text)
    tap.result(name, [] if len(found) == count else [f'{len(found)} problems instead of {count}: {found}'])


def main(root):
    tap = Tap()
    planted(tap, 'a full header is accepted', GOOD, 0)
    planted(tap, 'a missing part is caught', GOOD.replace('-- Locks: none\n', ''), 1)
    planted(tap, 'an empty part is caught', GOOD.replace('Rows: one', 'Rows:'), 1)
    planted(tap, 'a missing purpose is caught', GOOD.replace('-- Purpose: does it.\n', ''), 1)
    problems = []
    for path in files(root, ['sql/query'], ('.sql',)):
        problems += check(path, read(root, path))
    tap.result('every statement has its header', problems)
    tap.end()


main(sys.argv[1])
