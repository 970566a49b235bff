"""live: a database of its own and a real `pawl serve` on it, for the tests of the clients."""

import os
import secrets
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'support'))

from patience import TIMEOUT_S, patiently, until  # noqa: E402, F401


class Database:
    """A clone of the migrated template."""

    def __init__(self):
        self.name = 'clients_' + secrets.token_hex(8)
        for _ in range(1200):
            done = self._server(f'CREATE DATABASE {self.name} TEMPLATE pawl_template')
            if done.returncode == 0:
                break
            if '55006' not in done.stderr:  # else somebody is cloning it at this very moment
                raise RuntimeError(done.stderr)
            time.sleep(0.025)
        self.url = f'{os.environ["PAWL_TEST_DB"]} dbname={self.name}'

    @staticmethod
    def _server(sql):
        return subprocess.run(
            [
                os.environ['PAWL_TEST_PSQL'],
                '-X',
                '-q',
                '-A',
                '-t',
                '-v',
                'ON_ERROR_STOP=1',
                '-v',
                'VERBOSITY=verbose',
                '-d',
                os.environ['PAWL_TEST_DB'],
                '-c',
                sql,
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    def sql(self, sql):
        return subprocess.run(
            [os.environ['PAWL_TEST_PSQL'], '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', self.url, '-c', sql],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()

    def close(self):
        self._server(f'DROP DATABASE IF EXISTS {self.name} WITH (FORCE)')


class Serve:
    """A server. restart() comes back on the same port."""

    def __init__(self, database, *options, listen='127.0.0.1:0', env=None):
        self.database, self.options, self.env, self.address = database, options, env or {}, listen
        self.start()

    def start(self):
        # Between a stop and a start its port may be somebody else's for a moment.
        until(self._listens, 'the server listens')

    def _listens(self):
        command = [os.environ['PAWL_TEST_BIN'], 'serve', '--listen', self.address, *self.options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, 'PAWL_DATABASE_URL': self.database.url, **self.env},
        )
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        line = self.process.stdout.readline().decode().strip() if ready else ''
        if not line.startswith('listening on '):
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            return False
        self.address = line[len('listening on ') :]
        return True

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError('the server did not end') from None
        finally:
            self.process.stdout.close()
        return status

    def restart(self, number=signal.SIGTERM):
        self.stop(number)
        self.start()


class Stage:
    """Database and server, gone at the end whatever happens."""

    def __init__(self, *options, **more):
        self.options, self.more = options, more

    def __enter__(self):
        self.database = Database()
        try:
            self.serve = Serve(self.database, *self.options, **self.more)
        except BaseException:
            self.database.close()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.serve.process.poll() is not None:
                print(f'# the server ended by itself, with status {self.serve.process.returncode}')
            self.serve.process.kill()
            self.serve.process.wait()
            self.serve.process.stdout.close()
        finally:
            self.database.close()

    def pawl(self, *args):
        env = {**os.environ, 'PAWL_DATABASE_URL': self.database.url}
        subprocess.run(
            [os.environ['PAWL_TEST_BIN'], *args], stdin=subprocess.DEVNULL, capture_output=True, env=env, check=True
        )

    @property
    def address(self):
        return self.serve.address
