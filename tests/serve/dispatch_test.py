"""Workers on streams: jobs are pushed to them, and what they report is committed before it is answered."""

import time

from harness import TIMEOUT_S, run, until
from served import Database, Served, pb
from streaming import Worker, report


def state(db, job_id):
    return db.sql(f'SELECT state FROM pawl.jobs WHERE id = {job_id}')


def enqueue(db, n=1, kind='k', queue='default', more=''):
    """Ids of jobs that were inserted, as anybody may; workers that sleep are called."""
    made = db.sql(f"""SELECT pawl.enqueue('{kind}', '{{"n":1}}', queue => '{queue}'{more}) FROM generate_series(1, {n})""")
    return [int(line) for line in made.splitlines()]


def test_flow():
    """a job is pushed to a worker, whose report is in history when it is answered"""
    with Database() as db, Served(db) as server, Worker(server.address, name='one') as worker:
        assert worker.opened.lease_ms == 30000 and worker.opened.credits == 1 and worker.opened.server_id
        job_id, = enqueue(db)
        job = worker.job()
        assert (job.job_id, job.kind, job.queue, job.payload, job.attempt) == (job_id, 'k', 'default', b'{"n": 1}', 1)
        assert len(job.token) == 16
        assert state(db, job_id) == 'running'  # the claim is committed
        answer = worker.done(job, b'"well"')
        assert (answer.job_id, answer.status, answer.state) == (job_id, pb.ITEM_STATUS_OK, pb.JOB_STATE_DONE)
        assert db.sql(f"SELECT state, result, attempt FROM pawl.history WHERE id = {job_id}") == 'done|\\x2277656c6c22|1'


def test_many_in_one_call():
    """one call reports many outcomes of all kinds, each answered with what became of its job"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=10) as worker:
        ids = enqueue(db, 8)
        jobs = [worker.job() for _ in ids]
        assert [j.job_id for j in jobs] == ids
        answers = worker.report(
            report(jobs[0], done=pb.DoneOutcome()),
            report(jobs[1], retry=pb.RetryOutcome(error='again', delay_ms=60000)),
            report(jobs[2], fail=pb.FailOutcome(error='no')),
            report(jobs[3], snooze=pb.SnoozeOutcome(delay_ms=60000)),
            report(jobs[4], cancel=pb.CancelOutcome(reason='mine')),
            report(jobs[5], reject=pb.RejectOutcome(error='rule 7')),
            report(jobs[6]),
            report(jobs[7], done=pb.DoneOutcome(result=b'x' * (1024 * 1024 + 1))))
        assert [(a.job_id, a.status) for a in answers[:6]] == [(i, pb.ITEM_STATUS_OK) for i in ids[:6]]
        assert [a.state for a in answers[:6]] == [pb.JOB_STATE_DONE, pb.JOB_STATE_RETRYING, pb.JOB_STATE_FAILED,
                                                  pb.JOB_STATE_SCHEDULED, pb.JOB_STATE_CANCELLED, pb.JOB_STATE_FAILED]
        assert [a.status for a in answers[6:]] == [pb.ITEM_STATUS_INVALID] * 2 and 'no outcome' in answers[6].error
        assert [state(db, i) for i in ids] == ['done', 'retrying', 'failed', 'scheduled', 'cancelled', 'failed', 'running', 'running']
        assert worker.done(jobs[6]).status == pb.ITEM_STATUS_OK  # refused is not reported
        answer, = worker.report(report(jobs[7], release=pb.ReleaseOutcome()))
        assert (answer.status, answer.state) == (pb.ITEM_STATUS_OK, pb.JOB_STATE_READY)
        again = worker.job()
        assert (again.job_id, again.attempt) == (ids[7], 1) and again.token != jobs[7].token
        assert worker.done(again).status == pb.ITEM_STATUS_OK


def test_credits():
    """a worker never holds more than its credits, and every report brings the next job"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=3) as worker:
        ids = enqueue(db, 7)
        held = [worker.job() for _ in range(3)]
        assert worker.idle(0.3)
        assert db.sql('SELECT count(*) FROM pawl.job WHERE token IS NOT NULL') == '3'  # nothing is claimed ahead
        for expected in ids[3:]:
            assert worker.done(held.pop(0)).status == pb.ITEM_STATUS_OK
            held.append(worker.job())
            assert held[-1].job_id == expected
        assert all(a.status == pb.ITEM_STATUS_OK for a in worker.report(*(report(j, done=pb.DoneOutcome()) for j in held)))


