"""The `rubrics` command, from outside."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rubrics import formats
from rubrics.cli.app import app
from rubrics.rescoring import Row, read_rows

ROOT = Path(__file__).resolve().parents[2]

RUBRIC = """
import asyncio
from dataclasses import dataclass
from rubrics import Rubric, Score, WeightedSum

@dataclass
class Act:
    number: float

class Leaf(Rubric):
    def forward(self, action, observation):
        if action.number == "bad":
            raise LookupError("no number")
        return Score(action.number, reason="[red]markup[/red]")

class Slow(Rubric):
    async def forward(self, action, observation):
        await asyncio.sleep(0.001)
        return action.number

class Typed(Rubric):
    def forward(self, action, observation):
        return float(type(action).__name__ == "Act")

class Circular(Rubric):
    def forward(self, action, observation):
        loop = []
        loop.append(loop)
        return Score(1.0, metadata={"loop": loop})

def make_rubric():
    return WeightedSum({"leaf": Leaf()}, {"leaf": 1.0})

def make_slow():
    return WeightedSum({"leaf": Leaf(), "slow": Slow()}, {"leaf": 0.5, "slow": 0.5})
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "100")
    known = formats.formats()
    monkeypatch.setattr(formats.registry, "_readers", {name: known[name] for name in ("jsonl", "tau-bench")})
    Path("rubric.py").write_text(RUBRIC)

    def run(*args: str, rubric: str | None = "rubric.py:make_rubric", out: str | None = "out.jsonl") -> Result:
        options = [*(["--rubric", rubric] if rubric else []), *(["--out", out] if out else [])]
        return CliRunner().invoke(app, ["rescore", *args, *options], catch_exceptions=False)

    return run


def line(id: str, *numbers: Any, end: str | None = "terminated", reward: float | None = 0.5) -> str:
    steps = [{"action": {"number": number}, "observation": {}} for number in numbers]
    return json.dumps({"id": id, "steps": steps, "end": end, "reward": reward}) + "\n"


def rows() -> list[Row]:
    return list(read_rows("out.jsonl"))


