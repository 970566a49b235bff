"""Enqueue: every field is stored, wrong ones are named, producers share commits, and a repeated call has one effect."""

import threading
import time

import grpc

from harness import patiently, run, until
from served import SERVER_DB, Database, Holding, Served, payload, pb, psql

PRODUCERS = 256


def test_fields():
    """every field of a new job is stored"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        before = time.time()
        answer = calls.Enqueue(jobs=[
            pb.NewJob(kind='plain'),
            pb.NewJob(kind='rich', queue='mail', payload=payload({'a': 1}), priority=9, delay_ms=60_000, max_attempts=3,
                      timeout_ms=5000, unique_key='u', unique_for_ms=1000, lane='l', tags=['t1', 't2'], step='second',
                      trace='00-1-2-01', correlation='order 7', deadline_ms=3_600_000, retry='quadratic', retry_base_ms=10,
                      retry_cap_ms=20, unique_scope='queue', unique_states=['waiting', 'running']),
            pb.NewJob(kind='bytes', payload=b'\x00\xff', payload_is_bytes=True, priority=0,
                      due_at_us=int((before + 3600) * 1e6)),
            pb.NewJob(kind='nothing', payload_is_bytes=True),
        ])
        ids = [a.job_id for a in answer.accepted]
        assert ids == sorted(set(ids)) and len(ids) == 4 and not any(a.existed for a in answer.accepted)

        plain, rich, data, nothing = (calls.GetJob(job_id=i).job for i in ids)
        assert (plain.queue, plain.payload, plain.priority, plain.state) == ('default', b'{}', 4, pb.JOB_STATE_READY)
        assert plain.max_attempts == 20
        assert (rich.queue, rich.kind, rich.priority, rich.max_attempts) == ('mail', 'rich', 9, 3)
        assert rich.payload == payload({'a': 1}) and rich.state == pb.JOB_STATE_SCHEDULED
        assert abs(rich.due_at_us / 1e6 - before - 60) < 30
        assert list(rich.tags) == ['t1', 't2'] and rich.lane == 'l' and rich.step == 'second'
        assert db.sql("SELECT timeout_ms, retry, retry_base_ms, retry_cap_ms, meta->>'trace', meta->>'correlation', "
                      f"deadline_at = created_at + interval '1 hour' FROM pawl.job JOIN pawl.job_option ON has_options AND job_id = id "
                      f'WHERE id = {ids[1]}') == \
            '5000|quadratic|10|20|00-1-2-01|order 7|t'
        assert db.sql(f'SELECT keep_ms FROM pawl.guard WHERE job_id = {ids[1]}') == '1000'
        assert data.payload == b'\x00\xff' and data.priority == 0
        assert data.due_at_us == int((before + 3600) * 1e6)
        assert nothing.payload == b''
        assert calls.GetJob(job_id=ids[1], without_data=True).job.payload == b''


def test_refusals():
    """what is wrong is refused with the name of its field, and nothing is accepted"""
    wrong = [
        ({}, 'kind'), ({'kind': 'bad kind'}, 'kind'), ({'kind': 'k', 'queue': '-q'}, 'queue'),
        ({'kind': 'k', 'queue': 'x' * 129}, 'queue'), ({'kind': 'k', 'payload': b'{'}, 'payload'),
        ({'kind': 'k', 'priority': 10}, 'priority'), ({'kind': 'k', 'delay_ms': -1}, 'delay_ms'),
        ({'kind': 'k', 'delay_ms': 1, 'due_at_us': 1}, 'due_at_us'), ({'kind': 'k', 'due_at_us': -5}, 'due_at_us'),
        ({'kind': 'k', 'due_at_us': 2 ** 62}, 'due_at_us'), ({'kind': 'k', 'max_attempts': 1001}, 'max_attempts'),
        ({'kind': 'k', 'timeout_ms': 2 ** 40}, 'timeout_ms'), ({'kind': 'k', 'timeout_ms': -1}, 'timeout_ms'),
        ({'kind': 'k', 'unique_for_ms': 5}, 'unique_for_ms'), ({'kind': 'k', 'lane': 'a b'}, 'lane'),
        ({'kind': 'k', 'tags': ['a b']}, 'tags'), ({'kind': 'k', 'tags': ['t'] * 33}, 'tags'),
        ({'kind': 'k', 'step': 'a b'}, 'step'), ({'kind': 'k', 'retry': 'never'}, 'retry'),
        ({'kind': 'k', 'retry_base_ms': -1}, 'retry_base_ms'), ({'kind': 'k', 'retry_cap_ms': 2 ** 40}, 'retry_cap_ms'),
        ({'kind': 'k', 'deadline_ms': -1}, 'deadline_ms'), ({'kind': 'k', 'unique_scope': 'x'}, 'unique_scope'),
        ({'kind': 'k', 'unique_states': ['done']}, 'unique_states'), ({'kind': 'k', 'on_conflict': 'x'}, 'on_conflict'),
        ({'kind': 'k', 'trace': 't' * 2000}, 'trace'), ({'kind': 'k', 'correlation': 'c' * 2000}, 'correlation'), ({'kind': 'k', 'unique_key': 'u' * 70000}, 'unique_key'),
    ]
    with Database() as db, Served(db) as server, server.calls() as calls:
        for fields, name in wrong:
            status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='fine'), pb.NewJob(**fields)])
            assert status == 'INVALID_ARGUMENT' and 'jobs[1]' in text and name in text, (fields, status, text)
        status, text = calls.code('Enqueue')
        assert (status, 'jobs' in text) == ('INVALID_ARGUMENT', True)
        status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k')] * 1001)
        assert (status, '1000' in text) == ('INVALID_ARGUMENT', True)
        status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k')], idempotency_key='x' * 300)
        assert (status, 'idempotency_key' in text) == ('INVALID_ARGUMENT', True)
        assert db.sql('SELECT count(*) FROM pawl.job') == '0'
        # \u0000 is JSON, and a payload is bytes: stored as it came.
        calls.Enqueue(jobs=[pb.NewJob(kind='k', payload=b'"\\u0000"')])


def in_parallel(calls, n, fields):
    """n calls at once; their answers."""
    futures = [calls.later('Enqueue', **fields(i)) for i in range(n)]
    return [f.result() for f in futures]


def test_shared_commits():
    """256 producers at once share a few commits, and each job is there once"""
    def scene(n):
        with Database() as db, Served(db) as server:
            producers = [server.calls() for _ in range(8)]
            try:
                producers[0].Enqueue(jobs=[pb.NewJob(kind='warm')])
                with Holding(db, 'LOCK TABLE pawl.job IN EXCLUSIVE MODE'):
                    futures = [producers[i % 8].later('Enqueue', jobs=[pb.NewJob(kind='k', payload=payload(i))])
                               for i in range(n)]
                    until(lambda: server.metric('pawl_rpc_started_total{method="pawl.v1.JobService/Enqueue"}') ==
                          n + 1, 'all calls have arrived')
                ids = [f.result().accepted[0].job_id for f in futures]
            finally:
                for p in producers:
                    p.channel.close()
            assert len(set(ids)) == n
            assert db.sql("SELECT count(*), count(DISTINCT payload) FROM pawl.job WHERE kind = 'k'") == f'{n}|{n}'
            # xmin is the transaction that wrote a row: two were under way when the lock came, one took the rest.
            assert int(db.sql("SELECT count(DISTINCT xmin::text) FROM pawl.job WHERE kind = 'k'")) <= 4
            assert server.metric('pawl_enqueue_commits_total{keys="no"}') <= 5
            assert server.metric('pawl_enqueue_jobs_total{keys="no"}') == n + 1
    patiently(scene, PRODUCERS, PRODUCERS, PRODUCERS // 2, PRODUCERS // 4)  # what is under way is given up after five seconds


def test_acknowledged_is_committed():
    """an answer comes after the commit: what was answered is seen by others at once"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        for i in range(20):
            job = calls.Enqueue(jobs=[pb.NewJob(kind='k')]).accepted[0].job_id
            assert db.sql(f'SELECT count(*) FROM pawl.job WHERE id = {job}') == '1'


