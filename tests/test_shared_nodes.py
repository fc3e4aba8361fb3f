"""A node used at several places runs once per step and pair, however the tree is run, failing ones too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    AllOf,
    AnyOf,
    Fallback,
    Gate,
    Invert,
    Product,
    Rubric,
    Sequential,
    Threaded,
    Timeout,
    Unscored,
    Usage,
    WeightedSum,
    add_usage,
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
    done,
    evaluated,
    outcome,
    running,
)


class Slow(Fixed):
    """A plain leaf that others catch up with, if they are in other threads."""

    def forward(self, action: Any, observation: Any) -> Any:
        time.sleep(0.005)
        add_usage(Usage(calls=1))
        return self.answer()


class AsyncSlow(Fixed):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0.005)
        add_usage(Usage(calls=1))
        return self.answer()


class Calls(Rubric):
    """A custom node over one child."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    def forward(self, action: Any, observation: Any) -> Any:
        return self.child(action, observation)


class AsyncCalls(Calls):
    async def forward(self, action: Any, observation: Any) -> Any:
        score = self.child(action, observation)
        return await score if self.child.is_async_tree else score


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


PLACES: dict[str, Callable[[Rubric], Rubric]] = {
    "gate and sum": lambda x: Sequential(Gate(x, 0.25), halves(x, x)),
    "one container": lambda x: halves(x, x, x),
    "all of": lambda x: AllOf(x, Sequential(x), x),
    "below others": lambda x: Product(Gate(x, 0.1), halves(x, Sequential(Fixed(), x)), AnyOf(x)),
    "beside async": lambda x: halves(x, AsyncFixed(0.5), Sequential(AsyncFixed(), x), x),
    "threads": lambda x: halves(Threaded(x), Threaded(x), Timeout(x, 60), x),
    "custom": lambda x: halves(AsyncCalls(x), x, Sequential(AsyncCalls(x))),
    "a shared container": lambda x: shared_container(Gate(x, 0.1)),
    "fallback": lambda x: Fallback(Fixed(None), halves(x, x)),
}


def shared_container(inner: Rubric) -> Rubric:
    return Sequential(inner, halves(inner, Invert(Invert(inner))))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Slow, AsyncSlow])
@pytest.mark.parametrize("places", PLACES)
async def test_a_shared_node_runs_once(places: str, leaf: type[Fixed], driver: str) -> None:
    node, before, after = leaf(0.5), [], []
    node.register_forward_pre_hook(lambda *_: before.append(1))
    node.register_forward_hook(lambda *_: after.append(1))
    tree = PLACES[places](node)
    status, _ = await outcome(tree, driver)
    assert status == "scored"
    assert (node.calls, len(before), len(after)) == (1, 1, 1)
    await outcome(tree, driver)
    assert node.calls == 2  # once a step, not once and for all


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Slow, AsyncSlow])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(
    ("answer", "expected"), [(Boom(), ("error", Boom)), (Unscored("no key"), ("unscored", None)), (-0.5, None)]
)
async def test_whatever_it_answers(answer: Any, expected: Any, places: str, leaf: type[Fixed], driver: str) -> None:
    node = leaf(answer)
    result = await outcome(PLACES[places](node), driver)
    assert expected is None or result == expected
    assert node.calls == 1


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("leaf", [Slow, AsyncSlow])
async def test_a_failing_one_that_is_caught_in_one_place_fails_once(leaf: type[Fixed], driver: str) -> None:
    node = leaf(Boom("x"))
    tree = halves(Fallback(node, 1.0, on_error=True), Fallback(Sequential(node), 0.5, on_error=True))
    assert await outcome(tree, driver) == ("scored", 0.75)
    assert node.calls == 1