def test_fairness():
    """jobs go to the least loaded worker, and no worker starves"""
    with Database() as db, Served(db) as server:
        workers = [Worker(server.address, credits=c) for c in (2, 4, 8, 2)]
        enqueue(db, 8)
        until(lambda: sum(len(w.got) for w in workers) == 8, 'eight jobs are with the workers')
        assert [len(w.got) for w in workers] == [1, 2, 4, 1], [len(w.got) for w in workers]
        for worker in workers:
            worker.report(*(report(worker.job(), done=pb.DoneOutcome()) for _ in range(len(worker.got))))
        for _ in range(12):  # one at a time: everybody gets a turn
            enqueue(db)
            until(lambda: any(not w.jobs.empty() for w in workers), 'the job is with somebody')
            for worker in workers:
                while not worker.jobs.empty():
                    worker.done(worker.job())
        assert all(len(w.got) >= n + 3 for w, n in zip(workers, (1, 2, 4, 1))), [len(w.got) for w in workers]
        for worker in workers:
            worker.close()


def test_kinds_and_queues():
    """a worker gets its own kinds of its own queues, and nothing is claimed that nobody has a credit for"""
    with Database() as db, Served(db) as server, \
            Worker(server.address, kinds=['a'], credits=1) as a, Worker(server.address, kinds=['b', 'c'], credits=5) as bc, \
            Worker(server.address, kinds=['a', 'b'], queues=['mail', 'default'], credits=2) as mail:
        for kind in 'abc':
            enqueue(db, 4, kind=kind)
        enqueue(db, 2, kind='a', queue='mail')
        enqueue(db, 2, kind='c', queue='mail')
        enqueue(db, 1, kind='a', queue='other')
        until(lambda: (len(a.got), len(bc.got), len(mail.got)) == (1, 5, 2), 'all credits are used')
        assert a.job() and a.idle(0.2)  # its one job, and no more
        assert {j.kind for j in a.got} == {'a'} and {j.kind for j in bc.got} <= {'b', 'c'}
        assert {j.kind for j in mail.got} <= {'a', 'b'}
        assert db.sql('SELECT count(*) FROM pawl.job WHERE token IS NOT NULL') == '8'
        seen = {}
        deadline = time.monotonic() + TIMEOUT_S
        a.jobs.put(a.got[0])
        while sum(len(w.got) for w in (a, bc, mail)) < 14 and time.monotonic() < deadline:
            for worker in (a, bc, mail):
                while not worker.jobs.empty():
                    worker.done(worker.job())
            time.sleep(0.01)
        for worker in (a, bc, mail):
            for job in worker.got:
                seen[job.queue, job.kind] = seen.get((job.queue, job.kind), 0) + 1
        assert seen == {('default', 'a'): 4, ('default', 'b'): 4, ('default', 'c'): 4, ('mail', 'a'): 2}, seen


def test_opening_words():
    """a stream without kinds, credits or an id, or with names that are none, is refused and says why"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        def refused(**fields):
            stream = calls.stream(**{**{'kinds': ['k'], 'credits': 1, 'worker_id': 'w'}, **fields})
            try:
                next(stream)
            except Exception as error:  # grpc.RpcError
                return error.code().name, error.details()
            return None
        assert refused(kinds=[])[0] == 'INVALID_ARGUMENT'
        assert refused(credits=0)[0] == 'INVALID_ARGUMENT'
        assert 'worker_id' in refused(worker_id='')[1]
        assert refused(queues=['a b'])[0] == 'INVALID_ARGUMENT'
        assert refused(kinds=['a,b'])[0] == 'INVALID_ARGUMENT'
        assert refused(queues=[f'q{i}' for i in range(65)])[0] in ('INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED')
        assert calls.code('Heartbeat', worker_id='')[0] == 'INVALID_ARGUMENT'


def test_large():
    """a payload of 16 MiB reaches its worker"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        size = 16 * 1024 * 1024
        db.sql(f"SELECT pawl.enqueue('k', bytes => pg_catalog.convert_to(pg_catalog.repeat('x', {size}), 'UTF8'))")
        job = worker.job()
        assert len(job.payload) == size
        assert worker.done(job).status == pb.ITEM_STATUS_OK


