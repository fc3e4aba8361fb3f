"""`rubrics rescore` as a process: killed, interrupted, out of money, out of disk; and what it says beforehand."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rubrics.formats import write_jsonl
from rubrics.rescoring import read_rows
from rubrics.trajectory import Step, Trajectory

RUBRIC = '''
import asyncio
import os
from judges import Binary, LLMJudge, Price, ScriptedClient
from rubrics import Rubric, WeightedSum

class Short(Rubric):
    def forward(self, action, observation):
        return float(len(action.text) < 100)

async def answer(request):
    """The model writes down every request that it gets."""
    with open("asked.txt", "a") as asked:
        asked.write(request.messages[-1]["content"].splitlines()[2] + "\\n")
    await asyncio.sleep(float(os.environ.get("DELAY", "0.02")))
    return {"reason": "because", "score": True}

def make_rubric():
    judge = LLMJudge(
        os.environ.get("PROMPT", "Is it polite?") + "\\n\\n{{ action.text | untrusted }}", Binary(), model="made-up",
        client=ScriptedClient(answer), max_tokens=100,
        price=Price(1.0, 1.0) if "PRICE" in os.environ else None,
    )
    return WeightedSum({"short": Short(), "polite": judge}, {"short": 0.5, "polite": 0.5})
'''
COUNT = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rubric.py").write_text(RUBRIC)
    trajectories = [
        Trajectory(f"t{i}", steps=[Step({"text": f"message {i}"}, {"text": "x"})], end="terminated", reward=0.5)
        for i in range(COUNT)
    ]
    write_jsonl(tmp_path / "runs.jsonl", trajectories)
    return tmp_path


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from rubrics.cli import main; main()", "rescore", "runs.jsonl"]
    command += ["--rubric", "rubric.py:make_rubric", *options]
    root = str(Path(__file__).resolve().parents[2])
    surroundings = {**os.environ, "PYTHONPATH": root, "COLUMNS": "200", **environment}
    return subprocess.Popen(
        command, cwd=folder, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(folder: Path, *options: str, **environment: str) -> tuple[int, str]:
    process = start(folder, *options, **environment)
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def rows_written(folder: Path) -> int:
    out = folder / "out.jsonl"
    return out.read_bytes().count(b"\n") if out.exists() else 0


def wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while rows_written(folder) < count:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text().splitlines()


def check_complete(folder: Path) -> None:
    rows = list(read_rows(folder / "out.jsonl"))
    assert [row.id for row in rows] == [f"t{i}" for i in range(COUNT)]
    assert {row.status for row in rows} == {"scored"}


def test_a_run_that_is_killed_again_and_again_loses_and_repeats_nothing(folder: Path) -> None:
    chance = random.Random(7)
    kills = 0
    for least in (1, 12, 25, 40):
        process = start(folder, "--out", "out.jsonl", "--resume", "--concurrency", "4")
        wait_for_rows(folder, least)
        time.sleep(chance.random() / 50)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        kills += 1
    code, said = run(folder, "--out", "out.jsonl", "--resume", "--concurrency", "4")
    assert code == 0, said
    check_complete(folder)
    questions = asked(folder)
    assert len(set(questions)) == COUNT
    assert len(questions) <= COUNT + kills * 4  # what was under way when it was killed had no answer yet


def test_ctrl_c_finishes_what_is_in_progress(folder: Path) -> None:
    process = start(folder, "--out", "out.jsonl", "--concurrency", "4")
    wait_for_rows(folder, 8)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finishing what is in progress" in err
    assert "interrupted; " in err
    assert "--resume goes on" in err
    assert rows_written(folder) == len(asked(folder)) < COUNT  # all that was asked is in the rows
    assert run(folder, "--out", "out.jsonl", "--resume")[0] == 0
    check_complete(folder)
    assert len(asked(folder)) == COUNT


def test_a_second_ctrl_c_ends_at_once(folder: Path) -> None:
    process = start(folder, "--out", "out.jsonl", "--concurrency", "4", DELAY="30")
    deadline = time.monotonic() + 60
    while not (folder / "asked.txt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "ended at once" in err
    assert "Traceback" not in err


def test_a_plan_counts_calls_tokens_and_dollars_and_asks_nothing(folder: Path) -> None:
    code, said = run(folder, "--dry-run", PRICE="1")
    assert code == 0
    assert f"{COUNT} trajectories ({COUNT} scored), {COUNT} steps, 3 nodes" in said
    (line,) = [line for line in said.splitlines() if "made-up" in line]
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells[:4] == ["made-up", str(COUNT), "0", "0"]
    prompt = int(cells[4].replace(",", ""))
    assert cells[5] == f"{COUNT * 70:,} – {COUNT * 100:,}"
    assert cells[6] == f"${(prompt + COUNT * 70) / 1e6:.4f}"
    assert cells[7] == f"${(prompt + COUNT * 100) / 1e6:.4f}"
    assert not (folder / "asked.txt").exists()
    assert not (folder / "out.jsonl").exists()


def test_a_plan_knows_what_is_in_the_store(folder: Path) -> None:
    assert run(folder, "--out", "out.jsonl", "--limit", "20")[0] == 0
    code, said = run(folder, "--dry-run", "--out", "out.jsonl")
    assert code == 0
    (line,) = [line for line in said.splitlines() if "made-up" in line]
    assert [cell.strip() for cell in line.strip("│").split("│")][1:3] == ["40", "20"]
    assert "give --price PROMPT,REPLY" in said
    assert "unknown" in said


def test_an_edited_criterion_costs_only_itself(folder: Path) -> None:
    assert run(folder, "--out", "out.jsonl")[0] == 0
    code, said = run(folder, "--out", "out.jsonl")
    assert code == 2
    assert "out.jsonl holds a run of this rubric: give --resume to go on with it, or --overwrite" in said
    code, said = run(folder, "--out", "out.jsonl", PROMPT="Is it kind?")
    assert code == 2
    assert "out.jsonl holds a run of another rubric" in said
    code, said = run(folder, "--out", "out.jsonl", "--resume", PROMPT="Is it kind?")
    assert code == 0
    assert "the rows of the rubric before are in out.before1.jsonl" in said
    assert len(asked(folder)) == 2 * COUNT
    code, said = run(folder, "--out", "out.jsonl", "--resume")  # and back: every verdict is known
    assert code == 0
    assert len(asked(folder)) == 2 * COUNT


def test_the_budget_stops_the_run(folder: Path) -> None:
    code, said = run(folder, "--out", "out.jsonl", "--budget-usd", "0.005", "--concurrency", "2", PRICE="1")
    assert code == 3
    assert "the budget is used up; " in said
    before = rows_written(folder)
    assert 0 < before < COUNT
    cost = sum(row.usage["cost"] for row in read_rows(folder / "out.jsonl") if row.usage)
    assert 0 < cost <= 0.005
    code, said = run(folder, "--out", "out.jsonl", "--budget-usd", "1", "--resume", PRICE="1")
    assert code == 0
    assert f"{before} rows were there already, {COUNT - before} are new" in said
    check_complete(folder)
    assert len(asked(folder)) == COUNT


def test_dollars_without_a_price_are_refused(folder: Path) -> None:
    code, said = run(folder, "--out", "out.jsonl", "--budget-usd", "1")
    assert code == 2
    assert "no price of 'made-up' is known: give price=Price(prompt, completion) (--price PROMPT,REPLY)" in said
    assert not (folder / "out.jsonl").exists()
    assert not (folder / "asked.txt").exists()
    assert run(folder, "--out", "out.jsonl", "--overwrite", "--budget-usd", "1", "--price", "1,2")[0] == 0


def test_rows_have_standard_output_for_themselves(folder: Path) -> None:
    process = start(folder, "--out", "/dev/stdout", "--store", "none")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == sorted(f"t{i}" for i in range(COUNT))
    assert "60 trajectories: 60 scored" in err


def test_two_processes_do_not_write_one_file(folder: Path) -> None:
    first = start(folder, "--out", "out.jsonl", "--concurrency", "1", DELAY="0.1")
    wait_for_rows(folder, 1)
    code, said = run(folder, "--out", "out.jsonl", "--resume")
    assert code == 2
    assert "out.jsonl is being written by another process" in said
    first.communicate(timeout=60)
    assert first.returncode == 0
    check_complete(folder)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_fills_up_loses_no_row(folder: Path) -> None:
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        code, said = run(folder, "--out", "small/out.jsonl", "--store", "verdicts.jsonl")
        assert code == 2
        assert "small/out.jsonl cannot be written: No space left on device" in said
        whole = (small / "out.jsonl").read_bytes().rpartition(b"\n")[0].split(b"\n")
        assert 0 < len(whole) < COUNT
        assert all(json.loads(line)["status"] == "scored" for line in whole)
        (folder / "out.jsonl").write_bytes((small / "out.jsonl").read_bytes())
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert run(folder, "--out", "out.jsonl", "--store", "verdicts.jsonl", "--resume")[0] == 0
    check_complete(folder)
    assert len(set(asked(folder))) == COUNT
    assert len(asked(folder)) <= COUNT + 32  # what was under way had no answer yet
