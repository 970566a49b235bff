"""Requests made of arguments, and answers made of messages: what the blocking and the asyncio client have in common.
Pure."""

from __future__ import annotations

import uuid
from typing import Any, Iterable, List, Mapping, Optional, Union

from .errors import JobFailedError, NotFoundError, ServerError, StateError
from .new_job import NewJob
from .outcomes import encode
from .v1 import pawl_pb2 as pb
from .views import Accepted, Cancelled, JobView, Page, item_status, state_name, state_number

ENQUEUE_MAX = 1000  # jobs of one call


def enqueue(jobs: Iterable[Union[NewJob, Mapping[str, Any]]], idempotency_key: Optional[str]) -> pb.EnqueueRequest:
    """The key is made here when there is none, so that trying the same call again is always safe."""
    items = [job if isinstance(job, NewJob) else NewJob(**job) for job in jobs]
    if len(items) > ENQUEUE_MAX:
        raise ValueError(f'{len(items)} jobs are more than the {ENQUEUE_MAX} of one call, which is all or nothing')
    return pb.EnqueueRequest(jobs=[job.message() for job in items], idempotency_key=idempotency_key or uuid.uuid4().hex)


def accepted(answer: Any) -> List[Accepted]:
    return [Accepted(a.job_id, a.existed) for a in answer.accepted]


def signal(job_id: int, name: str, payload: Any, idempotency_key: Optional[str]) -> pb.SignalRequest:
    return pb.SignalRequest(
        job_id=job_id, name=name, payload=encode(payload), idempotency_key=idempotency_key or uuid.uuid4().hex
    )


def cancel(job_ids: Union[int, Iterable[int]], reason: str) -> pb.CancelRequest:
    return pb.CancelRequest(job_ids=[job_ids] if isinstance(job_ids, int) else list(job_ids), reason=reason)


def cancelled(answer: Any) -> List[Cancelled]:
    return [Cancelled(a.job_id, item_status(a.status), state_name(a.state)) for a in answer.answers]


def to_be_repeated(answer: Any) -> bool:
    """A conflict that goes away by itself: the whole call may be sent again."""
    return any(a.status == pb.ITEM_STATUS_RETRY for a in getattr(answer, 'answers', ()))


def listing(
    queue: str, kind: str, states: Iterable[str], tags: Iterable[str], limit: int, page: str
) -> pb.ListJobsRequest:
    request = pb.ListJobsRequest(queue=queue, kind=kind, tags=list(tags), limit=limit, page=page)
    request.states.extend(state_number(s) for s in states)
    return request


def page_of(answer: Any) -> Page:
    return Page([JobView(job) for job in answer.jobs], answer.next_page)


def result_of(job: JobView) -> Any:
    """What a finished job left; raises when it was no success."""
    if job.state != 'done':
        raise JobFailedError(job)
    return job.result


def one_cancelled(answer: Any) -> str:
    """The state of a single job after its cancel."""
    one = cancelled(answer)[0]
    if one.status == 'ok':
        return one.state
    if one.status == 'not_found':
        raise NotFoundError('NOT_FOUND', f'there is no job {one.id}', 'Cancel')
    if one.status == 'wrong_state':
        raise StateError('FAILED_PRECONDITION', f'job {one.id} is {one.state} already', 'Cancel')
    raise ServerError('UNKNOWN', f'job {one.id}: {one.status}', 'Cancel')
