"""Turns: steps of one episode are taken one at a time, by sync callers and by async callers on any event loop."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from rubrics.score import EpisodeError


class Turn:
    """A lock to be used with `with` or `async with`.

    Attributes:
        lock: the lock itself, for code that counts nanoseconds; who releases it must `wake` those in `waiting`.
        waiting: async callers who stand in line.
    """

    __slots__ = ("_holder", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._holder: asyncio.AbstractEventLoop | None = None

    def refuse_to_wait_for_this_thread(self) -> None:
        """A sync call waits in its thread; a step in progress on the event loop of that thread would never go on."""
        if self._holder is not None and self._holder is asyncio._get_running_loop():
            raise EpisodeError(
                "a step of this episode is in progress on the event loop of this thread: await astep or aend"
            )

    def __enter__(self) -> None:
        self.refuse_to_wait_for_this_thread()
        self.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder = None
        self.lock.release()
        if self.waiting:
            self.wake()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.lock.acquire(False):
            woken: asyncio.Future[None] = loop.create_future()
            self.waiting.append((loop, woken))
            if self.lock.acquire(False):  # it came free before we stood in line
                break
            await woken
        self._holder = loop

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def wake(self) -> None:
        """Those who wait on event loops try again, all of them; sync callers wait at the lock itself."""
        waiting, self.waiting = self.waiting, []
        for loop, woken in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, woken)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
