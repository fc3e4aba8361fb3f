"""How fast recorded trajectories are scored again, in how much memory, and against `inspect score`.

    python benchmarks/rescore.py                    # what can be imported here is measured, the rest is named
    python benchmarks/rescore.py --only plain --trajectories 10000

- plain: trajectories of 20 steps (20 KB each) under a tree of ten leaves: rate, peak memory at a tenth and at the whole
  of them, and how long a finished run takes to be resumed.
- judge: a judge of 50 ms at 64 trajectories at once, against the ideal of 64 / 0.05 s; 25 ms of CPU a verdict and less
  would be the ideal rate itself.
- inspect: one log under an equal scorer, by `inspect score` and by us, each as a process (needs inspect-ai).
"""

import argparse
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE.parent]  # it has a judges.py
WORDS = ("the agent looks at the file and then calls a tool with some arguments which returns text of " * 40).split()


def make_runs(path: Path, count: int, steps: int = 20) -> None:
    """Trajectories of about a kilobyte a step."""
    chance = random.Random(1)
    with path.open("w") as file:
        for i in range(count):
            taken = [
                {
                    "action": {
                        "content": f"step {k} " + " ".join(WORDS[:50]),
                        "tool_calls": [{"id": f"c{k}", "name": "read", "arguments": {"path": f"src/{k}.py", "n": k}}],
                    },
                    "observation": {
                        "messages": [{"role": "tool", "content": " ".join(chance.sample(WORDS, 60))}],
                        "content": " ".join(WORDS[k : k + 30]),
                        "done": k == steps - 1,
                    },
                    "reward": 0.0,
                }
                for k in range(steps)
            ]
            task = {"goal": f"find {i}", "level": i % 5}
            line = {"id": f"t{i}", "task": task, "steps": taken, "end": "terminated", "reward": 0.5}
            file.write(json.dumps({**line, "metadata": {"group": f"g{i // 8}"}}) + "\n")


def plain_tree() -> Any:
    from rubrics import Rubric, WeightedSum

    class Contains(Rubric):
        def __init__(self, sign: str) -> None:
            super().__init__()
            self.sign = sign

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0 if self.sign in action.content else 0.5

    leaves = {f"has_{digit}": Contains(str(digit)) for digit in range(10)}
    return WeightedSum(leaves, dict.fromkeys(leaves, 0.1))


# -- what runs in a process of its own --------------------------------------------------------------------------------


def one_run(runs: str, out: str, resume: str) -> None:
    from rubrics.rescoring import rescore_files

    tree = plain_tree()
    began, cpu = time.perf_counter(), time.process_time()
    finished = rescore_files(runs, tree, out, overwrite=resume == "no", resume=resume == "yes")
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": peak, "rows": finished.summary.statuses.total()}))


def in_a_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE), "--one-run", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # type: ignore[no-any-return]