def test_the_command_of_the_readme(tmp_path: Path) -> None:
    out = tmp_path / "rescored.jsonl"
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples/trajectories").glob("*.jsonl"))
    command = ["rescore", *files, "--rubric", "examples/guessing.py:make_rubric", "--out", str(out)]
    start = [sys.executable, "-c", "from rubrics.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "COLUMNS": "100"}
    done = subprocess.run([*start, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "24 trajectories: 22 scored, 2 unfinished" in done.stdout
    assert "recorded mean" in done.stdout
    assert "result.found" in done.stdout
    assert "└── quick: Quick = " in done.stdout
    assert len(list(read_rows(out))) == 24


@pytest.mark.parametrize("factory", ["make_rubric", "make_slow"])
def test_one_row_a_trajectory_in_order(run: Run, factory: str) -> None:
    Path("a.jsonl").write_text("".join(line(str(i), 0.25, i / 4) for i in range(4)))
    Path("b.jsonl").write_text(line("x", 1, end=None) + line("y", 1, end="error"))
    result = run("a.jsonl", "b.jsonl", rubric=f"rubric.py:{factory}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [row.id for row in rows()] == ["0", "1", "2", "3", "x", "y"]
    assert [row.reward for row in rows()] == [0.25, 0.5, 0.75, 1.0, None, None]
    assert [row.status for row in rows()][4:] == ["unfinished", "unscored"]
    assert "6 trajectories: 4 scored, 1 unscored, 1 unfinished" in result.stdout
    assert "\nunscored, for example, y: " in result.stdout
    assert "recorded mean 0.500, new mean 0.625 (2 up, 1 down, 1 same)" in result.stdout


def test_the_tree_of_one_trajectory_is_shown_and_no_markup_is_read(run: Run) -> None:
    Path("a.jsonl").write_text(
        line("[blue]id", "bad") + line("[bold]x[/bold]\x1b[2J", 0.25, reward=0.1 + 0.2) + line("z", 0.75)
    )
    result = run("a.jsonl")
    assert "[bold]x[/bold]\\x1b[2J: reward 0.25, recorded 0.3" in result.stdout
    assert "└── leaf: Leaf = 0.25  [red]markup[/red]" in result.stdout
    assert "rubrics: [blue]id: step 1 of 1: LookupError: no number" in result.stderr
    assert "\x1b" not in result.output
    assert "z: reward 0.75" in run("a.jsonl", "--overwrite", "--show", "z").stdout
    assert "leaf: Leaf = " not in run("a.jsonl", "--overwrite", "--show", "none").stdout
    run("a.jsonl", "--overwrite")
    kept = run("a.jsonl", "--resume", "--show", "z")
    assert "z: reward 0.75" in kept.stdout
    assert "3 rows were there already, 0 are new" in kept.stdout
    assert "no trajectory has the id 'w'" in run("a.jsonl", "--overwrite", "--show", "w").stderr


def test_a_rubric_that_raises_on_some_is_exit_code_1(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1) + line("b", "bad") + line("c", 1))
    result = run("a.jsonl")
    assert result.exit_code == 1
    assert "rubrics: b: step 1 of 1: LookupError: no number" in result.stderr
    assert "leaf" in result.stderr
    assert "rubrics: 1 rows are errors; --only-failed makes them again, and no others" in result.stderr
    assert [row.status for row in rows()] == ["scored", "error", "scored"]


def test_bad_rows_are_exit_code_2_and_every_good_one_is_written(run: Run) -> None:
    Path("cut.jsonl").write_text(line("a", 1) + line("b", "bad") + "nonsense\n" + line("c", 1)[:30])
    Path("empty.jsonl").write_text("")
    Path("latin.jsonl").write_bytes(line("d", 1).encode() + b'{"id": "\xe9"}\n' + line("e", 1).encode())
    Path("other.json").write_text('{"what": "is this?"}\n')
    Path("twice.jsonl").write_text(line("f", 1) + line("a", 1))
    result = run("cut.jsonl", "empty.jsonl", "latin.jsonl", "other.json", "absent.jsonl", "twice.jsonl")
    assert result.exit_code == 2
    for message in (
        "rubrics: cut.jsonl:3: not JSON: Expecting value (column 1)",
        "rubrics: cut.jsonl:4: not JSON: ",
        "the file ends in the middle of this line",
        "rubrics: empty.jsonl:1: the file is empty",
        "rubrics: latin.jsonl:2: not UTF-8: ",
        "rubrics: other.json:1: unknown format: the first record has the keys what; known formats: jsonl, tau-bench",
        "rubrics: absent.jsonl: cannot be read: No such file or directory",
        "rubrics: b: step 1 of 1: LookupError: no number",
    ):
        assert message in result.stderr
    assert [row.id for row in rows() if row.status == "scored"] == ["a", "d", "e", "f", "a#2"]
    assert [row.status for row in rows()].count("unreadable") == 6
    assert len(rows()) == 12


def test_many_bad_rows_are_counted_and_not_all_shown(run: Run) -> None:
    Path("a.jsonl").write_text("".join(line(str(i), "bad") for i in range(30)))
    result = run("a.jsonl")
    assert result.stderr.count("LookupError: no number") == 20
    assert "and 10 more like this: the rows in out.jsonl with the status 'error'" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rubric": "rubric.py:nothing"}, "rubric.py has no 'nothing'; it has: Act, Leaf"),
        ({"rubric": "absent.py:make_rubric"}, "there is no file absent.py"),
        ({"rubric": "broken.py:make_rubric"}, "broken.py:2: ZeroDivisionError: division by zero"),
        ({"rubric": "rubric.py:Act"}, "rubric.py:Act() raised TypeError"),
        ({"args": ["--format", "tau"]}, "no format 'tau'; known formats: jsonl, tau-bench"),
        ({"args": ["--types", "rubric.py:Act"]}, "types are given as PATH_OR_MODULE:Action,Observation"),
        ({"out": "a.jsonl"}, "a.jsonl is one of the inputs; recordings and rubrics are never overwritten"),
        ({"out": "a.jsonl", "args": ["--overwrite"]}, "a.jsonl is one of the inputs"),
        ({"out": "link.jsonl", "args": ["--overwrite"]}, "link.jsonl is one of the inputs"),
        ({"out": "rubric.py", "args": ["--overwrite"]}, "rubric.py is one of the inputs"),
        ({"out": "old.jsonl"}, "old.jsonl:1: not JSON"),
        ({"out": "old.jsonl"}, "choose another file, or give --overwrite"),
        ({"out": "no/where.jsonl"}, "no/where.jsonl cannot be written: No such file or directory"),
        ({"args": ["--where", "reward <"]}, "'reward <' is no expression"),
        ({"args": ["--where", "rewards < 1"]}, "names rewards; there are id, source, reward, end, steps, group"),
        ({"args": ["--price", "1"]}, "--price is two numbers, such as 0.25,2.0, not '1'"),
        ({"args": ["--only-failed", "--overwrite"]}, "only_failed goes on with a file, and overwrite replaces it"),
    ],
)
def test_what_cannot_start_says_why_and_writes_nothing(run: Run, options: dict[str, Any], message: str) -> None:
    Path("a.jsonl").write_text(line("a", 1))
    Path("old.jsonl").write_text("kept\n")
    Path("link.jsonl").symlink_to("a.jsonl")
    Path("broken.py").write_text("x = 1\nx / 0\n")
    before = {path.name: path.read_bytes() for path in Path().glob("*.*")}
    args = options.pop("args", [])
    result = run("a.jsonl", *args, **options)
    assert result.exit_code == 2
    assert f"rubrics: {message}" in result.stderr or message in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name: path.read_bytes() for path in Path().glob("*.*")} == before


