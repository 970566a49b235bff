"""Who may call the server: access tokens, their scopes and queues, their end, and where it listens at all."""

import base64
import os
import subprocess
import tempfile
import time

import grpc

from harness import TIMEOUT_S, patiently, run, until
import health_pb2 as health
from served import Calls, Database, Holding, Served, pb, refused_to_start
from streaming import Worker, report

ONE = [pb.NewJob(kind='k', queue='a')]


def test_without_token():
    """a call without a token, with a wrong one, or with none of the form is refused; health is open"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        good = db.token('good', '--scope', 'enqueue')
        with server.calls() as calls:
            status, text = calls.code('Enqueue', jobs=ONE)
            assert status == 'UNAUTHENTICATED' and 'authorization' in text
            check = calls.channel.unary_unary('/grpc.health.v1.Health/Check',
                                              request_serializer=health.HealthCheckRequest.SerializeToString,
                                              response_deserializer=health.HealthCheckResponse.FromString)
            assert check(health.HealthCheckRequest(), timeout=TIMEOUT_S).status in (1, 2)
        flipped = good[:-1] + ('A' if good[-1] != 'A' else 'B')
        for wrong in ('x', good[5:], good + 'x', good.upper(), flipped, 'pawl_' + 'A' * 43, good[:-1]):
            with server.calls(wrong) as calls:
                status, text = calls.code('Enqueue', jobs=ONE)
                assert status == 'UNAUTHENTICATED', (wrong, status)
                assert wrong not in text or wrong == 'x'
        with server.calls(good) as calls:
            calls.Enqueue(jobs=ONE)
        assert db.sql('SELECT count(*) FROM pawl.job') == '1'
        assert len(base64.urlsafe_b64decode(good[len('pawl_'):] + '=')) == 32
        # Only the hash is there.
        assert good not in db.sql('SELECT * FROM pawl.access') and good[5:] not in db.sql('SELECT * FROM pawl.access')


def test_scopes():
    """a token does what its scopes say, and nothing else; admin does everything"""
    can = {
        'enqueue': {'Enqueue', 'Signal', 'Cancel'},
        'work': {'Heartbeat', 'ReportResult'},
        'read': {'GetJob', 'ListJobs', 'Stats'},
        'admin': {'Enqueue', 'Signal', 'Cancel', 'Heartbeat', 'ReportResult', 'GetJob', 'ListJobs', 'Stats', 'PauseQueue',
                  'ResumeQueue'},
    }
    fields = {'Enqueue': {'jobs': ONE}, 'Signal': {'job_id': 1, 'name': 's'}, 'Cancel': {'job_ids': [99]},
              'GetJob': {'job_id': 1}, 'ListJobs': {}, 'Stats': {}, 'PauseQueue': {'queue': 'p'},
              'ResumeQueue': {'queue': 'p'}, 'Heartbeat': {'worker_id': 'w'}, 'ReportResult': {'worker_id': 'w'}}
    with Database() as db, Served(db, '--tokens', 'required') as server:
        db.pawl('enqueue', 'k')
        for scope, allowed in can.items():
            with server.calls(db.token(scope, '--scope', scope)) as calls:
                for name, values in fields.items():
                    status, text = calls.code(name, **values)
                    if name in allowed:
                        assert status not in ('UNAUTHENTICATED', 'PERMISSION_DENIED'), (scope, name, status, text)
                    else:
                        assert status == 'PERMISSION_DENIED' and scope in text, (scope, name, status, text)


def test_queues():
    """a token for some queues sees and touches nothing of the others"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        ours = db.token('ours', '--scope', 'admin', '--queue', 'a', '--queue', 'team-*')
        with server.calls(db.token('all', '--scope', 'admin')) as every, server.calls(ours) as calls:
            mine, theirs = (x.job_id for x in every.Enqueue(jobs=[pb.NewJob(kind='k', queue='a'),
                                                                  pb.NewJob(kind='k', queue='b')]).accepted)
            calls.Enqueue(jobs=[pb.NewJob(kind='k', queue='team-x')])
            status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k', queue='a'), pb.NewJob(kind='k', queue='b')])
            assert status == 'PERMISSION_DENIED' and '"b"' in text
            assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'PERMISSION_DENIED'  # default
            assert calls.GetJob(job_id=mine).job.queue == 'a'
            assert calls.code('GetJob', job_id=theirs) == (
                'NOT_FOUND', calls.code('GetJob', job_id=4711)[1].replace('4711', str(theirs)))
            assert calls.code('Signal', job_id=theirs, name='s')[0] == 'NOT_FOUND'
            assert calls.code('Signal', job_id=mine, name='s')[0] == 'OK'
            answers = calls.Cancel(job_ids=[theirs, mine]).answers
            assert [a.status for a in answers] == [pb.ITEM_STATUS_NOT_FOUND, pb.ITEM_STATUS_OK]
            assert every.GetJob(job_id=theirs).job.state == pb.JOB_STATE_READY
            assert calls.code('ListJobs')[0] == 'PERMISSION_DENIED'
            assert calls.code('ListJobs', queue='b')[0] == 'PERMISSION_DENIED'
            assert [j.job_id for j in calls.ListJobs(queue='a').jobs] == [mine]
            assert {q.queue for q in calls.Stats().queues} == {'team-x'}
            assert calls.code('Stats', queues=['b'])[0] == 'PERMISSION_DENIED'
            assert calls.code('PauseQueue', queue='*')[0] == 'PERMISSION_DENIED'
            assert calls.code('PauseQueue', queue='b')[0] == 'PERMISSION_DENIED'
            assert calls.code('PauseQueue', queue='a')[0] == 'OK'
            stream = calls.stream(queues=['b'], kinds=['k'], worker_id='w', credits=1)
            assert failure(stream) == grpc.StatusCode.PERMISSION_DENIED