@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
@pytest.mark.parametrize("leaf", [Slow, AsyncSlow])
async def test_the_second_place_repeats_the_record(leaf: type[Fixed], driver: str) -> None:
    inner = Sequential({"leaf": leaf(0.5)})
    tree = Sequential({"gate": Gate(inner, 0.25), "again": inner})
    record = await evaluated(tree, driver)
    assert record.flatten() == {
        "": 0.5,
        "gate": 0.5,
        "gate.rubric": 0.5,
        "gate.rubric.leaf": 0.5,
        "again": 0.5,
        "again.leaf": 0.5,
    }
    assert record["gate.rubric"].duration > 0.0
    assert record["again"].duration == record["again.leaf"].duration == 0.0
    assert record["gate.rubric.leaf"].usage == Usage(calls=1)
    assert record["again"].usage == Usage()
    assert record.usage == Usage(calls=1)


@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
@pytest.mark.parametrize("leaf", [Slow, AsyncSlow])
async def test_a_repeated_error_is_an_error_at_both_places(leaf: type[Fixed], driver: str) -> None:
    node = leaf(Boom("x"))
    tree = halves(Fallback(node, 1.0, on_error=True), Fallback(node, 0.5, on_error=True))
    record = await evaluated(tree, driver)
    for place in ("rubric_0.rubric", "rubric_1.rubric"):
        assert (record[place].status, record[place].reason) == ("error", "Boom: x")


@pytest.mark.parametrize("driver", DRIVERS)
async def test_another_pair_is_another_run(driver: str) -> None:
    class Swaps(Rubric):
        def __init__(self, child: Rubric) -> None:
            super().__init__()
            self.child = child

        async def forward(self, action: Any, observation: Any) -> Any:
            scores = [
                self.child(action, observation),
                self.child(observation, action),
                self.child([action], observation),
            ]
            return sum(scores) / 3

    node = Fixed(0.5)
    assert await outcome(halves(node, Swaps(node)), driver) == ("scored", 0.5)
    assert node.calls == 3


async def test_objects_are_told_apart_by_identity_and_never_mixed_up() -> None:
    seen = []

    class Sees(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            seen.append(action)
            return 1.0

    class Makes(Rubric):  # throw-away objects, whose ids may come again
        def __init__(self) -> None:
            super().__init__()
            self.child = Sees()

        def forward(self, action: Any, observation: Any) -> float:
            return sum(self.child([i], observation) for i in range(200)) / 200

    assert Sequential(Makes())(ACTION, OBSERVATION) == 1.0
    assert seen == [[i] for i in range(200)]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_one_that_is_cancelled_at_one_place_runs_at_the_other(driver: str) -> None:
    class Late(Fixed):
        async def forward(self, action: Any, observation: Any) -> Any:
            self.calls += 1
            for _ in range(20):
                await asyncio.sleep(0)
            return 0.5

    node = Late()
    hanging = Hanging()

    class Slowly(Rubric):  # asks for the shared node while it runs below the AllOf
        def __init__(self) -> None:
            super().__init__()
            self.child = node

        async def forward(self, action: Any, observation: Any) -> Any:
            await asyncio.sleep(0)
            return await self.child(action, observation)

    tree = AnyOf(AllOf(node, AsyncFixed(0.0, turns=5), hanging), Slowly())
    assert await outcome(tree, driver) == ("scored", 0.5)
    assert node.calls == 2  # begun, cancelled, and begun again where it was still wanted
    assert hanging.cancelled == 1


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_shared_delayed_node_scores_once(driver: str) -> None:
    judged = Judged(0.5)
    tree = Sequential(Gate(judged, 0.25), AnyOf(judged, Calls(judged)))
    episode = tree.episode()
    for observation in (running(), running()):
        assert await episode.astep(ACTION, observation) == 0.0
    if driver == "call":
        assert episode.step(ACTION, done()) == 0.5
    else:
        record = (
            await tree.evaluate(ACTION, done(), episode)
            if driver == "evaluate"
            else tree.evaluate_sync(ACTION, done(), episode)
        )
        assert record.score == 0.5
    assert judged.scorings == 1
    assert len(judged.seen[0]) == 3
