"""The parts of the Python client that need no server: outcomes, back-off, rates, batches of reports. usage:
pure_test.py ROOT"""

import os
import sys
import threading

sys.path.insert(0, os.path.join(sys.argv[1], 'clients', 'python'))
sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 'support'))

import tap

try:
    import grpc  # noqa: F401
except ImportError:
    tap.skip_all('python3-grpcio is not installed')

import pawl
from pawl.backoff import Backoff
from pawl.batch import REPORTS_MAX, Reporter
from pawl.errors import ServerError
from pawl.handlers import Handlers, Machine
from pawl.outcomes import Ending, Stop, cut, outcome
from pawl.rate import Rates
from pawl.v1 import pawl_pb2 as pb
from patience import until

TOKEN = b'0123456789abcdef'


def said(value=None, error=None, stop=None, timeout_ms=0):
    return outcome(Ending(value, error, stop, timeout_ms, {'job_id': 7, 'token': TOKEN, 'run_us': 5}))


def raised(exception):
    """With a traceback, as a handler's would have."""
    try:
        raise exception
    except BaseException as e:
        return e


def test_values():
    """a returned value is done, as JSON; bytes are kept, None is nothing"""
    report = said({'a': [1, 'ü']})
    assert (report.job_id, report.token, report.run_us) == (7, TOKEN, 5)
    assert report.done.result == '{"a":[1,"ü"]}'.encode()
    assert said(b'\0\xff').done.result == b'\0\xff'
    assert said(None).WhichOneof('outcome') == 'done' and said(None).done.result == b''
    assert said(0).done.result == b'0' and said(pawl.Done('x')).done.result == b'"x"'


def test_errors():
    """an exception is a retry that says what and where; those that say more are what they say, raised or returned"""
    report = said(error=raised(KeyError('name')))
    assert report.retry.error.startswith("KeyError: 'name'\n  at ") and 'in raised' in report.retry.error
    assert not report.retry.HasField('delay_ms')
    for make in (lambda e: said(error=e), lambda e: said(value=e)):
        assert make(pawl.Retry('busy', delay=1.5)).retry.delay_ms == 1500
        assert make(pawl.Retry('busy', delay=0)).retry.HasField('delay_ms')
        assert make(pawl.PermanentError('no')).fail.error.startswith('PermanentError: no')
        assert make(pawl.Reject('not 18')).reject.error == 'not 18'
        assert make(pawl.Snooze(2)).snooze.delay_ms == 2000
        assert make(pawl.Cancel('obsolete')).cancel.reason == 'obsolete'
    assert said(error=raised(SystemExit(1))).retry.error.startswith('SystemExit: 1')

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError('no')

    assert said(error=raised(Mute())).retry.error.startswith('Mute, whose text')
    assert said(error=raised(pawl.NotJSONError('the payload is not JSON'))).WhichOneof('outcome') == 'fail'


def test_steps():
    """steps carry their state; without one it stays as it is"""
    report = said(pawl.Next('ship', {'shelf': 7}, delay=60))
    assert (report.next.step, report.next.machine_data, report.next.delay_ms) == ('ship', b'{"shelf":7}', 60000)
    assert said(pawl.Next('ship')).next.machine_data == b''
    report = getattr(said(pawl.Await('paid', 'charged', timeout=0.0001)), 'await')
    assert (list(report.signals), report.step, report.timeout_ms) == (['paid'], 'charged', 1)
    assert getattr(said(pawl.Await(['a', 'b'], 's')), 'await').timeout_ms == 0
    report = said(
        pawl.Spawn([pawl.Child('parcel', 1, priority=0), pawl.Child('raw', b'\xff')], 'packed', fail_fast=True)
    ).spawn
    assert [c.job.kind for c in report.children] == ['parcel', 'raw'] and report.fail_fast and report.step == 'packed'
    assert report.children[0].job.HasField('priority') and not report.children[1].job.HasField('priority')
    assert report.children[1].job.payload_is_bytes and not report.children[0].job.payload_is_bytes


