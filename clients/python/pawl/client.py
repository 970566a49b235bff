"""For programs that make jobs and look at them: a client that blocks. Safe to be used by any number of threads."""

from __future__ import annotations

import time
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Union

import grpc

from . import channel as ch
from . import requests as rq
from . import views
from .backoff import Backoff
from .errors import LAST_TRY, ServerError, WaitTimeoutError, from_rpc
from .new_job import NewJob
from .v1 import pawl_pb2 as pb
from .views import Accepted, Cancelled, JobView, Page, Stats

_WAIT_FIRST, _WAIT_CAP = 0.02, 1.0  # how often a job that is waited for is looked at


class Client:
    """Every call is tried again while the server cannot be reached, for at most `timeout` seconds; none of them has
    a second effect when it is repeated. address: HOST:PORT or unix:PATH; None: PAWL_SERVER, else 127.0.0.1:7295.
    token None: PAWL_TOKEN."""

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[ch.Token] = None,
        tls: Union[None, bool, ch.TLS] = None,
        timeout: float = 30.0,
    ) -> None:
        self._channel = ch.channel(grpc, ch.resolve(address), tls)
        self._calls = ch.Calls(self._channel)
        self._token = ch.token_source(token)
        self.timeout = timeout

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> 'Client':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _call(self, method: str, request: Any) -> Any:
        deadline = time.monotonic() + self.timeout
        backoff = Backoff(first=0.05, cap=2.0)
        while True:
            left = max(0.001, deadline - time.monotonic())
            wait = backoff.next()
            try:
                answer = getattr(self._calls, method)(
                    request, timeout=left, wait_for_ready=True, metadata=ch.metadata(self._token)
                )
                if not rq.to_be_repeated(answer) or time.monotonic() + wait >= deadline:
                    return answer
            except grpc.RpcError as e:
                error = from_rpc(e, method)
                if not error.retryable:
                    raise error from None
                if time.monotonic() + wait >= deadline:
                    return self._last_try(method, request, error)
            time.sleep(wait)

    def _last_try(self, method: str, request: Any, error: ServerError) -> Any:
        """A call that waited for a connection until its deadline cannot say why there was none. One that does not
        wait can."""
        try:
            return getattr(self._calls, method)(request, timeout=LAST_TRY, metadata=ch.metadata(self._token))
        except grpc.RpcError as e:
            why = from_rpc(e, method)
            raise (why if why.code == 'UNAVAILABLE' else error) from None

    # --- producing

    def enqueue(self, kind: str, payload: Any = None, *, idempotency_key: Optional[str] = None, **options: Any) -> int:
        """Accepts one job and returns its id, or that of the live job with its unique key. Options are those of
        NewJob. When this returns, the job is committed. Whoever may be killed between two tries of the same call
        gives an idempotency_key of its own.
        """
        return self.enqueue_many([NewJob(kind, payload, **options)], idempotency_key=idempotency_key)[0].id

    def enqueue_many(
        self, jobs: Iterable[Union[NewJob, Mapping[str, Any]]], *, idempotency_key: Optional[str] = None
    ) -> List[Accepted]:
        """Accepts up to 1000 jobs, all or none."""
        return rq.accepted(self._call('Enqueue', rq.enqueue(jobs, idempotency_key)))

    def signal(self, job_id: int, name: str, payload: Any = None, *, idempotency_key: Optional[str] = None) -> bool:
        """Sends a durable message to a machine; True: it was waiting for it and is due now."""
        return bool(self._call('Signal', rq.signal(job_id, name, payload, idempotency_key)).woken)

    def cancel(self, job_id: int, reason: str = '') -> str:
        """Cancels one job and returns its state: cancelled, or running when it was asked to stop."""
        return rq.one_cancelled(self._call('Cancel', rq.cancel(job_id, reason)))

    def cancel_many(self, job_ids: Iterable[int], reason: str = '') -> List[Cancelled]:
        return rq.cancelled(self._call('Cancel', rq.cancel(job_ids, reason)))

    # --- looking

    def get(self, job_id: int, *, without_data: bool = False) -> JobView:
        return JobView(self._call('GetJob', pb.GetJobRequest(job_id=job_id, without_data=without_data)).job)

    def list(
        self,
        *,
        queue: str = '',
        kind: str = '',
        states: Iterable[str] = (),
        tags: Iterable[str] = (),
        limit: int = 0,
        page: str = '',
    ) -> Page:
        """One page of jobs, newest first, without payloads and results."""
        return rq.page_of(self._call('ListJobs', rq.listing(queue, kind, states, tags, limit, page)))

    def list_all(self, **what: Any) -> Iterator[JobView]:
        """The same, page by page."""
        while True:
            page = self.list(**what)
            yield from page.jobs
            if not page.next_page:
                return
            what['page'] = page.next_page

    def wait(self, job_id: int, timeout: Optional[float] = None) -> JobView:
        """Waits until the job has ended, however it did."""
        deadline = None if timeout is None else time.monotonic() + timeout
        backoff = Backoff(_WAIT_FIRST, _WAIT_CAP)
        while True:
            if self.get(job_id, without_data=True).finished:
                return self.get(job_id)
            wait = backoff.next()
            if deadline is not None and time.monotonic() + wait > deadline:
                raise WaitTimeoutError(f'job {job_id} had not ended after {timeout} s')
            time.sleep(wait)

    def result(self, job_id: int, timeout: Optional[float] = None) -> Any:
        """Waits for the job and returns its result; JobFailedError when it failed or was cancelled."""
        return rq.result_of(self.wait(job_id, timeout))

    # --- operating

    def pause(self, queue: str, reason: str = '') -> bool:
        """Stops claiming from a queue ("*": all). Returns whether it was paused already."""
        return bool(self._call('PauseQueue', pb.PauseQueueRequest(queue=queue, reason=reason)).was_paused)

    def resume(self, queue: str) -> bool:
        """Starts claiming again. Returns whether it was paused."""
        return bool(self._call('ResumeQueue', pb.ResumeQueueRequest(queue=queue)).was_paused)

    def stats(self, queues: Iterable[str] = ()) -> Stats:
        return views.stats(self._call('Stats', pb.StatsRequest(queues=list(queues))))
