"""How trees are run: the structure decides sync or async, no awaitable is left over, groups end with the call."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rubrics import (
    AllOf,
    AnyOf,
    Container,
    Fallback,
    Gate,
    InvalidScoreError,
    Map,
    Product,
    Rubric,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    WeightedSum,
)
from tests.leaves import (
    ACTION,
    DRIVERS,
    OBSERVATION,
    AsyncFixed,
    Boom,
    Fixed,
    Hanging,
    Judged,
    outcome,
    until,
)


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


GROUPS = [halves, AllOf, AnyOf, Product]


async def noted(notes: list[Any], note: Any) -> None:
    notes.append(note)


# The structure decides what a call returns


class Awaits(Rubric):
    """A custom node with an async forward."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    async def forward(self, action: Any, observation: Any) -> Any:
        score = self.child(action, observation)
        return await score if self.child.is_async_tree else score


class HandsBack(Rubric):
    """A plain forward that hands back an awaitable, and says so."""

    is_async = True

    def forward(self, action: Any, observation: Any) -> Any:
        return self.later()

    async def later(self) -> float:
        return 0.5


class AsyncMixin:
    async def forward(self, action: Any, observation: Any) -> float:
        return 0.5


class Mixed(AsyncMixin, Rubric):
    """Its async forward comes from a class that is no rubric."""


class PlainAgain(AsyncFixed):
    def forward(self, action: Any, observation: Any) -> Any:  # type: ignore[override]
        return 0.5


def hooked(hook: Any) -> Rubric:
    node = Fixed(0.5)
    node.register_forward_hook(hook)
    return node


async def async_hook(*_: Any) -> None: ...


class AsyncCall:
    async def __call__(self, *_: Any) -> None: ...


class Observes(Fixed):
    async def observe(self, action: Any, observation: Any) -> None: ...


@pytest.mark.parametrize(
    ("make", "is_async"),
    [
        (lambda: Fixed(0.5), False),
        (lambda: halves(Fixed(0.5), Sequential(Gate(Fixed(0.5), 0.1))), False),
        (lambda: PlainAgain(0.5), False),
        (lambda: hooked(lambda *_: None), False),
        (lambda: AsyncFixed(0.5), True),
        (lambda: HandsBack(), True),
        (lambda: Mixed(), True),
        (lambda: Sequential(Fixed(0.0), Gate(AsyncFixed())), True),  # never reached, and async all the same
        (lambda: Switch(lambda a, o: "plain", {"plain": Fixed(0.5), "other": AsyncFixed()}), True),
        (lambda: Fallback(Fixed(0.5), AsyncFixed()), True),
        (lambda: AllOf(Fixed(0.0), AsyncFixed()), True),
        (lambda: Awaits(Fixed(0.5)), True),
        (lambda: Threaded(Fixed(0.5)), True),
        (lambda: Timeout(Fixed(0.5), 60), True),
        (lambda: hooked(async_hook), True),
        (lambda: hooked(AsyncCall()), True),
        (lambda: hooked(partial(async_hook, 1)), True),
        (lambda: Sequential(Observes(0.5)), True),
    ],
)
async def test_the_structure_decides(make: Callable[[], Rubric], is_async: bool) -> None:
    here, elsewhere = make(), make()
    answer = here(ACTION, OBSERVATION)  # with a running loop
    assert here.is_async_tree is asyncio.iscoroutine(answer) is is_async
    score = await answer if is_async else answer
    without_loop = await asyncio.to_thread(elsewhere, ACTION, OBSERVATION)  # and without one
    assert asyncio.iscoroutine(without_loop) is is_async
    assert (await without_loop if is_async else without_loop) == score
    for driver in ("evaluate", "evaluate_sync"):
        assert await outcome(make(), driver) == ("scored", score)


