"""`evaluate_sync` from anywhere, worker threads, forks, and many evaluations of one tree at once."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest

from rubrics import (
    AllOf,
    Fallback,
    Gate,
    Rubric,
    Sequential,
    Switch,
    Threaded,
    WeightedSum,
    evaluation_of,
)
from tests.leaves import (
    ACTION,
    OBSERVATION,
    AsyncFixed,
    AsyncJudged,
    Blocking,
    Boom,
    Fixed,
    in_time,
    recorded,
    until,
)


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


def asynchronous() -> WeightedSum:
    return halves(AsyncFixed(0.5), Fixed(1.0), Sequential(AsyncFixed(1.0), AsyncFixed(0.25)), Threaded(Fixed(0.25)))


def test_without_a_loop() -> None:
    assert asynchronous().evaluate_sync(ACTION, OBSERVATION).score == 0.5


async def test_where_a_loop_runs() -> None:
    assert asynchronous().evaluate_sync(ACTION, OBSERVATION).score == 0.5


async def test_many_at_once_from_threads_of_a_loop() -> None:
    tree = asynchronous()
    records = await asyncio.gather(*(asyncio.to_thread(tree.evaluate_sync, i, OBSERVATION) for i in range(20)))
    assert [record.score for record in records] == [0.5] * 20


# From within a tree, at any depth


class Asks(Rubric):
    """A plain leaf that evaluates another tree."""

    def __init__(self, tree: Rubric) -> None:
        super().__init__()
        self.others = [tree]  # in a list, so that it is no child

    def forward(self, action: Any, observation: Any) -> Any:
        return self.others[0].evaluate_sync(action, observation).score


class AsyncAsks(Asks):
    """An async leaf that blocks the loop it runs on."""

    async def forward(self, action: Any, observation: Any) -> Any:
        return super().forward(action, observation)


class CallsPlain(Rubric):
    """An async forward over a plain child."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    async def forward(self, action: Any, observation: Any) -> Any:
        return self.child(action, observation)


WAYS: dict[str, Callable[[Rubric], Rubric]] = {
    "plain": lambda tree: halves(Asks(tree), AsyncFixed(0.5)),
    "async": lambda tree: halves(AsyncAsks(tree), AsyncFixed(0.5)),
    "plain below async": lambda tree: halves(CallsPlain(Asks(tree)), AsyncFixed(0.5)),
    "alone": Asks,
    "switch": lambda tree: Switch(lambda a, o: "half" if Asks(tree)(a, o) == 0.5 else "no", {"half": AsyncFixed(0.5)}),
    "threaded": lambda tree: Threaded(Asks(tree)),
}


@pytest.mark.parametrize("inner", WAYS)
@pytest.mark.parametrize("middle", WAYS)
@pytest.mark.parametrize("outer", WAYS)
def test_a_leaf_may_evaluate_another_tree(outer: str, middle: str, inner: str) -> None:
    tree = WAYS[outer](WAYS[middle](WAYS[inner](asynchronous())))
    assert in_time(tree.evaluate_sync, ACTION, OBSERVATION).score == 0.5


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_may_evaluate_another_tree(way: str) -> None:
    scores = []
    tree = halves(AsyncFixed(0.5), AsyncFixed(0.5))

    def ask(node: Rubric, action: Any, observation: Any, *score: Any) -> None:
        scores.append(WAYS[way](asynchronous()).evaluate_sync(action, observation).score)

    tree.register_forward_pre_hook(ask)
    tree.register_forward_hook(ask)
    assert in_time(tree.evaluate_sync, ACTION, OBSERVATION).score == 0.5
    assert scores == [0.5, 0.5]


def test_a_shared_leaf_that_evaluates_another_tree() -> None:
    leaf = Asks(asynchronous())
    tree = halves(leaf, CallsPlain(leaf), Sequential(leaf), AsyncFixed(0.5))
    assert in_time(tree.evaluate_sync, ACTION, OBSERVATION).score == 0.5


# Plain code runs in worker threads there


