"""The Python client and a real server: outcomes, producers, machines, asyncio, TLS. usage: python_test.py ROOT"""

import asyncio
import os
import re
import sys
import threading
import time
import urllib.request
import uuid

import tap

try:
    import grpc  # noqa: F401
except ImportError:
    tap.skip_all('python3-grpcio is not installed')

sys.path.insert(0, os.path.join(sys.argv[1], 'clients', 'python'))

import pawl
from pawl.channel import Calls
from pawl.v1 import pawl_pb2 as pb
from live import TIMEOUT_S, Stage, until

STAGE = Stage('--lease', '60s')


def worker(**options):
    return pawl.Worker(STAGE.address, **{'lease': 60, **options})


def client():
    return pawl.Client(STAGE.address, timeout=TIMEOUT_S)


def ended(c, job):
    return c.wait(job, TIMEOUT_S)


def refused(call, error, code):
    try:
        call()
    except error as e:
        assert e.code == code and e.message and not e.retryable, e
    else:
        raise AssertionError(f'no {error.__name__}')


def test_values():
    """what a handler returns is the result: JSON, bytes, or nothing; payloads arrive as they were sent"""
    w, seen = worker(), []

    @w.handler('echo')
    def echo(job):
        seen.append((job.queue, job.attempt, job.priority, job.payload_bytes))
        return job.payload

    w.handle('raw', lambda job: job.payload_bytes)
    with w, client() as c:
        job = c.enqueue('echo', {'text': 'grüße', 'n': 2**60}, priority=9, tags=['a', 'b'])
        assert c.result(job, TIMEOUT_S) == {'text': 'grüße', 'n': 2**60}
        assert seen == [('default', 1, 9, '{"text":"grüße","n":1152921504606846976}'.encode())]
        view = c.get(job)
        assert (view.state, view.kind, view.tags, view.attempt) == ('done', 'echo', ['a', 'b'], 1) and view.worker_id
        raw = bytes(range(256)) * 2000  # half a MiB
        assert ended(c, c.enqueue('raw', raw)).result_bytes == raw
        large = {'x': 'y' * 5_000_000}
        assert len(ended(c, c.enqueue('echo', large)).errors) == 1  # its result is beyond a MiB


def test_outcomes():
    """every outcome leads where it should"""
    w = worker()

    @w.handler('say')
    def say(job):
        word = job.payload
        if word == 'retry' and job.attempt == 1:
            raise pawl.Retry('busy', delay=0)
        if word == 'raise' and job.attempt == 1:
            raise KeyError('name')
        if word == 'fail':
            raise pawl.PermanentError('never')
        if word == 'reject':
            return pawl.Reject('not 18')
        if word == 'cancel':
            raise pawl.Cancel('obsolete')
        if word == 'snooze' and time.monotonic() < soon:
            raise pawl.Snooze(0.05)
        if word == 'unserialisable':
            return object()
        return job.attempt

    soon = time.monotonic() + 0.3
    with w, client() as c:
        jobs = {
            word: c.enqueue('say', word)
            for word in ('retry', 'raise', 'fail', 'reject', 'cancel', 'snooze', 'unserialisable')
        }
        once = c.enqueue('say', 'raise', max_attempts=1)
        got = {word: ended(c, job) for word, job in jobs.items() if word != 'raise'}
        assert got['retry'].result == 2 and got['retry'].errors[0].error == 'busy'
        assert got['fail'].state == 'failed' and got['fail'].errors[0].error_class == 'permanent'
        assert (
            got['reject'].state == 'failed'
            and got['reject'].errors[0].error_class == 'business'
            and got['reject'].errors[0].error == 'not 18'
        )
        assert got['cancel'].state == 'cancelled'
        assert got['snooze'].result == 1
        assert got['unserialisable'].state == 'failed' and 'not repeated' in got['unserialisable'].errors[0].error
        assert ended(c, once).errors[0].error.startswith("KeyError: 'name'\n  at ")
        raised = ended(c, jobs['raise'])
        assert raised.result == 2 and raised.errors[0].error_class == 'transient'
        refused(lambda: c.cancel(jobs['fail']), pawl.StateError, 'FAILED_PRECONDITION')
        try:
            c.result(jobs['fail'])
        except pawl.JobFailedError as e:
            assert e.job.state == 'failed' and 'never' in str(e)
        else:
            raise AssertionError('no error')


