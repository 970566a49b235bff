"""Servers and workers that are drained, and servers that are restarted one after the other."""

import json
import signal
import time

from dispatch_test import enqueue, state
from harness import TIMEOUT_S, Scratch, run, until
from served import Database, Served, pb
from streaming import Busy, Worker, report

OK = pb.ITEM_STATUS_OK


def test_drain_on_term():
    """a server that is told to stop lets workers finish, takes their reports, and ends when they are gone"""
    with Database() as db:
        server = Served(db)
        worker, idle = Worker(server.address, credits=2), Worker(server.address)
        enqueue(db, 2)
        until(lambda: worker.got and idle.got, 'each has a job')
        ids = enqueue(db, 4)
        until(lambda: len(worker.got) == 2, 'the credits are used')
        server.process.send_signal(signal.SIGTERM)
        told = worker.word('drain')
        assert told.reconnect and told.grace_ms == 30000 and idle.word('drain').reconnect
        try:
            refused = server.get('/ready')[0] == 503
        except OSError:  # it takes no new connections
            refused = True
        assert refused
        assert worker.done(worker.job()).status == OK and worker.done(worker.job()).status == OK
        assert worker.idle(0.2) and server.process.poll() is None
        worker.close()
        assert idle.done(idle.job()).status == OK
        idle.close()
        assert server.process.wait(TIMEOUT_S) == 0
        server.process.stdout.close()
        assert db.sql('SELECT count(*) FROM pawl.history') == '3' and db.sql('SELECT count(*) FROM pawl.claim') == '0'
        assert state(db, ids[-1]) == 'ready'


def test_idle_workers_are_let_go():
    """a server that stops lets workers with nothing to do go at once, whether they listen to it or not"""
    with Database() as db:
        server = Served(db)
        workers = [Worker(server.address) for _ in range(5)]
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(TIMEOUT_S) == 0
        assert time.monotonic() - start < 20  # of the thirty seconds that those have who work
        for worker in workers:
            until(worker.over.is_set, 'its stream has ended')
            assert worker.ended.name == 'OK' and worker.word('drain').reconnect
            worker.close()
        server.process.stdout.close()


def test_grace_over():
    """a worker that does not finish in time is sent away with its job, and takes it to another server"""
    with Database() as db, Served(db) as two:
        one = Served(db, '--drain', '300ms')
        worker = Worker(one.address)
        enqueue(db)
        job = worker.job()
        one.process.send_signal(signal.SIGTERM)
        until(worker.over.is_set, 'its stream is ended')
        assert worker.ended.name == 'UNAVAILABLE'
        assert one.process.wait(TIMEOUT_S) == 0
        one.process.stdout.close()
        with Worker(two.address, worker_id=worker.id, running=[job]) as again:
            assert not again.opened.lost_job_ids and again.done(job).status == OK
        worker.close()


def test_second_signal():
    """a second signal ends the server at once, and what runs is left to its lease"""
    with Database() as db:
        server = Served(db)
        worker = Worker(server.address)
        enqueue(db)
        job = worker.job()
        server.process.send_signal(signal.SIGTERM)
        worker.word('drain')
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(TIMEOUT_S) in (0, 130)
        assert time.monotonic() - start < 20  # of the thirty seconds that it would wait
        server.process.stdout.close()
        assert state(db, job.job_id) == 'running'
        with Served(db) as two, Worker(two.address, worker_id=worker.id, running=[job]) as again:
            assert again.done(job).status == OK
        worker.close()


