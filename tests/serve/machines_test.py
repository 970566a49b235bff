"""Machines whose steps run in workers on streams: next, await and spawn, with all that goes with them."""

import time

from dispatch_test import enqueue, state
from harness import TIMEOUT_S, run, until
from served import Database, Holding, Served, pb
from streaming import Worker, report

OK, STALE = pb.ITEM_STATUS_OK, pb.ITEM_STATUS_STALE


def go(worker, job, **outcome):
    answer, = worker.report(report(job, signal_ids=[s.id for s in job.signals], **outcome))
    assert answer.status == OK, answer
    return answer.state


def test_next():
    """a step that goes on comes back at once to the same worker, with its state, under the same claim"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker, Worker(server.address, kinds=['k']) as other:
        job_id, = enqueue(db)
        until(lambda: worker.got or other.got, 'somebody has it')
        mine = worker if worker.got else other
        first = mine.job()
        assert first.step == '' and go(mine, first, next=pb.NextOutcome(step='two', machine_data=b'{"a":1.50}')) == pb.JOB_STATE_RUNNING
        second = mine.job()
        assert (second.step, second.machine_data, second.attempt) == ('two', b'{"a":1.50}', 1)
        # The first report again, after its answer was lost: it is not taken for the second step's.
        answer, = mine.report(report(first, next=pb.NextOutcome(step='two', machine_data=b'{"a":1.50}')))
        assert answer.status == OK and mine.idle(0.2)
        assert go(mine, second, next=pb.NextOutcome(step='three')) == pb.JOB_STATE_RUNNING  # the state stays as it is
        third = mine.job()
        assert third.machine_data == b'{"a":1.50}'
        go(mine, third, next=pb.NextOutcome(step='four', delay_ms=3600000))
        assert state(db, job_id) in ('scheduled', 'waiting')
        db.sql('UPDATE pawl.job SET due_at = now()')
        until(lambda: not mine.jobs.empty() or not other.jobs.empty(), 'it is due again')
        last = worker if not worker.jobs.empty() else other
        assert go(last, last.job(), done=pb.DoneOutcome(result=b'"end"')) == pb.JOB_STATE_DONE
        assert db.sql("SELECT count(*) FROM pawl.history WHERE timeline LIKE '%next%'") == '1'


def test_former_step():
    """a report under the ticket of a former step counts for nothing when the machine is over; that of the last step may be repeated"""
    with Database() as db, Served(db) as one, Served(db) as two, two.calls() as calls, Worker(one.address) as worker:
        job_id, = enqueue(db)
        first = worker.job()
        go(worker, first, next=pb.NextOutcome(step='two'))
        second = worker.job()
        assert go(worker, second, done=pb.DoneOutcome(result=b'2')) == pb.JOB_STATE_DONE
        assert first.attempt == second.attempt == 1
        # Another server knows of both only what the database says.
        for outcome in ({'done': pb.DoneOutcome()}, {'next': pb.NextOutcome(step='two')}):
            answer, = worker.report(report(first, **outcome), calls=calls)
            assert answer.status == STALE, answer
        answer, = worker.report(report(second, done=pb.DoneOutcome(result=b'2')), calls=calls)
        assert (answer.status, answer.state) == (OK, pb.JOB_STATE_DONE), answer
        assert db.sql(f'SELECT result FROM pawl.history WHERE id = {job_id}') == r'\x32'
        # Not ended by any report: so none has ended it.
        ended, = enqueue(db)
        go(worker, worker.job(), next=pb.NextOutcome(step='two'))
        last = worker.job()
        db.sql('UPDATE pawl.job SET token = NULL; DELETE FROM pawl.claim')
        db.sql(f"SELECT pawl.cancel({ended}, 'somebody')")
        answer, = worker.report(report(last, cancel=pb.CancelOutcome()), calls=calls)
        assert (answer.status, answer.state) == (STALE, pb.JOB_STATE_CANCELLED), answer


def test_late_failure():
    """a failure that comes after somebody else has ended the job is stale; one that ended it is known again, also elsewhere"""
    with Database() as db, Served(db) as one, Served(db) as two, two.calls() as calls, Worker(one.address, credits=2) as worker:
        lost, = enqueue(db)
        first = worker.job()
        db.sql('UPDATE pawl.job SET token = NULL, due_at = now() + interval \'1 h\'; DELETE FROM pawl.claim')
        db.sql(f"SELECT pawl.cancel({lost}, 'somebody')")
        for outcome in ({'retry': pb.RetryOutcome(error='no')}, {'fail': pb.FailOutcome(error='no')}, {'cancel': pb.CancelOutcome()}):
            answer, = worker.report(report(first, **outcome), calls=calls)
            assert (answer.status, answer.state) == (STALE, pb.JOB_STATE_CANCELLED), answer
        enqueue(db)
        second = worker.job()
        for server in (None, calls, calls):
            answer, = worker.report(report(second, fail=pb.FailOutcome(error='no')), **({'calls': server} if server else {}))
            assert (answer.status, answer.state) == (OK, pb.JOB_STATE_FAILED), answer


def test_former_step_again():
    """the report of a step that went on is answered as before while the server has no next step to send: it is not taken for that one's"""
    with Database() as db, Served(db) as server, Worker(server.address) as worker:
        job_id, = enqueue(db)
        first = worker.job()
        same = report(first, next=pb.NextOutcome(step='two', machine_data=b'1'))
        running = (OK, pb.JOB_STATE_RUNNING)
        # Its end is asked for: the step goes on, and then the server cancels the machine, which takes until we let it.
        db.sql("""CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      PERFORM pg_advisory_xact_lock_shared(77); RETURN OLD; END $$;
                  CREATE TRIGGER hold BEFORE DELETE ON pawl.job FOR EACH ROW EXECUTE FUNCTION public.hold()""")
        with Holding(db, 'SELECT pg_advisory_lock(77)'):
            db.sql(f'SELECT pawl.cancel({job_id})')
            # Twice in one call, and once more.
            assert [(a.status, a.state) for a in worker.report(same, same)] == [running] * 2
            until(lambda: db.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted") == '1',
                  'the server is about to cancel it')
            assert [(a.status, a.state) for a in worker.report(same)] == [running]
            assert db.sql(f"SELECT step, pg_catalog.convert_from(state, 'UTF8') FROM pawl.machine WHERE job_id = {job_id}") == 'two|1'
        until(lambda: state(db, job_id) == 'cancelled', 'it is cancelled')