def test_producer():
    """a producer's calls: many at once, keys that make them safe, looking, pausing, and errors that say what is
    wrong"""
    with client() as c:
        many = c.enqueue_many([pawl.NewJob('p', {'n': n}, queue='quiet', tags=['t']) for n in range(250)])
        assert len({a.id for a in many}) == 250 and not any(a.existed for a in many)
        again = [c.enqueue('p', queue='quiet', idempotency_key='key-1') for _ in range(3)]
        assert len(set(again)) == 1
        first = c.enqueue('p', queue='quiet', unique_key='u')
        assert c.enqueue_many([{'kind': 'p', 'queue': 'quiet', 'unique_key': 'u'}])[0] == pawl.Accepted(first, True)
        page = c.list(queue='quiet', tags=['t'], limit=100)
        assert len(page.jobs) == 100 and page.next_page and page.jobs[0].id == many[-1].id
        assert [job.id for job in c.list_all(queue='quiet', tags=['t'], limit=100)] == [a.id for a in reversed(many)]
        refused(
            lambda: c.enqueue('p', queue='quiet', unique_key='u', on_conflict='refuse'),
            pawl.ExistsError,
            'ALREADY_EXISTS',
        )
        later = c.enqueue(
            'p',
            queue='quiet',
            delay=3600,
            deadline=7200,
            correlation='order 7',
            trace='t',
            retry='quadratic',
            retry_base=5,
        )
        assert c.get(later).state == 'scheduled' and c.get(first).state == 'ready'
        assert c.cancel(first, 'not needed') == 'cancelled'
        assert c.cancel(first) == 'cancelled'
        refused(lambda: c.get(10**12), pawl.NotFoundError, 'NOT_FOUND')
        refused(lambda: c.cancel(10**12), pawl.NotFoundError, 'NOT_FOUND')
        refused(lambda: c.enqueue('no blanks'), pawl.InvalidError, 'INVALID_ARGUMENT')
        assert c.pause('quiet', 'by a test') is False and c.pause('quiet') is True
        assert c.get(later).queue_paused
        stats = {q.queue: q for q in c.stats().queues}['quiet']
        assert stats.paused and stats.counts['ready'] == 251 and stats.counts['scheduled'] == 1
        assert c.resume('quiet') is True and c.resume('quiet') is False
        try:
            c.wait(later, timeout=0.1)
        except pawl.WaitTimeoutError:
            pass
        else:
            raise AssertionError('it has not ended')


def test_cancel():
    """a job that is cancelled while it runs is told so, in a thread and in a coroutine"""
    w, reasons, started = worker(), [], threading.Semaphore(0)

    @w.handler('slow')
    def slow(job):
        started.release()
        assert job.cancelled.wait(TIMEOUT_S)
        reasons.append(job.stop_reason)
        job.check()

    @w.handler('async')
    async def slow_async(job):
        started.release()
        try:
            await asyncio.sleep(TIMEOUT_S)
        finally:
            reasons.append(job.stop_reason)

    @w.handler('stubborn')
    def stubborn(job):
        started.release()
        assert job.cancelled.wait(TIMEOUT_S)
        return 'done all the same'

    with w, client() as c:
        jobs = [c.enqueue(kind) for kind in ('slow', 'async', 'stubborn')]
        for _ in jobs:
            assert started.acquire(timeout=TIMEOUT_S)
        assert [c.cancel(job, 'enough') for job in jobs] == ['running'] * 3
        assert [ended(c, job).state for job in jobs] == ['cancelled', 'cancelled', 'done']
        assert reasons == ['cancelled', 'cancelled']


def test_timeout():
    """an attempt that takes too long is told so, and is tried again"""
    w, reasons = worker(), []

    @w.handler('late')
    def late(job):
        if job.attempt == 1:
            assert job.cancelled.wait(TIMEOUT_S)
            reasons.append(job.stop_reason)
        return job.attempt

    with w, client() as c:
        job = c.enqueue('late', timeout=0.2, retry='exponential', retry_base=600)
        until(lambda: c.get(job).state == 'retrying', 'it waits for its retry')
        assert 'timeout' in c.get(job).errors[0].error and reasons == ['timeout']


