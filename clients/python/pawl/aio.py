"""The client of pawl.client for asyncio: the same methods, to be awaited."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, Iterable, List, Mapping, Optional, Union

import grpc
import grpc.aio

from . import channel as ch
from . import requests as rq
from . import views
from .backoff import Backoff
from .client import _WAIT_CAP, _WAIT_FIRST
from .errors import LAST_TRY, ServerError, WaitTimeoutError, from_rpc
from .new_job import NewJob
from .v1 import pawl_pb2 as pb
from .views import Accepted, Cancelled, JobView, Page, Stats


class AsyncClient:
    """See pawl.Client. Belongs to the loop in which it was first used."""

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[ch.Token] = None,
        tls: Union[None, bool, ch.TLS] = None,
        timeout: float = 30.0,
    ) -> None:
        self._where = (ch.resolve(address), tls)
        self._channel: Any = None
        self._calls: Any = None
        self._token = ch.token_source(token)
        self.timeout = timeout

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def __aenter__(self) -> 'AsyncClient':
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def _call(self, method: str, request: Any) -> Any:
        if self._channel is None:
            self._channel = ch.channel(grpc.aio, *self._where)
            self._calls = ch.Calls(self._channel)
        deadline = time.monotonic() + self.timeout
        backoff = Backoff(first=0.05, cap=2.0)
        while True:
            left = max(0.001, deadline - time.monotonic())
            wait = backoff.next()
            try:
                answer = await getattr(self._calls, method)(
                    request, timeout=left, wait_for_ready=True, metadata=ch.metadata(self._token)
                )
                if not rq.to_be_repeated(answer) or time.monotonic() + wait >= deadline:
                    return answer
            except grpc.RpcError as e:
                error = from_rpc(e, method)
                if not error.retryable:
                    raise error from None
                if time.monotonic() + wait >= deadline:
                    return await self._last_try(method, request, error)
            await asyncio.sleep(wait)

    async def _last_try(self, method: str, request: Any, error: ServerError) -> Any:
        """A call that waited for a connection until its deadline cannot say why there was none. One that does not
        wait can."""
        try:
            return await getattr(self._calls, method)(request, timeout=LAST_TRY, metadata=ch.metadata(self._token))
        except grpc.RpcError as e:
            why = from_rpc(e, method)
            raise (why if why.code == 'UNAVAILABLE' else error) from None

    async def enqueue(
        self, kind: str, payload: Any = None, *, idempotency_key: Optional[str] = None, **options: Any
    ) -> int:
        return (await self.enqueue_many([NewJob(kind, payload, **options)], idempotency_key=idempotency_key))[0].id

    async def enqueue_many(
        self, jobs: Iterable[Union[NewJob, Mapping[str, Any]]], *, idempotency_key: Optional[str] = None
    ) -> List[Accepted]:
        return rq.accepted(await self._call('Enqueue', rq.enqueue(jobs, idempotency_key)))

    async def signal(
        self, job_id: int, name: str, payload: Any = None, *, idempotency_key: Optional[str] = None
    ) -> bool:
        return bool((await self._call('Signal', rq.signal(job_id, name, payload, idempotency_key))).woken)

    async def cancel(self, job_id: int, reason: str = '') -> str:
        return rq.one_cancelled(await self._call('Cancel', rq.cancel(job_id, reason)))

    async def cancel_many(self, job_ids: Iterable[int], reason: str = '') -> List[Cancelled]:
        return rq.cancelled(await self._call('Cancel', rq.cancel(job_ids, reason)))

    async def get(self, job_id: int, *, without_data: bool = False) -> JobView:
        return JobView((await self._call('GetJob', pb.GetJobRequest(job_id=job_id, without_data=without_data))).job)

    async def list(
        self,
        *,
        queue: str = '',
        kind: str = '',
        states: Iterable[str] = (),
        tags: Iterable[str] = (),
        limit: int = 0,
        page: str = '',
    ) -> Page:
        return rq.page_of(await self._call('ListJobs', rq.listing(queue, kind, states, tags, limit, page)))

    async def list_all(self, **what: Any) -> AsyncIterator[JobView]:
        while True:
            page = await self.list(**what)
            for job in page.jobs:
                yield job
            if not page.next_page:
                return
            what['page'] = page.next_page

    async def wait(self, job_id: int, timeout: Optional[float] = None) -> JobView:
        deadline = None if timeout is None else time.monotonic() + timeout
        backoff = Backoff(_WAIT_FIRST, _WAIT_CAP)
        while True:
            if (await self.get(job_id, without_data=True)).finished:
                return await self.get(job_id)
            wait = backoff.next()
            if deadline is not None and time.monotonic() + wait > deadline:
                raise WaitTimeoutError(f'job {job_id} had not ended after {timeout} s')
            await asyncio.sleep(wait)

    async def result(self, job_id: int, timeout: Optional[float] = None) -> Any:
        return rq.result_of(await self.wait(job_id, timeout))

    async def pause(self, queue: str, reason: str = '') -> bool:
        return bool((await self._call('PauseQueue', pb.PauseQueueRequest(queue=queue, reason=reason))).was_paused)

    async def resume(self, queue: str) -> bool:
        return bool((await self._call('ResumeQueue', pb.ResumeQueueRequest(queue=queue))).was_paused)

    async def stats(self, queues: Iterable[str] = ()) -> Stats:
        return views.stats(await self._call('Stats', pb.StatsRequest(queues=list(queues))))
