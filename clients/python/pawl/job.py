"""A job in the hands of its handler."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, Callable, List, Optional

from .outcomes import JobStopped, Stop, decode
from .views import state_name


@dataclass(frozen=True)
class Signal:
    """A signal that a step has awaited."""

    name: str
    payload_bytes: bytes
    sent_at: Optional[datetime] = None
    id: int = 0

    @cached_property
    def payload(self) -> Any:
        return decode(self.payload_bytes, f'the payload of signal {self.name}')


@dataclass(frozen=True)
class ChildResult:
    """How a child ended: state is done, failed or cancelled."""

    id: int
    kind: str
    state: str
    result_bytes: bytes
    error: str

    @cached_property
    def result(self) -> Any:
        return decode(self.result_bytes, f'the result of child {self.id}')


class Job:
    """What a handler gets.

    `cancelled` is a threading.Event: set when the run should end, whatever the reason; `stop_reason` then is
    'cancelled', 'lost' (another worker may have the job, nothing this run does counts any more), 'timeout' or
    'shutdown'. In a coroutine the task is cancelled, too.
    """

    def __init__(self, message: Any, noted: Callable[['Job'], None]) -> None:
        self.id: int = message.job_id
        self.token: bytes = message.token
        self.kind: str = message.kind
        self.queue: str = message.queue
        self.payload_bytes: bytes = message.payload
        self.attempt: int = message.attempt
        self.max_attempts: int = message.max_attempts
        self.timeout_ms: int = message.timeout_ms
        self.priority: int = message.priority
        self.lane: str = message.lane
        self.trace: str = message.trace
        self.step: str = message.step
        self.state_bytes: bytes = message.machine_data
        self.timed_out: bool = message.timed_out
        self.children_left: int = message.children_left
        self.signals: List[Signal] = [
            Signal(
                s.name,
                s.payload,
                datetime.fromtimestamp(s.sent_at_us / 1e6, timezone.utc) if s.sent_at_us else None,
                s.id,
            )
            for s in message.signals
        ]
        self.children: List[ChildResult] = [
            ChildResult(c.job_id, c.kind, state_name(c.state), c.result, c.error) for c in message.children
        ]
        self.cancelled = threading.Event()
        self.stop: Optional[Stop] = None
        self._noted = noted
        self.noted_progress: Any = None

    @cached_property
    def payload(self) -> Any:
        """The input, read as JSON. NotJSONError when it is none, which fails the job unless it is caught."""
        return decode(self.payload_bytes, f'the payload of job {self.id}')

    @cached_property
    def state(self) -> Any:
        """What the machine's last step left for this one, read as JSON."""
        return decode(self.state_bytes, f'the state of job {self.id}')

    @property
    def stop_reason(self) -> Optional[str]:
        return self.stop.reason if self.stop is not None else None

    def received(self, name: str) -> Optional[Signal]:
        """The newest signal of that name which this step is shown."""
        return next((s for s in reversed(self.signals) if s.name == name), None)

    def check(self) -> None:
        """Raises JobStopped when the run should end. To be called now and then by handlers that take long."""
        if self.cancelled.is_set():
            raise JobStopped(f'job {self.id} was asked to end: {self.stop_reason}')

    def progress(self, percent: int = 0, note: str = '') -> None:
        """How far it is, for those who look. Sent soon, at most once a second; the last one counts, so it may be
        called often."""
        self.noted_progress = (max(0, min(100, int(percent))), note)
        self._noted(self)

    def __repr__(self) -> str:
        return f'<job {self.id} {self.kind}{" step " + self.step if self.step else ""} attempt {self.attempt}>'