def test_machine():
    """a machine: steps with a state, signals before and after the wait, a timeout, children"""
    w = worker()
    order = w.machine('order', first='reserve')

    @order.step
    def reserve(job):
        assert job.step == '' and job.state is None
        return pawl.Next('charge', state={'shelf': 7, 'seen': []})

    @order.step
    def charge(job):
        return pawl.Await(['paid', 'refused'], 'charged', timeout=600)

    @order.step
    def charged(job):
        state = {**job.state, 'paid': job.received('paid').payload, 'signals': [s.name for s in job.signals]}
        return pawl.Spawn([pawl.Child('parcel', n) for n in (1, 2, 3)], 'packed', state=state)

    @order.step
    async def packed(job):
        children = [(c.kind, c.state, c.result if c.state == 'done' else c.error.splitlines()[0]) for c in job.children]
        return {'state': job.state, 'children': sorted(children), 'left': job.children_left}

    @w.handler('parcel')
    def parcel(job):
        if job.payload == 2:
            raise pawl.Reject('too heavy')
        return job.payload * 10

    @w.handler('waiter')
    def waiter(job):
        return (
            pawl.Await('never', 'late', timeout=0.05) if job.step == '' else [job.step, job.timed_out, len(job.signals)]
        )

    @w.handler('loop')
    def loop(job):
        n = (job.state or 0) + 1
        return n if n == 50 else pawl.Next('again', state=n)

    @w.handler('lost')
    def lost(job):
        return pawl.Next('nowhere')

    w.machine('strict', first='a').step('a')(lambda job: pawl.Next('b'))
    with w, client() as c:
        early, late = c.enqueue('order'), c.enqueue('order')
        c.signal(early, 'paid', {'amount': 25}, idempotency_key='tx')
        until(lambda: c.get(late).state == 'waiting', 'it waits')
        assert c.signal(late, 'paid', {'amount': 26}) is True
        for job, amount in ((early, 25), (late, 26)):
            result = c.result(job, TIMEOUT_S)
            assert result['state'] == {'shelf': 7, 'seen': [], 'paid': {'amount': amount}, 'signals': ['paid']}, result
            assert result['children'] == [
                ['parcel', 'done', 10],
                ['parcel', 'done', 30],
                ['parcel', 'failed', 'too heavy'],
            ], result
            assert result['left'] == 0
        assert c.result(c.enqueue('waiter'), TIMEOUT_S) == ['late', True, 0]
        assert c.result(c.enqueue('loop'), TIMEOUT_S) == 50
        strict = ended(c, c.enqueue('strict'))
        assert strict.state == 'failed' and 'unknown step b' in strict.errors[-1].error
        try:
            c.signal(early, 'paid')
        except pawl.StateError:
            pass
        else:
            raise AssertionError('a signal to a finished job is refused')


def test_join():
    """a machine goes on with a quorum, and what is left is cancelled"""
    w, release = worker(), threading.Event()

    @w.handler('race')
    def race(job):
        if job.step == '':
            return pawl.Spawn([pawl.Child('runner', n) for n in (0, 1)], 'won', quorum=1, cancel=True)
        return [[child.result for child in job.children], job.children_left]

    @w.handler('runner')
    def runner(job):
        if job.payload == 0:
            return 'first'
        release.set()
        assert job.cancelled.wait(TIMEOUT_S)
        job.check()

    with w, client() as c:
        assert c.result(c.enqueue('race'), TIMEOUT_S) == [['first'], 1]
        slow = until(
            lambda: [j for j in c.list(kind='runner').jobs if j.state == 'cancelled'], 'the other is cancelled'
        )
        assert len(slow) == 1


def test_progress():
    """what a handler says about how far it is can be seen while it runs"""
    w, go = worker(), threading.Event()

    @w.handler('long')
    def long(job):
        job.progress(10, 'begun')
        job.progress(42, 'almost half')
        assert go.wait(TIMEOUT_S)

    with w, client() as c:
        job = c.enqueue('long')
        try:
            until(lambda: c.get(job).progress and c.get(job).progress.percent == 42, 'progress is seen')
            assert c.get(job).progress.note == 'almost half'
        finally:
            go.set()
        assert ended(c, job).state == 'done'


def test_many():
    """a thousand jobs with fifty at a time: each runs once, never more than fifty side by side"""
    w, lock, runs, state = worker(concurrency=50), threading.Lock(), {}, {'now': 0, 'peak': 0}

    @w.handler('many')
    def many(job):
        with lock:
            runs[job.id] = runs.get(job.id, 0) + 1
            state['now'] += 1
            state['peak'] = max(state['peak'], state['now'])
        time.sleep(0.02)
        with lock:
            state['now'] -= 1
        return job.payload

    with w, client() as c:
        jobs = [a.id for a in c.enqueue_many([pawl.NewJob('many', n, queue='default') for n in range(1000)])]
        until(
            lambda: STAGE.database.sql("SELECT count(*) FROM pawl.jobs WHERE kind = 'many' AND state = 'done'")
            == '1000',
            'all are done',
        )
        assert sorted(runs) == sorted(jobs) and set(runs.values()) == {1}
        assert 10 < state['peak'] <= 50, state


