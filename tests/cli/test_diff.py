"""`rubrics diff` and `rubrics table`, from outside."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rubrics.cli.app import app
from rubrics.formats import write_jsonl
from rubrics.rescoring import Row
from tests.rescoring.runs import recording, row, row_of, tree

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: str, command: str = "diff") -> Result:
        return CliRunner().invoke(app, [command, *args], catch_exceptions=False)

    return run


def write(name: str, *rows: Row) -> str:
    Path(name).write_bytes(b"".join(each.to_json() for each in rows))
    return name


def two_runs() -> tuple[str, str]:
    def judged(id: str, score: float | None, reason: str, **more: str) -> Row:
        nodes = {"judge": "error" if score is None else score, "other": 1.0}
        status = {"status": "error", "reason": f"step 1 of 1: {reason}"} if score is None else {}
        return row(id, score, nodes, reasons={"judge": reason}, recorded_reward=1.0, group="task", **status, **more)

    old = write("old.jsonl", *(judged(id, 0.5, "[b]polite[/b]\x1b[2J") for id in ("a", "[red]b", "c", "d")))
    new = [judged("a", 0.75, "kind"), judged("[red]b", 0.25, "rude"), judged("c", 0.5, "as before")]
    return old, write("new.jsonl", *new, judged("d", None, "rate_limit: 429"))


def test_the_command_as_it_is_installed(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "r.jsonl", [recording("a", "x")])
    (tmp_path / "run.jsonl").write_bytes(row("a", 0.5, recorded_reward=1.0).to_json())
    start = [sys.executable, "-c", "from rubrics.cli import main; main()", "diff", "run.jsonl", "--html", "page.html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "COLUMNS": "100"}
    done = subprocess.run(start, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "1 trajectory: 0 up, 1 down, 0 unchanged" in done.stdout
    assert "MB, with steps and trees of 1 trajectory, 1 of them without the steps\n" in done.stderr
    assert "the row does not say which file it was read from; give --trajectories" in done.stderr


def test_what_is_printed(run: Run) -> None:
    result = run(*two_runs())
    assert (result.exit_code, result.stderr) == (0, "")
    out = result.stdout
    assert "old.jsonl → new.jsonl\n4 trajectories: 1 up, 1 down, 1 unchanged, 1 newly unscored" in out
    assert "reward: mean 0.500 → 0.500, +0.000, n = 3" in out
    judge = next(line for line in out.splitlines() if "judge" in line)
    assert judge.split() == ["judge", "3", "0.500", "0.500", "+0.000", "1", "1", "1"]
    groups = (
        "groups: 1; of 3 pairs, 0 changed their order, 0 became equal, 3 are no longer; the best rollout changed in 0"
    )
    assert f"{groups}; all rewards are equal in 1 → 0\n" in out
    moved = out.partition("moved most\n")[2].splitlines()
    assert moved[:4] == [
        "  a: 0.500 → 0.750",
        "    judge: 0.500 → 0.750",
        "      old: [b]polite[/b]\\x1b[2J",
        "      new: kind",
    ]
    assert "  [red]b: 0.500 → 0.250" in moved
    lost = moved[moved.index("newly unscored") + 1 :]
    assert lost[:3] == [
        "  d: 0.500 → error",
        "    new: step 1 of 1: rate_limit: 429",
        "    judge, where it raised: 0.500 → error",
    ]
    assert lost[4] == "      new: rate_limit: 429"
    assert "\x1b" not in out


def test_names_of_nodes_stay_whole_in_eighty_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = "style.politeness.judge"
    old, new = (write(f"{score}.jsonl", row("a", score, {path: score})) for score in (0.5, 0.25))
    assert f" {path} 1 0.500 0.250 -0.250 1" in " ".join(run(old, new).stdout.split())


def test_the_step_at_which_a_node_changed_is_named(run: Run) -> None:
    def steps(*scores: float) -> Row:
        records = [tree({"": 0.0, "x": score}, {"x": f"saw {score}"}) for score in scores]
        return row("a", sum(scores), evaluations=records, evaluation=records[-1], steps=len(records))

    out = run(write("old.jsonl", steps(0.0, 1.0, 1.0)), write("new.jsonl", steps(0.0, 0.5, 1.0))).stdout
    assert "    x, step 2: 1.000 → 0.500" in out
    assert "      old: saw 1.0" in out


def test_recorded_against_new(run: Run) -> None:
    _, new = two_runs()
    out = run(new, "--top", "1").stdout
    assert "recorded → new.jsonl" in out
    assert "4 trajectories: 0 up, 3 down, 0 unchanged, 1 newly unscored" in out
    assert "b: 1.000 → 0.250" in out
    assert "  a: " not in out


def test_json_holds_everything(run: Run) -> None:
    assert run(*two_runs(), "--json", "out.json").exit_code == 0
    found = json.loads(Path("out.json").read_text())
    assert found["counts"] | {"up": 1, "down": 1, "unchanged": 1, "newly_unscored": 1} == found["counts"]
    assert found["changes"][0]["difference"] == 0.25
    assert found["nodes"][1]["newly_unscored"] == {"error": 1}
    assert found["moved_share"] == 0.75
    assert found["statuses"] == [
        {"old": "scored", "new": "scored", "trajectories": 3},
        {"old": "scored", "new": "error", "trajectories": 1},
    ]


def test_the_page_takes_recordings(run: Run) -> None:
    recordings = [recording("a", "x" * 9000), recording("b", "y")]
    write_jsonl("r.jsonl", recordings)
    write_jsonl("half.jsonl", recordings[:1])
    old, new = (
        write(name, *(row_of(each, score, source={"path": "r.jsonl"}) for each in recordings))
        for name, score in (("old.jsonl", 0.5), ("new.jsonl", 0.6))
    )
    said = run(old, new, "--html", "page.html").stderr
    assert "with steps and trees of 2 trajectories; 4 long texts are cut\n" in said
    assert '"look_up"' in Path("page.html").read_text()
    said = run(old, new, "--html", "page.html", "--overwrite", "--trajectories", "half.jsonl").stderr
    assert "2 trajectories, 1 of them without the steps" in said
    assert "1 without steps: none of the files that were given holds this trajectory as it was scored" in said
    assert "of 1 trajectory;" in run(old, new, "--html", "page.html", "--overwrite", "--details", "1").stderr
    assert "of 2 trajectories;" in run(old, new, "--html", "page.html", "--overwrite", "--details", "all").stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--max-moved", "0.75"], 0, ""),
        (["--max-moved", "0.7"], 1, "rubrics: 3 of 4 (75.0%) are more than --max-moved 0.7 allows"),
        (["--max-unscored", "0.25"], 0, ""),
        (["--max-unscored", "0"], 1, "rubrics: 1 of 4 (25.0%) are more than --max-unscored 0.0 allows"),
    ],
)
def test_limits_for_ci(run: Run, options: list[str], code: int, message: str) -> None:
    result = run(*two_runs(), *options)
    assert (result.exit_code, result.stderr.strip()) == (code, message)
    assert "moved most" in result.stdout


def test_a_limit_on_nothing_is_not_kept(run: Run) -> None:
    result = run(write("old.jsonl"), write("new.jsonl", row("a", 0.5)), "--max-moved", "1")
    assert result.exit_code == 2
    assert "old.jsonl has no trajectories, so nothing was checked" in result.stderr


def test_groups_by_another_field(run: Run) -> None:
    old = write("old.jsonl", row("#t", 0.1, source={"path": "p"}), row("#t#2", 0.2, source={"path": "p"}))
    new = write("new.jsonl", row("#t", 0.3, source={"path": "p"}), row("#t#2", 0.2, source={"path": "p"}))
    assert "groups" not in run(old, new).stdout
    assert "most reordered: #t (1 of 1 pairs)" in run(old, new, "--group-by", "id").stdout
    assert "most reordered: p (1 of 1 pairs)" in run(old, new, "--group-by", "source.path").stdout
    assert "most reordered: p, terminated (1 of 1 pairs)" in run(old, new, "--group-by", "source.path,end").stdout
    assert "groups" not in run(old, new, "--group-by", "source.path,group").stdout
    result = run(old, new, "--group-by", "id,task")
    assert result.exit_code == 2
    assert "--group-by task: rows have no such field; they have: id, status" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["absent.jsonl", "new.jsonl"], "absent.jsonl: cannot be read: No such file or directory"),
        (["old.jsonl", "torn.jsonl"], "torn.jsonl:2: not JSON"),
        (["old.jsonl", "twice.jsonl"], "twice.jsonl:2: the id 'a' has a row at line 1 already"),
        (["empty.jsonl"], "there is nothing to compare: no row has an id"),
        (["old.jsonl", "new.jsonl", "--html", "old.jsonl", "--overwrite"], "old.jsonl is one of the inputs"),
        (["old.jsonl", "new.jsonl", "--json", "link", "--overwrite"], "link is one of the inputs"),
        (["old.jsonl", "new.jsonl", "--html", "torn.jsonl"], "torn.jsonl exists; choose another file, or give"),
        (["old.jsonl", "new.jsonl", "--html", "no/page.html"], "no/page.html"),
        (["old.jsonl", "new.jsonl", "--json", "no/out.json"], "no/out.json: cannot be written: No such file"),
        (["old.jsonl", "new.jsonl", "--details", "many"], "--details is a number or 'all', not 'many'"),
    ],
)
def test_what_cannot_be_done_says_why(run: Run, args: list[str], message: str) -> None:
    two_runs()
    Path("torn.jsonl").write_bytes(row("a", 0.5).to_json() + b'{"id": "b"')
    write("twice.jsonl", row("a", 0.5), row("a", 0.5))
    write("empty.jsonl")
    Path("link").symlink_to("new.jsonl")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


# --- rubrics table ---------------------------------------------------------------------------------------------------


def test_a_table(run: Run) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    two_runs()
    assert run("new.jsonl", "rows.parquet", command="table").stdout == "rows.parquet: 4 rows\n"
    assert run("new.jsonl", "nodes.parquet", "--long", command="table").stdout == "nodes.parquet: 12 rows\n"
    assert parquet.read_table("rows.parquet")["reward"].to_pylist() == [0.75, 0.25, 0.5, None]
    assert run("new.jsonl", "rows.parquet", command="table").exit_code == 2
    assert run("new.jsonl", "rows.parquet", "--overwrite", command="table").exit_code == 0
    for args, message in (
        (["new.jsonl", "new.jsonl", "--overwrite"], "new.jsonl is the input"),
        (["absent.jsonl", "x.parquet"], "absent.jsonl: No such file or directory"),
        (["new.jsonl", "no/x.parquet"], "No such file or directory"),
    ):
        result = run(*args, command="table")
        assert (result.exit_code, message in result.stderr) == (2, True)


def test_a_table_without_pyarrow(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("new.jsonl", "x.parquet", command="table")
    assert result.exit_code == 2
    assert "pip install 'rubrics[parquet]'" in result.stderr