def test_pause():
    """what is paused is not pushed, and a resume is seen at once"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        db.pawl('queue', 'pause', 'default')
        enqueue(db)
        assert worker.idle(0.7)
        called = server.metric('pawl_engine_notify_wakeups_total')
        db.pawl('queue', 'resume', 'default')
        worker.done(worker.job())
        until(lambda: server.metric('pawl_engine_notify_wakeups_total') > called, 'it was called, it did not come by itself')


def test_cancel():
    """a running job that is cancelled is told to its worker, on the stream and with the heartbeat"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=2) as worker:
        job_id, other = enqueue(db, 2)
        job, second = worker.job(), worker.job()
        db.sql(f"SELECT pawl.cancel({job_id}, 'somebody')")
        told = worker.word('cancel_run')
        assert (told.job_id, told.token) == (job_id, job.token) and 'cancelled' in told.reason
        assert list(worker.beat(job, second).cancelled_job_ids) == [job_id]
        answer, = worker.report(report(job, cancel=pb.CancelOutcome()))
        assert (answer.status, answer.state) == (pb.ITEM_STATUS_OK, pb.JOB_STATE_CANCELLED)
        assert worker.done(second).state == pb.JOB_STATE_DONE
        assert state(db, job_id) == 'cancelled' and state(db, other) == 'done'


def test_progress_is_cut():
    """progress that is too long is cut between characters, however many bytes they have, and not lost"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        job_id, = enqueue(db)
        job = worker.job()
        for character in 'ä€😀':
            # "7% " and 1000 bytes: the cut falls on every place in a character.
            for shift in range(len(character.encode())):
                note = 'x' * shift + character * 400
                whole = ('7% ' + note).encode()[:1000].decode(errors='ignore')
                worker.beat(job, progress=[pb.JobProgress(job_id=job_id, token=job.token, percent=7, note=note)])
                until(lambda: db.sql(f'SELECT progress FROM pawl.job_option WHERE job_id = {job_id}') == whole, 'the progress is seen', 20)
        worker.done(job)


def test_progress():
    """what a heartbeat says about progress is seen while the job runs"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        job_id, = enqueue(db)
        job = worker.job()
        answer = worker.beat(job, progress=[pb.JobProgress(job_id=job_id, token=job.token, percent=40, note='half way')])
        assert not answer.lost_job_ids and answer.lease_until_us > time.time() * 1e6 + 10e6
        until(lambda: db.sql(f'SELECT progress FROM pawl.job_option WHERE job_id = {job_id}') == '40% half way', 'the progress is seen')
        worker.done(job)


def test_timeout():
    """a run that takes longer than its job allows is told to end"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        job_id, = enqueue(db, more=", timeout => '100ms'")
        job = worker.job()
        assert job.timeout_ms == 100
        assert worker.word('cancel_run').job_id == job_id
        answer, = worker.report(report(job, retry=pb.RetryOutcome(error='too slow')))
        assert answer.state == pb.JOB_STATE_RETRYING


def test_until_empty():
    """a stream that is to end when nothing is due ends then, not before what it reported is settled and looked for again"""
    with Database() as db, Served(db) as server:
        with Worker(server.address, kinds=['other']) as stays, Worker(server.address, until_empty=True) as worker:
            assert worker.word('drain').reason == 'nothing is due'
            until(worker.over.is_set, 'nothing is due')
            assert worker.ended.name == 'OK' and not stays.over.is_set()
        ids = enqueue(db, 3) + enqueue(db, queue='second')
        enqueue(db, more=", delay => '1 h'")
        with Worker(server.address, until_empty=True, credits=2, queues=['default', 'second']) as worker:
            seen = []
            for n in range(5):
                job = worker.job()
                seen.append(job.job_id)
                assert not worker.over.is_set()
                # The first one comes again at once: while it is being settled the stream has nothing, and nothing is due.
                outcome = {'done': pb.DoneOutcome()} if n else {'retry': pb.RetryOutcome(error='e', delay_ms=0)}
                answer, = worker.report(report(job, **outcome))
                assert answer.status == pb.ITEM_STATUS_OK
            assert worker.word('drain').reconnect is False
            until(worker.over.is_set, 'nothing more is due')
            assert worker.ended.name == 'OK' and sorted(seen) == sorted(ids + [seen[0]]), (seen, ids)
        job_id, = enqueue(db)
        with Worker(server.address, until_empty=True) as worker:
            job = worker.job()
            assert worker.report(report(job, retry=pb.RetryOutcome(error='e', delay_ms=0)))[0].status == pb.ITEM_STATUS_OK
            assert worker.done(worker.job()).status == pb.ITEM_STATUS_OK
            until(worker.over.is_set, 'nothing more is due')
        assert state(db, job_id) == 'done'


if __name__ == '__main__':
    run(globals())
