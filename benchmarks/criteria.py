"""How fast criteria score many rows at once, against their loop, with equal results: `python benchmarks/criteria.py`.

    python benchmarks/criteria.py                 # every criterion that has a forward_batch, and the sum of ten
    python benchmarks/criteria.py --only sum      # the sum of ten vectorised leaves and a gate alone
    python benchmarks/criteria.py --rows 10000

The loop is `rubric.episode(task).step(action, observation)` for each row, which is what a batch stands for; for the sum
also the bare call `rubric(action, observation)`, which has no task. What counts is the ratio, whose floor is 50 for the
sum. Criteria of text see answers of some 300 characters. One that needs other arguments, or an extra that is not
installed, is named and left out.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rubrics.criteria
from rubrics import Gate, Rubric, Sequential, WeightedSum
from rubrics.engine.frames import of_this_run

WORDS = (
    "the agent looks at a file and then calls the tool with two arguments which returns Text of 17 lines . " * 3
).split()
ARGUMENTS: dict[str, dict[str, Any]] = {
    "EmbeddingSimilarity": {"expected": "the tool returns a file"},
    "RewardModel": {"scorer": lambda texts: [min(len(text) / 1000, 1.0) for text in texts]},
    "Exact": {"expected_from": "task.answer"},
    "Contains": {"words": "tool"},
    "Regex": {"pattern": r"\b\d+ lines"},
    "Length": {"most": 400},
    "Overlong": {"longest": 100, "cushion": 50},
    "Language": {"language": "en"},
    "Fuzzy": {"expected_from": "task.answer"},
    "TokenOverlap": {"expected_from": "task.answer"},
    "Bleu": {"expected_from": "task.answer"},
    "Chrf": {"expected_from": "task.answer"},
    "Rouge": {"expected_from": "task.answer"},
    "NumericEqual": {"expected_from": "task.n"},
    "InRange": {"most": 20},
    "MultipleChoice": {"expected": "A"},
    "MatchesSchema": {"schema": {"type": "object"}},
    "ValueIs": {"path": "a.b"},
    "Markdown": {"headings": ["tool"]},
    "ImportsAllowed": {"allowed": ["math"]},
}
"""Arguments of criteria that need some; where they do not fit (any more), the criterion is named and left out."""

SLOW = {
    "EmbeddingSimilarity",
    "Language",
    "Bleu",
    "Chrf",
    "Rouge",
    "Markdown",
    "ParsesSql",
    "ParsesYaml",
}  # a tenth of the rows
APART = ("MathEqual", "RuffClean", "UnitTests", "TextCheck", "ReferenceCheck")  # a process a row, or no criterion


class Dimension(Rubric):
    """One number of an array of features."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, action: Any, observation: Any) -> float:
        return float(action[self.dimension])

    def forward_batch(self, actions: Any, observations: Any) -> Any:
        return actions[:, self.dimension]


class Within(Rubric):
    """How much of a number of characters a text takes up; leaves of one sum read the texts once."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = characters

    def forward(self, action: Any, observation: Any) -> float:
        return min(len(action["content"]) / self.characters, 1.0)

    def forward_batch(self, actions: Any, observations: Any) -> Any:
        def lengths() -> Any:
            return np.fromiter((len(action["content"]) for action in actions), np.float64, len(actions))

        return np.minimum(of_this_run(("lengths", id(actions)), lengths) / self.characters, 1.0)


def seconds(function: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The median of some rounds, and what the last one gave."""
    taken, found = [], None
    for _ in range(rounds):
        began = time.perf_counter()
        found = function()
        taken.append(time.perf_counter() - began)
    return median(taken), found


def in_a_loop(tree: Rubric, actions: Sequence[Any], observations: Sequence[Any], tasks: Sequence[Any]) -> list[Any]:
    found = []
    for action, observation, task in zip(actions, observations, tasks, strict=True):
        score = tree.episode(task, record=None).step(action, observation)
        found.append(None if score is None else float(score))
    return found


def bare(tree: Rubric, actions: Sequence[Any], observations: Sequence[Any]) -> list[Any]:
    return [tree(action, observation) for action, observation in zip(actions, observations, strict=True)]


