"""A worker's link to the server: the stream that jobs come on, and the heartbeats beside it. Two threads of its own."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Iterable, List, Optional, Sequence

import grpc

from . import channel as ch
from .backoff import Backoff
from .errors import LAST_TRY, ServerError, from_rpc
from .outcomes import Stop
from .runs import Runs
from .v1 import pawl_pb2 as pb

log = logging.getLogger('pawl')

_BEATS_PER_LEASE = 3  # two may fail before anything is lost
_LEASE_UNTIL_TOLD = 30.0
_PROGRESS_EVERY = 1.0
_CALL_TIMEOUT = 10.0
_LAST_BEAT = 2.0
_PATIENCE = 5.0  # before it is said that there is no server
_REASONS = {pb.STOP_REASON_TIMEOUT: 'timeout', pb.STOP_REASON_LOST: 'lost'}
_LOST = Stop('lost', 'the server no longer knows the claim')
# At the very first try these are mistakes of whoever set the worker up; later they may be the server's, and pass.
_HOPELESS = frozenset({'UNAUTHENTICATED', 'PERMISSION_DENIED', 'INVALID_ARGUMENT', 'UNIMPLEMENTED'})


class Link:
    """drained() is called when the server has asked for the end of this worker."""

    def __init__(
        self, calls: Any, token: Optional[Callable[[], str]], opening: pb.StreamJobsRequest, drained: Callable[[], None]
    ) -> None:
        self._calls, self._token, self._opening, self._drained = calls, token, opening, drained
        self._runs: Runs
        self._lock = threading.Lock()
        self._call: Any = None
        self._ending = threading.Event()  # no new stream
        self._closed = False  # no more heartbeats
        self._wake = threading.Condition()
        self._noted = False
        self._left = False  # there is no stream, and there will be none
        self._beat_failed = False  # said once for each time of trouble
        self.credits = opening.credits  # what the server allows, like what follows
        self.rate: Optional[float] = None
        self.lease = opening.lease_ms / 1000 or _LEASE_UNTIL_TOLD
        self.opened = threading.Event()  # the stream has been open at least once
        self.error: Optional[ServerError] = None  # it never was, and never will be
        self._threads = [
            threading.Thread(target=self._stream, name='pawl-stream', daemon=True),
            threading.Thread(target=self._beat, name='pawl-heartbeat', daemon=True),
        ]

    def start(self, runs: Runs) -> None:
        self._runs = runs
        for thread in self._threads:
            thread.start()

    def end_stream(self) -> None:
        """No more jobs. Heartbeats and reports go on."""
        self._ending.set()
        with self._lock:
            call = self._call
        if call is not None:
            call.cancel()

    def leave(self) -> None:
        """The same, and tells the server what is held, so that what was on its way and never arrived is due again."""
        self.end_stream()
        self._threads[0].join(_LAST_BEAT)
        if self._threads[0].is_alive() or not self.opened.is_set():
            return
        self._left = True
        self._one_beat(time.monotonic(), _LAST_BEAT, last=True)

    def close(self) -> None:
        self.end_stream()
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_CALL_TIMEOUT)

    def report(self, reports: Sequence[Any]) -> Sequence[Any]:
        """One call of ReportResult; raises ServerError."""
        request = pb.ReportResultRequest(worker_id=self._opening.worker_id, reports=reports)
        try:
            return list(
                self._calls.ReportResult(
                    request, timeout=_CALL_TIMEOUT, wait_for_ready=True, metadata=ch.metadata(self._token)
                ).answers
            )
        except grpc.RpcError as e:
            raise from_rpc(e, 'ReportResult') from None

    def beat_soon(self) -> None:
        with self._wake:
            self._noted = True
            self._wake.notify_all()

    # --- the stream

    def _stream(self) -> None:
        backoff = Backoff()
        while not self._ending.is_set():
            try:
                self._one_stream(backoff)
            except grpc.RpcError as e:
                if self._ending.is_set():
                    break
                error = from_rpc(e, 'StreamJobs')
                if error.code in _HOPELESS and not self.opened.is_set():
                    self.error = error
                    break
                log.log(
                    logging.DEBUG if backoff.tries > 1 else logging.WARNING,
                    'the stream has ended, connecting again: %s',
                    error,
                )
            except Exception:
                log.exception('the stream could not be handled, connecting again')
            self._ending.wait(backoff.next())
        self._drained()

    def _one_stream(self, backoff: Backoff) -> None:
        asked_at = time.monotonic()
        request = pb.StreamJobsRequest()
        request.CopyFrom(self._opening)
        request.running.extend(self._runs.running())
        call = self._calls.StreamJobs(request, wait_for_ready=True, metadata=ch.metadata(self._token))
        with self._lock:
            self._call = call
        if self._ending.is_set():  # it was asked for while there was nothing to cancel
            call.cancel()
        waiting = threading.Timer(_PATIENCE, self._say_waiting)
        waiting.daemon = True
        waiting.start()
        try:
            for message in call:
                waiting.cancel()
                if self._message(message, request.running, asked_at, backoff):
                    return
        finally:
            waiting.cancel()
            call.cancel()
            with self._lock:
                self._call = None

    def _say_waiting(self) -> None:
        """Why there is no connection is known to a call that does not wait for one."""
        why = 'none answers'
        try:
            request = pb.HeartbeatRequest(worker_id=self._opening.worker_id)
            self._calls.Heartbeat(request, timeout=LAST_TRY, metadata=ch.metadata(self._token))
        except grpc.RpcError as e:
            why = str(from_rpc(e))
        log.warning('no server has taken this worker on for %d s, still trying: %s', _PATIENCE, why)

    def _message(self, message: Any, running: Iterable[Any], asked_at: float, backoff: Backoff) -> bool:
        """True: this stream is to be left."""
        which = message.WhichOneof('message')
        if which == 'opened':
            self._opened(message.opened, running, asked_at, backoff)
        elif which == 'assignment':
            self._runs.assign(message.assignment.jobs)
        elif which == 'cancel_run':
            one = message.cancel_run
            self._runs.told([one], [one.job_id], Stop(_REASONS.get(one.stop_reason, 'cancelled'), one.reason))
        elif which == 'rate_change':
            change = message.rate_change
            log.info('the server gives at most %g jobs in a second (0: no limit)', change.starts_per_second)
            if not change.queue:
                self.rate = change.starts_per_second or None
            self._runs.change_rate(change.queue, change.starts_per_second, change.burst)
        elif which == 'credit_change':
            log.info('the server gives at most %d jobs at once', message.credit_change.credits)
            self.credits = message.credit_change.credits
        elif which == 'drain':
            log.info('the server asks to drain: %s', message.drain.reason)
            if not message.drain.reconnect:
                self._ending.set()
            return True  # what runs goes on, on the next stream or on none
        return False

    def _opened(self, opened: Any, running: Iterable[Any], asked_at: float, backoff: Backoff) -> None:
        if opened.lease_ms > 0:
            self.lease = opened.lease_ms / 1000
        self.credits, self.rate = opened.credits, None  # limits of jobs in a second are told anew
        self._runs.forget_rates()
        backoff.reset()
        self.opened.set()
        log.info('connected to server %s as worker %s', opened.server_id, self._opening.worker_id)
        lost = set(opened.lost_job_ids)
        self._runs.renewed([one for one in running if one.job_id not in lost], asked_at)
        self._runs.told(running, lost, _LOST)
        self.beat_soon()

    # --- heartbeats

    def _beat(self) -> None:
        at = time.monotonic()
        due = at
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._noted, max(0.0, due - time.monotonic()))
                if self._closed:
                    return
                if self._noted:  # at most once a second
                    self._wake.wait_for(lambda: self._closed, max(0.0, at + _PROGRESS_EVERY - time.monotonic()))
                self._noted = False
            at = time.monotonic()
            try:
                ok = self._one_beat(at, max(1.0, self.lease / _BEATS_PER_LEASE))
            except Exception:
                log.exception('a heartbeat could not be handled')
                ok = False
            # One that failed comes again sooner.
            due = at + (self.lease / _BEATS_PER_LEASE if ok else min(1.0, self.lease / 10))

    def _one_beat(self, at: float, timeout: float, last: bool = False) -> bool:
        self._runs.expire(self.lease)
        left = self._left  # before `running`, so that all that was read from the stream is in it
        running: List[pb.RunningJob] = self._runs.running()
        if not running and not last:
            return True
        progress = self._runs.take_progress()
        request = pb.HeartbeatRequest(
            worker_id=self._opening.worker_id, running=running, progress=progress, left_stream=left
        )
        try:
            answer = self._calls.Heartbeat(
                request,
                timeout=timeout,
                wait_for_ready=True,
                metadata=ch.metadata(self._token),
            )
        except grpc.RpcError as e:
            log.log(
                logging.DEBUG if self._beat_failed else logging.WARNING,
                'the leases of %d jobs could not be renewed, trying again: %s',
                len(running),
                from_rpc(e, 'Heartbeat'),
            )
            self._beat_failed = True
            return False
        self._beat_failed = False
        lost = set(answer.lost_job_ids)
        self._runs.renewed([one for one in running if one.job_id not in lost], at)
        self._runs.told(running, lost, _LOST)
        self._runs.told(running, answer.cancelled_job_ids, Stop('cancelled', 'cancelled'))
        return True
