"""sql/schema.sql is what the migrations come to. Compared with a database that was just migrated."""

import difflib
import os
import secrets
import subprocess
import sys
import time

ROOT = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'tests', 'style'))

from tap import Tap, read  # noqa: E402  pylint: disable=wrong-import-position,import-error

TEMPLATE = 'pawl_template'
CLONE_TRIES = 100  # somebody else may be cloning it at this moment
MADE_WITH = 15     # the major version whose pg_dump makes sql/schema.sql; others lay it out differently


def psql(sql):
    return subprocess.run([os.environ['PAWL_TEST_PSQL'], '-X', '-q', '-d', os.environ['PAWL_TEST_DB'], '-c', sql],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def clone(name):
    for _ in range(CLONE_TRIES):
        done = psql(f'create database {name} template {TEMPLATE}')
        if done.returncode == 0 or 'being accessed' not in done.stdout:
            break
        time.sleep(0.05)
    return [] if done.returncode == 0 else [done.stdout.strip()]


def dump(name):
    tool = os.path.join(ROOT, 'tools', 'dump-schema')
    done = subprocess.run([sys.executable, tool, '--db', f"{os.environ['PAWL_TEST_DB']} dbname={name}"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.stdout, done.stderr.splitlines()


def major():
    done = subprocess.run([os.environ['PAWL_TEST_PSQL'], '-X', '-A', '-t', '-d', os.environ['PAWL_TEST_DB'], '-c',
                           'show server_version_num'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) // 10000


def main():
    tap = Tap()
    if major() != MADE_WITH:
        tap.skip('sql/schema.sql is what the migrations come to', f'it is made with PostgreSQL {MADE_WITH}, this is {major()}')
        tap.end()
    name = 'test_schema_' + secrets.token_hex(8)
    text = ''
    problems = clone(name)
    if not problems:
        text, problems = dump(name)
        psql(f'drop database {name} with (force)')
    tap.result('a migrated schema can be dumped', problems)
    stored = read(ROOT, 'sql/schema.sql')
    difference = list(difflib.unified_diff(stored.splitlines(), text.splitlines(), 'sql/schema.sql', 'migrated', lineterm=''))
    if difference:
        difference.append('If the migrations are right: tools/dump-schema --write')
    tap.result('sql/schema.sql is what the migrations come to', difference)
    tap.result('a day of history is no part of it', [line for line in stored.splitlines() if 'history_2' in line])
    tap.end()


main()
