"""A new job. Made by clients/make-new-job.py from the contract; edit that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional, Sequence

from .outcomes import Duration, encode, to_ms
from .v1 import pawl_pb2 as pb


@dataclass(frozen=True)
class NewJob:
    """A job to be accepted; everything but kind may be left out. payload: bytes as they are, anything else as JSON.
    on_conflict 'refuse' raises ExistsError."""

    # What is to be done: the name by which a worker finds its handler.
    kind: str
    # The input, normally one JSON value. At most 16 MiB, and what the server takes as one message.
    payload: Any = None
    # The queue; "default" when empty.
    queue: str = ''
    # 0 to 9, higher first.
    priority: Optional[int] = None
    # Due this long after it was accepted.
    delay: Duration = 0
    # Due at this time, instead of delay_ms.
    due_at: Optional[datetime] = None
    # How often it is started at most; 0 is the default.
    max_attempts: int = 0
    # How long one attempt may take; 0 is no limit.
    timeout: Duration = 0
    # At most one live job has this key within its kind. A second one is not accepted: the answer names the
    # first.
    unique_key: str = ''
    # How long the unique key is kept after the job has ended.
    unique_for: Duration = 0
    # Jobs of one lane do not run side by side, and run in the order in which they were accepted.
    lane: str = ''
    # Words to find the job by.
    tags: Sequence[str] = ()
    # Where a machine starts; its first step when empty.
    step: str = ''
    # Trace context (W3C traceparent), given to the handler.
    trace: str = ''
    # What it is about: a signal may go to all jobs of one correlation.
    correlation: str = ''
    # It fails this long after it was accepted, whatever it does or waits for then; 0 is never.
    deadline: Duration = 0
    # How it is tried again: exponential or quadratic; as its kind says when empty.
    retry: str = ''
    # The first delay; 0: as its kind says.
    retry_base: Duration = 0
    # The longest delay; 0: as its kind says.
    retry_cap: Duration = 0
    # Where its unique key is one: kind (its queue and kind; the default), queue or global.
    unique_scope: str = ''
    # In which states of its holder the key is taken: waiting, running, parked; all of them when there are
    # none.
    unique_states: Sequence[str] = ()
    # What becomes of the job that holds its unique key: keep (the default), replace (gets the new payload,
    # priority and due time), reschedule (gets the new due time), or refuse: the call ends with
    # ALREADY_EXISTS.
    on_conflict: str = ''

    def message(self) -> pb.NewJob:
        out = pb.NewJob(
            kind=self.kind,
            payload=encode(self.payload),
            payload_is_bytes=isinstance(self.payload, (bytes, bytearray, memoryview)),
            queue=self.queue,
            delay_ms=to_ms(self.delay),
            max_attempts=self.max_attempts,
            timeout_ms=to_ms(self.timeout),
            unique_key=self.unique_key,
            unique_for_ms=to_ms(self.unique_for),
            lane=self.lane,
            tags=list(self.tags),
            step=self.step,
            trace=self.trace,
            correlation=self.correlation,
            deadline_ms=to_ms(self.deadline),
            retry=self.retry,
            retry_base_ms=to_ms(self.retry_base),
            retry_cap_ms=to_ms(self.retry_cap),
            unique_scope=self.unique_scope,
            unique_states=list(self.unique_states),
            on_conflict=self.on_conflict,
        )
        if self.priority is not None:
            out.priority = self.priority
        if self.due_at is not None:
            due = self.due_at if self.due_at.tzinfo else self.due_at.astimezone(timezone.utc)
            out.due_at_us = round(due.timestamp() * 1e6)
        return out