def test_rows_are_no_recordings_and_a_condition_may_be_met_by_none(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1))
    result = run("a.jsonl", "--where", "group == 'b'")
    assert (result.exit_code, result.stderr) == (0, "rubrics: no trajectory meets --where \"group == 'b'\"\n")
    run("a.jsonl", "--overwrite")
    again = run("out.jsonl", out="again.jsonl")
    assert "out.jsonl:1: these are the rows of a run: give the recordings that it read" in again.stderr


def test_an_old_result_is_replaced_when_asked(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1))
    Path("out.jsonl").write_text("old\n" * 1000)
    assert run("a.jsonl", "--overwrite").exit_code == 0
    assert [row.id for row in rows()] == ["a"]


def test_types_and_the_assumed_end(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1, end=None))
    run("a.jsonl", "--types", "rubric.py:Act,", "--assume-end", "truncated", rubric="rubric.py:Typed")
    (row,) = rows()
    assert (row.status, row.reward, row.end) == ("scored", 1.0, "truncated")


def test_a_record_that_cannot_be_written_is_one_bad_row(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1) + line("b", 1))
    assert run("a.jsonl", rubric="rubric.py:Circular").exit_code == 1
    assert [(row.id, row.status) for row in rows()] == [("a", "error"), ("b", "error")]
    assert rows()[0].reason is not None
    assert "cannot be written as JSON" in str(rows()[0].reason)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_said_to_be_full(run: Run) -> None:
    Path("a.jsonl").write_text(line("a", 1))
    result = run("a.jsonl", "--overwrite", out="/dev/full")
    assert result.exit_code == 2
    assert "/dev/full cannot be written: No space left on device" in result.stderr


def test_tau_bench(run: Run, shared_data: Path) -> None:
    Path("rubric.py").write_text(
        "from rubrics import TrajectoryRubric\n"
        "class Said(TrajectoryRubric):\n"
        "    def score_trajectory(self, trajectory):\n"
        "        assert trajectory[-1][1].done\n"
        "        return float('###STOP###' in trajectory[-1][1].content)\n"
    )
    result = run(str(shared_data / "trajectories/tau_bench/gpt-4o-airline.first12.json"), rubric="rubric.py:Said")
    assert result.exit_code == 0
    assert len(rows()) == 12
    assert [row.recorded_reward for row in rows()].count(1.0) == 6
    assert {row.status for row in rows()} == {"scored"}
    assert sum(row.reward or 0.0 for row in rows()) == 10.0


def test_version_and_help() -> None:
    assert "rubrics " in CliRunner().invoke(app, ["--version"]).stdout
    assert "rescore" in CliRunner().invoke(app, ["--help"]).stdout
    assert CliRunner().invoke(app, ["rescore", "--help"]).exit_code == 0


def test_the_command_imports_its_needs_only_when_it_runs() -> None:
    code = "import rubrics.cli, sys; print(sorted({'typer', 'rich', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
