"""Workers that go away and come back, here or elsewhere: a worker takes its jobs along."""

import time

from dispatch_test import enqueue, state
from harness import patiently, run, until
from served import Database, Served, pb
from streaming import Worker, report

LEASES = (2, 6, 18)  # seconds: for one who never stands still, and for one who sometimes does
OK, STALE = pb.ITEM_STATUS_OK, pb.ITEM_STATUS_STALE


def held(db):
    return int(db.sql('SELECT count(*) FROM pawl.held'))


def test_broken_stream():
    """a broken stream ends only itself: what it runs keeps its lease, and its report still counts"""
    with Database() as db, Served(db) as server, Worker(server.address) as other:
        worker = Worker(server.address)
        enqueue(db, 2)
        until(lambda: worker.got and other.got, 'each has a job')
        job = worker.job()
        worker.close()
        until(lambda: held(db) == 1, 'the job has a lease of its own')
        assert state(db, job.job_id) == 'running'
        with server.calls() as calls:
            assert worker.done(job, calls=calls).status == OK
        assert other.done(other.job()).status == OK
        assert db.sql("SELECT count(*), max(attempt) FROM pawl.history WHERE state = 'done'") == '2|1'


def test_unsent():
    """jobs that never left the server are released at once when their stream breaks"""
    with Database() as db, Served(db) as server:
        # Four jobs of 3 MiB do not fit into what a client that does not read takes: the last ones stay in the server.
        slow = server.calls(options=[('grpc.max_receive_message_length', 1 << 26), ('grpc.http2.lookahead_bytes', 1024)])
        stream = slow.stream(kinds=['big'], worker_id='slow', credits=4)
        assert next(stream).WhichOneof('message') == 'opened'
        other = Worker(server.address)
        for _ in range(4):
            db.sql("SELECT pawl.enqueue('big', bytes => pg_catalog.convert_to(pg_catalog.repeat('x', 3000000), 'UTF8'))")
        until(lambda: db.sql('SELECT count(*) FROM pawl.job WHERE token IS NOT NULL') >= '1', 'some are claimed')
        times = []
        for _ in range(20):  # others are served as ever; a moment in which all stand still hits one or two of them
            start = time.monotonic()
            enqueue(db)
            assert other.done(other.job()).status == OK
            times.append(time.monotonic() - start)
        assert sorted(times)[len(times) // 2] < 3, times
        stream.cancel()
        slow.channel.close()
        other.close()
        until(lambda: int(db.sql('SELECT count(*) FROM pawl.job WHERE token IS NULL AND attempt = 0')) >= 2,
              'what had not left is ready again, with its attempt')


def test_never_arrived():
    """a worker whose stream has ended names what it has, and what it does not name is given to others at once"""
    with Database() as db, Served(db) as server:
        worker = Worker(server.address, credits=3)
        ids = enqueue(db, 3)
        jobs = [worker.job() for _ in ids]
        worker.close()
        until(lambda: server.metric('pawl_workers') == 0, 'the stream has ended')
        with server.calls() as calls:
            assert not worker.beat(jobs[0], calls=calls, left_stream=True).lost_job_ids
            with Worker(server.address, credits=3) as other:
                again = sorted((other.job(), other.job()), key=lambda j: j.job_id)
                assert [(j.job_id, j.attempt) for j in again] == [(ids[1], 1), (ids[2], 1)]
                assert other.idle(0.2) and worker.done(jobs[1], calls=calls).status == STALE
                # The same with the opening words of the next stream.
                other.close()
                with Worker(server.address, credits=3, worker_id=other.id, running=again[:1]) as third:
                    assert not third.opened.lost_job_ids
                    assert (third.job().job_id, third.got[0].attempt) == (ids[2], 1)
                    assert third.done(again[0]).status == OK and third.done(third.got[0]).status == OK
            assert worker.done(jobs[0], calls=calls).status == OK
        assert db.sql("SELECT count(*), max(attempt) FROM pawl.history WHERE state = 'done'") == '3|1'


def test_reconnect():
    """a worker that reconnects takes its jobs up again, and they take its credits"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as server:
            worker = Worker(server.address, credits=2)
            ids = enqueue(db, 3)
            jobs = [worker.job(), worker.job()]
            worker.close()
            until(lambda: held(db) == 2, 'its jobs have leases of their own')
            with Worker(server.address, credits=2, worker_id=worker.id, running=jobs) as again:
                assert not again.opened.lost_job_ids
                for _ in range(8):  # longer than a lease
                    assert again.idle(lease / 5)  # both credits are in use
                    assert not again.beat(*jobs).lost_job_ids
                assert [state(db, i) for i in ids] == ['running', 'running', 'ready']
                assert again.done(jobs[0]).status == OK
                assert again.job().job_id == ids[2]
                assert again.done(jobs[1]).status == OK
                assert again.done(again.got[-1]).status == OK
            assert db.sql("SELECT count(*), max(attempt) FROM pawl.history") == '3|1'
    patiently(scene, *LEASES)


def test_reconnect_before_it_is_noticed():
    """a second stream of the same worker takes over from the first, also before that is known to be broken"""
    with Database() as db, Served(db) as server:
        worker = Worker(server.address)
        enqueue(db)
        job = worker.job()
        with Worker(server.address, worker_id=worker.id, running=[job]) as again:
            assert not again.opened.lost_job_ids
            until(worker.over.is_set, 'the first stream ends')
            assert worker.ended.name == 'ABORTED'
            assert held(db) == 0  # it never left this server
            assert again.done(job).status == OK
        worker.close()


def test_other_server():
    """a worker reports to another server than the one that assigned, and renews its lease there"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as one, Served(db, '--lease', f'{lease}s') as two:
            worker = Worker(one.address, credits=3)
            ids = enqueue(db, 3)
            jobs = [worker.job() for _ in ids]
            with two.calls() as calls:
                assert worker.done(jobs[0], b'1', calls=calls).status == OK
                answers = worker.report(report(jobs[1], retry=pb.RetryOutcome(error='e', delay_ms=60000)), calls=calls)
                assert (answers[0].status, answers[0].state) == (OK, pb.JOB_STATE_RETRYING)
                worker.close()
                for _ in range(8):
                    assert not worker.beat(jobs[2], calls=calls).lost_job_ids
                    time.sleep(lease / 5)
                assert worker.done(jobs[2], calls=calls).status == OK
            assert [state(db, i) for i in ids] == ['done', 'retrying', 'done']
            assert db.sql(f'SELECT result, attempt FROM pawl.history WHERE id = {ids[0]}') == '\\x31|1'
    patiently(scene, *LEASES)


def test_heartbeats_here_and_there():
    """heartbeats that reach two servers by turns keep a job: it runs once, however long one of them hears nothing"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as one, Served(db, '--lease', f'{lease}s') as two, two.calls() as calls:
            with Worker(one.address) as worker:
                enqueue(db)
                job = worker.job()
                other = Worker(two.address)
                assert not worker.beat(job, calls=calls).lost_job_ids  # the other server gives it a lease of its own
                for _ in range(12):  # which runs out while the one with the stream hears of it
                    assert not worker.beat(job).lost_job_ids
                    assert other.idle(lease / 5)
                assert state(db, job.job_id) == 'running'
                for _ in range(14):  # and the other way round, until the first has forgotten it
                    assert not worker.beat(job, calls=calls).lost_job_ids
                    assert other.idle(lease / 5)
                assert not worker.beat(job).lost_job_ids and worker.words.empty(), 'nobody called it lost'
                other.close()
                enqueue(db)
                assert worker.idle(0.4)  # the first one takes the credit again
                assert worker.done(job).status == OK
                assert worker.done(worker.job()).status == OK
            assert db.sql("SELECT count(*), max(attempt) FROM pawl.history WHERE state = 'done'") == '2|1'
            until(lambda: held(db) == 0, 'the lease of its own is over')
    patiently(scene, *LEASES)


def test_silence_at_all_servers():
    """a job of which no server hears for a lease is given to others, also when two servers had heard of it"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as one, Served(db, '--lease', f'{lease}s') as two, two.calls() as calls:
            with Worker(one.address) as worker:
                enqueue(db)
                job = worker.job()
                worker.beat(job, calls=calls)
                with Worker(two.address) as other:
                    assert worker.word('cancel_run').stop_reason == pb.STOP_REASON_LOST
                    again = other.job() if not worker.idle(0) else worker.job()
                    assert (again.job_id, again.attempt) == (job.job_id, 2)
                    assert worker.done(job).status == STALE
    patiently(scene, *LEASES)


def test_late_heartbeats():
    """a heartbeat that comes after a newer one, after the report, or after the next stream is open changes nothing"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as one, Served(db, '--lease', f'{lease}s') as two, one.calls() as here, two.calls() as there:
            def late(worker, job):
                """One on which nothing depends any more, by both servers: it names what is lost, and no lease is made."""
                for calls in (here, there):
                    assert list(worker.beat(job, calls=calls).lost_job_ids) == [job.job_id]
                assert held(db) == 0

            with Worker(one.address) as worker:
                ids = enqueue(db)
                job = worker.job()
                assert worker.done(job).status == OK
                late(worker, job)
                ids += enqueue(db)
                first = worker.job()
                worker.report(report(first, retry=pb.RetryOutcome(error='e', delay_ms=0)))
                second = worker.job()
                assert (second.job_id, second.attempt) == (first.job_id, 2)
                late(worker, first)
                worker.report(report(second, next=pb.NextOutcome(step='on')))
                third = worker.job()
                late(worker, second)
                # The same step again: the database cannot tell one from the other, and the run that there is gets a lease of its own.
                worker.report(report(third, next=pb.NextOutcome(step='on')))
                fourth = worker.job()
                worker.beat(third)
                worker.beat(third, calls=there)
                assert held(db) == 1
                for _ in range(8):
                    assert not worker.beat(fourth).lost_job_ids
                    assert worker.idle(lease / 5)
                assert worker.done(fourth).status == OK
                until(lambda: held(db) == 0, 'that lease is over')
                ids += enqueue(db)
                job = worker.job()
            # It left, came back with its job, and only then its word that it has left, and has nothing, arrives.
            with Worker(one.address, worker_id=worker.id, running=[job]) as again:
                again.beat(left_stream=True)
                again.beat(left_stream=True, calls=there)
                assert again.idle(0.7) and state(db, job.job_id) == 'running'
                assert again.done(job).status == OK
            assert db.sql('SELECT string_agg(id || state::text || attempt, chr(32) ORDER BY id) FROM pawl.history') == \
                f'{ids[0]}done1 {ids[1]}done1 {ids[2]}done1'
    patiently(scene, *LEASES)


def test_twice():
    """a report that is repeated gets the same answer, here and at another server, and has one effect"""
    with Database() as db, Served(db) as one, Served(db) as two, two.calls() as calls:
        with Worker(one.address, credits=3) as worker:
            enqueue(db, 3)
            jobs = [worker.job() for _ in range(3)]
            outcomes = [{'done': pb.DoneOutcome(result=b'1')}, {'fail': pb.FailOutcome(error='e')},
                        {'retry': pb.RetryOutcome(error='e', delay_ms=60000)}]
            reports = [report(j, **o) for j, o in zip(jobs, outcomes)]
            first = worker.report(*reports)
            assert [a.status for a in first] == [OK] * 3
            assert worker.report(*reports) == first
            assert worker.report(*reports[:2], calls=calls) == first[:2]
            assert worker.report(reports[0], reports[0]) == [first[0]] * 2
        assert db.sql('SELECT count(*) FROM pawl.history') == '2'
        assert db.sql('SELECT count(*) FROM pawl.job WHERE attempt = 1') == '1'


def test_moves_ahead():
    """a worker opens its stream at another server before it leaves the first, and may report to either"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', f'{lease}s') as one, Served(db, '--lease', f'{lease}s') as two:
            worker = Worker(one.address, credits=2)
            ids = enqueue(db, 2)
            jobs = [worker.job(), worker.job()]
            with Worker(two.address, credits=2, worker_id=worker.id, running=jobs) as ahead:
                assert not ahead.opened.lost_job_ids
                assert worker.done(jobs[0]).status == OK  # to the one that assigned it
                worker.close()
                assert ahead.done(jobs[1]).status == OK
                ids += enqueue(db, 2)
                assert ahead.job().job_id == ids[2]
                # The credit of what was reported elsewhere comes back when nobody has spoken of it for a lease.
                until(lambda: not ahead.beat(ahead.got[0]).lost_job_ids and len(ahead.got) == 2, 'both credits are free')
                assert ahead.done(ahead.got[0]).status == OK and ahead.done(ahead.job()).status == OK
            assert db.sql("SELECT count(*), max(attempt) FROM pawl.history WHERE state = 'done'") == '4|1'
    patiently(scene, *LEASES)


if __name__ == '__main__':
    run(globals())
