"""stage: what a soak run is played on: a PostgreSQL of its own that can be crashed and started again, a pooler, and the
processes under test, each with a file for its events."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import throwaway  # noqa: E402

Failure = throwaway.Failure
DATABASE = 'soak'
ASK_S = 20
EVENT_MAX = 65536
POOLER_S = 20  # for it to listen


class Cluster(throwaway.Cluster):
    def __init__(self, directory):
        super().__init__(directory)
        # When a claim was committed is part of the history. Recovery need not be long. And a server that is to end at once
        # still waits for whoever has not said yet who he is: for a minute, unless it is told otherwise.
        self.more_settings = {'track_commit_timestamp': 'on', 'max_wal_size': '256MB', 'shared_buffers': '64MB',
                              'wal_level': 'replica', 'autovacuum_naptime': '5s', 'authentication_timeout': '10s'}

    def start(self):
        super().start()
        # The pooler runs as the server's user and connects for others.
        names = {pwd.getpwuid(os.getuid()).pw_name, self.owner.pw_name}
        self.write('pg_ident.conf', ''.join(f'tests {name} {throwaway.USER}\n' for name in sorted(names)))
        self.psql('postgres', 'select pg_reload_conf()')

    def prepare(self, pawl):
        self.psql('postgres', f'drop database if exists {DATABASE} with (force)')
        self.psql('postgres', f'create database {DATABASE}')
        done = throwaway.run_quietly([pawl, 'db', 'migrate', '--db', self.conninfo(DATABASE)])
        if done.returncode != 0:
            raise Failure('`pawl db migrate` failed:\n' + done.stdout)
        with open(os.path.join(ROOT, 'tests', 'fault', 'trace.sql'), encoding='utf-8') as f:
            self.psql(DATABASE, f.read())

    def crash(self):
        """As pg_ctl -m immediate: no clean end, recovery from the log at the next start."""
        self.server.send_signal(signal.SIGQUIT)
        try:
            self.server.wait(3 * throwaway.STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failure(f'PostgreSQL did not end within {3 * throwaway.STOP_TIMEOUT_S} s of SIGQUIT') from None
        self.launch()

    def ask(self, sql):
        """Lines; None when the server cannot answer now. Whoever changes something asks again whether it was done."""
        try:
            done = self.psql(DATABASE, sql, check=False, timeout_s=ASK_S)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.splitlines() if done.returncode == 0 else None

    def dump(self, queries, path):
        with open(path, 'w', encoding='utf-8') as f:
            for query in queries:
                f.write(self.psql(DATABASE, query).stdout)


class Pooler:
    """PgBouncer in front of the cluster."""

    def __init__(self, cluster, directory, mode='transaction'):
        self.cluster = cluster
        self.directory = directory
        self.process = None
        # Nobody but its user and root may connect to it.
        os.mkdir(directory, 0o700)
        os.chown(directory, cluster.owner.pw_uid, cluster.owner.pw_gid)
        with open(directory + '/pgbouncer.ini', 'w', encoding='utf-8') as f:
            f.write(f'[databases]\n'
                    f'{DATABASE} = host={cluster.sockets} dbname={DATABASE} user={throwaway.USER}\n'
                    f'[pgbouncer]\n'
                    f'listen_addr =\nunix_socket_dir = {directory}\nlisten_port = 5432\n'
                    f'auth_type = any\npool_mode = {mode}\ndefault_pool_size = {4 if mode == "transaction" else 40}\n'
                    f'server_login_retry = 0.2\nquery_wait_timeout = 5\nlog_connections = 0\nlog_disconnections = 0\n'
                    f'ignore_startup_parameters = extra_float_digits,options\n')

    @staticmethod
    def program():
        return shutil.which('pgbouncer', path=os.environ.get('PATH', '') + ':/usr/sbin:/usr/local/sbin')

    def start(self):
        with open(self.directory + '/log', 'ab') as log:
            self.process = subprocess.Popen(
                ['setpriv'] + self.cluster.drop[1:] + ['--pdeathsig=KILL', self.program(), '-q',
                                                       self.directory + '/pgbouncer.ini'],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def listens(self):
        if self.process.poll() is not None:
            with open(self.directory + '/log', encoding='utf-8', errors='replace') as log:
                raise Failure('the pooler ended by itself:\n' + ''.join(log.readlines()[-5:]))
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(self.directory + '/.s.PGSQL.5432') == 0

    def wait(self):
        end = time.monotonic() + POOLER_S
        while not self.listens():
            if time.monotonic() > end:
                raise Failure(f'the pooler does not listen after {POOLER_S} s')
            time.sleep(0.02)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        try:
            os.unlink(self.directory + '/.s.PGSQL.5432')
        except FileNotFoundError:
            pass


class Actor:
    """A place on the stage for one process after another: when it dies it is started again."""

    def __init__(self, name, directory, command):
        """command: from the path of the events file and the number of the life to the arguments."""
        self.name = name
        self.directory = directory
        self.command = command
        self.lives = 0
        self.started_at = 0
        self.process = None
        self.frozen = False
        self.stopping_since = None  # it was told to end
        self.hurried = False        # and once more: it need not end in good order
        self.back_at = 0            # when it is started again, if not at once

    def start(self):
        self.lives += 1
        self.started_at = time.monotonic()
        base = f'{self.directory}/{self.name}.{self.lives}'
        with open(base + '.log', 'wb') as log:
            self.process = subprocess.Popen(self.command(base + '.events', self.lives), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        self.frozen = False
        self.stopping_since = None
        self.hurried = False
        self.back_at = 0

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def freeze(self, yes):
        self.frozen = yes
        self.signal(signal.SIGSTOP if yes else signal.SIGCONT)

    def thaw(self):
        """Whether it runs again, or is gone."""
        self.freeze(False)
        if not self.alive():
            return True
        with open(f'/proc/{self.process.pid}/stat', encoding='utf-8', errors='replace') as f:
            return f.read().rsplit(')', 1)[1].split()[0] != 'T'

    def last_events(self):
        """Words of the last whole lines that its process wrote down; none of one that ended before it could."""
        try:
            with open(f'{self.directory}/{self.name}.{self.lives}.events', 'rb') as f:
                start = max(0, f.seek(0, os.SEEK_END) - EVENT_MAX)
                f.seek(start)
                lines = f.read().decode(errors='replace').split('\n')[:-1]
        except FileNotFoundError:
            return []
        return [line.split(' ') for line in (lines[1:] if start else lines)]

    def settles(self):
        """Whether it settled something within the last second: a server without streams has nothing to settle."""
        since_us = (time.time() - 1) * 1_000_000
        return any(words[1] == 'call' and words[3] == 'settle' and int(words[0]) > since_us for words in self.last_events())

    def stop(self):
        self.stopping_since = time.monotonic()
        self.signal(signal.SIGTERM)

    def hurry(self):
        self.hurried = True
        self.signal(signal.SIGTERM)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
