"""The engine `ray`, with two workers: rows equal the local engine's, and no death of a worker loses or repeats one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray

from judges import Budget
from judges.runs import SharedBudget
from rubrics import Rubric
from rubrics.evaluation import Usage
from rubrics.formats import write_jsonl
from rubrics.rescoring import LoadError, Row, load_rubric, load_types, read_rows, rescore_files
from rubrics.rescoring.engines.ray import EngineError
from rubrics.rescoring.engines.worker import Account, Bank
from rubrics.trajectory import Step, Trajectory

ROOT = Path(__file__).resolve().parents[2]

# What a worker meets: numbers, and words for what goes wrong. Each leaf notes where it runs.
TREES = '''
import asyncio, os, signal, threading, time
from pathlib import Path
from dataclasses import dataclass
from judges import Binary, LLMJudge, Price, ScriptedClient
from judges.clients.protocol import ChatError
from rubrics import Fallback, Rubric, Score, Sequential, WeightedSum

def note(file, text):
    with open(file, "a") as notes:
        notes.write(f"{text}\\n")

def alone():
    """Whether the other worker has not begun yet, in a test that waits for it."""
    if not Path("together.txt").exists():
        return False
    note("here.txt", os.getpid())
    return len(set(Path("here.txt").read_text().split())) < 2

class Reads(Rubric):
    """The number; words do what they say."""
    def forward(self, action, observation):
        while alone():
            time.sleep(0.05)
        note("seen.txt", f"{os.getpid()} {self.task} {threading.current_thread() is threading.main_thread()}")
        number = action.number
        if number == "bad":
            raise LookupError("no number")
        if number == "leave":
            raise SystemExit(2)
        if number == "die":
            os._exit(7)
        if number == "die once" and not Path("died.txt").exists():
            note("died.txt", number)
            os._exit(7)
        if number == "hang":
            time.sleep(600)
        if number == "unwritable":
            endless = []
            endless.append(endless)
            return Score(1.0, "so", {"endless": endless})
        return float(number) if not isinstance(number, str) else 1.0

class Slow(Reads):
    def forward(self, action, observation):
        time.sleep(0.02)
        return super().forward(action, observation)

class Waits(Reads):
    """The later ones are done first."""
    async def forward(self, action, observation):
        await asyncio.sleep(action.wait)
        if action.number == "hang":
            await asyncio.sleep(600)
        return super().forward(action, observation)

class Counts(Rubric):
    """Keeps its state on itself."""
    def __init__(self):
        super().__init__()
        self.reset()
    def reset(self):
        self.steps = 0
    def forward(self, action, observation):
        self.steps += 1
        return float(self.steps)

@dataclass
class Move:
    number: object
    wait: float
    text: str
    def doubled(self):
        return 2.0 * self.number

class Doubled(Rubric):
    def forward(self, action, observation):
        return action.doubled()

async def answer(request):
    """The model writes down every request that it gets."""
    while alone():
        await asyncio.sleep(0.05)
    said = request.messages[-1]["content"]
    note("asked.txt", f"{time.time()} {os.getpid()} {said.splitlines()[2]}")
    if Path("busy.txt").exists():
        busy = Path("busy.txt")
        try:
            busy.rename("was_busy.txt")
        except FileNotFoundError:
            pass
        else:
            note("paused.txt", time.time())
            raise ChatError("rate_limit", "slower", retry_after=3.0)
    await asyncio.sleep(0.03)
    return {"score": True}

def judge(**options):
    client = ScriptedClient(answer)
    prompt = "Is it polite?\\n\\n{{ action.text | untrusted }}"
    return LLMJudge(prompt, Binary(), model="m", client=client, reason=False, max_tokens=10, **options)

def judged():
    return WeightedSum({"number": Waits(), "polite": judge()}, {"number": 0.5, "polite": 0.5})

def paid():
    return judge(price=Price(1000.0, 1000.0))

def forgiving():
    """Makes a score of whatever its judge does."""
    return Fallback(paid(), 0.0, on_error=True)

def narrow():
    return judge(concurrency=4)

def counts_and_waits():
    return Sequential(Counts(), Waits())
'''


def step(id: str, number: Any, wait: float = 0.0) -> Step:
    return Step({"number": number, "wait": wait, "text": f"{id} says {number}"}, {"text": "x"}, 0.5)


def trajectory(id: str, *numbers: Any, wait: float = 0.0) -> Trajectory:
    steps = [step(id, number, wait) for number in numbers]
    return Trajectory(id, task=id, steps=steps, end="terminated", reward=0.5)


@pytest.fixture(scope="module", autouse=True)
def two_cpus() -> Iterator[None]:
    """One Ray for all tests: starting one takes seconds."""
    surroundings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT))
        ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trees.py").write_text(TREES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(name: str) -> Rubric:
    return load_rubric(f"trees.py:{name}")


def plain(row: Row) -> dict[str, Any]:
    """A row without what differs from one run to another: how long nodes took."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(item) for key, item in value.items() if key != "duration"}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    return timeless(row.to_dict())  # type: ignore[no-any-return]


