"""Looking at jobs and queues, signals and cancelling, as clients of the server see them."""

import time

from harness import TIMEOUT_S, run, until
from served import Database, Holding, Served, payload, pb

FAILED_ERRORS = '[{"attempt": 1, "at": "2026-01-02T03:04:05.5+00:00", "class": "transient", "error": "first \\"one\\""},' \
                ' {"attempt": 2, "at": "2026-01-02T03:04:06+00:00", "class": "permanent", "error": "second"}]'


def finish(db, job, state, errors='[]', result='NULL'):
    """A job that has ended, without anybody having run it."""
    db.sql(f"""WITH gone AS (DELETE FROM pawl.job WHERE id = {job} RETURNING *)
               INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt,
                                         max_attempts, priority, queue, kind, worker, payload, result, errors)
               SELECT id, created_at, due_at, now(), now(), current_date + 7, '{state}', 2, max_attempts, priority, queue,
                      kind, 'worker 1', payload, {result}, '{errors}' FROM gone""")


def test_get_job():
    """GetJob shows a live job, a finished one with its result and errors, and says when there is none"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        a, b = (x.job_id for x in calls.Enqueue(jobs=[pb.NewJob(kind='a', payload=b'[1]'), pb.NewJob(kind='b')]).accepted)
        finish(db, a, 'failed', FAILED_ERRORS, "'\\x0102'")
        job = calls.GetJob(job_id=a).job
        assert job.state == pb.JOB_STATE_FAILED and job.result == b'\x01\x02' and job.payload == b'[1]'
        assert [(e.attempt, e.error_class, e.error) for e in job.errors] == [
            (1, 'transient', 'first "one"'), (2, 'permanent', 'second')]
        assert job.errors[0].at_us == 1767323045500000
        assert job.worker_id == 'worker 1' and job.attempt == 2 and job.finished_at_us > job.created_at_us > 0
        assert calls.GetJob(job_id=b).job.finished_at_us == 0
        db.sql(f"""UPDATE pawl.job SET has_options = true WHERE id = {b};
                   INSERT INTO pawl.job_option (job_id, progress) VALUES ({b}, '40% half way')""")
        progress = calls.GetJob(job_id=b).job.progress
        assert (progress.percent, progress.note) == (40, 'half way')
        assert calls.code('GetJob', job_id=4711)[0] == 'NOT_FOUND'
        assert calls.code('GetJob', job_id=-1)[0] == 'INVALID_ARGUMENT'


def test_list_jobs():
    """ListJobs gives pages, newest first, by queue, kind, state and tags"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        ids = [x.job_id for x in calls.Enqueue(jobs=[
            pb.NewJob(kind='even' if i % 2 == 0 else 'odd', queue='a' if i < 10 else 'b', tags=['all', f't{i}'])
            for i in range(25)]).accepted]
        finish(db, ids[0], 'failed', FAILED_ERRORS)

        seen, page = [], ''
        while True:
            answer = calls.ListJobs(limit=10, page=page)
            assert len(answer.jobs) <= 10
            seen += [j.job_id for j in answer.jobs]
            page = answer.next_page
            if not page:
                break
        assert seen == ids[::-1]
        assert len(calls.ListJobs(queue='b').jobs) == 15 and calls.ListJobs(queue='b').next_page == ''
        assert len(calls.ListJobs(queue='a', kind='odd').jobs) == 5
        assert [j.job_id for j in calls.ListJobs(tags=['all', 't3']).jobs] == [ids[3]]
        assert list(calls.ListJobs(tags=['t3']).jobs[0].tags) == ['all', 't3']
        failed = calls.ListJobs(states=[pb.JOB_STATE_FAILED, pb.JOB_STATE_CANCELLED]).jobs
        assert [j.job_id for j in failed] == [ids[0]] and [e.error for e in failed[0].errors] == ['second']
        assert len(calls.ListJobs(states=[pb.JOB_STATE_READY]).jobs) == 24
        for fields, name in (({'limit': 1001}, 'limit'), ({'page': 'x'}, 'page'), ({'states': [0]}, 'states'),
                             ({'queue': 'a b'}, 'queue'), ({'kind': 'a b'}, 'kind'), ({'states': [77]}, 'states')):
            status, text = calls.code('ListJobs', **fields)
            assert status == 'INVALID_ARGUMENT' and name in text, (fields, status, text)


