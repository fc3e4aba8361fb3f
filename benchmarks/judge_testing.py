"""Judge tests: how long a golden set of 1,000 rows takes to collect and to report, and what an unused plugin costs.

    python benchmarks/judge_testing.py [--rounds 5] [--rows 1000]

Collection and the idle plugin are measured as whole runs of `pytest --collect-only`, with and without, in turn.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

sys.path.remove(str(Path(__file__).resolve().parent))  # it holds a file of the name of the package

from judges import ChatReply, ChatRequest, Judge, Likert, Prompt
from judges.testing.figures import decisions_of, figures_of
from judges.testing.golden import GoldenSet
from judges.testing.report import write_report
from judges.testing.running import Sending, run_suite
from judges.testing.suite import Suite

INSTALLED = any(each.name == "judges" for each in entry_points(group="pytest11"))
WITH = () if INSTALLED else ("-p", "judges.testing.plugin")
WITHOUT = ("-p", "no:judges") if INSTALLED else ()
TEMPLATE = "Rate the reply.\n{{ reply | untrusted }}"


class Grader:
    """A model on no network that is mostly right: it reads the grade that stands in the reply."""

    endpoint = "a script"
    local = True

    def __init__(self) -> None:
        self.random = random.Random(0)

    async def send(self, request: ChatRequest) -> ChatReply:
        shown = request.messages[-1]["content"]
        grade = int(shown[shown.index("grade ") + 6])
        grade = grade if self.random.random() < 0.8 else self.random.randint(1, 5)
        return ChatReply(json.dumps({"reason": f"It is a {grade}.", "score": grade}), "stop")


def golden(path: Path, count: int) -> None:
    draw = random.Random(1)
    with path.open("w") as file:
        for number in range(count):
            grade = draw.randint(1, 5)
            reply = f"grade {grade}. " + "A word or two. " * draw.randint(1, 30)
            people = {name: min(5, max(1, grade + draw.choice((-1, 0, 0, 0, 1)))) for name in ("ann", "ben", "cem")}
            row = {"id": f"row-{number}", "inputs": {"reply": reply}, "label": grade, "annotators": people}
            file.write(json.dumps(row) + "\n")


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def pytest_run(folder: Path, *arguments: str) -> float:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    return timed(
        lambda: subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        golden(folder / "golden.jsonl", options.rows)
        judge = Judge(Prompt(TEMPLATE), Likert(1, 5), model="m", client=Grader())
        suite = Suite.of(judge, GoldenSet.load(folder / "golden.jsonl"), name="grades", response="reply")
        report = run_suite(suite, Sending(live=True))
        times: dict[str, list[float]] = {"figures": []}
        for _ in range(options.rounds):
            times["figures"].append(timed(lambda: decisions_of(report, figures_of(report))))
            for kind in ("json", "md", "html"):
                times.setdefault(kind, []).append(timed(lambda kind=kind: write_report([report], folder / f"r.{kind}")))
        print(f"{options.rows} rows, 2,000 resamples, {len(figures_of(report).intervals)} figures; seconds, median:")
        for what, each in times.items():
            print(f"  {what:8} {statistics.median(each):.2f}")

        (folder / "empty").mkdir()
        (folder / "suite").mkdir()
        golden(folder / "suite/golden.jsonl", options.rows)
        (folder / "suite/grade.md").write_text(
            f"---\nscale: {{type: likert, low: 1, high: 5}}\nmodel: m\n---\n{TEMPLATE}"
        )
        (folder / "suite/grade.judge.yaml").write_text("prompt: grade.md\ngolden: golden.jsonl\n")
        idle, without, collected = [], [], []
        for _ in range(options.rounds * 3):
            without.append(pytest_run(folder / "empty", *WITHOUT))
            idle.append(pytest_run(folder / "empty", *WITH))
            collected.append(pytest_run(folder / "suite", *WITH))
        bare = min(without)
        print(f"pytest --collect-only, seconds, best of {len(idle)}:")
        print(f"  without the plugin  {bare:.3f}")
        print(f"  idle                {min(idle):.3f}  (+{1000 * (min(idle) - bare):.0f} ms)")
        print(f"  {options.rows} rows           {min(collected):.3f}  (+{min(collected) - bare:.2f} s)")


if __name__ == "__main__":
    main()
