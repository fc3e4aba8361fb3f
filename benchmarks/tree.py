"""Ours against `openenv.core.rubrics`, in one process, alternating: `python benchmarks/tree.py`.

Each row is the median of at least nine rounds; a round times both, one after the other. What counts is the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from statistics import median
from types import ModuleType, SimpleNamespace
from typing import Any

import openenv.core.rubrics as theirs
from rich.console import Console
from rich.table import Table

import rubrics as ours
from rubrics.rescoring import rescore

ACTION, OBSERVATION = SimpleNamespace(text="move"), SimpleNamespace(text="board", done=False)
DONE = SimpleNamespace(text="board", done=True)


class Kit:
    """The same leaves in either library."""

    def __init__(self, library: ModuleType) -> None:
        self.library: Any = library
        base: Any = library.Rubric

        class Fixed(base):
            def __init__(self, score: float) -> None:
                super().__init__()
                self.score = score

            def forward(self, action: Any, observation: Any) -> float:
                return self.score

        class Sleeping(base):
            def __init__(self, seconds: float) -> None:
                super().__init__()
                self.seconds = seconds

            async def forward(self, action: Any, observation: Any) -> float:
                await asyncio.sleep(self.seconds)
                return 0.5

        class Won(library.ExponentialDiscountingTrajectoryRubric):
            def score_trajectory(self, trajectory: list[Any]) -> float:
                return 1.0

        self.fixed, self.sleeping, self.won = Fixed, Sleeping, Won

    def total(self, leaves: list[Any]) -> Any:
        return self.library.WeightedSum(leaves, [1.0 / len(leaves)] * len(leaves))

    def deep(self, depth: int, fan_out: int = 3) -> Any:
        return self.total([self.deep(depth - 1) for _ in range(fan_out)]) if depth else self.fixed(0.8)

    def gates(self, n: int) -> Any:
        return self.library.Sequential(*[self.library.Gate(self.fixed(1.0)) for _ in range(n)])


def by_hand(n: int) -> Callable[[Any, Any], float]:
    """The weighted sum of n plain functions, as one writes it without a library."""
    leaves = [lambda action, observation: 0.8 for _ in range(n)]
    weights = [1.0 / n] * n

    def reward(action: Any, observation: Any) -> float:
        total = 0.0
        for weight, leaf in zip(weights, leaves, strict=True):
            total += weight * leaf(action, observation)
        return total

    return reward


def seconds(function: Callable[[], Any], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - start) / repeat


def compare(mine: Callable[[], Any], other: Callable[[], Any], repeat: int, rounds: int) -> tuple[float, float]:
    """Median seconds of each, alternating, the first of a round changing from round to round."""
    a: list[float] = []
    b: list[float] = []
    seconds(mine, max(1, repeat // 10))
    seconds(other, max(1, repeat // 10))
    for i in range(rounds):
        gc.collect()
        for function, into in ((mine, a), (other, b)) if i % 2 else ((other, b), (mine, a)):
            into.append(seconds(function, repeat))
    return median(a), median(b)


def call(rubric: Any) -> Callable[[], Any]:
    return lambda: rubric(ACTION, OBSERVATION)


def episode_steps(rubric: Any, steps: int) -> Callable[[], Any]:
    def run() -> None:
        rubric.reset()
        for _ in range(steps - 1):
            rubric(ACTION, OBSERVATION)
        rubric(ACTION, DONE)

    return run


def run_async(loop: asyncio.AbstractEventLoop, make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: loop.run_until_complete(make())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="at least 9")
    rounds = max(9, parser.parse_args().rounds)
    a, b = Kit(ours), Kit(theirs)
    loop = asyncio.new_event_loop()
    table = Table(title=f"rubrics {ours.__version__} and openenv.core.rubrics, median of {rounds} rounds")
    for name in ("case", "ours", "theirs", "theirs / ours", "floor"):
        table.add_column(name, justify="left" if name == "case" else "right")

    def row(
        name: str, mine: Callable[[], Any], other: Callable[[], Any], repeat: int, floor: str, per: int = 1
    ) -> None:
        t, o = (value / per for value in compare(mine, other, repeat, rounds))
        table.add_row(name, f"{t * 1e6:.2f} µs", f"{o * 1e6:.2f} µs", f"{o / t:.2f}", floor)

    row("one leaf", call(a.fixed(0.8)), call(b.fixed(0.8)), 20000, "3")
    ten_a, ten_b = a.total([a.fixed(0.8) for _ in range(10)]), b.total([b.fixed(0.8) for _ in range(10)])
    row("sum of 10 leaves", call(ten_a), call(ten_b), 3000, "2.5")
    deep_a, deep_b = a.deep(5), b.deep(5)
    row("depth 5, fan-out 3 (364 nodes)", call(deep_a), call(deep_b), 60, "2.5")
    row("10 gates in sequence", call(a.gates(10)), call(b.gates(10)), 2000, "2.5")
    row("a trajectory step, of 1000", episode_steps(a.won(), 1000), episode_steps(b.won(), 1000), 3, "1.5", per=1000)
    hand = by_hand(10)
    row("the sum against by hand", call(ten_a), lambda: hand(ACTION, OBSERVATION), 3000, "1/6")
    row(
        "recorded (evaluate_sync), deep tree",
        lambda: deep_a.evaluate_sync(ACTION, OBSERVATION),
        call(deep_b),
        30,
        "1/1.4",
    )
    for delay, repeat in ((0.0, 20), (0.01, 3)):
        mine, other = (k.total([k.sleeping(delay) for _ in range(100)]) for k in (a, b))
        row(
            f"100 async leaves, {delay * 1000:g} ms",
            run_async(loop, lambda t=mine: t(ACTION, OBSERVATION)),  # type: ignore[misc]
            run_async(loop, lambda t=other: t(ACTION, OBSERVATION)),  # type: ignore[misc]
            repeat,
            "1" if not delay else "ours < 15 ms",
        )
    mine, other = (k.total([k.sleeping(0.01) for _ in range(10)]) for k in (a, b))

    async def hundred(step: Callable[[], Any]) -> None:
        await asyncio.gather(*(step() for _ in range(100)))

    row(
        "100 episodes of 10 leaves of 10 ms",
        run_async(loop, lambda: hundred(lambda: mine.episode().astep(ACTION, OBSERVATION))),
        run_async(loop, lambda: hundred(lambda: other(ACTION, OBSERVATION))),
        2,
        "1",
    )
    console = Console(width=110)
    console.print(table)
    console.print(imports())
    console.print(memory())
    console.print(growth(a))
    loop.close()


def imports() -> Table:
    """Time and modules of `import rubrics`, each round in a new interpreter."""
    code = (
        "import sys, time; b = set(sys.modules); t = time.perf_counter(); import rubrics; t = time.perf_counter() - t; "
        "known = ('numpy', 'pydantic', 'pydantic_core'); n = set(sys.modules) - b; "
        "print(t, sum(m.split('.')[0] not in known for m in n))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(9)
    ]
    table = Table("import rubrics", "median", "ceiling")
    table.add_row("seconds", f"{median(float(t) for t, _ in runs):.3f}", "0.15")
    table.add_row("modules beyond numpy and pydantic", runs[0][1], "200")
    return table


def memory() -> Table:
    """Bytes a step of an unrecorded episode costs beyond the caller's objects."""
    steps = [(SimpleNamespace(i=i), SimpleNamespace(done=False)) for i in range(10_000)]
    table = Table("a step of an unrecorded episode", "bytes", "ceiling")
    for name, rubric in (
        ("delayed", Kit(ours).won()),
        ("sum of 10", Kit(ours).total([Kit(ours).fixed(0.8) for _ in range(10)])),
    ):
        episode = rubric.episode()
        episode.step(*steps[0])
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for action, observation in steps[1:]:
            episode.step(action, observation)
        table.add_row(name, f"{(tracemalloc.get_traced_memory()[0] - before) / (len(steps) - 1):.0f}", "150")
        tracemalloc.stop()
    return table