def test_one_refused():
    """a call that the database refuses fails alone; those that shared its transaction do not"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        db.sql("ALTER TABLE pawl.job ADD CONSTRAINT no_seven CHECK (kind <> 'seven')")
        kinds = ['seven' if i in (7, 77) else 'k' for i in range(200)]
        futures = [calls.later('Enqueue', jobs=[pb.NewJob(kind=k), pb.NewJob(kind='with')]) for k in kinds]
        codes = [f.code() for f in futures]
        assert [c == grpc.StatusCode.OK for c in codes] == [k == 'k' for k in kinds], codes
        assert all(c == grpc.StatusCode.INVALID_ARGUMENT for c, k in zip(codes, kinds) if k == 'seven'), codes
        assert db.sql('SELECT count(*) FROM pawl.job') == '396'


def test_unique():
    """a unique key is held by one of many that ask at once, and all are told which"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        answers = in_parallel(calls, 50, lambda i: {'jobs': [pb.NewJob(kind='k', unique_key='same')]})
        assert len({a.accepted[0].job_id for a in answers}) == 1
        assert sum(not a.accepted[0].existed for a in answers) == 1
        assert db.sql('SELECT count(*) FROM pawl.job') == '1'

        job = {'kind': 'k', 'unique_key': 'same'}
        calls.Enqueue(jobs=[pb.NewJob(**job, on_conflict='replace', payload=b'[1]')])
        assert db.sql("SELECT convert_from(payload, 'UTF8') FROM pawl.job") == '[1]'
        assert calls.code('Enqueue', jobs=[pb.NewJob(**job, on_conflict='refuse')])[0] == 'ALREADY_EXISTS'
        # The key is one of queue and kind, unless it is said to be more.
        assert not calls.Enqueue(jobs=[pb.NewJob(kind='other', unique_key='same')]).accepted[0].existed
        assert not calls.Enqueue(jobs=[pb.NewJob(kind='a', unique_key='same', unique_scope='global')]).accepted[0].existed
        assert calls.Enqueue(jobs=[pb.NewJob(kind='b', unique_key='same', unique_scope='global')]).accepted[0].existed


