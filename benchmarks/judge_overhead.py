"""What a judge costs by itself, without a model: `python benchmarks/judge_overhead.py`.

Ten criteria with a scripted client, of whose time the script's own is taken off; verdicts served from a store; and the
imports. Figures are the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.remove(str(Path(__file__).resolve().parent))  # judges.py there has the name of the package

from judges import ChatReply, Checklist, Judge, Likert, LLMJudge, ScriptedClient, Store
from rubrics import Rubric, WeightedSum

ANSWER = "The report names its sources, and says where they disagree. " * 17  # a kilobyte
PROMPT = "Rate this report.\n\n{{ action | untrusted }}"
FLOORS = {"ten leaves": "< 1 ms", "a checklist of ten": "< 1 ms", "verdicts from a store": "> 5,000/s"}


def script(score: object) -> ScriptedClient:
    client = ScriptedClient(ChatReply(json.dumps({"reason": "It does.", "score": score}), "stop"))
    client.requests = deque(maxlen=100)  # type: ignore[assignment]  # thousands would keep the garbage collector busy
    return client


async def ten_leaves(calls: int) -> float:
    """Milliseconds for ten judges in a sum, each with a prompt of its own."""
    client = script(4)
    leaves = {f"c{i}": LLMJudge(f"{PROMPT} {i}", Likert(1, 5), model="none", client=client) for i in range(10)}
    return await timed(WeightedSum(leaves, dict.fromkeys(leaves, 0.1)), calls)


async def checklist(calls: int) -> float:
    """Milliseconds for a checklist of ten criteria, a call each."""
    texts = [f"names fact {i} of the report" for i in range(10)]
    return await timed(Checklist(texts, model="none", client=script(True)), calls)


async def timed(tree: Rubric, calls: int) -> float:
    for i in range(20):
        await tree(f"{i} {ANSWER}", None)
    start = time.perf_counter()
    for i in range(calls):
        await tree(f"{i} {ANSWER}", None)
    return (time.perf_counter() - start) / calls * 1e3


async def from_store(path: Path, count: int) -> float:
    """Verdicts a second."""
    recording = Judge(
        "Rate.\n\n{{ text | untrusted }}", Likert(1, 5), model="none", client=script(4), store=Store(path)
    )
    for i in range(count):
        await recording.judge(text=f"{i} {ANSWER}")
    judge = Judge(
        "Rate.\n\n{{ text | untrusted }}", Likert(1, 5), model="none", endpoint="scripted", store=Store(path, "none")
    )
    await judge.judge(text=f"0 {ANSWER}")  # reads the file
    start = time.perf_counter()
    for i in range(count):
        verdict = await judge.judge(text=f"{i} {ANSWER}")
        assert getattr(verdict, "score", None) == 0.75
    return count / (time.perf_counter() - start)


def import_seconds(statement: str) -> float:
    code = f"import time; a = time.perf_counter(); {statement}; print(time.perf_counter() - a)"
    root = Path(__file__).resolve().parents[1]  # in this folder, `judges` would be the benchmark of that name
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    table = Table(title=f"median of {options.rounds} rounds")
    for head in ("what", "measured", "floor"):
        table.add_column(head, justify="left" if head == "what" else "right")
    leaves, lists, stored, imports = [], [], [], []
    names = "import judges; judges.LLMJudge; judges.Checklist; judges.Jury"
    for _ in range(options.rounds):
        leaves.append(asyncio.run(ten_leaves(100)))
        lists.append(asyncio.run(checklist(100)))
        with tempfile.TemporaryDirectory() as folder:
            stored.append(asyncio.run(from_store(Path(folder) / "store.jsonl", 1000)))
        imports.append(
            (import_seconds("import rubrics, judges") - import_seconds("import rubrics"), import_seconds(names))
        )
    table.add_row("ten leaves", f"{median(leaves):.2f} ms", FLOORS["ten leaves"])
    table.add_row("a checklist of ten", f"{median(lists):.2f} ms", FLOORS["a checklist of ten"])
    table.add_row("verdicts from a store", f"{median(stored):,.0f}/s", FLOORS["verdicts from a store"])
    table.add_row(
        "import judges, beyond rubrics", f"{median(beyond for beyond, _ in imports) * 1e3:.0f} ms", "< 100 ms"
    )
    table.add_row("import of all judges, with rubrics", f"{median(whole for _, whole in imports) * 1e3:.0f} ms", "")
    Console().print(table)


if __name__ == "__main__":
    main()
