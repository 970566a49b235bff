"""Servers that are killed, workers that are late, and those who report what is not theirs."""

import os
import signal

from dispatch_test import enqueue, state
from harness import patiently, run, until
from served import Database, Holding, Served, pb
from streaming import Worker, report

LEASES = ('2s', '6s', '18s')  # for one who never stands still, and for one who sometimes does
TWICE = {'2s': '4s', '6s': '12s', '18s': '36s'}
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
OK, STALE = pb.ITEM_STATUS_OK, pb.ITEM_STATUS_STALE


def test_stale():
    """a worker that was silent for a lease loses its job, hears so, and its late report counts for nothing"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', lease) as server, Worker(server.address) as late:
            job_id, = enqueue(db, more=", retry => 'exponential', retry_base => '10ms'")
            job = late.job()
            told = late.word('cancel_run')
            assert told.job_id == job_id and 'lost' in told.reason
            until(lambda: 'lost' in db.sql(f"SELECT errors FROM pawl.jobs WHERE id = {job_id}"), 'it was taken back')
            again = late.job()  # the same worker, whose credit is free again, or any other
            assert (again.job_id, again.attempt) == (job_id, 2) and again.token != job.token
            assert list(late.beat(job).lost_job_ids) == [job_id]
            answer = late.done(job)
            assert answer.status == STALE and answer.error
            assert late.done(job).status == STALE
            assert late.done(again).status == OK
            assert late.done(job).status == STALE
            assert db.sql(f'SELECT state, attempt FROM pawl.history WHERE id = {job_id}') == 'done|2'
    patiently(scene, *LEASES)


def test_killed_before_sending():
    """what a server was about to claim when it was killed is given to others"""
    def scene(lease):
        with Database() as db:
            one = Served(db, '--lease', TWICE[lease])  # no sweep or renewal comes before the claim
            worker = Worker(one.address)
            with Holding(db, 'LOCK TABLE pawl.claim IN SHARE MODE'):  # the claim is sent, and cannot end
                job_id, = enqueue(db, more=", retry => 'exponential', retry_base => '10ms'")
                until(lambda: db.sql(WAITS + " AND query LIKE '/* pawl.job\\_claim%'") != '0',
                      'the claim waits')
                os.kill(one.process.pid, signal.SIGKILL)
                one.process.wait()
            assert not worker.got
            with Served(db, '--lease', lease) as two, Worker(two.address) as other:
                job = other.job()
                # Whether the claim was committed or not: a database that looks after its clients ends it.
                assert job.job_id == job_id and job.attempt in (1, 2) and other.done(job).status == OK
            assert db.sql("SELECT count(*), min(state::text) FROM pawl.history") == '1|done'
            one.process.stdout.close()
            worker.close()
    patiently(scene, *LEASES)


def test_killed_before_settling():
    """a server that is killed while it settles leaves a report that may be sent to another one, with one effect"""
    with Database() as db, Served(db) as two, two.calls() as calls:
        one = Served(db)
        worker = Worker(one.address)
        job_id, = enqueue(db)
        job = worker.job()
        with Holding(db, f'SELECT FROM pawl.job WHERE id = {job_id} FOR UPDATE'):
            waiting = worker.calls.later('ReportResult', worker_id=worker.id, reports=[report(job, done=pb.DoneOutcome())])
            until(lambda: db.sql(WAITS) != '0', 'the settle waits')
            assert not waiting.done()
            os.kill(one.process.pid, signal.SIGKILL)
            one.process.wait()
            until(waiting.done, 'the call is over')
        assert worker.done(job, calls=calls).status == OK  # whether the first one counted or not
        assert worker.done(job, calls=calls).status == OK
        assert db.sql(f'SELECT state, attempt FROM pawl.history WHERE id = {job_id}') == 'done|1'
        one.process.stdout.close()
        worker.close()


def test_server_killed():
    """when a server is killed its workers go on at another one, and what it had claimed and not sent comes back"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', lease) as two:
            one = Served(db, '--lease', lease)
            worker = Worker(one.address, credits=2)
            ids = enqueue(db, 2)
            jobs = [worker.job(), worker.job()]
            os.kill(one.process.pid, signal.SIGKILL)
            one.process.wait()
            until(worker.over.is_set, 'the stream ends')
            with Worker(two.address, credits=2, worker_id=worker.id, running=jobs[:1]) as again:
                assert not again.opened.lost_job_ids
                # The other one it does not know of, as if it had been claimed and never sent.
                until(lambda: not again.beat(jobs[0]).lost_job_ids and not again.jobs.empty(), 'the other one comes again')
                lost = again.job()
                assert (lost.job_id, lost.attempt) == (ids[1], 2)
                assert again.done(jobs[0]).status == OK and again.done(lost).status == OK
                assert again.done(jobs[1]).status == STALE
            assert db.sql('SELECT count(*) FROM pawl.history') == '2'
            worker.close()
    patiently(scene, *LEASES)


def test_not_mine():
    """a worker cannot settle another worker's job, although one claim was for both"""
    with Database() as db, Served(db) as server, Worker(server.address) as a, Worker(server.address) as b, \
            Served(db) as other, other.calls() as calls:
        enqueue(db, 2)
        mine, theirs = a.job(), b.job()
        forged = pb.AssignedJob(job_id=theirs.job_id, token=mine.token)
        assert a.done(forged).status == STALE
        assert a.done(forged, calls=calls).status == STALE
        assert list(a.beat(forged).lost_job_ids) == [theirs.job_id]
        assert a.done(pb.AssignedJob(job_id=theirs.job_id, token=b'x' * 16)).status == STALE
        assert a.done(pb.AssignedJob(job_id=theirs.job_id, token=b'x')).status == pb.ITEM_STATUS_INVALID
        assert a.done(pb.AssignedJob(job_id=4711, token=b'x' * 16)).status == pb.ITEM_STATUS_NOT_FOUND
        assert state(db, theirs.job_id) == 'running'
        assert b.done(theirs).status == OK and a.done(mine).status == OK


if __name__ == '__main__':
    run(globals())
