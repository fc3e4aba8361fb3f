"""The async driver: closures whose call is a coroutine for an outcome.

Children of a concurrent container that are sync run first, one after the other, so that a cheap check that decides, or
raises, never pays for a judge. The async ones then run as tasks. None of them outlives the call: when one raises, or
the container is decided, the others are cancelled and awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from time import perf_counter
from types import CoroutineType
from typing import Any

from rubrics.engine import sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, annotate
from rubrics.engine.loop import Exit, carried, contained, in_thread
from rubrics.engine.plan import AsyncCall, Layers, Place, SyncCall, layered
from rubrics.evaluation import Evaluation
from rubrics.score import Outcome, Unscored, checked, public


def build(place: Place, recording: bool) -> AsyncCall:
    """The async closure of any place, built on first use."""
    if place.is_async:
        return layered(place, recording, "async", _LAYERS)  # type: ignore[no-any-return]
    call: AsyncCall | None = place.runs.get(("hop", recording))
    if call is None:
        call = place.runs["hop", recording] = hop(place, recording)
    return call


def hop(place: Place, recording: bool) -> AsyncCall:
    """A sync subtree within an async tree: run where we are, or, on the library's loop, in a worker thread."""
    run = sync.build(place, recording)

    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        if FRAME.get().run.lock is not None:  # type: ignore[union-attr]
            return await apart(run, action, observation, last)
        try:
            return run(action, observation, last)
        except StopIteration as error:
            raise carried(error) from error

    return call


