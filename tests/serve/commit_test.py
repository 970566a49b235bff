"""Commits whose end the server does not hear: PostgreSQL commits, and the connection is lost before its answer."""

import os
import re
import shutil
import socket
import tempfile
import threading


from harness import run
from served import Database, Served, payload, pb

READY = b'Z\x00\x00\x00\x05I'  # the server's last word on a transaction


class Proxy:
    """Between the server and PostgreSQL. Once armed, it lets the next transaction with jobs of a kind through and keeps the
    answer; `before`: it does not even get there, so that nothing is committed."""

    def __init__(self, conninfo):
        self.folder = tempfile.mkdtemp(prefix='p', dir=os.environ['PAWL_TEST_TMP'])
        self.real = re.search(r'host=(\S+)', conninfo).group(1) + '/.s.PGSQL.5432'
        self.conninfo = re.sub(r'host=\S+', f'host={self.folder}', conninfo)
        self.armed = None
        self.cut = 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.folder + '/.s.PGSQL.5432')
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        shutil.rmtree(self.folder)

    def arm(self, how, kind):
        with self.lock:
            self.armed = how, kind.encode()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.real)
            state = {'keep': False}
            threading.Thread(target=self._to_server, args=(client, server, state), daemon=True).start()
            threading.Thread(target=self._to_client, args=(client, server, state), daemon=True).start()

    def _close(self, *sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def _to_server(self, client, server, state):
        try:
            while data := client.recv(1 << 20):
                with self.lock:
                    if self.armed and self.armed[1] in data:
                        (how, _), self.armed = self.armed, None
                        self.cut += 1
                        if how == 'before':
                            break
                        state['keep'] = True
                server.sendall(data)
        except OSError:
            pass
        if not state['keep']:
            self._close(client, server)

    def _to_client(self, client, server, state):
        try:
            while data := server.recv(1 << 20):
                if state['keep']:
                    if READY in data:
                        break  # committed; nobody will know
                    continue
                client.sendall(data)
        except OSError:
            pass
        self._close(client, server)


def count(db, kind):
    return int(db.sql(f"SELECT count(*) FROM pawl.job WHERE kind = '{kind}'"))


def test_keyed():
    """a commit that nobody heard of is asked again under its key: one effect, and the client does not notice"""
    with Database() as db, Proxy(db.conninfo) as proxy:
        real, db.conninfo = db.conninfo, proxy.conninfo
        with Served(db) as server, server.calls() as calls:
            db.conninfo = real
            calls.Enqueue(jobs=[pb.NewJob(kind='warm')], idempotency_key='warm')
            for how, n in (('after', 1), ('before', 2)):
                proxy.arm(how, how)
                job = calls.Enqueue(jobs=[pb.NewJob(kind=how, payload=payload(n))], idempotency_key=how).accepted[0].job_id
                assert (proxy.cut, count(db, how)) == (n, 1), (proxy.cut, count(db, how))
                assert db.sql(f'SELECT kind FROM pawl.job WHERE id = {job}') == how
            assert server.metric('pawl_enqueue_replays_total{keys="yes"}') == 1  # the one that was committed
            # Several in one transaction.
            proxy.arm('after', 'many')
            futures = [calls.later('Enqueue', jobs=[pb.NewJob(kind='many')], idempotency_key=str(i)) for i in range(50)]
            assert len({f.result().accepted[0].job_id for f in futures}) == 50 and count(db, 'many') == 50


def test_plain():
    """without a key the call says that nobody knows, and is not sent a second time"""
    with Database() as db, Proxy(db.conninfo) as proxy:
        real, db.conninfo = db.conninfo, proxy.conninfo
        with Served(db) as server, server.calls() as calls:
            db.conninfo = real
            calls.Enqueue(jobs=[pb.NewJob(kind='warm')])
            for how in ('after', 'before'):
                proxy.arm(how, how)
                status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind=how)])
                assert status == 'UNAVAILABLE' and 'may have been accepted' in text, (status, text)
            assert (count(db, 'after'), count(db, 'before')) == (1, 0)
            assert server.metric('pawl_enqueue_unknown_total{keys="no"}') == 2
            assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK'


run(globals())
