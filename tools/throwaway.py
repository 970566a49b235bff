"""throwaway: a PostgreSQL for a while, for tests and for whoever wants to look at what the migrations come to. PostgreSQL
refuses to run as root; it then runs as `postgres`. Nobody is trusted: the user who runs this gets in by peer
authentication, and roles that a test makes get in by password."""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

POSTGRESQL_MIN = 15
USER = 'pawl_test'
TEMPLATE = 'pawl_template'
KEPT_DATABASES = ('postgres', 'template0', 'template1', TEMPLATE)
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 30


class Failure(Exception):
    """There is no such PostgreSQL to be had."""


class Interrupted(Exception):
    """Somebody wants it to end before its time."""


def postgresql_bindir():
    if os.environ.get('PAWL_TEST_PG_BINDIR'):
        return os.environ['PAWL_TEST_PG_BINDIR']
    found = []
    for path in glob.glob('/usr/lib/postgresql/*/bin'):
        major = path.split('/')[-2]
        if major.isdigit() and int(major) >= POSTGRESQL_MIN and os.access(path + '/initdb', os.X_OK):
            found.append((int(major), path))
    if not found:
        raise Failure(f'no PostgreSQL {POSTGRESQL_MIN} or newer below /usr/lib/postgresql; run tools/setup run')
    return max(found)[1]


class Cluster:
    def __init__(self, directory, bindir=None):
        """bindir: of the PostgreSQL that was asked for; None: the newest that is installed."""
        self.bindir = bindir or postgresql_bindir()
        self.chosen = bindir is not None
        self.data = directory + '/pg'
        self.sockets = directory + '/s'
        self.log = directory + '/server.log'
        self.more_settings = {}
        self.server = None
        self.died = False
        self.owner = pwd.getpwuid(os.getuid())
        self.drop = []
        if os.getuid() == 0:
            try:
                self.owner = pwd.getpwnam('postgres')
            except KeyError:
                raise Failure('there is no user postgres, and PostgreSQL refuses to run as root') from None
            self.drop = ['setpriv', f'--reuid={self.owner.pw_uid}', f'--regid={self.owner.pw_gid}', '--init-groups']

    def version(self):
        return run_quietly([self.bindir + '/postgres', '--version']).stdout.strip()

    def conninfo(self, database):
        return f'host={self.sockets} user={USER} dbname={database}'

    def start(self):
        for path in (self.data, self.sockets):
            os.mkdir(path, 0o700 if path == self.data else 0o755)
            os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        done = subprocess.run(
            self.drop + [self.bindir + '/initdb', '-D', self.data, '-U', USER, '-E', 'UTF8', '--locale=C.UTF-8',
                         '--auth-local=peer', '--auth-host=reject', '--no-sync', '--no-instructions'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise Failure('initdb failed:\n' + done.stdout)
        self.write('pg_hba.conf', f'local all {USER} peer map=tests\nlocal replication {USER} peer map=tests\n'
                   'local all all scram-sha-256\n')
        self.write('pg_ident.conf', f'tests {pwd.getpwuid(os.getuid()).pw_name} {USER}\n')
        self.launch()

    def launch(self):
        """Starts the server of a cluster that was made, and waits until it answers."""
        settings = {
            'listen_addresses': '',
            'unix_socket_directories': self.sockets,
            'max_connections': '200',
            'fsync': 'off',
            'full_page_writes': 'off',
            'wal_level': 'minimal',
            'max_wal_senders': '0',
            'timezone': 'UTC',
            'log_timezone': 'UTC',
            'log_line_prefix': '%m [%p] %u@%d ',
            **self.more_settings,
        }
        args = [arg for key, value in settings.items() for arg in ('-c', f'{key}={value}')]
        with open(self.log, 'ab') as log:
            # In a session of its own: Ctrl-C ends the tests first. Should this script be killed, so is the server.
            self.server = subprocess.Popen(
                ['setpriv'] + self.drop[1:] + ['--pdeathsig=QUIT', self.bindir + '/postgres', '-D', self.data] + args,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            if self.server.poll() is not None:
                self.died = True
                raise Failure('the throw-away PostgreSQL did not start:\n' + self.tail())
            if self.psql('postgres', 'select 1', check=False).returncode == 0:
                return
            if time.monotonic() > deadline:
                raise Failure(f'the throw-away PostgreSQL is not ready after {START_TIMEOUT_S} s:\n' + self.tail())
            time.sleep(0.05)

    def write(self, name, text):
        with open(f'{self.data}/{name}', 'w', encoding='utf-8') as f:
            f.write(text)

    def tail(self):
        with open(self.log, encoding='utf-8', errors='replace') as f:
            return ''.join(f.readlines()[-20:])

    def psql(self, database, sql, check=True, timeout_s=None):
        done = subprocess.run(
            [self.bindir + '/psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', self.conninfo(database),
             '-c', sql], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
            timeout=timeout_s)
        if check and done.returncode != 0:
            raise Failure(f'psql failed: {sql}:\n{done.stderr}')
        return done

    def make_template(self, pawl, also=None):
        """Nobody may connect to the template afterwards, so that it can be cloned at any time. also: SQL to run in it."""
        self.psql('postgres', f'create database {TEMPLATE}')
        if os.access(pawl, os.X_OK) and run_quietly([pawl, 'db', 'migrate', '--help']).returncode == 0:
            done = run_quietly([pawl, 'db', 'migrate', '--db', self.conninfo(TEMPLATE)])
            if done.returncode != 0:
                raise Failure('`pawl db migrate` failed on the template database:\n' + done.stdout)
        if also:
            self.psql(TEMPLATE, also)
        self.psql('postgres', f'alter database {TEMPLATE} with is_template true allow_connections false')

    def leftovers(self):
        rows = self.psql('postgres', 'select datname from pg_database order by 1').stdout.split()
        return [name for name in rows if name not in KEPT_DATABASES]

    def stop(self):
        if self.server is None or self.died or self.server.returncode is not None:
            return
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            self.server.send_signal(how)
            try:
                self.server.wait(STOP_TIMEOUT_S)
                return
            except subprocess.TimeoutExpired:
                pass


def run_quietly(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', check=False)


@contextlib.contextmanager
def migrated(pawl):
    """A cluster whose template database has the schema that this pawl makes, and can be connected to."""
    if not os.access(pawl, os.X_OK):
        raise Failure(f'there is no {pawl}; build it first')
    directory = tempfile.mkdtemp(prefix='pawl-', dir='/tmp')
    os.chmod(directory, 0o755)
    cluster = None
    try:
        cluster = Cluster(directory)
        cluster.start()
        cluster.make_template(pawl)
        cluster.psql('postgres', f'alter database {TEMPLATE} with allow_connections true')
        yield cluster
    finally:
        if cluster:
            cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
