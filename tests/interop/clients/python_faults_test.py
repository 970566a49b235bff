"""The Python client under faults, with a real server: leases, restarts, kill -9, drain, TLS and tokens. usage:
python_faults_test.py ROOT"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import tap

try:
    import grpc  # noqa: F401
except ImportError:
    tap.skip_all('python3-grpcio is not installed')

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(sys.argv[1], 'clients', 'python')
sys.path.insert(0, PACKAGE)

import pawl
from live import TIMEOUT_S, Serve, Stage, patiently, until

STAGE = Stage('--lease', '60s')  # nobody loses a job because the machine is busy; what is about leases has a stage of its own


def with_leases(scene):
    """A scene about a lease that runs out, or does not, with a server whose leases are short; longer if need be."""

    def play(lease_s):
        global STAGE
        usual, STAGE = STAGE, Stage('--lease', f'{int(lease_s * 1000)}ms')
        try:
            with STAGE:
                scene(lease_s)
        finally:
            STAGE = usual

    patiently(play, 1.5, 5, 15)


COMMITTING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"

# A worker in a process of its own: says on standard output what it starts, and waits for a file to go on.
CHILD = '''
import os, sys, time, pawl
worker = pawl.Worker(sys.argv[1], concurrency=4)
@worker.handler('hold')
def hold(job):
    print('start', job.id, job.attempt, flush=True)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.005)
    return [os.getpid(), job.attempt]
worker.run()
print('end', flush=True)
'''


class Child:
    def __init__(self, gate):
        self.process = subprocess.Popen(
            [sys.executable, '-c', CHILD, STAGE.address, gate],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': PACKAGE},
        )

    def line(self):
        return self.process.stdout.readline().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def worker(**options):
    return pawl.Worker(STAGE.address, **options)


def client():
    return pawl.Client(STAGE.address, timeout=TIMEOUT_S)


def count(what):
    return int(STAGE.database.sql(f'SELECT count(*) FROM pawl.jobs WHERE {what}'))


def test_lease():
    """a job that takes several leases is renewed and runs once"""

    def scene(lease_s):
        w, starts = worker(), []

        @w.handler('long')
        def long(job):
            starts.append(job.attempt)
            return job.cancelled.wait(lease_s * 2.5)

        with w, client() as c:
            view = c.wait(c.enqueue('long'), TIMEOUT_S)
            assert view.result is False and starts == [1] and view.errors == []

    with_leases(scene)


def restarted(how, jobs, seconds):
    """Jobs under way while the server is restarted: (how often each ran, the states)."""
    w, lock, runs = worker(concurrency=8), threading.Lock(), {}

    @w.handler('work')
    def work(job):
        with lock:
            runs[job.id] = runs.get(job.id, 0) + 1
        time.sleep(0.01)
        return job.payload

    with w, client() as c:
        ids = [a.id for a in c.enqueue_many([pawl.NewJob('work', n) for n in range(jobs)])]
        until(lambda: len(runs) > jobs / 5, 'some have run')
        STAGE.serve.restart(how)
        until(lambda: count(f"kind = 'work' AND state = 'done' AND id >= {ids[0]}") == jobs, 'all are done', seconds)
    return runs


def test_restart():
    """a server that is restarted in good order: nothing is lost, nothing runs twice"""
    runs = restarted(signal.SIGTERM, 300, TIMEOUT_S)
    assert len(runs) == 300 and set(runs.values()) == {1}, {job: n for job, n in runs.items() if n != 1}


def test_crash():
    """a server that is killed: nothing is lost, and what this worker ran is not run again"""
    runs = restarted(signal.SIGKILL, 300, 2 * TIMEOUT_S)  # a lease of 30 s, and a sweep
    assert len(runs) == 300 and set(runs.values()) == {1}, {job: n for job, n in runs.items() if n != 1}


def test_long_job_over_restart():
    """a job that runs while the server goes and comes keeps its claim, and its outcome counts"""
    w, started, go, starts = worker(), threading.Event(), threading.Event(), []

    @w.handler('bridge')
    def bridge(job):
        starts.append(job.attempt)
        started.set()
        assert go.wait(TIMEOUT_S)
        return job.stop_reason

    with w, client() as c:
        job = c.enqueue('bridge')
        assert started.wait(TIMEOUT_S)
        STAGE.serve.stop()
        go.set()  # it ends while there is nobody to tell
        STAGE.serve.start()
        view = c.wait(job, TIMEOUT_S)
        assert (view.state, view.result, starts) == ('done', None, [1]), (view, view.errors, starts)


def test_credits_over_restart():
    """a job that is taken along to the next stream takes its credit along: no other is assigned meanwhile"""
    w, go, starts = worker(concurrency=1), threading.Event(), []

    @w.handler('alone')
    def alone(job):
        starts.append(job.id)
        assert go.wait(TIMEOUT_S)

    with w, client() as c:
        jobs = [c.enqueue('alone'), c.enqueue('alone')]
        until(lambda: starts, 'the first one runs')
        STAGE.serve.restart()
        until(
            lambda: [one for one in c.stats().workers if one.worker_id == w.id and one.running == 1],
            'the server knows what it runs',
        )
        assert [c.get(job).state for job in jobs] == ['running', 'ready']
        go.set()
        assert [c.wait(job, TIMEOUT_S).state for job in jobs] == ['done', 'done'] and starts == jobs


def test_several_servers():
    """two servers that are restarted in turn: a worker goes from one to the other, nothing is lost, nothing runs
    twice"""
    other = Serve(STAGE.database, '--lease', '60s')
    try:
        both = f'ipv4:{STAGE.address},{other.address}'
        w, lock, runs = pawl.Worker(both, concurrency=8), threading.Lock(), {}

        @w.handler('rolling')
        def rolling(job):
            with lock:
                runs[job.id] = runs.get(job.id, 0) + 1
            time.sleep(0.02)

        with w, pawl.Client(both, timeout=TIMEOUT_S) as c:
            c.enqueue_many([pawl.NewJob('rolling') for _ in range(400)])
            for server in (STAGE.serve, other, STAGE.serve):
                seen = len(runs)
                until(lambda seen=seen: len(runs) > min(399, seen + 40), 'some have run')
                server.restart()
            until(lambda: count("kind = 'rolling' AND state = 'done'") == 400, 'all are done')
        assert len(runs) == 400 and set(runs.values()) == {1}, {job: n for job, n in runs.items() if n != 1}
    finally:
        other.process.kill()
        other.process.wait()
        other.process.stdout.close()


@contextlib.contextmanager
def held():
    """A worker in a process of its own runs a job for the first time: (client, job, worker, gate). Opening the gate lets it
    end."""
    with tempfile.TemporaryDirectory() as folder, client() as c:
        gate = os.path.join(folder, 'gate')
        with Child(gate) as one:
            job = c.enqueue('hold')
            assert one.line() == ['start', str(job), '1']
            yield c, job, one, gate


def let_go(gate):
    with open(gate, 'w', encoding='ascii'):
        pass


def test_takeover():
    """a worker that is killed: another one takes its job over, as the second attempt"""

    def scene(_lease_s):
        with held() as (c, job, one, gate):
            one.process.kill()
            with Child(gate) as other:
                assert other.line() == ['start', str(job), '2']
                let_go(gate)
                assert c.result(job, TIMEOUT_S) == [other.process.pid, 2]
                view = c.get(job)
                assert view.errors[0].error_class == 'lost', view.errors

    with_leases(scene)


def test_late_report():
    """a worker that was stopped beyond its lease learns that its job is lost, and its outcome counts for nothing"""

    def scene(_lease_s):
        with held() as (c, job, one, gate):
            one.process.send_signal(signal.SIGSTOP)
            with Child(gate) as other:
                assert other.line() == ['start', str(job), '2']
                let_go(gate)
                one.process.send_signal(signal.SIGCONT)
                assert c.result(job, TIMEOUT_S) == [other.process.pid, 2]
            one.process.send_signal(signal.SIGTERM)
            assert one.line() == ['end'] and one.process.wait(TIMEOUT_S) == 0
            assert c.get(job).result[1] == 2

    with_leases(scene)


def test_drain():
    """SIGTERM lets a worker finish what it runs, and take nothing more"""
    with held() as (c, job, one, gate):
        one.process.send_signal(signal.SIGTERM)
        until(lambda: not c.stats().workers, 'its stream has ended')
        other = c.enqueue('hold')
        let_go(gate)
        assert one.line() == ['end'] and one.process.wait(TIMEOUT_S) == 0
        assert c.get(job).state == 'done' and c.get(other).state == 'ready'
        c.cancel(other)


def test_shutdown():
    """handlers that do not end in time are told to stop, and their jobs are due again at once"""
    w, started, reasons = worker(drain=0.1), threading.Event(), []

    @w.handler('endless')
    def endless(job):
        started.set()
        assert job.cancelled.wait(TIMEOUT_S)
        reasons.append(job.stop_reason)
        job.check()

    with client() as c:
        with w:
            job = c.enqueue('endless')
            assert started.wait(TIMEOUT_S)
        view = c.get(job)
        assert reasons == ['shutdown'] and view.state == 'ready' and view.attempt == 1, (reasons, view)
        c.cancel(job)


def test_operator_drain():
    """pawl worker drain ends the worker when it has finished"""
    w, started, go = worker(), threading.Event(), threading.Event()

    @w.handler('last')
    def last(job):
        started.set()
        assert go.wait(TIMEOUT_S)

    with client() as c:
        w.start()
        job = c.enqueue('last')
        assert started.wait(TIMEOUT_S)
        subprocess.run(
            [os.environ['PAWL_TEST_BIN'], 'worker', 'drain', w.id],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, 'PAWL_DATABASE_URL': STAGE.database.url},
        )
        assert w._stopping.wait(TIMEOUT_S)
        go.set()
        assert w.join(TIMEOUT_S) and c.get(job).state == 'done'


def test_enqueue_over_stop():
    """a job that is being accepted when the server is told to stop is accepted once, and the client is told"""
    with Stage() as stage, open(os.path.join(HERE, 'node', 'gate.sql'), encoding='utf-8') as gate:
        sql, ids = stage.database.sql, []
        sql(gate.read())
        with pawl.Client(stage.address, timeout=20) as c:
            sql('INSERT INTO public.gate DEFAULT VALUES')
            thread = threading.Thread(target=lambda: ids.append(c.enqueue('k')))
            thread.start()
            until(lambda: sql(COMMITTING) != '0', 'it is being committed')
            stage.serve.process.send_signal(signal.SIGTERM)
            time.sleep(3)  # longer than closing connections takes, shorter than a server waits for a commit
            sql('DELETE FROM public.gate')
            thread.join(TIMEOUT_S)
            assert ids == [int(sql('SELECT id FROM pawl.job'))], ids
        assert stage.serve.stop() == 0


def test_no_server():
    """a worker waits for its server, and a producer says after its time that there is none"""
    address = STAGE.address
    STAGE.serve.stop()
    try:
        w = pawl.Worker(address)
        w.handle('late', lambda job: 'here')
        w.start()
        with pawl.Client(address, timeout=2) as c:
            try:
                c.enqueue('late')
            except pawl.UnavailableError as e:
                assert e.retryable and e.method == 'Enqueue'
            else:
                raise AssertionError('no error')
        assert not w.wait_connected(0)
    finally:
        STAGE.serve.start()
    with client() as c:
        assert c.result(c.enqueue('late'), TIMEOUT_S) == 'here'
    w.stop()


with STAGE:
    tap.run(globals(), sys.argv[2:])