def test_plain_nodes_run_beside_the_loop_with_the_context_of_the_caller() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")
    seen: dict[str, tuple[str, bool]] = {}

    def look(name: str) -> None:
        seen[name] = (var.get(), threading.current_thread() is threading.main_thread())

    class Looks(Fixed):
        def forward(self, action: Any, observation: Any) -> Any:
            look("plain")
            return 1.0

    class AsyncLooks(Fixed):
        async def forward(self, action: Any, observation: Any) -> Any:
            look("async")
            return 1.0

    class Watches(Fixed):
        def observe(self, action: Any, observation: Any) -> None:
            look("observe")

    tree = halves(Looks(), AsyncLooks(), Watches(), AsyncFixed())
    tree.register_forward_pre_hook(lambda *_: look("hook"))
    token = var.set("mine")
    try:
        tree.evaluate_sync(ACTION, OBSERVATION)
    finally:
        var.reset(token)
    assert seen == dict.fromkeys(("plain", "async", "observe", "hook"), ("mine", False))


async def test_awaited_the_tree_runs_in_the_context_of_the_caller() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")

    class Looks(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return 1.0 if var.get() == action else 0.0

    async def ask(name: str) -> float:
        var.set(name)
        await asyncio.sleep(0)
        return await tree(name, OBSERVATION)  # type: ignore[no-any-return]

    tree = halves(Looks(), Threaded(Looks()), AsyncFixed())
    assert await asyncio.gather(*(ask(f"caller {i}") for i in range(10))) == [1.0] * 10


async def test_awaited_plain_code_stays_in_the_thread_of_the_loop() -> None:
    threads: dict[str, threading.Thread] = {}

    def look(name: str) -> None:
        threads[name] = threading.current_thread()

    class Looks(Fixed):
        def observe(self, action: Any, observation: Any) -> None:
            look("observe")

        def forward(self, action: Any, observation: Any) -> Any:
            look("plain")
            return 1.0

    class HandsBack(Fixed):
        is_async = True

        def forward(self, action: Any, observation: Any) -> Any:
            look("hands back")
            return asyncio.sleep(0, 1.0)

    tree = halves(Looks(), HandsBack())
    tree.register_forward_hook(lambda *_: look("hook"))
    assert await tree(ACTION, OBSERVATION) == 1.0
    assert threads == dict.fromkeys(("observe", "plain", "hands back", "hook"), threading.current_thread())


def test_threaded_leaves_block_nobody_there_either() -> None:
    one, two = Blocking(), Blocking()

    class Frees(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            await until(lambda: one.entered.is_set() and two.entered.is_set())
            one.release.set()
            two.release.set()
            return 1.0

    tree = halves(Threaded(one), Threaded(two), Frees())
    assert in_time(tree.evaluate_sync, ACTION, OBSERVATION).score == 1.0


def test_one_loop_serves_all_callers() -> None:
    seen = set()

    class Looks(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            seen.add((threading.current_thread(), asyncio.get_running_loop()))
            return 1.0

    tree = Sequential(Looks())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: tree.evaluate_sync(i, OBSERVATION), range(8)))
    assert len(seen) == 1


@pytest.mark.parametrize("where", ["leaf", "hook", "observe", "threaded", "custom"])
def test_a_stray_stop_iteration_does_not_hang(where: str) -> None:
    class Empty(Fixed):
        def forward(self, action: Any, observation: Any) -> Any:
            return next(iter(()))

    class Watches(Fixed):
        def observe(self, action: Any, observation: Any) -> None:
            next(iter(()))

    if where == "hook":
        node: Rubric = Fixed()
        node.register_forward_hook(lambda *_: next(iter(())))
    else:
        node = {"observe": Watches, "threaded": lambda: Threaded(Empty()), "custom": lambda: CallsPlain(Empty())}.get(
            where, Empty
        )()
    tree = halves(AsyncFixed(), Sequential(node))
    with pytest.raises((StopIteration, RuntimeError)) as caught:
        in_time(tree.evaluate_sync, ACTION, OBSERVATION)
    if where != "observe":
        notes = [*getattr(caught.value, "__notes__", ()), *getattr(caught.value.__cause__, "__notes__", ())]
        assert any("rubric_1.rubric_0" in note for note in notes)
    with pytest.raises((StopIteration, RuntimeError)):
        asyncio.run(outcome_or_raise(tree))


async def outcome_or_raise(tree: Rubric) -> Any:
    return await tree(ACTION, OBSERVATION)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("where", ["async", "plain", "hook"])
def test_an_exit_reaches_the_caller_and_ends_nothing_else(where: str, error: type[BaseException]) -> None:
    node: Fixed = AsyncFixed(error()) if where == "async" else Fixed(error() if where == "plain" else 1.0)
    if where == "hook":

        def leaves(*_: Any) -> None:
            raise error

        node.register_forward_hook(leaves)
    tree = halves(AsyncFixed(0.5), Sequential(node))
    with pytest.raises((error, CancelledError)):
        in_time(tree.evaluate_sync, ACTION, OBSERVATION, seconds=3)
    assert in_time(asynchronous().evaluate_sync, ACTION, OBSERVATION, seconds=3).score == 0.5


# The record is the same as where it is awaited


@pytest.mark.parametrize(
    "make",
    [
        asynchronous,
        lambda: Fallback(Fixed(Boom("x")), AsyncFixed(0.5), on_error=True),
        lambda: Fallback(Sequential(Fixed(1.0), Fixed(Boom("x"))), AsyncFixed(0.5), on_error=True),
        lambda: halves(Fallback(Gate(Fixed(Boom("x"))), 0.5, on_error=True), AsyncFixed()),
        lambda: halves(Switch(lambda a, o: "a", {"a": Fixed(), "b": Fixed()}), AsyncFixed()),
        lambda: Sequential(Fixed(0.0), AsyncFixed()),
        lambda: AllOf(Fixed(0.5), Sequential(Fixed(-1.0), Fixed()), AsyncFixed(0.5)),
        lambda: halves(CallsPlain(Sequential({"deep": Fixed(0.5)})), AsyncFixed()),
    ],
)
async def test_one_record_whichever_loop(make: Callable[[], Rubric]) -> None:
    def shape(record: Any) -> Any:
        return (record.path, record.kind, record.status, record.score, [shape(child) for child in record.children])

    awaited, blocked = await make().evaluate(ACTION, OBSERVATION), make().evaluate_sync(ACTION, OBSERVATION)
    if make().is_async_tree and isinstance(make(), AllOf):  # which of the others still began is a matter of time
        assert recorded(awaited) == recorded(blocked)
    else:
        assert shape(awaited) == shape(blocked)


@pytest.mark.parametrize("child", [lambda: Fixed(Boom("x")), lambda: Sequential(Fixed(), Fixed(Boom("x")))])
async def test_the_record_of_a_failed_run_holds_the_node_that_failed(child: Callable[[], Rubric]) -> None:
    tree = Sequential({"ok": AsyncFixed(), "bad": child()})
    for run in (tree.evaluate, lambda *pair: asyncio.to_thread(tree.evaluate_sync, *pair)):
        with pytest.raises(Boom) as caught:
            await run(ACTION, OBSERVATION)
        record = evaluation_of(caught.value)
        assert record is not None
        assert record["bad"].status == "error"
        assert record["bad"].reason == "Boom: x"


# After a fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("where", ["here", "in a worker of the library"])
def test_after_a_fork(where: str) -> None:
    tree = halves(AsyncFixed(0.5), Fixed(0.5), Threaded(Fixed(0.5)))
    assert tree.evaluate_sync(ACTION, OBSERVATION).score == 0.5  # the loop and its workers run before the fork

    class Forks(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return float(in_child_process(tree))

    score = in_child_process(tree) if where == "here" else halves(Forks(), AsyncFixed()).evaluate_sync(1, 2).score
    assert score == 1.0


def in_child_process(tree: Rubric) -> bool:
    """Whether a forked process gets the score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of threads beside a fork, which are the point
        pid = os.fork()
    if not pid:
        right = False
        try:
            episode = Sequential(tree, AsyncJudged(0.5)).episode()
            in_time(episode.step, ACTION, OBSERVATION, seconds=10)
            right = in_time(tree.evaluate_sync, ACTION, OBSERVATION, seconds=10).score == 0.5
            right = right and in_time(episode.end, seconds=10) == 0.5
        finally:
            os._exit(0 if right else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
