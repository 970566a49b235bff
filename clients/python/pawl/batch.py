"""Reports on their way to the server: one call at a time, and whatever comes in meanwhile goes together with the
next one.

A report is sent until it is answered. That is safe: the same report has one effect, however often it arrives. What
the server refuses for good is replaced, once, by a failure that says so.
"""

from __future__ import annotations

import collections
import logging
import threading
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Sequence, Tuple

from .backoff import Backoff
from .errors import ServerError
from .outcomes import refused
from .v1 import pawl_pb2 as pb

log = logging.getLogger('pawl')

REPORTS_MAX = 500  # of one call
BYTES_MAX = 2 * 1024 * 1024  # likewise, unless a single one is larger

# A refusal of the whole call because of what is in it.
_ITS_CONTENT = frozenset({'INVALID_ARGUMENT', 'RESOURCE_EXHAUSTED', 'OUT_OF_RANGE'})

Answered = Callable[[Any, Any], None]  # the report, and the server's answer; None: it could not be said at all


class _Entry(NamedTuple):
    report: Any
    answered: Answered
    replaced: bool = False


class Reporter:
    """send(reports) makes the call and returns the answers; it raises ServerError. One thread sends, any thread
    adds."""

    def __init__(self, send: Callable[[Sequence[Any]], Sequence[Any]], backoff: Optional[Backoff] = None) -> None:
        self._send = send
        self._backoff = backoff or Backoff(first=0.05, cap=5.0)
        self._queue: Deque[_Entry] = collections.deque()
        self._changed = threading.Condition()
        self._in_flight = 0
        self._alone = 0  # so many are to be sent one by one, after a refusal of them all
        self._closed = False
        self._thread = threading.Thread(target=self._run, name='pawl-report', daemon=True)
        self._thread.start()

    def add(self, report: Any, answered: Answered) -> None:
        with self._changed:
            self._queue.append(_Entry(report, answered))
            self._changed.notify_all()

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until all are answered; False: the time was over before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._in_flight, timeout)

    def close(self) -> None:
        """Sends nothing more. What is unanswered then is left to its lease."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _take(self) -> List[_Entry]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            batch: List[_Entry] = []
            if self._closed:
                return batch
            size, limit = 0, 1 if self._alone else REPORTS_MAX
            while self._queue and len(batch) < limit:
                size += self._queue[0].report.ByteSize()
                if batch and size > BYTES_MAX:
                    break
                batch.append(self._queue.popleft())
            self._alone = max(0, self._alone - len(batch))
            self._in_flight = len(batch)
            return batch

    def _run(self) -> None:
        while True:
            batch = self._take()
            if not batch:
                return
            try:
                again, pause = self._one_call(batch)
            except Exception:  # the only thread that reports must not end
                log.exception('the reports could not be handled')
                again, pause = batch, True
            with self._changed:
                self._queue.extendleft(reversed(again))
                self._in_flight = 0
                self._changed.notify_all()
                if pause:
                    self._changed.wait_for(lambda: self._closed, self._backoff.next())

    def _one_call(self, batch: List[_Entry]) -> Tuple[List[_Entry], bool]:
        """What is to be sent again, and whether to wait before that."""
        try:
            answers = self._send([entry.report for entry in batch])
        except ServerError as e:
            if e.code not in _ITS_CONTENT:
                # Said once for each time of trouble.
                log.log(
                    logging.DEBUG if self._backoff.tries else logging.WARNING,
                    '%d outcomes could not be reported, trying again: %s',
                    len(batch),
                    e,
                )
                return batch, True
            if len(batch) > 1:  # find the one that it is about
                self._alone = len(batch)
                return batch, False
            return self._refused(batch[0], e.message), False
        self._backoff.reset()
        again: List[_Entry] = []
        pause = len(answers) < len(batch)
        for entry, answer in zip(batch, answers):
            if answer.status == pb.ITEM_STATUS_RETRY:
                again.append(entry)
                pause = True
            elif answer.status == pb.ITEM_STATUS_INVALID:
                again += self._refused(entry, answer.error)
            else:
                entry.answered(entry.report, answer)
        return again + batch[len(answers) :], pause  # who answers less than was asked has not answered the rest

    @staticmethod
    def _refused(entry: _Entry, why: str) -> List[_Entry]:
        log.error('the outcome of job %d was refused: %s', entry.report.job_id, why)
        if entry.replaced:
            entry.answered(entry.report, None)
            return []
        return [_Entry(refused(entry.report, why), entry.answered, True)]