def both(runs: Path, make: Callable[[], Rubric], **options: Any) -> list[Row]:
    """The rows of both engines, which are the same."""
    finished = rescore_files(runs, make(), "out.jsonl", store=None, engine="ray", **options)
    Path("together.txt").unlink(missing_ok=True)
    seen = Path("seen.txt").read_text() if Path("seen.txt").exists() else ""
    local = rescore_files(runs, make(), "local.jsonl", store=None, **options)
    Path("seen.txt").write_text(seen)
    rows = list(read_rows("out.jsonl"))
    assert [plain(row) for row in rows] == [plain(row) for row in read_rows("local.jsonl")]
    assert finished.summary.describe() == local.summary.describe()
    assert (finished.written, finished.stopped) == (local.written, local.stopped)
    return rows


def ids(path: str = "out.jsonl") -> list[str | None]:
    return [row.id for row in read_rows(path)]


def asked() -> list[list[str]]:
    """Of each request the time, the process and the text."""
    return [line.split(" ", 2) for line in Path("asked.txt").read_text().splitlines()]


def workers_seen() -> set[str]:
    return {line.split()[0] for line in Path("seen.txt").read_text().splitlines()}


def mixed(also: str, count: int = 60) -> list[Trajectory]:
    numbers: list[Any] = [*range(count)]
    numbers[3], numbers[11], numbers[20] = "bad", also, "unwritable"
    items = [trajectory(f"t{i}", i, number, wait=(count - i) / 3000) for i, number in enumerate(numbers)]
    items[7].end, items[8].end, items[9].steps = None, "error", []
    return [*items, trajectory("t0", 0, 0)]


@pytest.mark.parametrize("name", ["Slow", "judged", "Counts", "counts_and_waits"])
def test_rows_are_those_of_the_local_engine(folder: Path, name: str) -> None:
    runs = folder / "runs.jsonl"
    write_jsonl(runs, mixed("leave" if name == "Slow" else "bad"))
    lines = runs.read_bytes().splitlines(keepends=True)
    runs.write_bytes(b"".join([*lines[:5], b"{broken\n", b'{"id": 1}\n', *lines[5:]]))
    if name == "Slow":
        (folder / "together.txt").touch()
    rows = both(runs, lambda: tree(name))
    assert len(rows) == len(lines) + 2
    assert {row.status for row in rows} >= {"scored", "unfinished", "unscored", "unreadable"}
    if name == "Slow":
        assert len(workers_seen()) == 2
        noted = [line.split() for line in Path("seen.txt").read_text().splitlines()]
        assert {line[-1] for line in noted} == {"True"}  # a plain leaf may need the main thread, for an alarm


def test_a_tree_made_on_the_spot_is_pickled(folder: Path) -> None:
    class Tenfold(Rubric):
        def __init__(self, times: float) -> None:
            super().__init__()
            self.times = times

        def forward(self, action: Any, observation: Any) -> float:
            return action.number * self.times

    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(5)])
    rows = both(folder / "runs.jsonl", lambda: Tenfold(10.0))
    assert [row.reward for row in rows] == [0.0, 10.0, 20.0, 30.0, 40.0]


