"""Who may include whom: rooms know only the rooms below them. Reads the #include lines of src/, bench/ and include/."""

import re
import sys

from tap import Tap, files, line_of, read, without_comments

# A room includes itself, the public pawl.h, and what is listed: a room, or one header of it.
MAY_INCLUDE = {
    'base': [],
    'core': ['base'],
    'pg': ['base'],
    'store': ['pg', 'core', 'base'],
    'engine': ['store', 'pg/conn.h', 'pg/primary.h', 'pg/target.h', 'core', 'base'],
    'hands': ['engine/mailbox.h', 'engine/hands.h', 'core', 'base'],
    'client': ['store', 'pg/sync.h', 'pg/result.h', 'core', 'base'],
    'lib': ['remote', 'wire', 'proto', 'client', 'hands', 'engine', 'store', 'pg', 'core', 'base'],
    'proto': [], # made from proto/, beside src/
    'wire': ['base'],
    'remote': ['wire', 'proto', 'engine/hands.h', 'engine/slots.h', 'core', 'base'],
    'serve': ['wire', 'proto', 'engine', 'client', 'store', 'pg/conn.h', 'pg/primary.h', 'pg/target.h', 'pg/result.h',
              'core', 'base'],
    'bench': ['remote', 'wire', 'proto', 'client', 'hands', 'engine', 'store', 'pg', 'core', 'base'], # bench/, beside src/
    'cli': ['bench', 'serve', 'remote', 'wire', 'proto', 'client', 'hands', 'engine', 'store', 'pg', 'core', 'base'],
}

# What works or produces does it as any program would: through pawl.h. Beside that these files of cli see the rooms that are
# pure, and each other; cli/db.h gives them a connection (docs/adr/0029-one-way-to-work.md).
THROUGH_PAWL_H = [
    'cmd_enqueue.c', 'cmd_job_ask.c', 'cmd_machine.c', 'cmd_signal.c', 'cmd_work.c', 'demo_work', 'jobs_file',
    'server', 'working',
]
THROUGH_PAWL_H_MAY_INCLUDE = ['cli', 'core', 'base']

BESIDE_SRC = ['bench']

# base and core do no I/O; core also has no threads.
IO = ['libpq-fe.h', 'uv.h', 'sys/socket.h', 'netdb.h']
MAY_NOT_USE = {
    'base': IO,
    'core': IO + ['pthread.h', 'threads.h', 'unistd.h', 'fcntl.h', 'signal.h'],
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)


def is_through_pawl_h(path):
    folder, _, name = path.rpartition('/')
    return folder == 'src/cli' and (name in THROUGH_PAWL_H or name.rsplit('.', 1)[0] in THROUGH_PAWL_H)


def check(path, text):
    """Problems of one file; path is src/<room>/..., bench/... or include/pawl.h."""
    problems = []
    text = without_comments(text)
    parts = path.split('/')
    room = parts[1] if parts[0] == 'src' else parts[0] if parts[0] in BESIDE_SRC else None
    for match in INCLUDE.finditer(text):
        where = f'{path}:{line_of(text, match.start())}'
        kind, name = match.groups()
        if kind == '<':
            if name in MAY_NOT_USE.get(room, []):
                problems.append(f'{where}: <{name}>: {room} does no I/O and knows no threads')
            continue
        if room is None:
            problems.append(f'{where}: "{name}": the public header stands alone')
            continue
        if name == 'pawl.h':
            continue
        if room not in MAY_INCLUDE:
            problems.append(f'{where}: unknown room {room}: add it to MAY_INCLUDE in tests/style/includes.py')
            continue
        other = name.split('/')[0]
        if '/' not in name or other not in MAY_INCLUDE:
            problems.append(f'{where}: "{name}": write it as "room/file.h"')
        elif is_through_pawl_h(path) and other not in THROUGH_PAWL_H_MAY_INCLUDE:
            problems.append(f'{where}: "{name}": it works or produces through pawl.h, as any program does')
        elif other != room and other not in MAY_INCLUDE[room] and name not in MAY_INCLUDE[room]:
            allowed = ', '.join(MAY_INCLUDE[room]) or 'nothing of ours'
            problems.append(f'{where}: "{name}": {room} may include {allowed}, not {other}')
    return problems


def planted(tap, name, path, text, count):
    found = check(path, text)
    tap.result(name, [] if len(found) == count else [f'{len(found)} problems instead of {count}: {found}'])


def main(root):
    tap = Tap()
    planted(tap, 'an include upwards is caught', 'src/base/x.c', '#include "pg/conn.h"\n', 1)
    planted(tap, 'an include sideways is caught', 'src/core/x.h', '  #  include "pg/conn.h"\n', 1)
    planted(tap, 'hands see only two headers of engine', 'src/hands/x.c',
            '#include "engine/mailbox.h"\n#include "engine/coordinator.h"\n', 1)
    planted(tap, 'an include without a room is caught', 'src/pg/x.c', '#include "conn.h"\n#include "../base/err.h"\n', 2)
    planted(tap, 'an include of the command line in bench is caught', 'bench/x.c',
            '#include "bench/x.h"\n#include "cli/out.h"\n#include "x.h"\n', 2)
    planted(tap, 'a verb that works sees nothing behind pawl.h', 'src/cli/cmd_work.c',
            '#include "pawl.h"\n#include "cli/db.h"\n#include "core/job.h"\n#include "engine/hands.h"\n#include "client/job.h"\n', 2)
    planted(tap, 'a verb that looks may', 'src/cli/cmd_job.c', '#include "client/inspect.h"\n', 0)
    planted(tap, 'I/O in core is caught', 'src/core/x.c', '#include <uv.h>\n', 1)
    planted(tap, 'the public header stands alone', 'include/pawl.h', '#include "base/err.h"\n', 1)
    planted(tap, 'a comment is not an include', 'src/base/x.c', '/*\n#include "pg/conn.h"\n*/\n', 0)
    planted(tap, 'includes downwards are fine', 'src/store/x.c',
            '#include "store/x.h"\n#include <stdio.h>\n#include "pawl.h"\n#include "pg/sync.h"\n', 0)
    folders = {room: room if room in BESIDE_SRC else f'src/{room}' for room in MAY_INCLUDE}
    for room, folder in folders.items():
        found = files(root, [folder], ('.c', '.h'))
        problems = [] if found or room not in BESIDE_SRC else [f'{folder}/ has no files']
        for path in found:
            problems += check(path, read(root, path))
        tap.result(f'{room} includes only what it may', problems)
    present = [path for path in files(root, ['src/cli'], ('.c', '.h')) if is_through_pawl_h(path)]
    stems = {path.rsplit('/', 1)[1] for path in present} | {path.rsplit('/', 1)[1].rsplit('.', 1)[0] for path in present}
    tap.result('every file that goes through pawl.h is there', [f'src/cli/{name} is not' for name in THROUGH_PAWL_H if name not in stems])
    known = tuple(f'{folder}/' for folder in folders.values())
    others = [path for path in files(root, ['src', 'include'], ('.c', '.h')) if not path.startswith(known)]
    problems = []
    for path in others:
        problems += check(path, read(root, path))
    tap.result('everything else includes only what it may', problems)
    tap.end()


main(sys.argv[1])
