"""A PaperBench tree of 1,963 leaves and depth 9: how long it takes to load, and to score from stored grades.

`python benchmarks/importers.py`. The floors are 0.5 s and 10 ms.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rubrics.importers import paperbench

LEAVES, DEPTH = 1963, 9


def tree() -> dict[str, Any]:
    """A rubric of that size: nodes with two to five parts, one path of that depth."""
    chance = random.Random(0)
    number = 0

    def node(leaves: int, depth: int) -> dict[str, Any]:
        nonlocal number
        number += 1
        made: dict[str, Any] = {
            "id": f"00000000-0000-0000-0000-{number:012d}",
            "requirements": f"Requirement {number}: the method of section {number % 9} is implemented as described.",
            "weight": chance.randrange(1, 6),
            "sub_tasks": [],
        }
        if leaves == 1 or depth == 0:
            made["score"] = float(chance.random() < 0.6)
            return made
        parts = min(leaves, max(2, round(leaves ** (1 / depth))))
        sizes = [leaves // parts + (i < leaves % parts) for i in range(parts)]
        made["sub_tasks"] = [node(size, depth - 1) for size in sizes]
        return made

    return node(LEAVES, DEPTH - 1)


def depth(node: dict[str, Any]) -> int:
    return 1 + max((depth(each) for each in node["sub_tasks"]), default=0)


def timed(function: Any, rounds: int) -> tuple[float, Any]:
    taken, found = [], None
    for _ in range(rounds):
        begun = perf_counter()
        found = function()
        taken.append(perf_counter() - begun)
    return median(taken), found


def main() -> None:
    data = tree()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rubric.json"
        path.write_text(json.dumps(data))
        loading, made = timed(lambda: paperbench(path), 5)
    made("action", "observation")  # compiled once
    scoring, reward = timed(lambda: made("action", "observation"), 20)
    recording, _ = timed(lambda: made.evaluate_sync("action", "observation"), 20)
    leaves = sum(not list(node.children()) for node in made.rubrics())
    print(f"{leaves:,} leaves, depth {depth(data)}, reward {float(reward):.4f}")
    print(f"loading                       {1e3 * loading:8.1f} ms   (floor 500)")
    print(f"scoring from stored grades    {1e3 * scoring:8.1f} ms   (floor 10)")
    print(f"scoring with a record         {1e3 * recording:8.1f} ms")


if __name__ == "__main__":
    main()
