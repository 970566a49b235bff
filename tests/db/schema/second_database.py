"""Accounts that may create roles, but are no superusers, migrate databases of one server. Roles belong to the server: whoever comes second
finds them made by somebody else, and since PostgreSQL 16 may not simply take them. A server of its own, because the tests' has them.

usage: second_database.py ROOT"""

import os
import re
import subprocess
import sys
import tempfile
import shutil

ROOT = sys.argv[1]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, 'tests', 'style'), os.path.join(ROOT, 'tools')]

from tap import Tap  # noqa: E402
import throwaway  # noqa: E402

ACCOUNTS = ('first', 'Second', 'third', 'fourth')
SCHEMAS = "select count(*) from pg_namespace where nspname = 'pawl'"


class Server(throwaway.Cluster):
    def as_account(self, name):
        return f'host={self.sockets} user={name} password=p dbname={name}'

    def migrate(self, name):
        """Exit status and what was said."""
        done = subprocess.run([os.environ['PAWL_TEST_BIN'], 'db', 'migrate', '--db', self.as_account(name)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout

    def run_as(self, name, sql):
        return subprocess.run([self.bindir + '/psql', '-X', '-q', '-d', self.as_account(name), '-c', sql],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)

    def migrated(self, name):
        """Problems, if it does not work."""
        status, said = self.migrate(name)
        return [] if status == 0 else [f'exit status {status}'] + said.splitlines()


def first_one(server, tap):
    tap.result('an account that may create roles migrates its database', server.migrated('first'))


def second_one(server, tap, major):
    if major < 16:
        tap.result('before PostgreSQL 16 another account does, too', server.migrated('Second'))
        tap.skip('the error says who must run which GRANT', 'PostgreSQL 15 lets everybody who may create roles grant them')
        return
    status, said = server.migrate('Second')
    grant = re.search(r'Have first or a superuser run: (GRANT pawl_owner TO "Second")', said)
    problems = [] if status == 6 and grant else [f'exit status {status}'] + said.splitlines()
    tap.result('the error says who must run which GRANT', problems)
    left = server.psql('Second', SCHEMAS).stdout.strip()
    tap.result('nothing was changed', [] if left == '0' else [f'{left} schemas'])
    done = server.run_as('first', grant.group(1) if grant else 'select 1')
    tap.result('with that GRANT it works', ([] if done.returncode == 0 else [done.stdout]) + server.migrated('Second'))


def others(server, tap, major):
    if major < 16:
        tap.skip('one who may grant the role grants it to itself', 'memberships have no options before PostgreSQL 16')
        tap.skip('one who may act as the owner without inheriting can migrate', 'as above')
        return
    server.psql('postgres', 'grant pawl_owner to third with admin true, inherit false, set false')
    tap.result('one who may grant the role grants it to itself', server.migrated('third'))
    server.psql('postgres', 'grant pawl_owner to fourth with inherit false, set true')
    tap.result('one who may act as the owner without inheriting can migrate', server.migrated('fourth'))


def main():
    tap = Tap()
    directory = tempfile.mkdtemp(prefix='2nd-', dir=os.environ.get('PAWL_TEST_TMP', '/tmp'))
    os.chmod(directory, 0o755)
    server = None
    try:
        server = Server(directory)
        server.start()
        major = int(server.psql('postgres', 'show server_version_num').stdout) // 10000
        for name in ACCOUNTS:
            server.psql('postgres', f'create role "{name}" login createrole password \'p\'')
            server.psql('postgres', f'create database "{name}" owner "{name}"')
        first_one(server, tap)
        second_one(server, tap, major)
        others(server, tap, major)
    finally:
        if server:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)
    tap.end()


main()
