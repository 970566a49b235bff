"""Threads for handlers: made when they are needed, kept for the next job. Daemons, so that a handler that hangs does
not keep a process from ending."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Optional


class Pool:
    """At most as many threads as there are tasks at a time; how many that are is the caller's business."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: 'queue.SimpleQueue[Optional[Callable[[], None]]]' = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._made = 0

    def submit(self, task: Callable[[], None]) -> None:
        with self._lock:
            make = self._idle == 0
            if make:
                self._made += 1
            else:
                self._idle -= 1
            number = self._made
        self._tasks.put(task)
        if make:
            threading.Thread(target=self._work, name=f'{self._name}-{number}', daemon=True).start()

    def close(self) -> None:
        """Idle threads end; busy ones after their task."""
        for _ in range(self._made):
            self._tasks.put(None)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            with self._lock:
                self._idle += 1
