"""The one loop on which requests run, and how a request is shared by those who wait for it.

Connections belong to an event loop. Environments make many loops, one after another and in many threads, so requests
run on a loop of this package's own, in a daemon thread: connections are kept, nothing leaks with a caller's loop, and a
caller's loop has no bytes to read. After a fork the child starts anew.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import suppress
from contextvars import Context
from itertools import chain, repeat
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from rubrics.engine.loop import LoopThread

T = TypeVar("T")


class _Connected(Protocol):
    async def close(self) -> None: ...
    def forget(self) -> None: ...


class _Process:
    """What one process has of it."""

    def __init__(self) -> None:
        self.thread = LoopThread("judges-io")
        self.rooms: dict[asyncio.AbstractEventLoop, Room] = {}
        self.lock = threading.Lock()


class Room:
    """What requests on one loop share.

    Attributes:
        flights: requests in flight, by what makes two of them identical.
        limiters: by address and model (see `judges.limits`).
        gates: by who sends, its own limit of requests under way.
        wires: by address, model and the form asked for first, the form of structured output that was found to be taken.
    """

    def __init__(self) -> None:
        self.flights: dict[Hashable, _Flight[Any]] = {}
        self.limiters: dict[Hashable, Any] = {}
        self.gates: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()
        self.wires: dict[Hashable, Any] = {}


_process = _Process()
_connected: WeakSet[_Connected] = WeakSet()
_inherited: list[_Process] = []  # a forked child keeps its parent's: closing a socket of theirs would reach the parent


def request_loop() -> asyncio.AbstractEventLoop:
    """The loop on which requests run."""
    return _process.thread.running_loop()


def room_of(loop: asyncio.AbstractEventLoop) -> Room:
    """What requests on a loop share."""
    process = _process
    room = process.rooms.get(loop)
    if room is None:
        with process.lock:
            for over in [other for other in process.rooms if other.is_closed()]:
                del process.rooms[over]  # what is in a room refers to its loop, so a weak dictionary would keep both
            room = process.rooms.setdefault(loop, Room())
    return room


class Itself:
    """An object as a key that equals no other object's. It keeps the object, so that no later one has its id."""

    __slots__ = ("it",)

    def __init__(self, it: object) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.it is self.it

    def __hash__(self) -> int:
        return id(self.it)


def on_exit(client: _Connected) -> None:
    """Close a client's connections when the interpreter ends, and forget them in a forked child."""
    _connected.add(client)
    atexit.unregister(_close_all)
    atexit.register(_close_all)  # once more as the newest, so that it runs before what libraries registered themselves


def _renew() -> None:
    global _process
    _inherited.append(_process)
    _process = _Process()
    for client in list(_connected):
        client.forget()


def _close_all() -> None:
    thread = _process.thread.thread
    if thread is None or not thread.is_alive():
        return

    async def close() -> None:
        loop = asyncio.get_running_loop()
        flights = list(room_of(loop).flights.values())
        for flight in flights:  # or a request whose connection is closed would open another one
            flight.waiters.clear()  # daemon threads, which are to end without a word
            flight.task.cancel()
        if flights:
            await asyncio.wait([flight.task for flight in flights], timeout=1.0)
        await asyncio.gather(*(client.close() for client in list(_connected)), return_exceptions=True)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:  # such as a worker of litellm's
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=0.5)
        loop.call_soon(loop.stop)

    with suppress(Exception):  # the interpreter is ending; what cannot be closed now is closed by the system
        asyncio.run_coroutine_threadsafe(close(), request_loop()).result(timeout=2.5)
        thread.join(timeout=1.0)  # a daemon thread that runs into the interpreter's end may crash it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class _Waiter(Generic[T]):
    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[T, Iterator[bool]]] = self.loop.create_future()

    def tell(self, here: asyncio.AbstractEventLoop, task: asyncio.Task[T], bill: Iterator[bool]) -> None:
        if self.loop is here:
            self._set(task, bill)
        else:
            with suppress(RuntimeError):  # its loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._set, task, bill)

    def _set(self, task: asyncio.Task[T], bill: Iterator[bool]) -> None:
        if self.future.done():
            return
        if task.cancelled():
            self.future.cancel()
        elif error := task.exception():
            self.future.set_exception(error)
        else:
            self.future.set_result((task.result(), bill))


class _Flight(Generic[T]):
    """A request in flight, and those who wait for it."""

    __slots__ = ("task", "waiters")

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters: list[_Waiter[T]] = []


async def shared(
    loop: asyncio.AbstractEventLoop, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]
) -> tuple[T, bool]:
    """What `start` gives on a loop, run once for all who ask under the same key at the same time.

    Who is cancelled leaves; the last to leave cancels the run.

    Returns:
        The result, and whether this caller is the first of those that waited to the end: one is, whatever is cancelled
        when.
    """
    waiter: _Waiter[T] = _Waiter()
    here = waiter.loop is loop
    if here:
        _join(loop, key, start, waiter)
    else:
        loop.call_soon_threadsafe(_join, loop, key, start, waiter, context=Context())
    try:
        result, bill = await waiter.future
        return result, next(bill)
    except asyncio.CancelledError:
        if not here:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_leave, loop, key, waiter, context=Context())
        elif left := _leave(loop, key, waiter):
            await asyncio.wait([left])
        raise


def _join(
    loop: asyncio.AbstractEventLoop, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]], waiter: _Waiter[T]
) -> None:
    flights = room_of(loop).flights
    flight = flights.get(key)
    if flight is None:
        flight = flights[key] = _Flight(loop.create_task(start()))

        def landed(task: asyncio.Task[T], flight: _Flight[T] = flight) -> None:
            if flights.get(key) is flight:
                del flights[key]
            if not task.cancelled():
                task.exception()  # an exception that nobody is left to hear of is not reported again
            bill = chain((True,), repeat(False))  # whoever takes the result first, pays
            for waiting in flight.waiters:
                waiting.tell(loop, task, bill)

        flight.task.add_done_callback(landed)
    flight.waiters.append(waiter)


def _leave(loop: asyncio.AbstractEventLoop, key: Hashable, waiter: _Waiter[T]) -> asyncio.Task[T] | None:
    """Stop waiting. The run's task where this was the last."""
    flights = room_of(loop).flights
    flight = flights.get(key)
    if flight is None or waiter not in flight.waiters:
        return None
    flight.waiters.remove(waiter)
    if flight.waiters:
        return None
    del flights[key]  # who asks from now on starts a new one
    flight.task.cancel()
    return flight.task