def growth(kit: Kit) -> Table:
    """Cost against size: nodes of a tree, steps of an episode, rows of a rescoring."""
    table = Table("growth", "size", "time", "per unit")
    for depth in (1, 2, 3, 4, 5, 6, 7):
        tree = kit.deep(depth)
        nodes = 1 + sum(1 for _ in tree.rubrics())
        t = median(seconds(call(tree), max(3, 20000 // nodes)) for _ in range(5))
        table.add_row("nodes", str(nodes), f"{t * 1e6:.1f} µs", f"{t / nodes * 1e9:.0f} ns")
    for steps in (100, 1_000, 10_000, 100_000):
        t = median(seconds(episode_steps(kit.won(), steps), 1) for _ in range(5))
        table.add_row("steps", str(steps), f"{t * 1e3:.2f} ms", f"{t / steps * 1e9:.0f} ns")
    tree = ours.Sequential(kit.total([kit.fixed(0.8) for _ in range(10)]), kit.won())
    for rows in (100, 1_000, 10_000):
        runs = [
            ours.Trajectory(str(i), steps=[ours.Step({"move": 1}, {"done": False})] * 5, end="terminated")
            for i in range(rows)
        ]
        t = seconds(lambda: deque(rescore(runs, tree), maxlen=0), 1)  # noqa: B023 (called at once)
        table.add_row("rescored rows of 5 steps, 13 nodes", str(rows), f"{t:.2f} s", f"{t / rows * 1e6:.0f} µs")
    return table


if __name__ == "__main__":
    main()