def test_classes_of_actions_travel(folder: Path) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(5)])
    rows = both(folder / "runs.jsonl", lambda: tree("Doubled"), types=load_types("trees.py:Move,"))
    assert [row.reward for row in rows] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_what_cannot_travel_is_told_what_to_do(folder: Path) -> None:
    class Locked(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, action: Any, observation: Any) -> float:
            return 1.0

    write_jsonl("runs.jsonl", [trajectory("t", 1)])
    with pytest.raises(EngineError, match=r"cannot be sent to the workers: TypeError: .*lock.*in a file, and name it"):
        rescore_files("runs.jsonl", Locked(), "out.jsonl", engine="ray")
    assert not Path("out.jsonl").exists()


def test_a_tree_that_was_changed_after_it_was_loaded_is_noticed(folder: Path) -> None:
    (folder / "sum.py").write_text(
        "from rubrics import Clip\nfrom trees import Reads\ndef make_rubric(): return Clip(Reads(), 0.0, 5.0)\n"
    )
    rubric: Any = load_rubric("sum.py")
    rubric.high = 7.0
    write_jsonl("runs.jsonl", [trajectory("t", 1)])
    with pytest.raises(EngineError, match="the tree in a worker is not the one here"):
        rescore_files("runs.jsonl", rubric, "out.jsonl", engine="ray")


def test_a_tree_that_does_not_load_in_a_worker_ends_the_run(folder: Path) -> None:
    (folder / "here.py").write_text(
        "import os\nfrom trees import Reads\n"
        f"def make_rubric(): return Reads() if os.getpid() == {os.getpid()} else 1\n"
    )
    write_jsonl("runs.jsonl", [trajectory("t", 1)])
    with pytest.raises(EngineError, match=r"here.py:make_rubric\(\) returned an int, not a Rubric") as caught:
        rescore_files("runs.jsonl", load_rubric("here.py"), "out.jsonl", engine="ray")
    assert isinstance(caught.value.__cause__, LoadError)


@pytest.mark.parametrize("name", ["Slow", "Waits"])
def test_rows_are_written_as_they_are_done_and_a_stop_finishes_what_is_in_progress(folder: Path, name: str) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i, wait=0.02) for i in range(200)])
    stop, written = threading.Event(), 0

    def note(row: Row) -> None:
        nonlocal written
        written += 1
        assert Path("out.jsonl").read_bytes().count(b"\n") == written
        if written == 10:
            stop.set()

    finished = rescore_files("runs.jsonl", tree(name), "out.jsonl", engine="ray", concurrency=4, stop=stop, on_row=note)
    assert finished.stopped == "interrupted"
    assert 10 <= finished.written < 100
    seen = Path("seen.txt").read_text().splitlines()
    assert len(seen) == finished.written  # whatever was begun is written
    engine: Any = "ray" if name == "Slow" else "local"  # either goes on with a run of the other
    again = rescore_files("runs.jsonl", tree(name), "out.jsonl", engine=engine, resume=True)
    assert (again.kept, again.written) == (finished.written, 200 - finished.written)
    assert ids() == [f"t{i}" for i in range(200)]
    assert len(Path("seen.txt").read_text().splitlines()) == 200