def test_unserialisable():
    """what cannot be sent is a failure of the run: a result fails for good, a step is tried again"""
    loop = []
    loop.append(loop)
    assert 'not repeated' in said(loop).fail.error
    assert 'not repeated' in said(object()).fail.error
    assert said(float('nan')).WhichOneof('outcome') == 'fail'
    assert '1048576' in said(b'x' * (1024 * 1024 + 1)).fail.error
    assert said(b'x' * 1024 * 1024).WhichOneof('outcome') == 'done'
    assert said(pawl.Next('a', {1, 2})).WhichOneof('outcome') == 'retry'
    assert said(pawl.Next(5)).WhichOneof('outcome') == 'retry'


def test_stops():
    """a lost run says nothing; a cancelled one is cancelled unless it is done; a timeout is a retry whatever it says"""
    error = raised(pawl.JobStopped('stop'))
    assert said(1, stop=Stop('lost')) is None and said(error=error, stop=Stop('lost')) is None
    assert said(error=error, stop=Stop('cancelled', 'by me')).cancel.reason == 'by me'
    assert said(pawl.Next('on'), stop=Stop('cancelled')).WhichOneof('outcome') == 'cancel'
    assert said('fine', stop=Stop('cancelled')).done.result == b'"fine"'
    assert '250 ms' in said('fine', stop=Stop('timeout'), timeout_ms=250).retry.error
    report = said(error=error, stop=Stop('shutdown'))
    assert report.retry.HasField('delay_ms') and report.retry.delay_ms == 0
    assert said('fine', stop=Stop('shutdown')).WhichOneof('outcome') == 'done'
    assert said(error=pawl.PermanentError('x'), stop=Stop('shutdown')).WhichOneof('outcome') == 'fail'


def test_cut():
    """errors are cut at a whole character and hold nothing that the wire refuses"""
    assert len(cut('ü' * 4000).encode()) == 4000 and cut('ü' * 4000) == 'ü' * 2000
    assert '\0' not in cut('a\0b') and cut('a\0b')[0::2] == 'ab'
    assert cut('\ud800x').encode()
    assert cut('short') == 'short'