async def apart(run: SyncCall, action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
    """Run a part of the tree in a worker thread.

    What it records and answers is taken over when it is done. A thread that was left behind writes to nobody.
    """
    frame = FRAME.get()
    assert frame is not None
    record = frame.record
    aside = Frame(frame.run, frame.place, None if record is None else Evaluation(record.path, record.kind))
    aside.counts = frame.counts
    aside.apart = {}
    answers = Outcomes([None] * len(last))
    answers.run = frame.run

    def take_over() -> None:
        for i, answer in enumerate(answers):
            if answer is not None:
                last[i] = answer
        for node, memory in (aside.apart or {}).values():
            node._where()._journal.replace_memory(node, memory)
        if record is not None and aside.record is not None:
            record.children.extend(aside.record.children)
            record.own_usage = record.own_usage + aside.record.own_usage

    token = FRAME.set(aside)
    try:
        outcome = await in_thread(run, action, observation, answers)
    except Exception:
        take_over()
        raise
    finally:
        FRAME.reset(token)
    take_over()
    return outcome


async def plainly(place: Place, function: Callable[..., Any], *args: Any) -> Any:
    """Call user code of an async place: its awaitable is awaited; plain code runs in a thread on the library's loop."""
    frame = FRAME.get()
    if frame is not None and frame.run.threads and not asyncio.iscoroutinefunction(function):
        value = await in_thread(function, *args)
    else:
        value = function(*args)
    if isawaitable(value):
        value = await value
    return value


def failed(place: Place, error: Exception) -> Outcome:
    """Like `sync.failed`, for exceptions that go on out of a coroutine."""
    if isinstance(error, StopIteration):
        annotate(place, error)
        raise carried(error) from error
    return sync.failed(place, error)


async def observe(place: Place, action: Any, observation: Any) -> None:
    """Show a node the step."""
    node: Any = place.node
    try:
        await plainly(place, node.observe, action, observation)
    except Exception as error:
        annotate(place, error)
        raise


def leaf(place: Place) -> AsyncCall:
    node, index, who = place.node, place.index, place.who

    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        value: Any
        try:
            if FRAME.get().run.threads:  # type: ignore[union-attr]
                value = await plainly(place, node.forward, action, observation)
            else:
                value = node.forward(action, observation)
                if value.__class__ is CoroutineType or isawaitable(value):
                    value = await value
            if value.__class__ is not float or value - value != 0.0:
                value = checked(value, who)
        except Exception as error:
            value = failed(place, error)
        last[index] = value
        return value  # type: ignore[no-any-return]

    return call


def custom(place: Place) -> AsyncCall:
    node = place.node

    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        frame, token = sync.enter(place)
        value: Any
        try:
            if frame.run.again and node._is_delayed():  # its forward has appended the last pair already
                value = await plainly(place, node.score_trajectory, sync.own_list(frame, node))
            else:
                value = await plainly(place, node.forward, action, observation)
            value = sync.concluded(place, frame, value)
        except Exception as error:
            sync.explain(frame, error)
            value = failed(place, error)
        finally:
            FRAME.reset(token)
            sync.discard_coroutines(frame)
        last[place.index] = value
        return value  # type: ignore[no-any-return]

    return call


def delayed(place: Place) -> AsyncCall:
    node: Any = place.node
    index, who = place.index, place.who

    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        run: Any = last.run  # type: ignore[attr-defined]
        journal = run.episode._journal
        journal.saw(node, action, observation)
        value: Any
        if run.ending is None:
            value = node._intermediate
        else:
            try:
                value = checked(await plainly(place, node.score_trajectory, journal.pairs_of(node)), who)
            except Exception as error:
                value = failed(place, error)
            journal.scored(node, value)
        last[index] = value
        return value  # type: ignore[no-any-return]

    return call


def container(place: Place, recording: bool) -> AsyncCall:
    node: Any = place.node
    runs = [build(child, recording) for child in place.children]
    combine = node.compiled()

    def settle(values: list[Outcome], last: list[Outcome | None]) -> Outcome:
        value: Outcome
        try:
            value = sync.combined(combine(values), place)
        except Exception as error:
            value = failed(place, error)
        last[place.index] = value
        return value

    async def around(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        child = place.children[0]
        plain = None if child.is_async else sync.build(child, recording)

        async def run() -> Outcome:
            if plain is None:
                return await runs[0](action, observation, last)
            return await apart(plain, action, observation, last)

        value = await node.around(run)
        complete(place, recording)
        return settle([value], last)

    async def in_order(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        values: list[Outcome] = []
        for i, run in enumerate(runs):
            if node.catches and i == 0:
                try:
                    value = await run(action, observation, last)
                except Exception as error:
                    value = sync.swallowed(error)
            else:
                value = await run(action, observation, last)
            values.append(value)
            if node.stop(value):
                sync.skip_rest(place, i, recording)
                break
        return settle(values, last)

    async def routed(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        chosen = sync.choose(place, action, observation)
        if isinstance(chosen, Unscored):
            sync.skip_rest(place, -1, recording)
            last[place.index] = chosen
            return chosen
        value = await runs[chosen](action, observation, last)
        complete(place, recording)
        return settle([value], last)

    plain = [i for i, child in enumerate(place.children) if not child.is_async]
    others = [i for i, child in enumerate(place.children) if child.is_async]

    async def together(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        values: list[Outcome | None] = [None] * len(runs)
        tasks = others
        for i in plain:
            value = values[i] = await runs[i](action, observation, last)
            if node.stops and node.stop(value):
                tasks = []
                break
        if tasks:
            await all_of(node, runs, tasks, values, action, observation, last)
        if recording:
            complete(place, recording)
        return settle(values if None not in values else [value for value in values if value is not None], last)  # type: ignore[arg-type]

    if node.around is not None:
        return around
    if node.routes:
        return routed
    return together if node.concurrent else in_order


class _Decided(Exception):
    """One child's outcome is enough."""


async def all_of(node: Any, runs: list[AsyncCall], which: list[int], values: list[Outcome | None], *args: Any) -> None:
    """Run async children at once and fill in their values; stop at the first exception, or when the node is decided."""
    if len(which) == 1:
        values[which[0]] = await runs[which[0]](*args)
        return

    async def watched(i: int) -> Outcome:
        value = values[i] = await runs[i](*args)
        if node.stop(value):
            raise _Decided
        return value

    starting = [watched(i) if node.stops else runs[i](*args) for i in which]
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(contained(coroutine)) for coroutine in starting]
    await _until_one_fails(loop, tasks)
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    if any(isinstance(error, _Decided) for error in errors):
        return
    if errors:
        error = errors[0]
        if isinstance(error, Exit) and not FRAME.get().run.threads:  # type: ignore[union-attr]
            raise error.error
        raise error
    for i, task in zip(which, tasks, strict=True):
        values[i] = task.result()


async def _until_one_fails(loop: asyncio.AbstractEventLoop, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait until all tasks are done, or one raised or was cancelled; then the others are cancelled and awaited."""
    enough: asyncio.Future[None] = loop.create_future()
    left = len(tasks)

    def done(task: asyncio.Task[Any]) -> None:
        nonlocal left
        left -= 1
        failed = task.cancelled() or task.exception() is not None  # asked of each, or asyncio reports what nobody reads
        if (failed or not left) and not enough.done():
            enough.set_result(None)

    for task in tasks:
        task.add_done_callback(done)
    try:
        await enough
    finally:
        pending = [task for task in tasks if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.gather(*pending, return_exceptions=True)


def complete(place: Place, recording: bool) -> None:
    """Put the records of the children in the declared order, with a skipped one for each child that was not reached."""
    if not recording:
        return
    frame = FRAME.get()
    assert frame is not None and frame.record is not None
    parent = frame.record
    made = {record.path.rpartition(".")[2]: record for record in parent.children}
    parent.children = []
    for child in place.children:
        record = made.get(child.name)
        if record is None:
            sync.skip(child)
        else:
            parent.children.append(record)


def hooked(place: Place, inner: AsyncCall) -> AsyncCall:
    node = place.node
    before, after = list(node._forward_pre_hooks.values()), list(node._forward_hooks.values())

    async def run(hooks: list[Callable[..., Any]], *args: Any) -> None:
        try:
            for hook in hooks:
                await plainly(place, hook, node, *args)
        except Exception as error:
            annotate(place, error)
            raise

    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        await run(before, action, observation)
        value = await inner(action, observation, last)
        await run(after, action, observation, public(value))
        return value

    return call


def recorded(place: Place, inner: AsyncCall) -> AsyncCall:
    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        outer = FRAME.get()
        record = outer.open_record(place)  # type: ignore[union-attr]
        sync.stash(outer, place, record, action, observation)  # type: ignore[arg-type]
        token = FRAME.set(Frame(outer.run, place, record))  # type: ignore[union-attr]
        start = perf_counter()
        try:
            outcome = await inner(action, observation, last)
            record.settle(outcome)
        except asyncio.CancelledError:
            record.reason = "cancelled"
            raise
        except BaseException as error:
            record.fail(error)
            raise
        finally:
            record.duration = perf_counter() - start
            FRAME.reset(token)
        return outcome

    return call


def remembered(place: Place, inner: AsyncCall) -> AsyncCall:
    async def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        outer = FRAME.get()
        assert outer is not None
        memo = outer.run.memo
        assert memo is not None
        key = sync.memo_key(place, action, observation)
        while (entry := memo.get(key)) is not None:
            if entry.__class__ is tuple:
                return sync.recall(outer, place, entry, last)
            await asyncio.shield(entry)  # it runs elsewhere in this step; if it is cancelled there, it is run here
        flight = memo[key] = asyncio.get_running_loop().create_future()
        value: Any
        try:
            value = await inner(action, observation, last)
        except Exception as error:
            value = sync.Failure(error)
        except BaseException:
            del memo[key]
            flight.set_result(None)
            raise
        sync.remember(outer, key, value, action, observation)
        flight.set_result(None)
        if value.__class__ is sync.Failure:
            raise value.error
        return value  # type: ignore[no-any-return]

    return call


_LAYERS = Layers(leaf, container, custom, delayed, hooked, recorded, remembered)
