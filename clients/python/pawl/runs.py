"""The jobs that a worker holds: from their assignment to the answer to their report. Any thread may call; the lock
is never held while a handler, the server or the reporter is called."""

from __future__ import annotations

import asyncio
import collections
import logging
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Set, Tuple

from .handlers import Handlers, is_async
from .job import Job
from .outcomes import Ending, Stop, outcome
from .pool import Pool
from .rate import Rates
from .v1 import pawl_pb2 as pb

log = logging.getLogger('pawl')

# A later reason replaces an earlier one only if it is harsher.
_HARSHNESS = {'shutdown': 1, 'cancelled': 2, 'timeout': 2, 'lost': 3}


class Run:
    """One job, held under one token."""

    def __init__(self, job: Job, now: float) -> None:
        self.job = job
        self.renewed = now  # when the server is known to have believed in it
        self.started_at: Optional[float] = None
        self.ended = False
        self.task: Optional['asyncio.Task[None]'] = None
        self.timer: Optional[threading.Timer] = None

    @property
    def lost(self) -> bool:
        return self.job.stop is not None and self.job.stop.reason == 'lost'


class Runs:
    """report(report, answered) passes an outcome on; loop() is where coroutines run; noted() is called when there is
    progress to tell."""

    def __init__(
        self,
        handlers: Handlers,
        concurrency: int,
        report: Callable[[Any, Callable[[Any, Any], None]], None],
        loop: Callable[[], asyncio.AbstractEventLoop],
        noted: Callable[[], None],
    ) -> None:
        self._handlers, self._limit, self._report, self._loop, self._noted = handlers, concurrency, report, loop, noted
        self._changed = threading.Condition()
        self._held: Dict[Tuple[int, bytes], Run] = {}
        self._waiting: Deque[Run] = collections.deque()
        self._active = 0
        self._recalled = False
        self._rates = Rates()
        self._rate_timer: Optional[threading.Timer] = None
        self._pool = Pool('pawl-job')
        self._progress: Set[Run] = set()

    # --- what the server says

    def assign(self, messages: Iterable[Any]) -> None:
        now = time.monotonic()
        for message in messages:
            job = Job(message, self._note)
            with self._changed:
                known = self._held.get((job.id, job.token))
                if known is not None and not known.ended:
                    continue  # said twice
                older = [run for run in self._held.values() if run.job.id == job.id and not run.ended]
                run = self._held[job.id, job.token] = Run(job, now)
                self._waiting.append(run)
            for other in older:  # claimed anew, so the older claim does not hold any more
                self.stop_run(other, Stop('lost', 'the job was claimed anew'))
        if self._recalled:
            self.recall()
        self._admit()

    def renewed(self, asked: Iterable[Any], sent_at: float) -> None:
        with self._changed:
            for one in asked:
                run = self._held.get((one.job_id, one.token))
                if run is not None:
                    run.renewed = max(run.renewed, sent_at)

    def told(self, asked: Iterable[Any], job_ids: Iterable[int], stop: Stop) -> None:
        """The server wants these to end. Only those under the token that was asked about: the same job may be held
        anew meanwhile."""
        tokens = {one.job_id: one.token for one in asked}
        for job_id in job_ids:
            with self._changed:
                run = self._held.get((job_id, tokens.get(job_id, b'')))
            if run is not None:
                self.stop_run(run, stop)

    def change_rate(self, queue: str, per_second: float, burst: int) -> None:
        with self._changed:
            self._rates.change(queue, per_second, burst, time.monotonic())
        self._admit()

    def forget_rates(self) -> None:
        with self._changed:
            self._rates = Rates()
        self._admit()

    # --- what is known

    def running(self) -> List[pb.RunningJob]:
        """All that is held and not lost, as the server wants it named."""
        with self._changed:
            return [
                pb.RunningJob(job_id=run.job.id, token=run.job.token) for run in self._held.values() if not run.lost
            ]

    def take_progress(self) -> List[pb.JobProgress]:
        with self._changed:
            runs, self._progress = self._progress, set()
        out = []
        for run in runs:
            if not run.lost and run.job.noted_progress is not None:
                percent, note = run.job.noted_progress
                out.append(pb.JobProgress(job_id=run.job.id, token=run.job.token, percent=percent, note=note))
        return out

    def wait_empty(self, timeout: Optional[float]) -> bool:
        """Until every job has ended and its report is answered."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, timeout)

    def expire(self, lease: float) -> None:
        """Claims that nothing has renewed for a whole lease are taken for lost, as the server's side takes them
        back."""
        now = time.monotonic()
        with self._changed:
            old = [run for run in self._held.values() if not run.lost and now - run.renewed > lease]
        for run in old:
            self.stop_run(run, Stop('lost', 'its lease could not be renewed in time'))

    # --- ending

    def recall(self) -> None:
        """Gives back what was not started, now and from now on."""
        with self._changed:
            self._recalled = True
            back, self._waiting = list(self._waiting), collections.deque()
        for run in back:
            report = pb.Report(job_id=run.job.id, token=run.job.token)
            report.release.reason = 'the worker stops'
            self._report(report, self._given_back(run))

    def stop_all(self, stop: Stop) -> None:
        with self._changed:
            runs = list(self._held.values())
        for run in runs:
            self.stop_run(run, stop)

    def close(self) -> None:
        with self._changed:
            if self._rate_timer is not None:
                self._rate_timer.cancel()
        self._pool.close()

    def stop_run(self, run: Run, stop: Stop) -> None:
        with self._changed:
            old = run.job.stop
            if run.ended or (old is not None and _HARSHNESS[old.reason] >= _HARSHNESS[stop.reason]):
                return
            run.job.stop = stop
            unstarted = run.started_at is None
            if unstarted and run in self._waiting:
                self._waiting.remove(run)
            else:
                unstarted = False
            task = run.task
        log.log(
            logging.WARNING if stop.reason == 'lost' else logging.INFO,
            'job %d %s is to stop: %s%s',
            run.job.id,
            run.job.kind,
            stop.reason,
            f' ({stop.detail})' if stop.detail else '',
        )
        run.job.cancelled.set()
        if unstarted:
            self._end(run, Ending(error=RuntimeError('not started')))
        elif task is not None:
            self._loop().call_soon_threadsafe(task.cancel)

    # --- inside

    def _note(self, job: Job) -> None:
        with self._changed:
            run = self._held.get((job.id, job.token))
            if run is not None:
                self._progress.add(run)
        self._noted()

    def _admit(self) -> None:
        """Starts what may be started: as many as there is room for, no faster than the server allows."""
        while True:
            with self._changed:
                if not self._waiting or self._active >= self._limit:
                    return
                wait = self._rates.wait(self._waiting[0].job.queue, time.monotonic())
                if wait > 0:
                    if self._rate_timer is not None:
                        self._rate_timer.cancel()
                    self._rate_timer = threading.Timer(wait, self._admit)
                    self._rate_timer.daemon = True
                    self._rate_timer.start()
                    return
                run = self._waiting.popleft()
                self._active += 1
                run.started_at = time.monotonic()
            self._start(run)

    def _start(self, run: Run) -> None:
        job = run.job
        try:
            handler = self._handlers.find(job.kind, job.step)
        except Exception as e:
            self._leave(run, Ending(error=e))
            return
        if job.timeout_ms > 0:
            run.timer = threading.Timer(job.timeout_ms / 1000, self.stop_run, (run, Stop('timeout')))
            run.timer.daemon = True
            run.timer.start()
        if is_async(handler):
            try:
                self._loop().call_soon_threadsafe(self._start_task, run, handler)
            except RuntimeError as e:  # the loop is closed
                self._leave(run, Ending(error=e))
        else:
            self._pool.submit(lambda: self._call(run, handler))

    def _call(self, run: Run, handler: Callable[[Job], Any]) -> None:
        try:
            ending = Ending(handler(run.job))
        except BaseException as e:  # also SystemExit: a handler does not end its worker
            ending = Ending(error=e)
        self._leave(run, ending)

    def _start_task(self, run: Run, handler: Callable[[Job], Any]) -> None:
        async def body() -> None:
            try:
                ending = Ending(await handler(run.job))
            except BaseException as e:
                ending = Ending(error=e)
            self._leave(run, ending)

        run.task = asyncio.get_running_loop().create_task(body())
        if run.job.cancelled.is_set():
            run.task.cancel()

    def _leave(self, run: Run, ending: Ending) -> None:
        with self._changed:
            self._active -= 1
        self._end(run, ending)
        self._admit()

    def _end(self, run: Run, ending: Ending) -> None:
        if run.timer is not None:
            run.timer.cancel()
        with self._changed:
            run.ended = True
            ending.stop = run.job.stop
        job = run.job
        ending.timeout_ms = job.timeout_ms
        took = time.monotonic() - run.started_at if run.started_at is not None else 0
        ending.fields = {
            'job_id': job.id,
            'token': job.token,
            'run_us': int(took * 1e6),
            'signal_ids': [s.id for s in job.signals],
        }
        report = outcome(ending)
        if report is None:
            self._forget(run)
            return
        self._report(report, lambda sent, answer: self._answered(run, sent, answer))

    def _answered(self, run: Run, report: Any, answer: Any) -> None:
        if answer is None or answer.status != pb.ITEM_STATUS_OK:
            why = (
                'it could not be sent'
                if answer is None
                else pb.ItemStatus.Name(answer.status)[len('ITEM_STATUS_') :].lower()
            )
            log.warning(
                'the outcome %s of job %d %s counted for nothing: %s',
                report.WhichOneof('outcome'),
                run.job.id,
                run.job.kind,
                f'{why}, {answer.error}' if answer is not None and answer.error else why,
            )
        self._forget(run)

    def _given_back(self, run: Run) -> Callable[[Any, Any], None]:
        return lambda _report, _answer: self._forget(run)

    def _forget(self, run: Run) -> None:
        with self._changed:
            if self._held.get((run.job.id, run.job.token)) is run:  # not the next step, which may have come meanwhile
                del self._held[run.job.id, run.job.token]
            self._progress.discard(run)
            self._changed.notify_all()