def test_rolling_restart():
    """servers restarted one after the other under load lose nothing, run nothing twice and stall nobody"""
    with Database() as db, Scratch() as scratch:
        paths = [f'unix:{scratch}/one', f'unix:{scratch}/two']
        servers = [Served(db, listen=(p,)) for p in paths]
        workers = [Busy(paths if i % 2 else paths[::-1], credits=5, seconds=0.01) for i in range(6)]
        made = 0
        for turn in range(4):
            for _ in range(5):
                enqueue(db, 60)
                made += 60
                time.sleep(0.05)
            servers[turn % 2].process.send_signal(signal.SIGTERM)
            assert servers[turn % 2].process.wait(TIMEOUT_S) == 0
            servers[turn % 2].process.stdout.close()
            servers[turn % 2] = Served(db, listen=(paths[turn % 2],))
        until(lambda: db.sql('SELECT count(*) FROM pawl.job') == '0', 'all are done')
        for worker in workers:
            worker.stop()
        for server in servers:
            assert server.close() == 0
        started = [i for w in workers for i in w.started]
        assert len(started) == len(set(started)) == made, (len(started), len(set(started)), made)
        assert db.sql("SELECT count(*), max(attempt), min(state::text) FROM pawl.history") == f'{made}|1|done'
        assert max(w.longest for w in workers) < 20, [w.longest for w in workers]


def test_worker_list_and_drain():
    """pawl worker list shows who is on a stream; pawl worker drain and limit reach them"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=4, name='the first') as worker:
        until(lambda: worker.id in db.pawl('worker', 'list', '-o', 'json').stdout, 'the list shows it')
        listed = db.pawl('worker', 'list').stdout
        assert 'the first' in listed and 'default' in listed
        db.pawl('worker', 'limit', '-n', '1', worker.id)
        assert worker.word('credit_change').credits == 1
        enqueue(db, 3)
        job = worker.job()
        assert worker.idle(0.3)
        db.pawl('worker', 'drain', worker.id)
        told = worker.word('drain')
        assert not told.reconnect
        assert worker.done(job).status == OK and worker.idle(0.3)
        # Also after a reconnect, at any server.
        with Served(db) as two, Worker(two.address, worker_id=worker.id) as again:
            again.word('drain')
            assert again.idle(0.3)
        with Worker(server.address) as other:
            assert other.done(other.job()).status == OK
            other.done(other.job())


def test_rate():
    """a worker with a limit of jobs in a second is told, is given no more than that, and gets all again without it"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=200, name='slow') as worker:
        db.pawl('worker', 'limit', '--rate', '10/s', worker.id)
        told = worker.word('rate_change')
        assert (told.queue, told.starts_per_second, told.burst) == ('', 10.0, 1)
        until(lambda: [w['rate_per_s'] for w in json.loads(db.pawl('worker', 'list', '-o', 'json').stdout) if w['id'] == worker.id]
              == ['10'], 'the list shows it')
        start = time.monotonic()
        enqueue(db, 100)

        def slowly(n):
            """So many more come, and at no time more than may since the first could."""
            n += len(worker.got)
            deadline = time.monotonic() + TIMEOUT_S
            while len(worker.got) < n:
                assert time.monotonic() < deadline, len(worker.got)
                assert len(worker.got) <= 2 + 10 * (time.monotonic() - start), len(worker.got)
                time.sleep(0.02)
        slowly(20)
        # Credits are another matter, and stay; a job that ends does not make it faster.
        db.pawl('worker', 'limit', '--jobs', '150', worker.id)
        assert worker.word('credit_change').credits == 150
        n = len(worker.got)
        worker.report(*(report(j, done=pb.DoneOutcome()) for j in worker.got[:n]))
        slowly(5)
        # Kept over a reconnect, at any server.
        with Served(db) as two, Worker(two.address, credits=1) as again:
            assert again.opened
        with Worker(server.address, credits=200, worker_id=worker.id, running=worker.got[n:]) as again:
            assert again.word('rate_change').starts_per_second == 10
            db.pawl('worker', 'limit', '--rate', '0', worker.id)
            assert again.word('rate_change').starts_per_second == 0
            until(lambda: int(db.sql('SELECT count(*) FROM pawl.job WHERE token IS NULL')) == 0, 'it has all of them')
        for bad in ('-1', 'x', '0.0001', '1/m', 'inf'):
            refused = db.pawl('worker', 'limit', '--rate', bad, worker.id, check=False)
            assert refused.returncode == 2 and 'jobs per second' in refused.stderr, (bad, refused.stderr)


if __name__ == '__main__':
    run(globals())