def equal(scores: Any, loop: Sequence[float | None]) -> bool:
    return all(a == b or (b is None and math.isnan(a)) for a, b in zip(scores.tolist(), loop, strict=True))


class Measured:
    """The table of results."""

    def __init__(self, title: str, rounds: int) -> None:
        self.rounds = rounds
        self.table = Table(title=title)
        for name in ("case", "batch", "loop", "loop / batch", "equal", "floor"):
            self.table.add_column(name, justify="left" if name == "case" else "right")

    def add(
        self,
        name: str,
        tree: Rubric,
        rows: tuple[Any, Any, Any],
        floor: str = "",
        loop: Callable[[], list[Any]] | None = None,
    ) -> None:
        batch, found = seconds(lambda: tree.evaluate_batch(*rows), self.rounds)
        one, expected = seconds(loop or (lambda: in_a_loop(tree, *rows)), 1)
        self.table.add_row(
            name,
            f"{batch * 1e3:.1f} ms",
            f"{one * 1e3:,.0f} ms",
            f"{one / batch:.1f}",
            "yes" if equal(found.scores, expected) else "NO",
            floor,
        )


def texts(rows: int) -> tuple[list[Any], list[Any], list[Any]]:
    chance = random.Random(1)
    actions = [{"role": "assistant", "content": " ".join(chance.choices(WORDS, k=60))} for _ in range(rows)]
    return actions, [None] * rows, [{"answer": "two arguments", "n": 17}] * rows


def sums(rows: int, rounds: int) -> Table:
    """Ten leaves and a gate, over numbers and over texts."""
    measured = Measured(f"a sum of ten vectorised leaves and a gate, {rows:,} rows", rounds)
    numbers = np.asfortranarray(np.random.default_rng(1).random((rows, 11)))  # columns of numbers
    nothing = [None] * rows
    weights = [0.1] * 10

    def parts(make: Callable[[int], Rubric]) -> Rubric:
        return WeightedSum([make(i) for i in range(10)], weights)

    after = Sequential(parts(Dimension), Gate(Dimension(10), 0.5))
    of_sum = Gate(parts(Dimension), 0.5)
    before = Sequential(Gate(Dimension(10), 0.5), parts(Dimension))
    for name, tree in (("sum, then a gate", after), ("a gate of the sum", of_sum), ("a gate, then the sum", before)):
        measured.add(f"numbers: {name}", tree, (numbers, nothing, nothing), "50")
        measured.add(
            f"numbers: {name}, bare calls",
            tree,
            (numbers, nothing, nothing),
            loop=lambda tree=tree: bare(tree, numbers, nothing),  # type: ignore[misc]
        )
    verdicts = (numbers > 0.5).astype(np.float64)
    measured.add("verdicts: a gate of the sum", of_sum, (verdicts, nothing, nothing), "50")
    lengths = Gate(parts(lambda i: Within(200 + 30 * i)), 0.5)
    measured.add("lengths of texts: a gate of the sum", lengths, texts(rows))
    return measured.table


def criteria(rows: int, rounds: int, only: str | None) -> tuple[Table, list[str]]:
    """Every criterion that has a forward_batch."""
    measured = Measured(f"criteria, {rows:,} rows", rounds)
    missing = []
    for name in rubrics.criteria.__all__:
        kind = getattr(rubrics.criteria, name)
        if name in APART or not hasattr(kind, "forward_batch") or only not in (None, "criteria", name):
            continue
        try:
            tree = kind(**ARGUMENTS.get(name, {}))
            tree.evaluate_batch(*texts(2))
        except Exception as error:  # it wants other arguments, or an extra
            missing.append(f"{name}: not measured, {type(error).__name__}: {error}")
            continue
        few = rows // 10 if name in SLOW else rows
        measured.add(name if few == rows else f"{name}, {few:,} rows", tree, texts(few))
    return measured.table, missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="sum, criteria, or the name of one")
    given = parser.parse_args()
    console = Console(width=110)
    if given.only in (None, "sum"):
        console.print(sums(given.rows, given.rounds))
    if given.only != "sum":
        table, missing = criteria(given.rows, given.rounds, given.only)
        console.print(table)
        for line in missing:
            console.print(line, markup=False)


if __name__ == "__main__":
    main()
