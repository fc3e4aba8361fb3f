"""The library's own event loop and worker threads: for sync callers of async trees, and for leaves that block."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class _Workers:
    """Daemon threads, as many as are busy at once.

    A fixed pool could deadlock (a leaf may call `evaluate_sync`, which needs a thread itself), and the interpreter
    would wait at its exit for a leaf that hangs.
    """

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._ready = threading.Condition()
        self._idle = 0

    def submit(self, job: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._ready:
            self._jobs.append((future, job))
            if self._idle >= len(self._jobs):
                self._ready.notify()
                return future
        threading.Thread(target=self._work, name="rubrics-worker", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._jobs:
                    self._idle += 1
                    woken = self._ready.wait(timeout=30.0)
                    self._idle -= 1
                    if not woken and not self._jobs:
                        return
                future, job = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
            del future, job


class LoopThread:
    """An event loop in a daemon thread of its own, started when first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        loop, thread = self._loop, self.thread
        if loop is not None and thread is not None and thread.is_alive():
            return loop
        with self._lock:
            if self._loop is None or self.thread is None or not self.thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self.thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self.thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()


class _Library:
    """One loop thread and one set of workers a process."""

    def __init__(self) -> None:
        self.workers = _Workers()
        self.loop_thread = LoopThread("rubrics-loop")

    @property
    def thread(self) -> threading.Thread | None:
        return self.loop_thread.thread

    def running_loop(self) -> asyncio.AbstractEventLoop:
        return self.loop_thread.running_loop()


_library = _Library()
_ELSEWHERE: ContextVar[bool] = ContextVar("rubrics_elsewhere", default=False)


def _renew() -> None:
    """Threads do not survive a fork; the child starts with none."""
    global _library
    _library = _Library()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def block(function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Run a coroutine function on the library's loop and wait for it in this thread, with this thread's context.

    Called on the library's own loop thread (an async leaf that blocks), or below such a call, it uses a fresh loop in a
    thread of its own, since the library's loop stands still.
    """
    library = _library
    loop = library.running_loop()
    if threading.current_thread() is library.thread or _ELSEWHERE.get():
        context = copy_context()
        context.run(_ELSEWHERE.set, True)
        return library.workers.submit(lambda: context.run(asyncio.run, function(*args))).result()
    future = asyncio.run_coroutine_threadsafe(_ended(function(*args)), loop)
    try:
        value, error = future.result()
    except BaseException:
        future.cancel()
        raise
    if error is not None:
        raise error.error if isinstance(error, Exit) else error
    return value  # type: ignore[return-value]


async def _ended(coroutine: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """What became of a coroutine. As a value: futures of two kinds make a new exception of some, without its notes."""
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


class Exit(BaseException):
    """Carries a SystemExit or KeyboardInterrupt out of a task: raised in one, they would end the loop for everybody."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def contained(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in a task of its own."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        raise Exit(error) from None


async def uncontained(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that uses worker threads on any loop: an exit in one of them is an exit here."""
    try:
        return await coroutine
    except Exit as carrier:
        raise carrier.error from None


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a worker thread with a copy of this context.

    When cancelled, the thread is left to finish alone.
    """
    context = copy_context()

    def job() -> tuple[T | None, BaseException | None]:
        try:
            return context.run(function, *args), None
        except BaseException as error:
            return None, error

    value, error = await asyncio.wrap_future(_library.workers.submit(job))
    if error is None:
        return value  # type: ignore[return-value]
    if isinstance(error, StopIteration):
        raise carried(error) from error
    if isinstance(error, (SystemExit, KeyboardInterrupt)) and threading.current_thread() is _library.thread:
        raise Exit(error)
    raise error


def carried(error: StopIteration) -> RuntimeError:
    """A StopIteration cannot leave a coroutine, so a RuntimeError goes in its place, with its notes."""
    carrier = RuntimeError(f"{type(error).__name__}: {error}" if error.args else type(error).__name__)
    carrier.__dict__.update(error.__dict__)
    return carrier