def plain(folder: Path, trajectories: int, rounds: int) -> None:
    sizes = (trajectories // 10, trajectories)
    for count in sizes:
        make_runs(folder / f"runs{count}.jsonl", count)
    for count in sizes:
        runs, out = str(folder / f"runs{count}.jsonl"), str(folder / f"out{count}.jsonl")
        found = [in_a_process(runs, out, "no") for _ in range(rounds)]
        best = min(found, key=lambda each: each["cpu"])
        middle = statistics.median(count / each["cpu"] for each in found)
        peak = max(each["megabytes"] for each in found)
        size = Path(runs).stat().st_size / 1e6
        print(
            f"plain, {count} trajectories ({size:.0f} MB): {middle:.0f} a second of one core "
            f"({count / best['cpu']:.0f} at best), peak {peak:.0f} MB"
        )
        again = [in_a_process(runs, out, "yes") for _ in range(rounds)]
        print(f"plain, {count} trajectories: resumed when finished in {min(each['seconds'] for each in again):.2f} s")


def judge(folder: Path, trajectories: int, rounds: int) -> None:
    from judges import Binary, LLMJudge, ScriptedClient
    from rubrics.rescoring import rescore_files

    count = min(trajectories, 4000)
    runs = folder / "judged.jsonl"
    make_runs(runs, count, steps=1)
    client = ScriptedClient({"reason": "because", "score": True}, delay=0.05)
    tree = LLMJudge(
        "Is it polite?\n{{ action.content | untrusted }}\n{{ task.goal | untrusted }}",
        Binary(),
        model="made-up",
        client=client,
        concurrency=64,
    )
    for name, store in (("with a store", "beside"), ("without", None)):
        rates = []
        for number in range(rounds):
            began = time.perf_counter()
            rescore_files(runs, tree, folder / f"judged{number}{store}.jsonl", concurrency=128, store=store)
            rates.append(count / (time.perf_counter() - began))
        ideal = 64 / 0.05
        middle = statistics.median(rates)
        print(f"judge of 50 ms, 64 at once, {name}: {middle:.0f} verdicts a second, {middle / ideal:.0%} of the ideal")


SCORER = """
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

@scorer(metrics=[mean()])
def has_answer() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=1.0 if "answer" in state.output.completion else 0.0)
    return score
"""
RUBRIC = """
from rubrics import Rubric

class HasAnswer(Rubric):
    reduction = "last"

    def forward(self, action, observation):
        return 1.0 if "answer" in action.content else 0.0
"""
TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

@solver
def answers() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("mockllm/model", "the answer is 42")
        state.messages.append(state.output.message)
        return state
    return solve

@task
def many(count: int = 1000):
    samples = [Sample(id=i, input=f"question {i}", target="x") for i in range(count)]
    return Task(dataset=MemoryDataset(samples), solver=answers())
"""


def inspect(folder: Path, trajectories: int, rounds: int) -> None:
    count = min(trajectories, 2000)
    for name, text in (("scorer.py", SCORER), ("rubric.py", RUBRIC), ("task.py", TASK)):
        (folder / name).write_text(text)
    surroundings = {**os.environ, "INSPECT_LOG_DIR": "logs", "PYTHONPATH": str(HERE.parents[1]), "NO_COLOR": "1"}

    def run(*command: str) -> float:
        began = time.perf_counter()
        done = subprocess.run([sys.executable, *command], cwd=folder, env=surroundings, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return time.perf_counter() - began

    cli = "from inspect_ai._cli.main import main; main()"
    run("-c", cli, "eval", "task.py@many", "-T", f"count={count}", "--model", "mockllm/model", "--display", "none")
    (log,) = (folder / "logs").glob("*.eval")
    theirs, ours = [], []
    for number in range(rounds):
        scored = [
            "score",
            str(log),
            "--scorer",
            "scorer.py@has_answer",
            "--overwrite",
            "--action",
            "overwrite",
            "--display",
            "none",
        ]
        theirs.append(run("-c", cli, *scored))
        out = f"inspect{number}.jsonl"
        ours.append(
            run(
                "-c",
                "from rubrics.cli import main; main()",
                "rescore",
                str(log),
                "--rubric",
                "rubric.py:HasAnswer",
                "--out",
                out,
                "--show",
                "none",
            )
        )
        rows = [json.loads(line) for line in (folder / out).open()]
        assert len(rows) == count and all(row["status"] == "scored" for row in rows)
    theirs_s, ours_s = statistics.median(theirs), statistics.median(ours)
    print(
        f"inspect, a log of {count} samples: inspect score {theirs_s:.1f} s, rubrics rescore {ours_s:.1f} s, "
        f"{theirs_s / ours_s:.1f} x"
    )


PARTS: dict[str, tuple[str, Callable[[Path, int, int], None]]] = {
    "plain": ("rubrics", plain),
    "judge": ("judges", judge),
    "inspect": ("inspect_ai", inspect),
}


def main() -> None:
    if sys.argv[1:2] == ["--one-run"]:
        one_run(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trajectories", type=int, default=10_000)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    for name, (module, part) in PARTS.items():
        if given.only not in (None, name):
            continue
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not measured, {module} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder), given.trajectories, given.rounds)


if __name__ == "__main__":
    main()