def failure(stream):
    """The status with which a stream ends."""
    try:
        for _ in stream:
            pass
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_revoked():
    """a revoked token is refused within about a second, and its open streams end, but not those of others"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        token, other = db.token('one', '--scope', 'admin'), db.token('two', '--scope', 'work')
        with server.calls(token) as calls, server.calls(other) as others:
            stream = calls.stream(queues=['a'], kinds=['k'], worker_id='w1', credits=1)
            stays = others.stream(queues=['a'], kinds=['k'], worker_id='w2', credits=1)
            assert next(stream).HasField('opened') and next(stays).HasField('opened')
            calls.Enqueue(jobs=[pb.NewJob(kind='other', queue='a')])
            db.pawl('token', 'revoke', 'one')
            before = time.monotonic()
            assert failure(stream) == grpc.StatusCode.UNAUTHENTICATED
            assert time.monotonic() - before < 20  # it was told: by itself it looks every thirty seconds
            assert calls.code('Enqueue', jobs=ONE)[0] == 'UNAUTHENTICATED'
            assert others.code('Heartbeat', worker_id='w2')[0] == 'OK'
            assert not stays.done()
            stays.cancel()
        # A name is free again, and the new token is another one.
        assert db.token('one', '--scope', 'read') != token
        with server.calls(token) as calls:
            assert calls.code('Stats')[0] == 'UNAUTHENTICATED'


def test_revoked_with_jobs():
    """jobs of a worker whose token is revoked keep their leases: one with a new token goes on with them, others get the rest"""
    with Database() as db, Served(db, '--tokens', 'required', '--lease', '10s') as server:
        old, new = (db.token(name, '--scope', 'work', '--queue', 'a') for name in ('old', 'new'))
        for _ in range(2):
            db.pawl('enqueue', 'k', '--queue', 'a')
        with Worker(server.address, queues=['a'], token=old, credits=2) as worker:
            first, second = worker.job(), worker.job()
            assert not worker.beat(first, second).lost_job_ids
            db.pawl('token', 'revoke', 'old')
            assert worker.over.wait(TIMEOUT_S) and worker.ended == grpc.StatusCode.UNAUTHENTICATED, worker.ended
            assert worker.calls.code('ReportResult', worker_id=worker.id, reports=[report(first, done=pb.DoneOutcome())])[0] \
                == 'UNAUTHENTICATED'
            assert worker.calls.code('Heartbeat', worker_id=worker.id, running=[
                pb.RunningJob(job_id=second.job_id, token=second.token)])[0] == 'UNAUTHENTICATED'
            assert db.sql('SELECT count(*) FROM pawl.job WHERE token IS NOT NULL') == '2'
            with Worker(server.address, queues=['a'], token=new, worker_id=worker.id, running=[first], credits=2) as again:
                assert not again.opened.lost_job_ids
                assert again.done(first).status == pb.ITEM_STATUS_OK
                job = again.job()  # nobody has renewed it
                assert job.job_id == second.job_id
                assert again.done(job).status == pb.ITEM_STATUS_OK
        assert db.sql("SELECT count(*) FROM pawl.history WHERE state = 'done'") == '2'


def test_reports_of_what_it_may_not_see():
    """a report without a ticket does not tell whether there is a job in a queue that the token is not for"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        ids = [int(db.sql(f"SELECT pawl.enqueue('k', queue => '{queue}')")) for queue in ('a', 'b', 'b')]
        db.sql(f'SELECT pawl.cancel({ids[2]})')  # it is history
        with server.calls(db.token('t', '--scope', 'work', '--queue', 'a')) as calls:
            reports = [pb.Report(job_id=i, token=b'0' * 16, cancel=pb.CancelOutcome()) for i in (*ids, max(ids) + 1)]
            seen, *others = calls.ReportResult(worker_id='w', reports=reports).answers
            assert seen.status == pb.ITEM_STATUS_STALE, seen
            assert [(a.status, a.state, a.error) for a in others] == [
                (pb.ITEM_STATUS_NOT_FOUND, 0, 'there is no such job')] * 3, others


