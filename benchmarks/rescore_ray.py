"""Rescoring in workers of Ray: two against one on a tree that is all CPU, and what a row costs the run's own process.

    python benchmarks/rescore_ray.py            # pip install 'rubrics[ray]'; --rounds N for more than 3

Rounds alternate between one worker and two, and between one process of the local engine and two side by side, each on
half of the input: what that gains is what the machine has to give just now. Times are from the first row to the last:
starting Ray and the workers takes seconds, whatever the number of trajectories, and is shown apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import ray

from rubrics import Rubric, WeightedSum
from rubrics.formats import write_jsonl
from rubrics.rescoring import Row, rescore_files
from rubrics.trajectory import Step, Trajectory


class Works(Rubric):
    """Counts, for about so many milliseconds of a core."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self.rounds = int(milliseconds * 20_000)

    def forward(self, action: Any, observation: Any) -> float:
        total = 0
        for number in range(self.rounds):
            total += number
        return float(total >= 0)


class Blocks(Rubric):
    """Waits for something outside, as a check does that runs another program."""

    def forward(self, action: Any, observation: Any) -> float:
        time.sleep(0.004)
        return 1.0


class Longer(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(len(action.text) > 100)


def heavy() -> Rubric:
    """5 leaves of 1 ms: some 25 ms a trajectory of 5 steps."""
    return WeightedSum({f"leaf_{i}": Works(1.0) for i in range(5)}, {f"leaf_{i}": 0.2 for i in range(5)})


def light() -> Rubric:
    """13 nodes that do next to nothing."""
    sums = [
        WeightedSum({f"leaf_{i}": Longer() for i in range(3)}, {f"leaf_{i}": 1 / 3 for i in range(3)}) for _ in "abc"
    ]
    return WeightedSum(dict(zip("abc", sums, strict=True)), dict.fromkeys("abc", 1 / 3))


def written(folder: Path, count: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"runs{count}.jsonl"
    steps = [Step({"text": f"step {i} " * 30}, {"text": "an observation " * 20}, 0.1) for i in range(5)]
    write_jsonl(path, (Trajectory(f"t{i}", steps=steps, end="terminated", reward=0.5) for i in range(count)))
    return path


class Watch:
    """When the first and the last row came, and what this process spent in between."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.rows = 0

    def __call__(self, row: Row) -> None:
        self.rows += 1
        self.last, self.last_cpu = time.perf_counter(), time.process_time()
        if self.rows == 1:
            self.first, self.first_cpu = self.last, self.last_cpu

    @property
    def rate(self) -> float:
        """Rows a second."""
        return (self.rows - 1) / (self.last - self.first)

    @property
    def cpu(self) -> float:
        """Seconds of a core a row, in this process."""
        return (self.last_cpu - self.first_cpu) / (self.rows - 1)


def measured(runs: Path, tree: Rubric, **options: Any) -> Watch:
    watch = Watch()
    rescore_files(runs, tree, runs.with_name("out.jsonl"), overwrite=True, on_row=watch, **options)
    return watch


def shard(runs: Path, rates: Any) -> None:
    rates.put(measured(runs, heavy()).rate)


def side_by_side(shards: list[Path]) -> float:
    """Rows a second of processes that know nothing of each other."""
    processes = multiprocessing.get_context("spawn")
    rates = processes.Queue()
    running = [processes.Process(target=shard, args=(each, rates)) for each in shards]
    for process in running:
        process.start()
    total = sum(rates.get() for _ in running)
    for process in running:
        process.join()
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        runs, many = written(Path(folder), arguments.rows), written(Path(folder), 20 * arguments.rows)
        halves = [written(Path(folder) / half, arguments.rows // 2) for half in ("first", "second")]
        rates: dict[str, list[float]] = {"local": [], "2 local": [], "1 worker": [], "2 workers": []}
        starts = []
        for _ in range(arguments.rounds):
            rates["local"].append(side_by_side([runs]))
            rates["2 local"].append(side_by_side(halves))
            for workers in (1, 2):
                watch = measured(runs, heavy(), engine="ray", workers=workers)
                rates[f"{workers} worker{'s' * (workers > 1)}"].append(watch.rate)
                starts.append(watch.first - watch.began)
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg()[:1])
            print(*(f"{name} {values[-1]:.1f} rows/s" for name, values in rates.items()), f"load {load}", sep="   ")
        for name, one, two in (("workers", "1 worker", "2 workers"), ("processes by themselves", "local", "2 local")):
            ratios = [b / a for a, b in zip(rates[one], rates[two], strict=True)]
            print(f"two {name} against one: {median(ratios):.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)})")
        print(f"one worker against the local engine: {median(rates['1 worker']) / median(rates['local']):.2f}")
        print(f"first row after {median(starts):.1f} s, with Ray started already")
        one, two = (measured(runs, Blocks(), engine="ray", workers=workers).rate for workers in (1, 2))
        print(f"a leaf that blocks its process for 4 ms a step: two workers against one {two / one:.2f}")
        local, watch = measured(many, light()), measured(many, light(), engine="ray", workers=2)
        print(f"a light tree, {watch.rows} rows: local {local.rate:.0f} rows/s, two workers {watch.rate:.0f} rows/s")
        print(f"CPU of the run's own process: {watch.cpu * 1e6:.0f} µs a row, local {local.cpu * 1e6:.0f} µs")
    ray.shutdown()


if __name__ == "__main__":
    main()
