"""Which function runs which job."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Optional, Union

from .job import Job
from .outcomes import PermanentError

Handler = Callable[[Job], Any]  # a function or a coroutine function


def is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, '__call__', None))


class Machine:
    """The steps of one kind, each a handler. A job without a step starts with `first`."""

    def __init__(self, kind: str, first: str) -> None:
        self.kind = kind
        self.first = first
        self.steps: Dict[str, Handler] = {}

    def step(self, name: Union[str, Handler]) -> Any:
        """As a decorator, with the step's name or without: then it is the function's."""

        def add(handler: Handler, called: Optional[str] = None) -> Handler:
            key = called or handler.__name__
            if key in self.steps:
                raise ValueError(f'machine {self.kind} has a step {key} already')
            self.steps[key] = handler
            return handler

        if isinstance(name, str):
            called = name
            return lambda handler: add(handler, called)
        return add(name)


class Handlers:
    """All of them, by kind."""

    def __init__(self) -> None:
        self._by_kind: Dict[str, Union[Handler, Machine]] = {}

    def add(self, kind: str, handler: Union[Handler, Machine]) -> None:
        if kind in self._by_kind:
            raise ValueError(f'there is a handler for {kind} already')
        self._by_kind[kind] = handler

    def kinds(self) -> List[str]:
        return sorted(self._by_kind)

    def check(self) -> None:
        """Before the start: what is missing is better found then."""
        if not self._by_kind:
            raise ValueError('a worker needs a handler for at least one kind')
        for kind, handler in self._by_kind.items():
            if isinstance(handler, Machine) and handler.first not in handler.steps:
                raise ValueError(f'machine {kind} has no step {handler.first}, which is its first')

    def find(self, kind: str, step: str) -> Handler:
        """An unknown step fails the job, and nothing else: newer code may know it."""
        handler = self._by_kind.get(kind)
        if isinstance(handler, Machine):
            handler = handler.steps.get(step or handler.first)
        if handler is None:
            raise PermanentError(
                f'unknown step {step or "(first)"} of {kind}' if kind in self._by_kind else f'no handler for {kind}'
            )
        return handler