def test_children_in_other_queues():
    """a worker makes children only in queues that its token is for"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        token = db.token('one', '--scope', 'work', '--queue', 'a*')
        db.pawl('enqueue', 'k', '--queue', 'a')
        with Worker(server.address, queues=['a'], token=token) as worker:
            job = worker.job()

            def spawn(queue):
                child = pb.Child(job=pb.NewJob(kind='c', queue=queue))
                return worker.report(report(job, spawn=pb.SpawnOutcome(step='on', children=[child])))[0]

            answer = spawn('payroll')
            assert answer.status == pb.ITEM_STATUS_INVALID and 'payroll' in answer.error, answer
            assert db.sql("SELECT count(*) FROM pawl.job WHERE queue = 'payroll'") == '0'
            assert spawn('a2').status == pb.ITEM_STATUS_OK
            assert db.sql("SELECT count(*) FROM pawl.job WHERE queue = 'a2'") == '1'


def test_worker_id_of_another():
    """who knows the id of another client's worker cannot end its stream, nor have its jobs released"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        mine, other = db.token('one', '--scope', 'work', '--queue', 'a'), db.token('two', '--scope', 'work', '--queue', 'b')
        db.pawl('enqueue', 'k', '--queue', 'a')
        with Worker(server.address, queues=['a'], token=mine) as worker:
            job = worker.job()
            with Worker(server.address, queues=['b'], token=other, worker_id=worker.id, opened=False) as thief:
                assert thief.over.wait(TIMEOUT_S) and thief.ended == grpc.StatusCode.PERMISSION_DENIED, thief.ended
            with server.calls(other) as calls:
                calls.Heartbeat(worker_id=worker.id, left_stream=True)
            assert not worker.over.is_set()
            # Its stream has gone, and its job runs on.
            worker.stream.cancel()
            assert worker.over.wait(TIMEOUT_S)
            with server.calls(other) as calls:
                calls.Heartbeat(worker_id=worker.id, left_stream=True)
            assert worker.done(job).status == pb.ITEM_STATUS_OK


def test_expired():
    """a token that expires ends by itself, with its open streams"""
    def scene(seconds):
        with Database() as db, Served(db, '--tokens', 'required') as server:
            with server.calls(db.token('short', '--scope', 'work', '--expires', f'{seconds}s')) as calls:
                stream = calls.stream(queues=['a'], kinds=['k'], worker_id='w1', credits=1)
                assert next(stream).HasField('opened')
                before = time.monotonic()
                assert failure(stream) == grpc.StatusCode.UNAUTHENTICATED
                assert time.monotonic() - before < seconds + 13  # at its time, not at the next look
                assert calls.code('Heartbeat', worker_id='w1')[0] == 'UNAUTHENTICATED'
    patiently(scene, 2, 6, 12)


def test_no_statement_per_call():
    """calls with known tokens, and many with wrong ones, cost no look at the database"""
    def looks():
        return int(db.sql("SELECT coalesce(sum(seq_scan + idx_scan), 0) FROM pg_stat_user_tables "
                          "WHERE schemaname = 'pawl' AND relname = 'access'"))
    with Database() as db, Served(db, '--tokens', 'required') as server:
        start = time.monotonic()
        token = db.token('t', '--scope', 'admin')
        with server.calls(token) as calls:
            calls.Stats()
            for _ in range(200):
                calls.code('Heartbeat', worker_id='w')
        with server.calls('pawl_' + 'w' * 43) as calls:
            futures = [calls.later('Stats') for _ in range(300)]
            assert {f.code() for f in futures} == {grpc.StatusCode.UNAUTHENTICATED}
        refused = {why: server.metric('pawl_auth_refused_total{why="%s"}' % why, token) for why in ('wrong', 'limited')}
        seconds = time.monotonic() - start  # it looks once a second while there are some that it does not know
        assert refused['wrong'] <= 30 + seconds and sum(refused.values()) == 300, refused
        assert looks() < 30 + 2 * seconds, (looks(), seconds)
        # Those that are good are not locked out with those that are wrong.
        with server.calls(token) as calls:
            calls.Stats()


