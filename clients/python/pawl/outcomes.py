"""What a handler may say about how its job goes on, and how that becomes a report. Pure: no I/O, no clock.

A handler that returns a value is done, with that value as its result. One that raises is tried again. Everything
else is said with the classes below: those that are exceptions may be raised or returned, the others are returned.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from .errors import NotJSONError
from .v1 import pawl_pb2 as pb

Duration = Union[int, float, timedelta]  # seconds, unless it is a timedelta

RESULT_MAX = 1024 * 1024
ERROR_MAX = 4000  # bytes of an error that the server keeps
_FRAMES = 4  # of a traceback, in an error


def to_ms(duration: Duration) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return round(seconds * 1000)


def encode(value: Any) -> bytes:
    """A value as it travels: None is nothing, bytes are themselves, all else is JSON."""
    if value is None:
        return b''
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return json.dumps(value, ensure_ascii=False, separators=(',', ':'), allow_nan=False).encode()


def decode(data: bytes, what: str) -> Any:
    """The other way round: nothing is None, all else is taken for JSON."""
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError as e:
        raise NotJSONError(f'{what} is not JSON: {e}') from e


class PermanentError(Exception):
    """Trying again is of no use: the job fails, or is parked where its kind says so."""


class Reject(Exception):
    """A rule of the business says no: the job fails, is never parked, and is no sign of trouble."""


class Retry(Exception):
    """Not this time. Without a delay the retry policy of the kind decides when it is tried again."""

    def __init__(self, error: str = 'the handler asked for another try', delay: Optional[Duration] = None) -> None:
        super().__init__(error)
        self.delay = delay


class Snooze(Exception):
    """Not yet: again after a delay, and this start was no attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f'snoozed for {to_ms(delay)} ms')
        self.delay = delay


class Cancel(Exception):
    """The job is not wanted any more: cancelled."""


class JobStopped(Exception):
    """Raised by job.check() when the run should end."""


@dataclass(frozen=True)
class Done:
    """Done, with a result: bytes as they are, anything else as JSON."""

    result: Any = None


@dataclass(frozen=True)
class Next:
    """The machine goes on with this step, at once or later. state None: it stays as it is."""

    step: str
    state: Any = None
    delay: Duration = 0


@dataclass(frozen=True)
class Await:
    """The machine goes on with `step` when one of the signals has come, or after `timeout` (job.timed_out says so)."""

    signals: Union[str, Sequence[str]]
    step: str
    state: Any = None
    timeout: Optional[Duration] = None


@dataclass(frozen=True)
class Child:
    """A job to be spawned. Without a queue it goes to its parent's."""

    kind: str
    payload: Any = None
    queue: str = ''
    priority: Optional[int] = None
    max_attempts: int = 0


@dataclass(frozen=True)
class Spawn:
    """The machine starts children and goes on with `step` when they have ended: all of them, or `quorum`, or with
    the first that fails (`fail_fast`). `cancel` ends those that are left."""

    children: Iterable[Child]
    step: str
    state: Any = None
    fail_fast: bool = False
    quorum: int = 0
    cancel: bool = False


@dataclass(frozen=True)
class Stop:
    """Why a run was asked to end: lost, cancelled, timeout or shutdown."""

    reason: str
    detail: str = ''


@dataclass
class Ending:
    """How a handler ended: with a value, or with an error."""

    value: Any = None
    error: Optional[BaseException] = None
    stop: Optional[Stop] = None
    timeout_ms: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)


def error_text(error: BaseException) -> str:
    """What went wrong, and where: the innermost frames first."""
    name = type(error).__name__
    try:
        text = f'{name}: {error}' if str(error) else name
    except Exception:  # an error of its own; the job's must be told all the same
        text = f'{name}, whose text cannot be had'
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return cut(text + ''.join(f'\n  at {f.filename}:{f.lineno} in {f.name}' for f in reversed(frames)))


def cut(text: str, limit: int = ERROR_MAX) -> str:
    """At most so many bytes, whole characters, and nothing that the wire refuses."""
    data = text.replace('\0', '\N{REPLACEMENT CHARACTER}').encode('utf-8', 'replace')
    return data[:limit].decode('utf-8', 'ignore')


def new_job(child: Child) -> pb.NewJob:
    job = pb.NewJob(
        kind=child.kind,
        queue=child.queue,
        payload=encode(child.payload),
        max_attempts=child.max_attempts,
        payload_is_bytes=isinstance(child.payload, (bytes, bytearray, memoryview)),
    )
    if child.priority is not None:
        job.priority = child.priority
    return job