def test_signal():
    """a signal reaches a job that waits for it, once for a key, and says whether it woke it"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        job = calls.Enqueue(jobs=[pb.NewJob(kind='m')]).accepted[0].job_id
        assert not calls.Signal(job_id=job, name='early').woken
        db.sql(f"""UPDATE pawl.job SET waits_for = 'signal', due_at = 'infinity' WHERE id = {job} AND is_machine;
                   UPDATE pawl.machine SET awaits = '{{paid}}' WHERE job_id = {job}""")
        assert not calls.Signal(job_id=job, name='other', payload=b'1').woken
        assert calls.GetJob(job_id=job).job.state == pb.JOB_STATE_WAITING
        assert calls.Signal(job_id=job, name='paid', payload=payload({'by': 'me'}), idempotency_key='k').woken
        assert not calls.Signal(job_id=job, name='paid', payload=payload({'by': 'me'}), idempotency_key='k').woken
        assert calls.GetJob(job_id=job).job.state == pb.JOB_STATE_READY
        assert db.sql('SELECT name, key, payload FROM pawl.signal ORDER BY id') == \
            'early||{}\nother||1\npaid|k|{"by": "me"}'
        for fields, status in (({'name': 'a b'}, 'INVALID_ARGUMENT'), ({'payload': b'{'}, 'INVALID_ARGUMENT'),
                               ({'payload': b'"\\u0000"'}, 'INVALID_ARGUMENT'), ({'job_id': 99}, 'NOT_FOUND'),
                               ({'idempotency_key': 'k' * 2000}, 'INVALID_ARGUMENT')):
            assert calls.code('Signal', **{'job_id': job, 'name': 'paid', **fields})[0] == status, fields
        finish(db, job, 'done')
        assert calls.code('Signal', job_id=job, name='paid')[0] == 'FAILED_PRECONDITION'


def test_cancel():
    """each job of a Cancel call has an answer of its own, in the order of the call"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        a, b, c, d = (x.job_id for x in calls.Enqueue(jobs=[pb.NewJob(kind='k') for _ in range(4)]).accepted)
        finish(db, b, 'done')
        token = 'c0ffee00-0000-4000-8000-000000000000'
        db.sql(f"""INSERT INTO pawl.claim (token, worker, lease_until, job_ids)
                   VALUES ('{token}', '{token}', now() + interval '1 hour', '{{{c}}}');
                   UPDATE pawl.job SET token = '{token}', attempt = 1 WHERE id = {c}""")
        answers = calls.Cancel(job_ids=[d, 999, a, b, c, a], reason='too late').answers
        assert [(x.job_id, x.status, x.state) for x in answers] == [
            (d, pb.ITEM_STATUS_OK, pb.JOB_STATE_CANCELLED),
            (999, pb.ITEM_STATUS_NOT_FOUND, 0),
            (a, pb.ITEM_STATUS_OK, pb.JOB_STATE_CANCELLED),
            (b, pb.ITEM_STATUS_WRONG_STATE, pb.JOB_STATE_DONE),
            (c, pb.ITEM_STATUS_OK, pb.JOB_STATE_RUNNING),
            (a, pb.ITEM_STATUS_OK, pb.JOB_STATE_CANCELLED)]
        again = calls.Cancel(job_ids=[a, c]).answers
        assert [x.status for x in again] == [pb.ITEM_STATUS_OK] * 2
        assert 'too late' in db.sql(f'SELECT cancel_by FROM pawl.history WHERE id = {a}')
        assert calls.code('Cancel')[0] == 'INVALID_ARGUMENT'
        assert calls.code('Cancel', job_ids=range(1, 1002))[0] == 'INVALID_ARGUMENT'


def test_queues():
    """queues are paused and resumed, one or all, and Stats counts their jobs"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='k', queue='a'), pb.NewJob(kind='k', queue='a', delay_ms=60000),
                            pb.NewJob(kind='k', queue='b')])
        db.sql("UPDATE pawl.job SET waits_for = 'signal', due_at = 'infinity' WHERE queue = 'b'")
        assert not calls.PauseQueue(queue='a', reason='repairs').was_paused
        assert calls.PauseQueue(queue='a').was_paused
        assert 'repairs' in db.sql("SELECT paused_by FROM pawl.queue WHERE name = 'a'")
        stats = calls.Stats()
        counts = {q.queue: ({s.state: s.jobs for s in q.counts}, q.paused) for q in stats.queues}
        assert counts['a'] == ({pb.JOB_STATE_READY: 1, pb.JOB_STATE_SCHEDULED: 1}, True), counts
        assert counts['b'] == ({pb.JOB_STATE_WAITING: 1}, False), counts
        assert stats.uptime_ms >= 0 and [q.queue for q in calls.Stats(queues=['b']).queues] == ['b']
        until(lambda: calls.Stats(queues=['a']).queues[0].oldest_due_ms > 0, 'the ready job grows older')
        assert calls.ResumeQueue(queue='a').was_paused and not calls.ResumeQueue(queue='a').was_paused
        assert not calls.PauseQueue(queue='*').was_paused and calls.GetJob(job_id=1).job.queue_paused
        assert calls.ResumeQueue(queue='*').was_paused
        for name in ('PauseQueue', 'ResumeQueue'):
            status, text = calls.code(name, queue='a b')
            assert status == 'INVALID_ARGUMENT' and 'queue' in text
        assert calls.code('Stats', queues=['a b'])[0] == 'INVALID_ARGUMENT'


def test_slow_database():
    """a call ends at its deadline, or after a moment at a lock, though the database has not answered; others go on"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        job = calls.Enqueue(jobs=[pb.NewJob(kind='k')]).accepted[0].job_id
        with Holding(db, 'LOCK TABLE pawl.signal IN ACCESS EXCLUSIVE MODE'):
            status, text = calls.code('Signal', job_id=job, name='s')
            assert status == 'ABORTED' and 'nothing was done' in text, (status, text)
            assert calls.GetJob(job_id=job).job.kind == 'k'
        with Holding(db, f'SELECT FROM pawl.job WHERE id = {job} FOR UPDATE'):
            assert calls.code('Signal', job_id=job, name='s')[0] == 'ABORTED'
        with Holding(db, 'LOCK TABLE pawl.queue IN ACCESS EXCLUSIVE MODE'):
            slow = calls.later('Stats')
            before = time.monotonic()
            assert calls.code('Stats', timeout=0.5)[0] == 'DEADLINE_EXCEEDED'
            assert time.monotonic() - before < TIMEOUT_S / 2
            assert calls.code('Signal', job_id=job, name='s')[0] == 'OK'  # not behind the one that reads much
        assert slow.result().queues[0].queue == 'default'


run(globals())