def test_backoff():
    """waits double up to a cap, between half and all of it"""
    whole, half = Backoff(0.1, 1.0, lambda: 1.0), Backoff(0.1, 1.0, lambda: 0.0)
    assert [round(whole.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert [round(half.next(), 3) for _ in range(3)] == [0.05, 0.1, 0.2]
    whole.reset()
    assert whole.next() == 0.1
    for _ in range(5000):
        last = whole.next()
    assert last == 1.0


def test_rates():
    """starts are limited for a queue and for all, and the limit goes again"""
    rates = Rates()
    assert rates.wait('a', 0.0) == 0.0
    rates.change('a', 2.0, 2, 0.0)
    assert [rates.wait('a', 0.0) for _ in range(2)] == [0.0, 0.0]
    assert abs(rates.wait('a', 0.0) - 0.5) < 1e-9 and rates.wait('b', 0.0) == 0.0
    assert rates.wait('a', 0.5) == 0.0 and rates.wait('a', 0.5) > 0
    rates.change('', 1.0, 1, 1.0)
    assert rates.wait('b', 1.0) == 0.0 and rates.wait('c', 1.0) == 1.0
    rates.change('', 0.0, 0, 1.0)
    assert rates.wait('c', 1.0) == 0.0


def test_handlers():
    """handlers are found by kind and step; an unknown step is a permanent failure"""
    handlers, machine = Handlers(), Machine('order', 'reserve')

    @machine.step
    def reserve(job):
        return 'r'

    @machine.step('ship')
    def other(job):
        return 's'

    handlers.add('order', machine)
    handlers.add('plain', len)
    handlers.check()
    assert handlers.kinds() == ['order', 'plain'] and handlers.find('plain', 'any') is len
    assert handlers.find('order', '') is reserve and handlers.find('order', 'ship') is other
    for wrong in (lambda: handlers.add('plain', len), lambda: machine.step('ship')(len), Handlers().check):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError('accepted')
    try:
        handlers.find('order', 'nowhere')
    except pawl.PermanentError as e:
        assert 'nowhere' in str(e)


class Server:
    """The other end of a Reporter: scripted refusals first, then OK. Notes what arrived in each call."""

    def __init__(self, *refusals):
        self.calls, self.refusals, self.gate = [], list(refusals), threading.Semaphore(0)

    def send(self, reports):
        self.calls.append([r.job_id for r in reports])
        self.gate.acquire()
        refusal = self.refusals.pop(0) if self.refusals else None
        if isinstance(refusal, Exception):
            raise refusal
        return [
            pb.ReportAnswer(job_id=r.job_id, status=(refusal or {}).get(r.job_id, pb.ITEM_STATUS_OK), error='why')
            for r in reports
        ]


def reporter(server):
    return Reporter(server.send, Backoff(0.001, 0.001))


def report(job_id, **outcome_):
    return pb.Report(job_id=job_id, token=TOKEN, **(outcome_ or {'done': pb.DoneOutcome()}))


def test_reports_go_together():
    """reports that arrive while a call is under way go together with the next, in order and in bounded numbers"""
    server, answered = Server(), []
    r = reporter(server)
    r.add(report(0), lambda sent, answer: answered.append(sent.job_id))
    until(lambda: server.calls, 'the first one is sent')  # the first one goes alone, at once
    for i in range(1, REPORTS_MAX + 3):
        r.add(report(i), lambda sent, answer: answered.append(sent.job_id))
    for _ in range(3):
        server.gate.release()
    assert r.flush(60)
    r.close()
    assert [len(c) for c in server.calls] == [1, REPORTS_MAX, 2] and answered == list(range(REPORTS_MAX + 3))


def test_reports_are_repeated():
    """a call that failed is repeated until it is answered, and so is a single one that the server asks for again"""
    server = Server(
        ServerError('UNAVAILABLE', 'gone'), ServerError('DEADLINE_EXCEEDED', 'late'), {2: pb.ITEM_STATUS_RETRY}
    )
    answered, r = [], reporter(server)
    r.add(report(1), lambda sent, answer: answered.append((sent.job_id, answer.status)))
    until(lambda: server.calls, 'the first one is sent')
    r.add(report(2), lambda sent, answer: answered.append((sent.job_id, answer.status)))
    for _ in range(4):
        server.gate.release()
    assert r.flush(60)
    r.close()
    assert server.calls == [[1], [1, 2], [1, 2], [2]]
    assert answered == [(1, pb.ITEM_STATUS_OK), (2, pb.ITEM_STATUS_OK)]


def test_reports_refused():
    """one that is refused for good is replaced by a failure, once; others of its call are not held up"""
    server = Server(
        {},
        ServerError('INVALID_ARGUMENT', 'bad text'),
        {},
        ServerError('INVALID_ARGUMENT', 'bad text'),
        {1: pb.ITEM_STATUS_INVALID},
        {},
    )
    answered, r = [], reporter(server)
    r.add(report(9), lambda sent, answer: None)
    until(lambda: server.calls, 'the first one is sent')
    r.add(
        report(0),
        lambda sent, answer: answered.append((sent.job_id, sent.WhichOneof('outcome'), answer and answer.status)),
    )
    r.add(
        report(1),
        lambda sent, answer: answered.append((sent.job_id, sent.WhichOneof('outcome'), answer and answer.status)),
    )
    for _ in range(6):
        server.gate.release()
    assert r.flush(60)
    r.close()
    assert server.calls == [[9], [0, 1], [0], [1], [1]], server.calls
    assert answered == [(0, 'done', pb.ITEM_STATUS_OK), (1, 'fail', None)], answered


def test_reports_stale():
    """a stale answer is an answer: nothing is repeated"""
    server, answered = Server({3: pb.ITEM_STATUS_STALE}), []
    r = reporter(server)
    r.add(report(3), lambda sent, answer: answered.append(answer.status))
    server.gate.release()
    assert r.flush(60)
    r.close()
    assert server.calls == [[3]] and answered == [pb.ITEM_STATUS_STALE]


tap.run(globals(), sys.argv[2:])
