"""The doctor on many trajectories: `python benchmarks/doctor.py [TRAJECTORIES] [NODES]`.

A tree of cheap leaves, so that what is timed is this library: scoring, reading the scores off the records, the
statistics, and the attacks. The floor is 10 s for 10,000 trajectories of a tree of 20 nodes.
"""

from __future__ import annotations

import random
import sys
from time import perf_counter
from typing import Any

from rubrics import Gate, Record, Rubric, Step, Trajectory, WeightedSum
from rubrics.doctor import examine
from rubrics.rescoring import rescore


class Part(Rubric):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, action: Any, observation: Any) -> float:
        return float((len(action.content) * (self.number + 7) // 5) % 7 > 2)


def tree(nodes: int) -> Rubric:
    leaves: dict[str, Rubric] = {f"part_{i}": Part(i) for i in range(nodes - 3)}
    parts = {"gate": Gate(Part(99), 0.5), **leaves}
    return WeightedSum(parts, dict.fromkeys(parts, 1.0), "total")


def episodes(n: int) -> list[Trajectory]:
    chosen = random.Random(0)
    return [
        Trajectory(
            id=f"e{i}",
            steps=[
                Step(Record(content="word " * chosen.randrange(1, 60)), Record(content="seen", done=t == 4), 0.0)
                for t in range(5)
            ],
            end="terminated",
            reward=float(chosen.random() < 0.5),
            reduction="last",
            metadata={"group": i // 8},
        )
        for i in range(n)
    ]


def main(n: int = 10_000, nodes: int = 20) -> None:
    rubric, given = tree(nodes), episodes(n)
    begun = perf_counter()
    rows = sum(1 for _ in rescore(given, rubric, record="last"))
    scoring = perf_counter() - begun
    begun = perf_counter()
    result = examine(rubric, given)
    whole = perf_counter() - begun
    print(f"{rows:,} trajectories of 5 steps, {1 + len(list(rubric.rubrics()))} nodes")
    print(f"scoring alone      {scoring:6.2f} s")
    print(f"the whole doctor   {whole:6.2f} s   (floor 10 s); {len(result.findings)} findings, {result.looked_at}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
