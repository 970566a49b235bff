"""A server that is told to stop while calls are under way: what it took it answers, what it did not take was not done."""

import contextlib
import signal
import socket
import subprocess
import threading
import time

import grpc

from harness import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, TIMEOUT_S, Raw, call_headers, frame, message, run,
                     until)
from served import PAWL, Database, Served, pb
from streaming import Worker

HELD_S = 3  # how long a commit takes after the server was told to stop: longer than closing connections, shorter than a deadline

GATE = """
CREATE TABLE public.gate ();
CREATE FUNCTION public.gate_wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    WHILE EXISTS (SELECT FROM public.gate) LOOP PERFORM pg_sleep(0.01); END LOOP;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR DELETE ON pawl.job DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.gate_wait();
"""


class Gate:
    """While it is shut, whatever adds or removes a job waits in its commit."""

    def __init__(self, db):
        self.db = db
        db.sql(GATE)

    def shut(self):
        self.db.sql('INSERT INTO public.gate DEFAULT VALUES')

    def open(self):
        self.db.sql('DELETE FROM public.gate')

    def waiting(self):
        return int(self.db.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"))

    def reached(self, n=1):
        until(lambda: self.waiting() >= n, 'a commit waits')


def jobs(db, kind='k'):
    return int(db.sql(f"SELECT count(*) FROM pawl.jobs WHERE kind = '{kind}'"))


def terminate(server):
    """Told to stop, and known to have heard it: it takes no new connections."""
    server.process.send_signal(signal.SIGTERM)
    host, port = server.address.rsplit(':', 1)

    def refuses():
        try:
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
            return False
        except ConnectionRefusedError:
            return True
    until(refuses, 'the server stops listening')


def ends(server):
    assert server.process.wait(TIMEOUT_S) == 0
    server.process.stdout.close()


def held(gate, server):
    """The server stops, and the commit takes its time."""
    terminate(server)
    time.sleep(HELD_S)
    assert server.process.poll() is None
    gate.reached()
    gate.open()


def test_grpcio():
    """an Enqueue that is under way when the server is told to stop is answered, with a key and without"""
    for key in ('', 'a key'):
        with Database() as db:
            gate, server = Gate(db), Served(db)
            with server.calls() as calls:
                gate.shut()
                call = calls.later('Enqueue', jobs=[pb.NewJob(kind='k')], idempotency_key=key)
                gate.reached()
                held(gate, server)
                assert call.result().accepted[0].job_id > 0
            ends(server)
            assert jobs(db) == 1


def enqueue(address, kind='k'):
    return subprocess.Popen([PAWL, 'enqueue', '--server', address, kind, '{}'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_command():
    """pawl enqueue --server is answered by the server that it asked, though that server stops"""
    with Database() as db:
        gate, server = Gate(db), Served(db)
        gate.shut()
        command = enqueue(server.address)
        gate.reached()
        held(gate, server)
        out, err = command.communicate(timeout=TIMEOUT_S)
        assert command.returncode == 0, (command.returncode, err)
        ends(server)
        assert jobs(db) == 1 and out.strip() in db.sql('SELECT id FROM pawl.job'), out


class Relay:
    """A port whose connections go to the first of the servers that takes them, as with a balancer."""

    def __init__(self, *servers):
        self.servers = servers
        self.taken = []  # which server each connection went to
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            for number, server in enumerate(self.servers):
                host, port = server.address.rsplit(':', 1)
                try:
                    other = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
                except OSError:
                    continue
                self.taken.append(number)
                for a, b in ((client, other), (other, client)):
                    threading.Thread(target=self._carry, args=(a, b), daemon=True).start()
                break
            else:
                client.close()

    @staticmethod
    def _carry(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


ENQUEUES = 'pawl_rpc_started_total{method="pawl.v1.JobService/Enqueue"}'


def test_not_at_two():
    """a call that one server has is not made at another while that server may still answer"""
    with Database() as db, Served(db) as two:
        gate, one = Gate(db), Served(db)
        with Relay(one, two) as relay:
            gate.shut()
            command = enqueue(relay.address)
            gate.reached()
            held(gate, one)
            _, err = command.communicate(timeout=TIMEOUT_S)
            assert command.returncode == 0, err
            assert jobs(db) == 1 and two.metric(ENQUEUES) == 0, two.metric(ENQUEUES)
        ends(one)


def test_killed():
    """a call that was under way when its server was killed is made again with the same key, and accepted once"""
    for committed in (False, True):
        with Database() as db, Served(db) as two:
            gate, one = Gate(db), Served(db)
            with Relay(one, two) as relay:
                gate.shut()
                command = enqueue(relay.address)
                gate.reached()
                if committed:  # the server is stopped, so that it cannot tell
                    one.process.send_signal(signal.SIGSTOP)
                    gate.open()
                    until(lambda: jobs(db) == 1, 'it is committed')
                one.process.kill()
                one.process.wait()
                one.process.stdout.close()
                gate.open()
                _, err = command.communicate(timeout=TIMEOUT_S)
                assert command.returncode == 0, err
                assert jobs(db) == 1 and two.metric(ENQUEUES) >= 1


def test_later():
    """a call that is begun after the server was told to stop is refused so that it may be repeated, and nothing was done"""
    with Database() as db:
        gate, server = Gate(db), Served(db)
        # A worker that is not done yet keeps the server, and its own connection; those of others are asked to go at once.
        with Worker(server.address) as worker, server.calls() as calls, server.calls() as idle:
            db.pawl('enqueue', 'k', '{}')
            job = worker.job()
            assert idle.code('Stats')[0] == 'OK'
            gate.shut()
            call = calls.later('Enqueue', jobs=[pb.NewJob(kind='taken')])
            gate.reached()
            terminate(server)
            for connection in (calls, idle):
                def refused():
                    # Until the client has heard that it is to go, what it calls is answered.
                    return connection.code('Stats', timeout=5)[0] == 'UNAVAILABLE'
                until(refused, 'it is refused')
                status, text = connection.code('Enqueue', jobs=[pb.NewJob(kind='later')], timeout=5)
                assert status == 'UNAVAILABLE', (status, text)
            gate.open()
            assert call.result().accepted[0].job_id > 0
            assert worker.done(job).status == pb.ITEM_STATUS_OK
        ends(server)
        assert jobs(db, 'taken') == 1 and jobs(db, 'later') == 0


class Address:
    """For Raw: a server of `pawl serve`."""

    def __init__(self, server):
        self.server = server

    def connect(self):
        host, port = self.server.address.rsplit(':', 1)
        return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def raw_enqueue(stream, kind):
    body = message(pb.EnqueueRequest(jobs=[pb.NewJob(kind=kind)]).SerializeToString())
    return (frame(HEADERS, END_HEADERS, stream, call_headers('/pawl.v1.JobService/Enqueue'))
            + frame(DATA, END_STREAM, stream, body))


def test_goodbye():
    """the first goodbye keeps the door open for calls on their way, the second says which was the last"""
    with Database() as db:
        gate, server = Gate(db), Served(db)
        with Raw(Address(server)) as raw:
            gate.shut()
            raw.send(raw_enqueue(1, 'k'))
            gate.reached()
            server.process.send_signal(signal.SIGTERM)
            first = raw.read_until(GOAWAY)
            assert int.from_bytes(first[3][:4], 'big') == 0x7fffffff
            raw.send(raw_enqueue(3, 'crossed'))
            ping = raw.read_until(PING)
            raw.send(frame(PING, ACK, 0, ping[3]))
            second = raw.read_until(GOAWAY)
            assert int.from_bytes(second[3][:4], 'big') == 3, second
            gate.open()
            statuses = {}
            while got := raw.read():
                if got[0] == HEADERS and got[1] & END_STREAM:
                    statuses[got[2]] = raw.fields['grpc-status']
            assert statuses == {1: '0', 3: '0'}, statuses
        ends(server)
        assert jobs(db) == 1 and jobs(db, 'crossed') == 1


def test_behind_the_last():
    """a call behind the one that the second goodbye names is not done, though it was read before the goodbye was sent"""
    with Database() as db:
        server = Served(db)
        with Raw(Address(server)) as raw:
            raw.send(raw_enqueue(1, 'k'))
            assert raw.status(1) == '0'
            server.process.send_signal(signal.SIGTERM)
            raw.read_until(GOAWAY)
            ping = raw.read_until(PING)
            raw.send(frame(PING, ACK, 0, ping[3]) + raw_enqueue(3, 'late'))  # in one write
            assert int.from_bytes(raw.read_until(GOAWAY)[3][:4], 'big') == 1
            assert raw.ended()
        ends(server)
        assert jobs(db) == 1 and jobs(db, 'late') == 0


def test_too_slow():
    """a call whose commit does not end in time is told that nobody knows, and not that nothing was accepted"""
    with Database() as db:
        gate, server = Gate(db), Served(db)
        with server.calls() as calls:
            gate.shut()
            call = calls.later('Enqueue', jobs=[pb.NewJob(kind='k')])
            gate.reached()
            terminate(server)
            server.process.send_signal(signal.SIGTERM)  # the second: it ends now, with a commit under way
            try:
                call.result()
                known = 'OK'
            except grpc.RpcError as error:
                known = error.details()
            assert 'nothing was' not in known, known
        server.process.wait(TIMEOUT_S)
        server.process.stdout.close()
        gate.open()


def test_reports():
    """a report that is under way when the server is told to stop is answered, and counts once"""
    with Database() as db:
        gate, server = Gate(db), Served(db)
        with Worker(server.address) as worker:
            db.pawl('enqueue', 'k', '{}')
            job = worker.job()
            gate.shut()
            answers = []
            thread = threading.Thread(target=lambda: answers.append(worker.done(job)))
            thread.start()
            gate.reached()
            held(gate, server)
            thread.join(TIMEOUT_S)
            assert [a.status for a in answers] == [pb.ITEM_STATUS_OK], answers
        ends(server)
        assert db.sql('SELECT state, attempt FROM pawl.history') == 'done|1'


if __name__ == '__main__':
    run(globals())