def test_open_transaction():
    """a key that somebody's open transaction holds is refused after a moment, and others do not wait for it"""
    def scene(others):
        with Database() as db, Served(db) as server, server.calls() as calls:
            calls.Enqueue(jobs=[pb.NewJob(kind='plain')])  # connected
            with Holding(db, "SELECT pawl.enqueue('k', unique_key => 'held')"):
                held = calls.later('Enqueue', jobs=[pb.NewJob(kind='k', unique_key='held')])
                others = [calls.later('Enqueue', jobs=[pb.NewJob(kind='k', unique_key=f'u{i}')]) for i in range(others)]
                calls.Enqueue(jobs=[pb.NewJob(kind='plain')])
                assert not held.done()  # the plain one did not wait
                assert {f.code() for f in others} == {grpc.StatusCode.OK}
                assert held.code() == grpc.StatusCode.ABORTED and 'try again' in held.details()
            assert not calls.Enqueue(jobs=[pb.NewJob(kind='k', unique_key='held')]).accepted[0].existed
    patiently(scene, 20, 20, 10, 5, 1)  # a quarter of a second is all that it waits at a lock


def test_idempotency():
    """a call repeated with its key is answered as before and accepted once, also by another server and at once"""
    with Database() as db, Served(db) as one, Served(db) as two, one.calls() as calls, two.calls() as others:
        fields = {'jobs': [pb.NewJob(kind='k', payload=payload(i)) for i in range(3)], 'idempotency_key': 'order 1'}
        first = calls.Enqueue(**fields)
        assert others.Enqueue(**fields) == first and calls.Enqueue(**fields) == first
        assert db.sql('SELECT count(*) FROM pawl.job') == '3'

        futures = [(calls if i % 2 else others).later('Enqueue', jobs=[pb.NewJob(kind='at-once')], idempotency_key='2')
                   for i in range(60)]
        assert len({f.result().accepted[0].job_id for f in futures}) == 1
        assert db.sql("SELECT count(*) FROM pawl.job WHERE kind = 'at-once'") == '1'
        assert one.metric('pawl_enqueue_replays_total{keys="yes"}') > 0

        for other in ([pb.NewJob(kind='other')], fields['jobs'][:2], fields['jobs'] + [pb.NewJob(kind='k')],
                      [*fields['jobs'][:2], pb.NewJob(kind='k', payload=payload(7))]):
            status, text = calls.code('Enqueue', jobs=other, idempotency_key='order 1')
            assert (status, 'idempotency_key' in text) == ('INVALID_ARGUMENT', True), (other, status, text)
        assert db.sql("SELECT count(*) FROM pawl.job WHERE kind <> 'at-once'") == '3'
        # A key belongs to its queue.
        elsewhere = calls.Enqueue(jobs=[pb.NewJob(kind='k', queue='q')], idempotency_key='order 1')
        assert elsewhere.accepted[0].job_id > first.accepted[2].job_id

        # Unique keys that were taken are answered the same way again.
        fields = {'jobs': [pb.NewJob(kind='u', unique_key='x'), pb.NewJob(kind='u', unique_key='x')],
                  'idempotency_key': '3'}
        first = calls.Enqueue(**fields)
        assert [a.existed for a in first.accepted] == [False, True] and others.Enqueue(**fields) == first

        db.sql("UPDATE pawl.enqueue_key SET expires_at = now() - interval '1 second'")
        again = calls.Enqueue(jobs=[pb.NewJob(kind='at-once')], idempotency_key='2')
        assert again.accepted[0].job_id > first.accepted[0].job_id
        db.sql("UPDATE pawl.enqueue_key SET expires_at = now() - interval '1 second'")
        db.sql('SELECT pawl.serve_maintain()')
        assert db.sql('SELECT count(*) FROM pawl.enqueue_key') == '0'