def test_the_structure_may_change() -> None:
    tree = Sequential(Fixed(0.5))
    assert tree(ACTION, OBSERVATION) == 0.5
    tree.rubric_0 = AsyncFixed(0.25)
    assert asyncio.run(tree(ACTION, OBSERVATION)) == 0.25
    handle = tree.register_forward_hook(async_hook)
    tree.rubric_0 = Fixed(0.75)
    assert asyncio.run(tree(ACTION, OBSERVATION)) == 0.75
    handle.remove()
    assert tree(ACTION, OBSERVATION) == 0.75


# Awaitables out of a sync tree are closed and refused


class Returns(Rubric):
    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make

    def forward(self, action: Any, observation: Any) -> Any:
        return self.make()


async def half() -> float:
    return 0.5


def in_future() -> Any:
    return asyncio.get_running_loop().create_future()


class JudgedLater(Judged):
    def score_trajectory(self, trajectory: Any) -> Any:
        return half()


@pytest.mark.parametrize("above", ["nothing", "sum", "async sibling"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Returns(half),
        lambda: Returns(in_future),
        lambda: Returns(lambda: asyncio.ensure_future(half())),
        lambda: Map(Fixed(), lambda score: half()),  # type: ignore[arg-type,return-value]
        lambda: hooked(lambda *_: half()),
    ],
)
async def test_an_awaitable_out_of_a_sync_node_is_closed_and_refused(make: Callable[[], Rubric], above: str) -> None:
    node = make()
    tree = {"nothing": node, "sum": halves(node, Fixed()), "async sibling": halves(node, AsyncFixed())}[above]
    with pytest.raises(InvalidScoreError, match=rf"{type(node).__name__}.*awaitable"):
        await outcome_or_raise(tree)
    await asyncio.sleep(0)


async def outcome_or_raise(tree: Rubric) -> Any:
    score = tree(ACTION, OBSERVATION)
    return await score if tree.is_async_tree else score


def test_an_awaitable_out_of_a_plain_score_trajectory_is_refused() -> None:
    episode = Sequential(JudgedLater()).episode()
    episode.step(ACTION, OBSERVATION)
    with pytest.raises(InvalidScoreError, match="rubric_0"):
        episode.end()


def test_an_awaitable_out_of_a_plain_observe_is_refused() -> None:
    class Watches(Fixed):
        def observe(self, action: Any, observation: Any) -> Any:
            return half()

    with pytest.raises(InvalidScoreError, match="Watches"):
        Sequential(Watches())(ACTION, OBSERVATION)


async def name() -> str:
    return "a"


async def async_key(action: Any, observation: Any) -> str:
    return "a"


@pytest.mark.parametrize("key", [async_key, lambda action, observation: name()])
def test_a_switch_does_not_take_its_default_for_an_async_key(key: Any) -> None:
    with pytest.raises((InvalidScoreError, ValueError), match="Switch"):
        Switch(key, {"a": Fixed()}, default=Fixed(0.25))(ACTION, OBSERVATION)
    gc.collect()


