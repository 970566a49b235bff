"""Calls while the database's synchronous standby stalls (support/standby.py): no answer says more than what lasts."""

import contextlib
import os
import signal
import time

from harness import TIMEOUT_S, run
from served import Database, Served, pb

STANDBY = int(os.environ['PAWL_TEST_STANDBY'])
WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"


@contextlib.contextmanager
def stalled():
    os.kill(STANDBY, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(STANDBY, signal.SIGCONT)


def until(what):
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := what()):
        assert time.monotonic() < deadline, 'never happened'
        time.sleep(0.01)
    return value


def waiting(db, like):
    return int(db.sql(f"SELECT count(*) {WAITING} AND query LIKE '%{like}%'"))


def cancel(db, like):
    """What an administrator does to a commit that hangs. Of the server's own statements, only those meant."""
    until(lambda: int(db.sql(f"SELECT count(pg_cancel_backend(pid)) {WAITING} AND query LIKE '%{like}%'")))


def count(db):
    return int(db.sql('SELECT count(*) FROM pawl.job'))


def test_plain():
    """without a key: past the server's deadline the call says that no standby has confirmed it"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='warm')])
        with stalled():
            status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])
            assert status == 'UNAVAILABLE', (status, text)
            assert 'no synchronous standby of the database has confirmed the commit' in text, text
            assert 'without an idempotency_key a repetition may accept them twice' in text, text
            assert 'nothing was accepted' not in text and count(db) == 2, text
        assert server.metric('pawl_enqueue_unknown_total{keys="no"}') == 1
        assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK'


def test_keyed():
    """with a key it is repeated until it is known, once in effect"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='warm')], idempotency_key='warm')
        with stalled():
            answer = calls.later('Enqueue', jobs=[pb.NewJob(kind='k')], idempotency_key='key')
            for _ in range(2):  # the first try, and one that finds the key taken
                cancel(db, 'job_enqueue_once')
            until(lambda: waiting(db, 'job_enqueue_once') == 1)
            assert not answer.done()
        assert answer.result().accepted[0].job_id > 0 and count(db) == 2
        assert server.metric('pawl_enqueue_replays_total{keys="yes"}') == 1


def test_repeated():
    """a client that repeats its call with the key is answered when the first commit is sure to last, not before"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='warm')], idempotency_key='warm')
        with stalled():
            first = calls.later('Enqueue', jobs=[pb.NewJob(kind='k')], idempotency_key='key')
            until(lambda: waiting(db, 'job_enqueue_once') == 1)
            first.cancel()
            cancel(db, 'job_enqueue_once')
            until(lambda: count(db) == 2)
            again = calls.later('Enqueue', jobs=[pb.NewJob(kind='k')], idempotency_key='key')
            until(lambda: waiting(db, 'job_enqueue_once') == 1)
            assert not again.done()
        assert again.result().accepted[0].job_id > 0 and count(db) == 2


def test_unique():
    """that a unique key is taken is an answer that lasts, too"""
    def job():
        return pb.NewJob(kind='k', unique_key='u')

    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='warm', unique_key='warm')])
        with stalled():
            first = calls.later('Enqueue', jobs=[job()])
            cancel(db, 'job_enqueue')
            assert first.exception().code().name == 'UNAVAILABLE', first.exception()
            again = calls.later('Enqueue', jobs=[job()])
            until(lambda: waiting(db, 'job_enqueue') == 1)
            assert not again.done()
        assert again.result().accepted[0].existed and count(db) == 2


def test_signal():
    """that a signal was sent before is an answer that lasts, too"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        job = calls.Enqueue(jobs=[pb.NewJob(kind='k')]).accepted[0].job_id
        with stalled():
            first = calls.later('Signal', job_id=job, name='go', idempotency_key='once')
            cancel(db, 'signal_tell')
            assert first.exception().code().name == 'UNAVAILABLE', first.exception()
            assert 'no synchronous standby' in first.exception().details()
            again = calls.later('Signal', job_id=job, name='go', idempotency_key='once')
            until(lambda: waiting(db, 'signal_tell') == 1)
            assert not again.done()
        assert again.result() is not None
        assert int(db.sql('SELECT count(*) FROM pawl.signal')) == 1


run(globals())
