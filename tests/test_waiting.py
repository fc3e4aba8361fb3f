"""`Timeout` and `Threaded`: what runs out of time, and what runs in a thread."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rubrics import Rubric, Sequential, StructureError, Threaded, Timeout, WeightedSum
from tests.leaves import ACTION, DRIVERS, OBSERVATION, AsyncFixed, Blocking, Fixed, Hanging, outcome, until

UNSCORED = ("unscored", None)


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [0.5, 0.5])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("child", [Hanging, Blocking])
async def test_a_timeout_is_unscored_with_its_reason(child: type[Any], driver: str) -> None:
    leaf = child()
    tree = Timeout(leaf, 0.01)
    assert await outcome(tree, driver) == UNSCORED
    record = await tree.evaluate(ACTION, OBSERVATION)
    assert "0.01 s" in str(record.reason)
    assert record["rubric"].score is None
    assert child is Blocking or leaf.cancelled == leaf.started == 2
    if child is Blocking:
        leaf.release.set()


@pytest.mark.parametrize("leaf", [Fixed(TimeoutError("of its own")), AsyncFixed(TimeoutError("of its own"))])
async def test_a_timeout_of_the_child_itself_stays_an_error(leaf: Rubric) -> None:
    with pytest.raises(TimeoutError, match="of its own"):
        await Timeout(leaf, 60.0)(ACTION, OBSERVATION)


async def test_what_a_timed_out_thread_answers_later_is_ignored() -> None:
    leaf = Blocking(0.5)
    tree = Timeout(leaf, 0.01)
    assert await tree(ACTION, OBSERVATION) is None
    leaf.release.set()
    assert await asyncio.to_thread(leaf.left.wait, 10)
    await asyncio.sleep(0.01)
    assert leaf.last_score is None
    assert tree.last_score is None


@pytest.mark.parametrize("driver", ["call", "evaluate"])
async def test_a_threaded_child_holds_up_nobody(driver: str) -> None:
    blocking = Blocking(1.0)

    class Releases(Rubric):  # runs while the other blocks its thread
        async def forward(self, action: Any, observation: Any) -> float:
            await until(blocking.entered.is_set)
            blocking.release.set()
            return 0.5

    assert await outcome(halves(Threaded(blocking), Releases()), driver) == ("scored", 0.75)


async def test_a_node_is_in_so_many_threads_at_once_and_no_more() -> None:
    inside: list[int] = []
    most: list[int] = []

    class Busy(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            inside.append(action)
            most.append(len(inside))
            time.sleep(0.002)
            inside.remove(action)
            return float(action)

    tree = Sequential(Threaded(Busy(), limit=2))
    assert await asyncio.gather(*(tree(i, OBSERVATION) for i in range(1, 11))) == list(range(1, 11))
    assert max(most) == 2
    with ThreadPoolExecutor(6) as pool:
        records = pool.map(lambda i: tree.evaluate_sync(i, OBSERVATION), range(1, 7))
        assert [record.score for record in records] == list(range(1, 7))
    assert max(most) == 2
    for limit in (0, -1, True, 1.5, None):
        with pytest.raises(StructureError, match="limit"):
            Threaded(Busy(), limit=limit)  # type: ignore[arg-type]