class ForgetsAwait(Rubric):
    """Adds an async child's answer without awaiting it."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    async def forward(self, action: Any, observation: Any) -> Any:
        return 1.0 + self.child(action, observation)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_forgotten_await_is_named(driver: str) -> None:
    tree = Sequential({"sum": ForgetsAwait(AsyncFixed())})
    assert await outcome(tree, driver) == ("error", TypeError)
    with pytest.raises(TypeError) as caught:
        await tree.evaluate(ACTION, OBSERVATION)
    assert any("await" in note for note in caught.value.__notes__)


# Task groups


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("make", GROUPS)
async def test_siblings_are_cancelled_and_awaited_when_one_raises(make: Callable[..., Rubric], driver: str) -> None:
    one, two = Hanging(), Hanging()
    assert await outcome(make(one, AsyncFixed(Boom(), turns=3), two), driver) == ("error", Boom)
    assert [one.started, one.cancelled, two.started, two.cancelled] == [1, 1, 1, 1]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_siblings_are_cancelled_and_awaited_when_all_of_is_decided(driver: str) -> None:
    one, two = Hanging(), Hanging()
    assert await outcome(AllOf(one, AsyncFixed(0.0, turns=3), Sequential(two)), driver) == ("scored", 0.0)
    assert [one.started, one.cancelled, two.started, two.cancelled] == [1, 1, 1, 1]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("make", GROUPS)
async def test_a_plain_child_that_raises_comes_before_the_async_ones(make: Callable[..., Rubric], driver: str) -> None:
    judge = Hanging()
    assert await outcome(make(judge, Fixed(Boom())), driver) == ("error", Boom)
    assert judge.started == 0


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_cheap_check_that_decides_comes_before_the_judge(driver: str) -> None:
    judge = Hanging()
    assert await outcome(AllOf(judge, AsyncFixed(Boom()), Fixed(0.0)), driver) == ("scored", 0.0)
    assert judge.started == 0


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("make", [Sequential, lambda *children: Gate(Sequential(*children))])
async def test_what_is_in_order_never_starts_what_it_does_not_need(make: Callable[..., Rubric], driver: str) -> None:
    judge = Hanging()
    assert await outcome(make(AsyncFixed(0.0), judge), driver) == ("scored", 0.0)
    assert await outcome(make(AsyncFixed(Boom()), judge), driver) == ("error", Boom)
    assert judge.started == 0


@pytest.mark.parametrize("make", [*GROUPS, Sequential, lambda child, other: Timeout(child, 60)])
async def test_a_cancelled_call_cancels_and_awaits_its_children(make: Callable[..., Rubric]) -> None:
    one, two = Hanging(), Hanging()
    task = asyncio.create_task(make(one, two)(ACTION, OBSERVATION))
    await until(lambda: one.started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.cancelled == 1
    assert two.cancelled == two.started


class CancelsItself(Rubric):
    async def forward(self, action: Any, observation: Any) -> float:
        await asyncio.sleep(0)
        raise asyncio.CancelledError


@pytest.mark.parametrize("make", GROUPS)
async def test_a_child_that_ends_cancelled_is_not_left_out_of_the_score(make: Callable[..., Rubric]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await make(CancelsItself(), AsyncFixed(0.5))(ACTION, OBSERVATION)


@pytest.mark.parametrize("make", GROUPS)
async def test_async_children_run_at_once(make: Callable[..., Rubric]) -> None:
    class Meets(Rubric):  # none ends before all have begun
        here = 0

        async def forward(self, action: Any, observation: Any) -> float:
            Meets.here += 1
            await until(lambda: Meets.here == 3)
            return 1.0

    score = await asyncio.wait_for(make(Meets(), Sequential(Meets()), Gate(Meets()))(ACTION, OBSERVATION), 10)
    assert score == 1.0


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("make", [*GROUPS, Sequential])
@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
async def test_no_child_starts_before_the_pre_hooks_of_its_parent_ran(
    leaf: type[Fixed], make: Callable[..., Container], driver: str
) -> None:
    child, seen = leaf(0.5), []
    tree = make(child, leaf(0.5))

    async def before(node: Rubric, action: Any, observation: Any) -> None:
        await asyncio.sleep(0)
        seen.append(child.calls)

    tree.register_forward_pre_hook(before)
    tree.register_forward_pre_hook(lambda node, action, observation: seen.append(child.calls))
    assert (await outcome(Sequential(tree), driver))[0] == "scored"
    assert seen == [0, 0]
    assert child.calls == 1


@pytest.mark.parametrize("driver", DRIVERS)
async def test_nothing_starts_where_a_pre_hook_raises(driver: str) -> None:
    child = AsyncFixed()
    tree = halves(child, AsyncFixed())

    def refuse(*_: Any) -> None:
        raise Boom

    tree.register_forward_pre_hook(refuse)
    assert await outcome(tree, driver) == ("error", Boom)
    assert child.calls == 0