def test_nothing_to_do_needs_no_ray(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl("runs.jsonl", [trajectory("t", 1)])
    rescore_files("runs.jsonl", tree("Reads"), "out.jsonl")
    monkeypatch.setattr(ray, "remote", None)
    assert rescore_files("runs.jsonl", tree("Reads"), "out.jsonl", engine="ray", resume=True).kept == 1


@pytest.mark.parametrize("name", ["Slow", "Waits"])
def test_a_leaf_that_ends_its_process_costs_its_own_row_alone(folder: Path, name: str) -> None:
    numbers: list[Any] = [*range(40)]
    numbers[6], numbers[17], numbers[18] = "die once", "die", "bad"
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", number, wait=0.02) for i, number in enumerate(numbers)])
    finished = rescore_files("runs.jsonl", tree(name), "out.jsonl", engine="ray", concurrency=8)
    rows = {row.id: row for row in read_rows("out.jsonl")}
    assert list(rows) == [f"t{i}" for i in range(40)]
    assert finished.summary.statuses == {"scored": 38, "error": 2}
    assert rows["t6"].reward == 1.0
    assert rows["t17"].reason is not None
    assert rows["t17"].reason.startswith("the worker process that scored it alone died (the rubric may end or crash")
    assert (rows["t17"].evaluation, rows["t17"].content is None) == (None, False)
    assert rows["t18"].reason == "step 1 of 1: LookupError: no number; in rubric " + (
        "Slow (root)" if name == "Slow" else "Waits (root)"
    )


@pytest.mark.parametrize("name", ["Reads", "Waits"])
def test_a_leaf_that_hangs_costs_its_own_row_alone(folder: Path, name: str) -> None:
    numbers: list[Any] = [*range(12)]
    numbers[5] = "hang"
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", number) for i, number in enumerate(numbers)])
    rescore_files("runs.jsonl", tree(name), "out.jsonl", engine="ray", concurrency=8, worker_timeout=6.0)
    rows = {row.id: row for row in read_rows("out.jsonl")}
    assert [row.status for row in rows.values()] == ["scored"] * 5 + ["error"] + ["scored"] * 6
    assert rows["t5"].reason is not None
    assert "gave no answer within 6 s and was killed" in rows["t5"].reason


@pytest.mark.parametrize("name", ["Slow", "judged"])
def test_workers_that_are_killed_lose_and_repeat_nothing(folder: Path, name: str) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i, wait=0.02) for i in range(150)])
    written, killed = 0, 0

    def note(row: Row) -> None:
        nonlocal written, killed
        written += 1
        if written in (20, 60):
            last = Path("seen.txt").read_text().splitlines()[-1].split()[0]
            os.kill(int(last), signal.SIGKILL)
            killed += 1

    finished = rescore_files("runs.jsonl", tree(name), "out.jsonl", engine="ray", concurrency=8, on_row=note)
    assert (killed, finished.written) == (2, 150)
    assert finished.summary.statuses == {"scored": 150}
    assert ids() == [f"t{i}" for i in range(150)]
    assert len(workers_seen()) >= 3
    if name == "judged":  # a verdict that there was is not asked for again
        questions = [text for _, _, text in asked()]
        assert len(set(questions)) == 150
        assert len(questions) <= 150 + 2 * 4


def test_workers_that_all_die_end_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rubrics.rescoring.engines.ray._IN_A_ROW", 1)
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", "die") for i in range(30)])
    with pytest.raises(EngineError, match="3 workers died without an answer between them, the last one so"):
        rescore_files("runs.jsonl", tree("Reads"), "out.jsonl", engine="ray")


# -- judges -----------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_twice_whichever_worker_asked(folder: Path) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(40)])
    Path("together.txt").touch()
    rescore_files("runs.jsonl", tree("judged"), "out.jsonl", engine="ray")
    assert len(asked()) == 40
    assert len({process for _, process, _ in asked()}) == 2
    assert sorted(path.name for path in folder.glob("out.verdicts*")) == [
        "out.verdicts.jsonl",
        "out.verdicts.shard1.jsonl",
    ]
    Path("together.txt").unlink()
    Path("out.jsonl").unlink()  # as if it had been killed before the first row
    finished = rescore_files("runs.jsonl", tree("judged"), "out.jsonl", engine="ray")
    assert (finished.written, len(asked())) == (40, 40)
    rescore_files("runs.jsonl", tree("judged"), "out.jsonl", engine="local", overwrite=True)
    assert len(asked()) == 40


@pytest.mark.parametrize("name", ["paid", "forgiving"])
def test_a_budget_holds_over_all_workers(folder: Path, name: str) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(60)])
    finished = rescore_files("runs.jsonl", tree(name), "out.jsonl", engine="ray", concurrency=8, budget_usd=3.0)
    assert finished.stopped == "budget"
    assert 0 < finished.written < 60
    assert finished.summary.statuses == {"scored": finished.written}  # one that ran out of money has no row
    assert 0.0 < finished.summary.cost <= 3.0
    assert len(asked()) == finished.written
    each = finished.summary.cost / finished.written
    assert finished.written >= 3.0 / each - 2 * 8  # what was reserved at the end
    again = rescore_files("runs.jsonl", tree(name), "out.jsonl", budget_usd=100.0, resume=True)
    assert (again.stopped, again.kept + again.written) == (None, 60)
    assert len(asked()) == 60