def test_await():
    """a step that awaits is woken by a signal and finds it, or finds that none came in time"""
    with Database() as db, Served(db) as server, server.calls() as calls, Worker(server.address) as worker:
        job_id, = enqueue(db)
        await_ = pb.AwaitOutcome(signals=['paid', 'refused'], step='ship', machine_data=b'1')
        assert go(worker, worker.job(), await_=await_) == pb.JOB_STATE_WAITING
        assert worker.idle(0.2) and state(db, job_id) == 'waiting'
        calls.Signal(job_id=job_id, name='paid', payload=b'{"eur":12.30}')
        job = worker.job()
        assert (job.step, job.machine_data, job.timed_out) == ('ship', b'1', False)
        signal, = job.signals
        assert signal.name == 'paid' and signal.payload in (b'{"eur":12.30}', b'{"eur": 12.30}') and signal.id > 0
        assert go(worker, job, await_=pb.AwaitOutcome(signals=['paid'], step='late', timeout_ms=200)) == pb.JOB_STATE_WAITING
        job = worker.job()
        assert (job.step, job.timed_out, len(job.signals)) == ('late', True, 0)
        answer, = worker.report(report(job, await_=pb.AwaitOutcome(signals=[], step='x')))
        assert answer.status == pb.ITEM_STATUS_INVALID and 'signal' in answer.error
        answer, = worker.report(report(job, await_=pb.AwaitOutcome(signals=['a'], step='x', timeout_step='y')))
        assert answer.status == pb.ITEM_STATUS_INVALID and 'timeout_step is y' in answer.error
        go(worker, job, done=pb.DoneOutcome())