def test_lost_connections():
    """connections lost under load: calls with a key are accepted exactly once, the others at most, and say so"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        stop = threading.Event()

        def terminate():
            while not stop.wait(0.1):
                db.sql(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{db.name}' "
                       "AND pid <> pg_backend_pid() AND query LIKE '%enqueue%'")

        thread = threading.Thread(target=terminate)
        thread.start()
        try:
            futures = []
            for i in range(240):
                futures.append((i, calls.later('Enqueue', jobs=[pb.NewJob(kind='keyed', payload=payload(i))],
                                               idempotency_key=str(i)),
                                calls.later('Enqueue', jobs=[pb.NewJob(kind='plain', payload=payload(i))])))
                if i % 30 == 29:
                    for _, a, b in futures[-30:]:
                        a.code(), b.code()
        finally:
            stop.set()
            thread.join()
        keyed, plain = set(), set()
        for i, a, b in futures:
            assert a.code() in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE), a.details()
            assert b.code() in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE), b.details()
            if a.code() != grpc.StatusCode.OK:
                calls.Enqueue(jobs=[pb.NewJob(kind='keyed', payload=payload(i))], idempotency_key=str(i))
            if b.code() == grpc.StatusCode.OK:
                plain.add(i)
            keyed.add(i)
        stored = db.sql("SELECT convert_from(payload, 'UTF8') FROM pawl.job WHERE kind = 'keyed'").split()
        assert sorted(map(int, stored)) == sorted(keyed)
        stored = db.sql("SELECT convert_from(payload, 'UTF8') FROM pawl.job WHERE kind = 'plain'").split()
        assert len(stored) == len(set(stored)) and plain <= set(map(int, stored))


def test_deadline():
    """a call whose deadline passes while it waits, or that is cancelled, is not accepted later"""
    def scene(seconds):
        with Database() as db, Served(db) as server, server.calls() as calls:
            calls.Enqueue(jobs=[pb.NewJob(kind='k')])
            with Holding(db, 'LOCK TABLE pawl.job IN EXCLUSIVE MODE'):
                flying = []
                for n in (1, 2):  # each in a flush of its own: as many as may be under way
                    flying.append(calls.later('Enqueue', jobs=[pb.NewJob(kind='flying')]))
                    until(lambda n=n: server.metric('pawl_rpc_started_total{method="pawl.v1.JobService/Enqueue"}') == n + 1
                          and server.metric('pawl_enqueue_waiting{keys="no"}') == 0, 'a flush is under way')
                late = [calls.later('Enqueue', timeout=seconds, jobs=[pb.NewJob(kind='late')]) for _ in range(50)]
                cancelled = calls.later('Enqueue', jobs=[pb.NewJob(kind='cancelled')])
                until(lambda: server.metric('pawl_enqueue_waiting{keys="no"}') >= 1, 'calls wait')
                cancelled.cancel()
                assert {f.code() for f in late} == {grpc.StatusCode.DEADLINE_EXCEEDED}
                until(lambda: server.metric('pawl_enqueue_waiting{keys="no"}') == 0, 'none waits any more')
            assert [f.code() for f in flying] == [grpc.StatusCode.OK] * 2
            assert db.sql("SELECT count(*) FROM pawl.job WHERE kind IN ('late', 'cancelled')") == '0'
    patiently(scene, 0.5, 0.5, 0.3, 1)  # what is under way is given up after five seconds


def test_no_answer():
    """a database that does not answer, or cannot be reached: the client is told what could not be done, in its own words"""
    def refused(calls, **fields):
        status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k')], **fields)
        assert status == 'UNAVAILABLE', (status, text)
        assert text.startswith('could not enqueue: the database did not answer in time; nothing was accepted'), text
        for name in ('tx_', 'job_', 'enqueue_key', 'canceling'):
            assert name not in text, text

    with Database() as db, Served(db) as server, server.calls() as calls:
        for key in ('', 'warm'):
            calls.Enqueue(jobs=[pb.NewJob(kind='k')], idempotency_key=key)
        with Holding(db, 'LOCK TABLE pawl.job'):
            refused(calls)
        psql(SERVER_DB, f'ALTER DATABASE {db.name} ALLOW_CONNECTIONS false')
        psql(SERVER_DB, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{db.name}'")
        for fields in ({}, {'idempotency_key': 'key'}):
            calls.code('Enqueue', jobs=[pb.NewJob(kind='k')], **fields)  # the loss itself may be what it hears of
            refused(calls, **fields)
        psql(SERVER_DB, f'ALTER DATABASE {db.name} ALLOW_CONNECTIONS true')


def test_large():
    """a large payload that is JSON is stored, one that is not is refused, and small calls do not wait for its check"""
    def scene(items):
        with Database() as db, Served(db) as server, server.calls() as calls, server.calls() as others:
            store_large(db, calls, others, payload([{'number': i, 'text': 'x' * 20} for i in range(items)]))
    patiently(scene, 250_000, 250_000, 50_000)  # a flush has five seconds


def store_large(db, calls, others, large):
    """The body of the test above."""
    assert 2 << 20 < len(large) < 16 << 20
    futures = [calls.later('Enqueue', jobs=[pb.NewJob(kind='small'), pb.NewJob(kind='large', payload=p)])
               for p in (large, large[:-1], large)]
    futures[2].cancel()
    others.Enqueue(jobs=[pb.NewJob(kind='quick')])
    assert futures[0].code() == grpc.StatusCode.OK
    assert futures[1].code() == grpc.StatusCode.INVALID_ARGUMENT and 'jobs[1].payload' in futures[1].details()
    job = futures[0].result().accepted[1].job_id
    assert db.sql(f'SELECT octet_length(payload) FROM pawl.job WHERE id = {job}') == str(len(large))
    status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k', payload=b'1' * ((16 << 20) + 1))])
    assert status == 'INVALID_ARGUMENT' and 'payload' in text, (status, text)


def test_bounded():
    """when the database stands still, calls that would take too much memory are refused, and the others are accepted later"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        calls.Enqueue(jobs=[pb.NewJob(kind='k')])
        with Holding(db, 'LOCK TABLE pawl.job IN EXCLUSIVE MODE'):
            large = b'x' * (15 << 20)
            job = pb.NewJob(kind='large', payload=large, payload_is_bytes=True)
            futures = [calls.later('Enqueue', jobs=[job]) for _ in range(12)]
            until(lambda: any(f.done() for f in futures), 'some are refused')
        codes = [f.code().name for f in futures]
        # What was under way when the database stood still for too long may have been given up.
        assert 'RESOURCE_EXHAUSTED' in codes and set(codes) <= {'OK', 'RESOURCE_EXHAUSTED', 'UNAVAILABLE'}, codes
        stored = int(db.sql("SELECT count(*) FROM pawl.job WHERE kind = 'large'"))
        assert codes.count('OK') <= stored <= codes.count('OK') + codes.count('UNAVAILABLE'), (stored, codes)
        until(lambda: calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK', 'it goes on')


run(globals())
