"""A PostgreSQL that goes away and comes back under a server with producers: nothing that was acknowledged is lost, nothing is
accepted twice under a key, and calls meanwhile say what is the matter."""

import os
import shutil
import subprocess
import tempfile
import threading
import time

import grpc

from harness import run, until
from served import PAWL, Served, payload, pb


class Private:
    """A private PostgreSQL of the test's own, which can be stopped."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='r', dir=os.environ['PAWL_TEST_TMP'])
        os.chmod(self.folder, 0o755)  # PostgreSQL of a root user runs as somebody else
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith('PG')}, 'PAWL_HOME': self.folder + '/h'}
        self.env.pop('PAWL_DATABASE_URL', None)
        self.conninfo = None

    def __enter__(self):
        self.pawl('db', 'start')
        self.pawl('db', 'migrate')
        return self

    def __exit__(self, *_):
        self.pawl('db', 'stop')
        shutil.rmtree(self.folder)

    def pawl(self, *args):
        done = subprocess.run([PAWL, *args], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, f'pawl {args}: {done.stderr}'
        return done.stdout

    def payloads(self, kind):
        out = self.pawl('db', 'psql', '--', '-X', '-q', '-A', '-t', '-c',
                        f"SELECT convert_from(payload, 'UTF8') FROM pawl.job WHERE kind = '{kind}'")
        return [int(line) for line in out.split()]


def test_restart():
    """a restart of PostgreSQL under producers loses no acknowledged job and doubles none that has a key"""
    acknowledged, unclear = {'keyed': set(), 'plain': set()}, set()
    stop = threading.Event()

    def produce(kind, calls):
        n = 0
        while not stop.is_set():
            n += 1
            key = f'{kind}{n}' if kind == 'keyed' else ''
            for _ in range(200):
                try:
                    calls.Enqueue(jobs=[pb.NewJob(kind=kind, payload=payload(n))], idempotency_key=key)
                    acknowledged[kind].add(n)
                    break
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNAVAILABLE, error.details()
                    if not key:
                        if 'nothing was accepted' not in error.details():
                            unclear.add(n)
                            break
                    time.sleep(0.05)

    with Served(db, env=db.env) as server, server.calls() as calls, server.calls() as others:
        threads = [threading.Thread(target=produce, args=a) for a in (('keyed', calls), ('plain', others))]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(acknowledged['keyed']) > 20 and len(acknowledged['plain']) > 20, 'both go on')
            db.pawl('db', 'stop')
            db.pawl('db', 'start')
            before = len(acknowledged['keyed']), len(acknowledged['plain'])
            until(lambda: len(acknowledged['keyed']) > before[0] and len(acknowledged['plain']) > before[1], 'it goes on')
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        keyed, plain = db.payloads('keyed'), db.payloads('plain')
        assert sorted(keyed) == sorted(acknowledged['keyed']), set(keyed) ^ acknowledged['keyed']
        assert acknowledged['plain'] <= set(plain) <= acknowledged['plain'] | unclear
        assert len(plain) == len(set(plain))


def test_away():
    """while PostgreSQL is away calls end with UNAVAILABLE within seconds, readiness is red, and it recovers by itself"""
    with Served(db, env=db.env) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='k')])
        until(lambda: server.get('/ready')[0] == 200, 'it is ready')
        db.pawl('db', 'stop')
        futures = [calls.later('Enqueue', jobs=[pb.NewJob(kind='k', unique_key=u)]) for u in ('', 'u')]
        futures.append(calls.later('Stats'))
        until(lambda: server.get('/ready')[0] == 503, 'it is not ready')
        for future in futures:
            assert future.code() == grpc.StatusCode.UNAVAILABLE, (future.code(), future.details())
            assert 'nothing was' in future.details() or 'try again' in future.details()
        db.pawl('db', 'start')
        until(lambda: server.get('/ready')[0] == 200, 'it is ready again')
        until(lambda: calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK', 'jobs are accepted again')


with Private() as db:
    run(globals())