def test_await_elsewhere():
    """a step that is reported to another server consumes the signals it was shown, and none that came later"""
    with Database() as db, Served(db) as one, Served(db) as two, two.calls() as calls:
        worker = Worker(one.address)
        job_id, = enqueue(db)
        go(worker, worker.job(), await_=pb.AwaitOutcome(signals=['s'], step='a'))
        calls.Signal(job_id=job_id, name='s', payload=b'1')
        job = worker.job()
        assert [s.payload for s in job.signals] == [b'1']
        calls.Signal(job_id=job_id, name='s', payload=b'2')  # it runs, and is not shown this one
        worker.close()
        answer, = worker.report(report(job, signal_ids=[s.id for s in job.signals], await_=pb.AwaitOutcome(signals=['s'], step='b')),
                                calls=calls)
        assert (answer.status, answer.state) == (OK, pb.JOB_STATE_WAITING)
        with Worker(two.address) as again:
            job = again.job()
            assert job.step == 'b' and [s.payload for s in job.signals] == [b'2']
            go(again, job, done=pb.DoneOutcome())


def test_spawn():
    """a step that spawns goes on with the results of its children, or with as many as it wanted"""
    with Database() as db, Served(db) as server, Worker(server.address, kinds=['parent']) as parent, \
            Worker(server.address, kinds=['child'], credits=3, queues=['default', 'kids']) as child:
        job_id, = enqueue(db, kind='parent')
        children = [pb.Child(job=pb.NewJob(kind='child', payload=b'%d' % i, queue='kids' if i else '')) for i in range(3)]
        assert go(parent, parent.job(), spawn=pb.SpawnOutcome(children=children, step='join')) == pb.JOB_STATE_WAITING
        jobs = sorted((child.job() for _ in range(3)), key=lambda j: j.payload)
        assert [(j.payload, j.queue) for j in jobs] == [(b'0', 'default'), (b'1', 'kids'), (b'2', 'kids')]
        child.done(jobs[0], b'{"n":0}')
        child.done(jobs[1], b'[1]')
        assert parent.idle(0.2)
        go(child, jobs[2], fail=pb.FailOutcome(error='broken'))
        job = parent.job()
        assert job.step == 'join' and job.children_left == 0
        found = {c.job_id: (c.state, c.result, c.error, c.kind) for c in job.children}
        assert found == {jobs[0].job_id: (pb.JOB_STATE_DONE, b'{"n":0}', '', 'child'),
                         jobs[1].job_id: (pb.JOB_STATE_DONE, b'[1]', '', 'child'),
                         jobs[2].job_id: (pb.JOB_STATE_FAILED, b'', 'broken', 'child')}, found
        go(parent, job, spawn=pb.SpawnOutcome(children=children, step='quorum', quorum=1, cancel=True))
        jobs = [child.job() for _ in range(3)]
        child.done(jobs[0], b'"first"')
        job = parent.job()
        assert job.step == 'quorum' and job.children_left == 2 and len(job.children) == 1
        go(parent, job, done=pb.DoneOutcome())
        cancelled = {child.word('cancel_run').job_id for _ in range(2)}
        assert cancelled == {j.job_id for j in jobs[1:]}
        child.report(*(report(j, cancel=pb.CancelOutcome()) for j in jobs[1:]))
        assert state(db, job_id) == 'done'
        named = pb.SpawnOutcome(children=[pb.Child(name='n', job=pb.NewJob(kind='child'))], step='x')
        enqueue(db, kind='parent')
        answer, = parent.report(report(parent.job(), spawn=named))
        assert answer.status == pb.ITEM_STATUS_INVALID and 'children have no names' in answer.error


