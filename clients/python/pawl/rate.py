"""How fast jobs may be started, when the server says so. Pure: the time is an argument."""

from __future__ import annotations

from typing import Dict


class _Bucket:
    def __init__(self, per_second: float, burst: int, now: float) -> None:
        self.per_second, self.burst, self.tokens, self.at = per_second, float(max(1, burst)), float(max(1, burst)), now

    def refill(self, now: float) -> None:
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.per_second)
        self.at = now


class Rates:
    """Token buckets: one for a queue, and one for all."""

    def __init__(self) -> None:
        self._buckets: Dict[str, _Bucket] = {}

    def change(self, queue: str, per_second: float, burst: int, now: float) -> None:
        """queue '': all of them. per_second 0: no limit."""
        if per_second > 0:
            self._buckets[queue] = _Bucket(per_second, burst, now)
        else:
            self._buckets.pop(queue, None)

    def wait(self, queue: str, now: float) -> float:
        """0: may start now, and is counted. Else: how many seconds until it may."""
        buckets = [self._buckets[name] for name in ('', queue) if name in self._buckets]
        for bucket in buckets:
            bucket.refill(now)
        wait = max((max(0.0, 1.0 - b.tokens) / b.per_second for b in buckets), default=0.0)
        if wait > 1e-9:
            return wait
        for bucket in buckets:
            bucket.tokens -= 1.0
        return 0.0