def test_prefetch():
    """jobs held ready beyond the concurrency are given back at a stop, without an attempt"""
    w, go, started = worker(concurrency=1, prefetch=5), threading.Event(), threading.Event()

    @w.handler('held')
    def held(job):
        started.set()
        assert go.wait(TIMEOUT_S)

    with client() as c:
        w.start()
        jobs = [a.id for a in c.enqueue_many([pawl.NewJob('held')] * 6)]
        assert started.wait(TIMEOUT_S)
        until(lambda: len(w._runs.running()) == 6, 'it holds all of them')
        w.stop(wait=False)
        until(lambda: sum(c.get(job).state == 'ready' for job in jobs) == 5, 'five are given back')
        assert sorted(c.get(job).attempt for job in jobs) == [0] * 5 + [1]
        go.set()
        assert w.join(TIMEOUT_S)
        assert sorted(c.get(job).state for job in jobs) == ['done'] + ['ready'] * 5
        c.cancel_many(jobs)


def test_limits():
    """what an operator allows a worker is kept by the server and can be read; until_empty does what is due and ends"""
    w, started = worker(concurrency=5), []
    w.handle('paced', lambda job: started.append(time.monotonic()))
    with client() as c, w:
        assert w.wait_connected(TIMEOUT_S) and (w.credits, w.rate) == (5, None)
        STAGE.pawl('worker', 'limit', '--jobs', '3', '--rate', '20', w.id)
        until(lambda: (w.credits, w.rate) == (3, 20.0), 'it is told')
        jobs = [a.id for a in c.enqueue_many([pawl.NewJob('paced')] * 30)]
        for job in jobs:
            ended(c, job)
        assert started[-1] - started[0] > 1.2, started[-1] - started[0]
        STAGE.pawl('worker', 'limit', w.id)
        until(lambda: (w.credits, w.rate) == (5, None), 'both limits are gone')
    with client() as c:
        jobs = [a.id for a in c.enqueue_many([pawl.NewJob('paced')] * 20)]
        last = worker(until_empty=True, concurrency=2)
        last.handle('paced', lambda job: None)
        last.start()
        assert last.join(TIMEOUT_S)
        assert {c.get(job).state for job in jobs} == {'done'}


def test_never_arrived():
    """what was on its way to a worker that has left is due again at once; and a worker that stops says that it has left"""
    calls, me = Calls(grpc.insecure_channel(STAGE.address)), uuid.uuid4().hex
    with client() as c:
        stream = calls.StreamJobs(pb.StreamJobsRequest(kinds=['onway'], worker_id=me, credits=1))
        assert next(stream).HasField('opened')
        job = c.enqueue('onway')
        until(lambda: c.get(job).state == 'running', 'it is assigned')
        stream.cancel()  # and never reads it
        until(lambda: me not in [one.worker_id for one in c.stats().workers], 'its stream has ended')
        calls.Heartbeat(pb.HeartbeatRequest(worker_id=me), timeout=TIMEOUT_S)
        assert c.get(job).state == 'running'  # it might have crossed an assignment
        calls.Heartbeat(pb.HeartbeatRequest(worker_id=me, left_stream=True), timeout=TIMEOUT_S)
        until(lambda: c.get(job).state == 'ready', 'it is due again', 40)  # long before its lease is over
        assert c.get(job).attempt == 0
        c.cancel(job)

    def heartbeats():
        with urllib.request.urlopen(f'http://{STAGE.address}/metrics', timeout=TIMEOUT_S) as answer:
            return int(re.search(r'^pawl_\w*heartbeats_total (\d+)$', answer.read().decode(), re.M)[1])

    w = worker()
    w.handle('none', len)
    with w:
        assert w.wait_connected(TIMEOUT_S)
        before = heartbeats()
    assert heartbeats() == before + 1


def test_asyncio():
    """a worker and a client on the loop of a program"""

    async def main():
        w, loops = worker(), []

        @w.handler('aio')
        async def aio(job):
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0.001)
            return job.payload + 1

        running = asyncio.create_task(w.run_async(handle_signals=False))
        async with pawl.AsyncClient(STAGE.address) as c:
            jobs = await asyncio.gather(*(c.enqueue('aio', n) for n in range(20)))
            assert await asyncio.gather(*(c.result(job, TIMEOUT_S) for job in jobs)) == list(range(1, 21))
            assert set(loops) == {asyncio.get_running_loop()}
            assert len([job async for job in c.list_all(kind='aio', limit=7)]) == 20
            try:
                await c.get(10**12)
            except pawl.NotFoundError:
                pass
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            pass
        assert w.join(0)

    asyncio.run(main())


def test_refused():
    """a server that will not have a worker says so, and run() raises"""
    w = pawl.Worker(STAGE.address, queues=['no blanks'])
    w.handle('x', len)
    try:
        w.run(handle_signals=False)
    except pawl.InvalidError as e:
        assert e.method == 'StreamJobs'
    else:
        raise AssertionError('it was taken on')


with STAGE:
    tap.run(globals(), sys.argv[2:])