def _retry(report: pb.Report, error: str, delay_ms: Optional[int] = None) -> None:
    report.retry.error = error
    if delay_ms is not None:
        report.retry.delay_ms = delay_ms


def _spawn(report: pb.Report, spawn: Spawn) -> None:
    out = pb.SpawnOutcome(
        step=spawn.step,
        machine_data=encode(spawn.state),
        fail_fast=spawn.fail_fast,
        quorum=spawn.quorum,
        cancel=spawn.cancel,
    )
    for child in spawn.children:
        out.children.add().job.CopyFrom(new_job(child))
    report.spawn.CopyFrom(out)


def _value(report: pb.Report, value: Any) -> None:
    if isinstance(value, Next):
        report.next.CopyFrom(
            pb.NextOutcome(step=value.step, machine_data=encode(value.state), delay_ms=to_ms(value.delay))
        )
    elif isinstance(value, Await):
        signals = [value.signals] if isinstance(value.signals, str) else list(value.signals)
        getattr(report, 'await').CopyFrom(
            pb.AwaitOutcome(
                signals=signals,
                step=value.step,
                machine_data=encode(value.state),
                timeout_ms=0 if value.timeout is None else max(1, to_ms(value.timeout)),
            )
        )
    elif isinstance(value, Spawn):
        _spawn(report, value)
    else:
        result = encode(value.result if isinstance(value, Done) else value)
        if len(result) > RESULT_MAX:
            raise ValueError(f'{len(result)} bytes are more than the {RESULT_MAX} a result may have')
        report.done.result = result


def _error(report: pb.Report, error: BaseException) -> None:
    if isinstance(error, Retry):
        _retry(report, cut(str(error)), None if error.delay is None else max(0, to_ms(error.delay)))
    elif isinstance(error, Snooze):
        report.snooze.delay_ms = max(0, to_ms(error.delay))
    elif isinstance(error, Reject):
        report.reject.error = cut(str(error) or 'rejected')
    elif isinstance(error, Cancel):
        report.cancel.reason = cut(str(error))
    elif isinstance(error, (PermanentError, NotJSONError)):
        report.fail.error = error_text(error)
    else:
        _retry(report, error_text(error))


_EXPLICIT = (Retry, Snooze, Reject, Cancel, PermanentError)


def _stopped(report: pb.Report, ending: Ending, done: bool) -> bool:
    """What the reason of a stop decides; False: the handler's own words count."""
    stop = ending.stop
    if stop is None:
        return False
    if stop.reason == 'timeout':
        _retry(report, f'ran longer than its timeout of {ending.timeout_ms} ms')
        return True
    if stop.reason == 'cancelled' and not done:
        report.cancel.reason = cut(stop.detail or 'cancelled while it ran')
        return True
    if stop.reason == 'shutdown' and ending.error is not None and not isinstance(ending.error, _EXPLICIT):
        _retry(report, 'stopped by the shutdown of its worker', 0)
        return True
    return False


def outcome(ending: Ending) -> Optional[pb.Report]:
    """The report of an ending; None when the claim is lost and nothing it says would count.

    What cannot be sent is a failure of this run alone: a result fails the job, because its work is done and not to
    be repeated; a step is tried again.
    """
    if ending.stop is not None and ending.stop.reason == 'lost':
        return None
    error = ending.error
    value = ending.value
    if isinstance(value, Exception):  # an outcome that was returned instead of raised
        value, error = None, value
    report = pb.Report(**ending.fields)
    done = error is None and not isinstance(value, (Next, Await, Spawn))
    if _stopped(report, Ending(value, error, ending.stop, ending.timeout_ms), done):
        return report
    if error is not None:
        _error(report, error)
        return report
    try:
        _value(report, value)
    except Exception as e:  # whatever a value can do to be no JSON
        if done:
            report.fail.error = cut(f'the result cannot be kept: {e}; the work was done and is not repeated')
        else:
            _retry(report, cut(f'the outcome cannot be sent: {error_text(e)}'))
    return report


def refused(report: pb.Report, why: str) -> pb.Report:
    """What to say instead of a report that the server will not take."""
    other = pb.Report(job_id=report.job_id, token=report.token, run_us=report.run_us, signal_ids=report.signal_ids)
    if report.WhichOneof('outcome') in ('next', 'await', 'spawn'):
        _retry(other, cut(f'the outcome was refused: {why}'))
    else:
        other.fail.error = cut(f'the outcome was refused: {why}')
    return other