def test_reservations_of_many_workers_are_exact() -> None:
    bank = ray.remote(Bank).options(num_cpus=0).remote(50.0)

    @ray.remote(num_cpus=0)
    def spend(account: Account) -> int:
        from judges.limits import BudgetExceeded

        budget = SharedBudget(50.0, account)
        let_through, said = 0, ""
        for _ in range(60):
            try:
                reserved = budget.reserve(10, 1.0)
            except BudgetExceeded as error:
                said = str(error)
                continue
            let_through += 1
            budget.settle(reserved, Usage(calls=1, total_tokens=10, cost=1.0))
        assert said == "the request may cost $1.000000, and $0.000000 of $50 are left"
        assert budget.exhausted
        return let_through

    assert sum(ray.get([spend.remote(Account(bank)) for _ in range(2)])) == 50


def test_a_budget_in_the_tree_is_refused(folder: Path) -> None:
    rubric = tree("paid")
    rubric.judge.asker.exchanger.budget = Budget(calls=3)  # type: ignore[attr-defined]
    write_jsonl("runs.jsonl", [trajectory("t", 1)])
    with pytest.raises(EngineError, match="a budget of its own, which each worker would spend"):
        rescore_files("runs.jsonl", rubric, "out.jsonl", engine="ray")


def test_a_provider_that_asks_one_worker_to_wait_is_left_alone_by_all(folder: Path) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(120)])
    Path("together.txt").touch()

    def note(row: Row) -> None:
        if row.id == "t20":
            Path("busy.txt").touch()

    finished = rescore_files("runs.jsonl", tree("narrow"), "out.jsonl", engine="ray", on_row=note)
    assert finished.summary.statuses == {"scored": 120}
    paused = float(Path("paused.txt").read_text())
    times = [float(at) - paused for at, _, _ in asked()]
    assert not [at for at in times if 1.0 < at < 2.9]
    assert len({process for at, process, _ in asked() if float(at) > paused + 2.9}) == 2


def test_the_concurrency_of_a_judge_is_divided(folder: Path) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i) for i in range(60)])
    Path("together.txt").touch()
    rescore_files("runs.jsonl", tree("narrow"), "out.jsonl", engine="ray", concurrency=32)
    begun = sorted(float(at) for at, _, _ in asked())
    at_once = max(sum(at <= other < at + 0.025 for other in begun) for at in begun)
    assert at_once <= 8  # four, and four that follow at once


# -- the command ------------------------------------------------------------------------------------------------------


def command(*options: str, **environment: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", "from rubrics.cli import main; main()", "rescore", "runs.jsonl", *options]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **environment}
    surroundings.pop("RAY_ADDRESS", None)
    return subprocess.Popen(
        words, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def test_the_command_starts_a_ray_of_its_own_quietly_and_ctrl_c_is_polite(folder: Path) -> None:
    write_jsonl("runs.jsonl", [trajectory(f"t{i}", i, wait=0.2) for i in range(60)])
    options = ("--rubric", "trees.py:judged", "--out", "out.jsonl")
    process = command(*options, "--concurrency", "4", "--engine", "ray", "--workers", "2")
    deadline = time.monotonic() + 120
    while not Path("out.jsonl").exists() or not Path("out.jsonl").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of its processes
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    lines = [line for line in err.splitlines() if " left" not in line]  # a slow machine says how far it is
    assert len(lines) == 2, err
    assert lines[0] == "rubrics: finishing what is in progress; once more ends it at once"
    assert "interrupted; " in lines[1]
    written = Path("out.jsonl").read_bytes().count(b"\n")
    assert 0 < written < 60
    assert len(asked()) == written
    assert len(Path("seen.txt").read_text().splitlines()) == written
    process = command(*options, "--resume")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), out + err
    assert ids() == [f"t{i}" for i in range(60)]
    assert len(asked()) == 60
    assert json.loads(Path("out.jsonl").read_text().splitlines()[0])["status"] == "scored"


def test_workers_without_ray_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="workers are of the engine 'ray'"):
        rescore_files("runs.jsonl", tree("Reads"), "out.jsonl", workers=2)
    with pytest.raises(ValueError, match="engine is 'local' or 'ray', not 'dask'"):
        rescore_files("runs.jsonl", tree("Reads"), "out.jsonl", engine="dask")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers is at least 1, not 0"):
        rescore_files("runs.jsonl", tree("Reads"), "out.jsonl", engine="ray", workers=0)