def test_database_away():
    """while the database cannot be asked, known tokens are still known, and unknown ones hear that it is not their fault"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        token = db.token('t', '--scope', 'admin')
        with server.calls(token) as calls, server.calls('pawl_' + 'w' * 43) as wrong:
            calls.Stats()
            with Holding(db, 'LOCK TABLE pawl.access IN ACCESS EXCLUSIVE MODE'):
                future = wrong.later('Stats')
                calls.Stats()
                assert future.code() == grpc.StatusCode.UNAVAILABLE, future.code()
            until(lambda: wrong.code('Stats')[0] == 'UNAUTHENTICATED', 'it is known again')


def test_metrics():
    """metrics need a token that may read everything, where tokens are asked for; calls are counted by token"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        read, some = db.token('reader', '--scope', 'read'), db.token('some', '--scope', 'read', '--queue', 'a')
        work = db.token('worker', '--scope', 'work')
        assert server.get('/health')[0] == 200
        assert server.get('/metrics')[0] == 401
        until(lambda: server.get('/metrics', read)[0] == 200, 'the token is known')
        for other in (some, work):  # it heard of each by itself
            until(lambda other=other: server.get('/metrics', other)[0] == 403, 'the token is known, and not enough')
        with server.calls(db.token('shop', '--scope', 'enqueue')) as calls:
            calls.Enqueue(jobs=ONE * 3)
            calls.code('Stats')
        assert server.metric('pawl_client_jobs_total{client="shop"}', read) == 3
        assert server.metric('pawl_client_calls_total{client="shop"}', read) == 2
        assert server.metric('pawl_client_denied_total{client="shop"}', read) == 1
    with Database() as db, Served(db) as server:
        assert server.get('/metrics')[0] == 200


def certificate(folder):
    key, cert = os.path.join(folder, 'key.pem'), os.path.join(folder, 'cert.pem')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
                    '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost', '-addext',
                    'subjectAltName=DNS:localhost,IP:127.0.0.1'], check=True, capture_output=True)
    return cert, key


def test_listening():
    """beyond this machine it listens only with TLS and tokens, or when it is told by name that it should not care"""
    with Database() as db, tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(folder)
        tls = ['--tls-cert', cert, '--tls-key', key]
        for args, word in (
                (['--listen', '0.0.0.0:0'], 'TLS'), (['--listen', '[::]:0'], 'TLS'),
                (['--listen', '127.0.0.1:0', '--listen', '0.0.0.0:0'], 'TLS'),
                (['--listen', '0.0.0.0:0', '--tokens', 'required'], 'TLS'),
                (['--listen', '0.0.0.0:0', '--tokens', 'off', *tls], 'asked who')):
            status, text = refused_to_start(db, *args)
            assert status == 6 and word in text and '--insecure-open' in text, (args, status, text)
        # With both: tokens are asked for without being told so, also on loopback.
        with Served(db, *tls, listen=('0.0.0.0:0',)) as server, open(cert, 'rb') as ca:
            port = server.address.rsplit(':', 1)[1]
            channel = grpc.secure_channel(f'localhost:{port}', grpc.ssl_channel_credentials(ca.read()))
            with Calls('localhost:1') as calls:
                calls.channel.close()
                calls.channel = channel
                assert calls.code('Stats')[0] == 'UNAUTHENTICATED'
                calls.metadata = [('authorization', 'Bearer ' + db.token('t', '--scope', 'read'))]
                assert calls.code('Stats')[0] == 'OK'
        with Served(db, '--insecure-open', listen=('0.0.0.0:0',)) as server:
            with Calls('127.0.0.1:' + server.address.rsplit(':', 1)[1]) as calls:
                assert calls.code('Stats')[0] == 'OK'
        path = os.path.join(folder, 's')
        with Served(db, listen=(f'unix:{path}',)), Calls(f'unix:{path}') as calls:
            assert calls.code('Stats')[0] == 'OK'
        with Served(db, '--tokens', 'required', listen=(f'unix:{path}',)), Calls(f'unix:{path}') as calls:
            assert calls.code('Stats')[0] == 'UNAUTHENTICATED'


run(globals())
