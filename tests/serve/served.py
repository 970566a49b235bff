"""served: a database and a `pawl serve` on it, and calls to it by grpcio. For tests that need jobs behind the transport."""

import atexit
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import grpc

from harness import TIMEOUT_S  # first: it says where what protoc made is
import pawl_pb2 as pb

PAWL = os.environ['PAWL_TEST_BIN']
PSQL = os.environ['PAWL_TEST_PSQL']
SERVER_DB = os.environ['PAWL_TEST_DB']

METHODS = {
    name: (f'/pawl.v1.{service}/{name}', getattr(pb, f'{name}Request'), getattr(pb, f'{name}Response'))
    for service, names in {
        'JobService': ['Enqueue', 'Signal', 'Cancel', 'GetJob', 'ListJobs'],
        'QueueService': ['PauseQueue', 'ResumeQueue', 'Stats'],
        'WorkerService': ['Heartbeat', 'ReportResult'],
    }.items() for name in names
}


def psql(conninfo, sql):
    done = subprocess.run([PSQL, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', conninfo, '-c', sql],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


class Database:
    """A migrated database of its own, gone at the end."""

    def __init__(self):
        self.name = 'served_' + os.urandom(8).hex()
        for _ in range(2400):
            try:
                psql(SERVER_DB, f'CREATE DATABASE {self.name} TEMPLATE pawl_template')
                break
            except RuntimeError as error:
                if 'being accessed' not in str(error):
                    raise
                time.sleep(0.025)  # somebody else is cloning it at this very moment
        self.conninfo = f'{SERVER_DB} dbname={self.name}'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        psql(SERVER_DB, f'DROP DATABASE IF EXISTS {self.name} WITH (FORCE)')

    def sql(self, text):
        return psql(self.conninfo, text)

    def pawl(self, *args, check=True):
        done = subprocess.run([PAWL, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env={**os.environ, 'PAWL_DATABASE_URL': self.conninfo})
        assert not check or done.returncode == 0, f'pawl {" ".join(args)}: {done.stderr}'
        return done

    def token(self, name, *options):
        return self.pawl('token', 'create', name, *options).stdout.strip()


class Holding:
    """A transaction of somebody else's that stays open while the test wants, with what it has locked."""

    def __init__(self, database, sql):
        self.process = subprocess.Popen([PSQL, '-X', '-q', '-A', '-t', '-d', database.conninfo], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"BEGIN; {sql}; SELECT 'held';\n")
        self.process.stdin.flush()
        while self.process.stdout.readline() not in ('held\n', ''):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.write('ROLLBACK;\n')
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Calls:
    """The methods of a server as functions: calls.Enqueue(jobs=[…]). A token goes along when there is one."""

    def __init__(self, address, token=None, options=()):
        self.channel = grpc.insecure_channel(address, options=[('grpc.use_local_subchannel_pool', 1), *options])
        self.metadata = [('authorization', f'Bearer {token}')] if token else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, name):
        path, request, response = METHODS[name]
        return self.channel.unary_unary(path, request_serializer=request.SerializeToString,
                                        response_deserializer=response.FromString)

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(name)

        def unary(timeout=TIMEOUT_S, **fields):
            return self.call(name)(METHODS[name][1](**fields), timeout=timeout, metadata=self.metadata)
        return unary

    def later(self, name, /, timeout=TIMEOUT_S, **fields):
        return self.call(name).future(METHODS[name][1](**fields), timeout=timeout, metadata=self.metadata)

    def code(self, name, /, **fields):
        """The status of a call that should fail, and what it says."""
        try:
            getattr(self, name)(**fields)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        return 'OK', ''

    def stream(self, **fields):
        return self.channel.unary_stream('/pawl.v1.WorkerService/StreamJobs',
                                         request_serializer=pb.StreamJobsRequest.SerializeToString,
                                         response_deserializer=pb.StreamJobsResponse.FromString)(
                                             pb.StreamJobsRequest(**fields), metadata=self.metadata)


class Served:
    """One `pawl serve`."""

    def __init__(self, database, *args, listen=('127.0.0.1:0',), env=None, log=subprocess.DEVNULL):
        command = [PAWL, 'serve', *args]
        for address in listen:
            command += ['--listen', address]
        conninfo = database.conninfo if database else None
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env={**os.environ, **({'PAWL_DATABASE_URL': conninfo} if conninfo else {}),
                                             **(env or {})})
        atexit.register(self.process.kill)  # whatever became of the scene it was for
        self.addresses = []
        while len(self.addresses) < len(listen):
            line = self.process.stdout.readline()
            match = re.match(r'listening on (\S+)', line)
            if not match:
                self.process.wait()
                raise RuntimeError(f'the server did not start: {line!r}')
            self.addresses.append(match.group(1))
        self.address = self.addresses[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.close()
        assert status == 0, f'the server ended with {status}'

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        return status

    def calls(self, token=None, options=()):
        return Calls(self.address, token, options)

    def get(self, path, token=None):
        """(status, body) of a plain request."""
        request = urllib.request.Request(f'http://{self.address}{path}')
        if token:
            request.add_header('Authorization', f'Bearer {token}')
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name, token=None):
        status, body = self.get('/metrics', token)
        assert status == 200, body
        for line in body.splitlines():
            if line.startswith(name + ' '):
                return float(line.split()[-1])
        return 0


def refused_to_start(database, *args):
    """What `pawl serve` says when it should not start."""
    done = subprocess.run([PAWL, 'serve', *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, env={**os.environ, 'PAWL_DATABASE_URL': database.conninfo})
    return done.returncode, done.stderr


def payload(value):
    return json.dumps(value).encode()
