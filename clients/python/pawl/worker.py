"""For programs that run jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import uuid
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar, Union

import grpc

from . import channel as ch
from .batch import Reporter
from .errors import PawlError
from .handlers import Handlers, Machine
from .link import Link
from .outcomes import Duration, Stop, to_ms
from .runs import Runs
from .v1 import pawl_pb2 as pb

log = logging.getLogger('pawl')
F = TypeVar('F', bound=Callable[..., Any])

_LAST_WORDS = 5.0  # after the drain: for handlers to hear that they should end, and for the last reports


class Worker:
    """Runs jobs of the kinds it has handlers for.

        worker = Worker(concurrency=10)

        @worker.handler('greet')
        def greet(job):
            return f'Hello, {job.payload["name"]}'

        worker.run()    # until SIGTERM or Ctrl-C; or start() and stop(), or `await worker.run_async()`

    concurrency: handlers that run at a time. prefetch: jobs held ready beyond that. lease: how long the server
    believes in this worker without a sign of life (None: the server's default). drain: how long a stop waits for
    handlers before it tells them to end. until_empty: it ends by itself when nothing is due for it. Functions run on threads, coroutines on a loop: that of run_async(), else
    one of the worker's own. Address, token and tls are those of Client.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        queues: Sequence[str] = ('default',),
        concurrency: int = 10,
        prefetch: int = 0,
        lease: Optional[Duration] = None,
        drain: float = 25.0,
        until_empty: bool = False,
        name: Optional[str] = None,
        token: Optional[ch.Token] = None,
        tls: Union[None, bool, ch.TLS] = None,
    ) -> None:
        if concurrency < 1 or prefetch < 0:
            raise ValueError('concurrency is at least 1, and prefetch at least 0')
        self.id = uuid.uuid4().hex
        self.name = name or f'{socket.gethostname()}:{os.getpid()}'
        self._where = (ch.resolve(address), tls)
        self._token = ch.token_source(token)
        self._queues: List[str] = [queues] if isinstance(queues, str) else list(queues)
        self._concurrency, self._prefetch, self._drain = concurrency, prefetch, drain
        self._until_empty = until_empty
        self._lease_ms = 0 if lease is None else to_ms(lease)
        self._handlers = Handlers()
        self._lock = threading.Lock()
        self._started = False
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._own_loop: Optional[asyncio.AbstractEventLoop] = None
        self._link: Optional[Link] = None

    # --- handlers

    def handle(self, kind: str, handler: Callable[..., Any]) -> None:
        """Says what runs jobs of a kind; before the start."""
        self._handlers.add(kind, handler)

    def handler(self, kind: str) -> Callable[[F], F]:
        """The same as a decorator."""

        def add(handler: F) -> F:
            self.handle(kind, handler)
            return handler

        return add

    def machine(self, kind: str, first: str) -> Machine:
        """A kind whose jobs go on in steps: add them with @machine.step."""
        machine = Machine(kind, first)
        self._handlers.add(kind, machine)
        return machine

    # --- life

    def start(self) -> None:
        """Works on threads of its own. A server that cannot be reached is waited for."""
        with self._lock:
            if self._started:
                raise PawlError('a worker is started once')
            self._handlers.check()
            self._started = True
        opening = pb.StreamJobsRequest(
            queues=self._queues,
            kinds=self._handlers.kinds(),
            worker_id=self.id,
            worker_name=self.name,
            credits=self._concurrency + self._prefetch,
            lease_ms=self._lease_ms,
            until_empty=self._until_empty,
        )
        self._channel = ch.channel(grpc, *self._where)
        self._link = Link(ch.Calls(self._channel), self._token, opening, self._stream_ended)
        self._reporter = Reporter(self._link.report)
        self._runs = Runs(self._handlers, self._concurrency, self._reporter.add, self._get_loop, self._link.beat_soon)
        self._link.start(self._runs)
        threading.Thread(target=self._finish, name='pawl-stop', daemon=True).start()

    def stop(self, wait: bool = True) -> None:
        """Takes no more jobs, gives back what was not started, and lets handlers end. May be called from any thread,
        more than once."""
        self._stopping.set()
        if wait:
            self.join()

    def join(self, timeout: Optional[float] = None) -> bool:
        """Waits for the end; False: the time was over before. Raises what has kept it from working at all."""
        if not self._started:
            return True
        if not self._ended.wait(timeout):
            return False
        if self._link is not None and self._link.error is not None:
            raise self._link.error
        return True

    def run(self, handle_signals: bool = True) -> None:
        """start() and join(). In the main thread SIGTERM and SIGINT stop it; the second one ends the process as it
        would have without."""
        before: Dict[int, Any] = {}
        if handle_signals and threading.current_thread() is threading.main_thread():

            def on_signal(number: int, _: Any) -> None:
                for each, old in before.items():
                    signal.signal(each, old)
                self._stopping.set()

            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, on_signal)
        try:
            self.start()
            self.join()
        finally:
            for each, old in before.items():
                signal.signal(each, old)

    async def run_async(self, handle_signals: bool = True) -> None:
        """The same on the running loop, where coroutines are run, too. Cancelling it stops the worker, in good
        order."""
        loop = self._loop = asyncio.get_running_loop()
        numbers: List[int] = []

        def on_signal() -> None:
            while numbers:
                loop.remove_signal_handler(numbers.pop())
            self._stopping.set()

        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                try:
                    loop.add_signal_handler(number, on_signal)
                    numbers.append(number)
                except NotImplementedError:  # a loop or a system without
                    pass
        try:
            self.start()
            joined = loop.run_in_executor(None, self.join)
            try:
                await asyncio.shield(joined)
            except asyncio.CancelledError:
                self._stopping.set()
                await joined
                raise
        finally:
            while numbers:
                loop.remove_signal_handler(numbers.pop())

    def __enter__(self) -> 'Worker':
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def wait_connected(self, timeout: Optional[float] = None) -> bool:
        """Waits until the server has taken this worker on for the first time."""
        return self._link is not None and self._link.opened.wait(timeout)

    @property
    def credits(self) -> int:
        """How many jobs it may hold at once: concurrency and prefetch, or less where an operator wants it
        (`pawl worker limit`)."""
        return self._link.credits if self._link is not None else self._concurrency + self._prefetch

    @property
    def rate(self) -> Optional[float]:
        """How many jobs the server gives it in a second, where an operator has set a limit; None: as fast as they
        end."""
        return self._link.rate if self._link is not None else None

    # --- inside

    def _stream_ended(self) -> None:
        self._stopping.set()

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = self._own_loop = asyncio.new_event_loop()
                threading.Thread(target=self._own_loop.run_forever, name='pawl-async', daemon=True).start()
            return self._loop

    def _finish(self) -> None:
        """The end, on a thread of its own because whoever asks for it may be a signal handler or a job."""
        self._stopping.wait()
        assert self._link is not None
        try:
            self._runs.recall()
            self._link.leave()
            if not self._runs.wait_empty(self._drain):
                self._runs.stop_all(Stop('shutdown', 'the worker stops'))
                if not self._runs.wait_empty(_LAST_WORDS):
                    log.warning('%d jobs are left to their leases', len(self._runs.running()))
            self._link.close()
            self._reporter.close()
            self._runs.close()
            self._channel.close()
            if self._own_loop is not None:
                self._own_loop.call_soon_threadsafe(self._own_loop.stop)
        finally:
            self._ended.set()
