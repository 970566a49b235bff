"""How long to wait before the next try. Pure but for chance."""

from __future__ import annotations

import random
from typing import Callable


class Backoff:
    """Doubles from `first` to `cap` seconds; each wait is between half of that and all of it, so that many who lost
    the same server do not come back at once."""

    def __init__(self, first: float = 0.1, cap: float = 10.0, chance: Callable[[], float] = random.random) -> None:
        self._first, self._cap, self._chance = first, cap, chance
        self.tries = 0

    def next(self) -> float:
        whole = min(self._cap, self._first * 2.0 ** min(self.tries, 60))
        self.tries += 1
        return whole / 2 + whole / 2 * self._chance()

    def reset(self) -> None:
        self.tries = 0
