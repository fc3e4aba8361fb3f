"""Many evaluations of one shared tree at once, from threads and on one loop, never mix."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rubrics import Rubric, WeightedSum
from tests.leaves import OBSERVATION


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


class Echo(Rubric):
    """Answers its action, after a while that depends on it."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(action)


class AsyncEcho(Rubric):
    async def forward(self, action: Any, observation: Any) -> float:
        for _ in range(int(action) % 5):
            await asyncio.sleep(0)
        return float(action)


class Combined(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.echo = Echo()
        self.halves = halves(self.echo, Echo())

    def forward(self, action: Any, observation: Any) -> Any:
        return (self.echo(action, observation) + self.halves(action, observation)) / 2


class AsyncCombined(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.echo = AsyncEcho()
        self.halves = halves(self.echo, AsyncEcho(), Echo())

    async def forward(self, action: Any, observation: Any) -> Any:
        parts = await asyncio.gather(self.echo(action, observation), self.halves(action, observation))
        return sum(parts) / 2


@pytest.mark.parametrize("make", [Echo, Combined, lambda: halves(Combined(), Echo()), AsyncEcho, AsyncCombined])
def test_evaluations_from_threads_never_mix(make: Callable[[], Rubric]) -> None:
    tree = make()
    together = threading.Barrier(8)

    def work(thread: int) -> list[bool]:
        together.wait(10)
        checks = []
        for i in range(1, 30):
            record = tree.evaluate_sync(100 * thread + i, OBSERVATION)
            checks.append(set(record.flatten().values()) == {100 * thread + i})
            if not tree.is_async_tree:
                checks.append(tree(100 * thread + i, OBSERVATION) == 100 * thread + i)
        return checks

    with ThreadPoolExecutor(8) as pool:
        assert all(all(checks) for checks in pool.map(work, range(8)))


@pytest.mark.parametrize("make", [AsyncEcho, AsyncCombined, lambda: halves(AsyncCombined(), Combined(), AsyncEcho())])
async def test_evaluations_on_one_loop_never_mix(make: Callable[[], Rubric]) -> None:
    tree = make()
    records = await asyncio.gather(*(tree.evaluate(i, OBSERVATION) for i in range(50)))
    assert [set(record.flatten().values()) for record in records] == [{float(i)} for i in range(50)]
    assert await asyncio.gather(*(tree(i, OBSERVATION) for i in range(50))) == [float(i) for i in range(50)]


async def test_a_record_beside_bare_calls_never_mixes() -> None:
    tree = halves(AsyncCombined(), AsyncEcho())
    calls = [tree.evaluate(i, OBSERVATION) if i % 2 else tree(i, OBSERVATION) for i in range(30)]
    answers = await asyncio.gather(*calls)
    assert [answer.score if i % 2 else answer for i, answer in enumerate(answers)] == [float(i) for i in range(30)]


async def test_containers_that_fail_together_leave_no_exception_behind() -> None:
    class Fails(Rubric):
        def __init__(self, turns: int) -> None:
            super().__init__()
            self.turns = turns

        async def forward(self, action: object, observation: object) -> float:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            raise ValueError(f"after {self.turns}")

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    for late in range(6):
        inner = WeightedSum([Fails(3), Fails(late)], [0.5, 0.5])
        with pytest.raises(ValueError, match="after"):
            await WeightedSum([inner, Fails(3)], [0.5, 0.5])("a", "o")
    gc.collect()
    assert told == []
