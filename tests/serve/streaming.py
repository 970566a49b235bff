"""streaming: a worker on a stream, as thin as can be: what it gets is a queue of messages, and it reports when told to."""

import queue
import threading
import time
import uuid

import grpc

from harness import TIMEOUT_S
from served import Calls, pb

MAX_MESSAGE = 32 * 1024 * 1024


class Worker:
    """One stream. Assigned jobs are in `jobs` (a queue), everything else in `words`; `ended` is the status of its end."""

    def __init__(self, address, kinds=('k',), credits=1, queues=(), worker_id=None, running=(), name='', token=None, opened=True, until_empty=False):
        self.id = worker_id or str(uuid.uuid4())
        self.calls = Calls(address, token, options=[('grpc.max_receive_message_length', MAX_MESSAGE)])
        self.jobs = queue.Queue()
        self.words = queue.Queue()
        self.got = []  # all that was ever assigned
        self.ended = None
        self.over = threading.Event()
        self.stream = self.calls.stream(queues=list(queues), kinds=list(kinds), worker_id=self.id, credits=credits,
                                        running=[pb.RunningJob(job_id=j.job_id, token=j.token) for j in running], worker_name=name,
                                        until_empty=until_empty)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        self.opened = self.word('opened') if opened else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self):
        try:
            for message in self.stream:
                which = message.WhichOneof('message')
                if which == 'assignment':
                    for job in message.assignment.jobs:
                        self.got.append(job)
                        self.jobs.put(job)
                else:
                    self.words.put((which, getattr(message, which)))
            self.ended = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.ended = error.code()
            self.why = error.details()
        self.words.put(('ended', None))
        self.over.set()

    def close(self):
        self.stream.cancel()
        self.thread.join(TIMEOUT_S)
        self.calls.channel.close()

    def job(self, timeout=TIMEOUT_S):
        return self.jobs.get(timeout=timeout)

    def idle(self, seconds):
        """True: no job came for so long."""
        try:
            self.jobs.get(timeout=seconds)
            return False
        except queue.Empty:
            return True

    def word(self, wanted):
        """The next message of that kind; others before it are skipped."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            which, message = self.words.get(timeout=max(0.01, deadline - time.monotonic()))
            if which == wanted:
                return message
            assert which != 'ended', f'the stream ended with {self.ended} {getattr(self, "why", "")}'

    def report(self, *reports, calls=None):
        """The answers to these, by this worker's connection or another."""
        return list((calls or self.calls).ReportResult(worker_id=self.id, reports=reports).answers)

    def done(self, job, result=b'', calls=None):
        answer, = self.report(report(job, done=pb.DoneOutcome(result=result)), calls=calls)
        return answer

    def beat(self, *jobs, calls=None, progress=(), left_stream=False):
        return (calls or self.calls).Heartbeat(worker_id=self.id, progress=progress, left_stream=left_stream, running=[
            pb.RunningJob(job_id=j.job_id, token=j.token) for j in jobs])


def report(job, run_us=1000, signal_ids=(), **outcome):
    if 'await_' in outcome:
        outcome['await'] = outcome.pop('await_')
    return pb.Report(job_id=job.job_id, token=job.token, run_us=run_us, signal_ids=list(signal_ids), **outcome)


class Busy:
    """A worker with a handler of its own thread: takes jobs, waits `seconds`, reports done; reconnects like a decent client."""

    def __init__(self, addresses, kinds=('k',), credits=4, seconds=0.0, **more):
        self.addresses, self.kinds, self.credits, self.seconds, self.more = list(addresses), kinds, credits, seconds, more
        self.id = str(uuid.uuid4())
        self.stopping = threading.Event()
        self.started = []  # job ids, in the order of their starts
        self.longest = 0.0  # time without a stream
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()

    def _report(self, reports):
        """To whoever listens, until it is answered."""
        turn = 0
        while True:
            try:
                with Calls(self.addresses[turn % len(self.addresses)]) as calls:
                    answers = calls.ReportResult(worker_id=self.id, reports=reports, timeout=5).answers
                again = [r for r, a in zip(reports, answers) if a.status == pb.ITEM_STATUS_RETRY]
                if not again:
                    return
                reports = again
            except grpc.RpcError:
                pass
            turn += 1
            time.sleep(0.02)

    def _run(self):
        turn, lost_at, mine = 0, None, []
        while not self.stopping.is_set():
            address = self.addresses[turn % len(self.addresses)]
            turn += 1
            try:
                worker = Worker(address, self.kinds, self.credits, worker_id=self.id, running=mine, **self.more)
            except (AssertionError, queue.Empty):
                lost_at = lost_at or time.monotonic()
                time.sleep(0.02)
                continue
            if lost_at:
                self.longest = max(self.longest, time.monotonic() - lost_at)
                lost_at = None
            self._serve(worker)
            lost_at = time.monotonic()
            worker.close()

    def _serve(self, worker):
        while not (worker.over.is_set() and worker.jobs.empty()):
            if self.stopping.is_set() and worker.jobs.empty():
                return
            try:
                jobs = [worker.jobs.get(timeout=0.02)]
            except queue.Empty:
                if any(which == 'drain' for which, _ in list(worker.words.queue)) and worker.jobs.empty():
                    return
                continue
            while not worker.jobs.empty():
                jobs.append(worker.jobs.get())
            self.started += [j.job_id for j in jobs]
            time.sleep(self.seconds)
            self._report([report(j, done=pb.DoneOutcome()) for j in jobs])
