"""Async nodes that wait for one child in their own way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from rubrics.containers.container import finite_number
from rubrics.containers.transforms import Single
from rubrics.rubric import Rubric
from rubrics.score import Outcome, StructureError, Unscored


class _Around(Single):
    """An async node that runs its one child in its own way and passes the outcome on."""

    is_async = True

    def combine(self, values: list[Outcome]) -> Outcome:
        return values[0]

    def shares(self, values: list[Outcome | None]) -> list[float]:
        return [1.0]

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        return low, high

    def _own_async(self) -> bool:
        return True


class Timeout(_Around):
    """The child's outcome, or unscored where it takes longer.

    An async child is cancelled. A sync child runs in a worker thread, which nothing can interrupt: it is left to
    finish alone, and what it answers then is ignored.

    Args:
        rubric: the child.
        seconds: wall-clock seconds, positive.
    """

    state_fields = ("seconds",)
    _seconds: float = 1.0

    def __init__(self, rubric: Rubric, seconds: float) -> None:
        super().__init__(rubric)
        self.seconds = seconds

    @property
    def seconds(self) -> float:
        """Wall-clock seconds."""
        return self._seconds

    @seconds.setter
    def seconds(self, value: float) -> None:
        value = finite_number(value, "seconds", "Timeout")
        if value <= 0.0:
            raise StructureError(f"Timeout: seconds must be positive, got {value}")
        self._seconds = value

    async def around(self, child: Callable[[], Awaitable[Outcome]]) -> Outcome:
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await child()
        except TimeoutError:
            if not limit.expired():
                raise
            return Unscored(f"timed out after {self._seconds:g} s")


class Threaded(_Around):
    """A child that blocks, run in a worker thread so that nothing waits for it but its parent.

    Args:
        rubric: the child.
        limit: how many threads may be busy with this node at once, on each event loop.
    """

    limit: int = 64

    def __init__(self, rubric: Rubric, limit: int = 64) -> None:
        super().__init__(rubric)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise StructureError(f"Threaded: limit is a whole number from 1, not {limit!r}")
        self.limit = limit

    async def around(self, child: Callable[[], Awaitable[Outcome]]) -> Outcome:
        async with self._slots_here():
            return await child()

    def _slots_here(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        slots = _SLOTS.setdefault(self, WeakKeyDictionary())
        if loop not in slots:
            for other in [other for other in slots if other.is_closed()]:
                del slots[other]  # a semaphore that was waited for holds its loop
            slots[loop] = asyncio.Semaphore(self.limit)
        return slots[loop]


_SLOTS: WeakKeyDictionary[Threaded, WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)
