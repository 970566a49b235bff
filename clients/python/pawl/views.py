"""What the server tells about jobs, queues and workers, as Python values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, Dict, List, Optional

from .outcomes import decode
from .v1 import pawl_pb2 as pb

FINISHED = frozenset({'done', 'failed', 'cancelled'})


def state_name(state: int) -> str:
    return str(pb.JobState.Name(state))[len('JOB_STATE_') :].lower() if state in pb.JobState.values() else 'unknown'


def state_number(name: str) -> int:
    try:
        return int(pb.JobState.Value(f'JOB_STATE_{name.upper()}'))
    except ValueError:
        raise ValueError(f'{name!r} is no state of a job') from None


def _time(us: int) -> Optional[datetime]:
    return datetime.fromtimestamp(us / 1e6, timezone.utc) if us else None


@dataclass(frozen=True)
class JobError:
    """Why an attempt did not succeed."""

    attempt: int
    error_class: str
    error: str
    at: Optional[datetime]


@dataclass(frozen=True)
class Progress:
    """What the handler last said about how far it is."""

    percent: int
    note: str


class JobView:
    """A job as it was when the server was asked."""

    def __init__(self, message: Any) -> None:
        self.id: int = message.job_id
        self.state: str = state_name(message.state)
        self.queue: str = message.queue
        self.kind: str = message.kind
        self.priority: int = message.priority
        self.attempt: int = message.attempt
        self.max_attempts: int = message.max_attempts
        self.created_at: Optional[datetime] = _time(message.created_at_us)
        self.due_at: Optional[datetime] = _time(message.due_at_us)
        self.started_at: Optional[datetime] = _time(message.started_at_us)
        self.finished_at: Optional[datetime] = _time(message.finished_at_us)
        self.worker_id: str = message.worker_id
        self.payload_bytes: bytes = message.payload
        self.result_bytes: bytes = message.result
        self.errors: List[JobError] = [
            JobError(e.attempt, e.error_class, e.error, _time(e.at_us)) for e in message.errors
        ]
        self.lane: str = message.lane
        self.tags: List[str] = list(message.tags)
        self.step: str = message.step
        self.parent_id: Optional[int] = message.parent_id or None
        self.queue_paused: bool = message.queue_paused
        progress = message.progress if message.HasField('progress') else None
        self.progress: Optional[Progress] = Progress(progress.percent, progress.note) if progress is not None else None

    @property
    def finished(self) -> bool:
        """done, failed or cancelled: it will never change again."""
        return self.state in FINISHED

    @cached_property
    def payload(self) -> Any:
        return decode(self.payload_bytes, f'the payload of job {self.id}')

    @cached_property
    def result(self) -> Any:
        return decode(self.result_bytes, f'the result of job {self.id}')

    def __repr__(self) -> str:
        return f'<job {self.id} {self.kind} {self.state}>'


@dataclass(frozen=True)
class Accepted:
    """A job that was accepted; existed: there was one with its unique key already, and this is its id."""

    id: int
    existed: bool


@dataclass(frozen=True)
class Cancelled:
    """What became of a cancel. status: ok, not_found, wrong_state (finished already)."""

    id: int
    status: str
    state: str


@dataclass(frozen=True)
class Page:
    """Jobs, newest first; next_page is empty on the last page."""

    jobs: List[JobView]
    next_page: str


@dataclass(frozen=True)
class QueueStats:
    """Numbers of a queue."""

    queue: str
    paused: bool
    counts: Dict[str, int]
    oldest_due_ms: int


@dataclass(frozen=True)
class WorkerStats:
    """Numbers of a worker that is connected to the server that was asked."""

    worker_id: str
    worker_name: str
    credits: int
    running: int
    ended: int
    draining: bool
    connected_at: Optional[datetime]


@dataclass(frozen=True)
class Stats:
    """Numbers, as of now."""

    queues: List[QueueStats]
    workers: List[WorkerStats]
    uptime_ms: int


def stats(message: Any) -> Stats:
    return Stats(
        [
            QueueStats(q.queue, q.paused, {state_name(c.state): c.jobs for c in q.counts}, q.oldest_due_ms)
            for q in message.queues
        ],
        [
            WorkerStats(w.worker_id, w.worker_name, w.credits, w.running, w.ended, w.draining, _time(w.connected_at_us))
            for w in message.workers
        ],
        message.uptime_ms,
    )


def item_status(status: int) -> str:
    return (
        str(pb.ItemStatus.Name(status))[len('ITEM_STATUS_') :].lower()
        if status in pb.ItemStatus.values()
        else 'unknown'
    )