def test_giant():
    """a job that has grown too large for a message fails and says so; the worker's stream and its other jobs go on"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=2) as worker:
        job_id = int(db.sql("SELECT pawl.enqueue('k', bytes => pg_catalog.convert_to(pg_catalog.repeat('x', 16777216), 'UTF8'))"))
        job = worker.job()
        assert len(job.payload) == 16777216  # as it is, it fits
        other, = enqueue(db)
        also = worker.job()
        go(worker, job, next=pb.NextOutcome(step='read', delay_ms=3600000))
        # Children leave it four megabytes of results.
        db.sql(f"""INSERT INTO pawl.child (parent_id, child_id, kind, state, result)
                   SELECT {job_id}, 1000 + n, 'c', 'done', convert_to(to_json(repeat('y', 65000))::text, 'UTF8')
                   FROM generate_series(1, 64) AS n;
                   UPDATE pawl.machine SET children_left = 0 WHERE job_id = {job_id};
                   UPDATE pawl.job SET due_at = now() WHERE id = {job_id}""")
        until(lambda: state(db, job_id) == 'failed', 'it is failed')
        assert 'too large' in db.sql(f'SELECT errors FROM pawl.history WHERE id = {job_id}')
        assert go(worker, also, done=pb.DoneOutcome()) == pb.JOB_STATE_DONE and also.job_id == other
        enqueue(db)
        assert go(worker, worker.job(), done=pb.DoneOutcome()) == pb.JOB_STATE_DONE
        assert not worker.over.is_set() and worker.idle(0.1)


def test_many_signals():
    """signals that are more than a step is shown come with the steps that follow; an inbox that is full refuses more"""
    with Database() as db, Served(db) as server, server.calls() as calls, Worker(server.address) as worker:
        job_id = int(db.sql("SELECT pawl.enqueue('k', bytes => pg_catalog.convert_to(pg_catalog.repeat('x', 16777216), 'UTF8'))"))
        job = worker.job()
        megabyte = b'"' + b'y' * 1000000 + b'"'
        for _ in range(8):
            calls.Signal(job_id=job_id, name='s', payload=megabyte)
        status, text = calls.code('Signal', job_id=job_id, name='s', payload=megabyte)
        assert status == 'RESOURCE_EXHAUSTED' and f'the inbox of job {job_id} is full' in text and 'the limits are' in text, (status, text)
        for n in range(8):
            go(worker, job, await_=pb.AwaitOutcome(signals=['s'], step=f'take{n}'))
            job = worker.job()
            assert [s.payload for s in job.signals] == [megabyte]
        assert go(worker, job, done=pb.DoneOutcome()) == pb.JOB_STATE_DONE


def test_unclaimable():
    """a job that cannot be claimed is parked with the reason, and the other jobs of its queue reach the worker"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        ids = [enqueue(db)[0] for _ in range(30)]
        bad = ids[10]
        db.sql(f"""CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      RAISE EXCEPTION 'the row is damaged' USING ERRCODE = '22000'; END $$;
                  CREATE TRIGGER poison BEFORE UPDATE ON pawl.job FOR EACH ROW
                      WHEN (old.token IS NULL AND new.token IS NOT NULL AND new.id = {bad}) EXECUTE FUNCTION public.poison()""")
        with Worker(server.address, credits=20) as worker:
            for _ in range(29):
                worker.done(worker.job())
            until(lambda: state(db, bad) == 'parked', 'it is parked')
        assert calls.GetJob(job_id=bad).job.state == pb.JOB_STATE_PARKED
        assert 'it cannot be claimed: the row is damaged' in db.sql(f'SELECT errors FROM pawl.job WHERE id = {bad}')


def test_lanes():
    """jobs of one lane come one after the other, whoever runs them"""
    with Database() as db, Served(db) as server, Worker(server.address, credits=4) as worker:
        ids = [enqueue(db, more=", lane => 'l'")[0] for _ in range(4)]
        for expected in ids:
            job = worker.job()
            assert (job.job_id, job.lane) == (expected, 'l') and worker.idle(0.05)
            start = time.monotonic()
            worker.done(job)
            assert time.monotonic() - start < TIMEOUT_S / 2


if __name__ == '__main__':
    run(globals())
