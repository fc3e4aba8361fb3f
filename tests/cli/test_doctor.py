"""`rubrics doctor`: findings as text, as JSON, and as an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from rubrics.cli.app import app

GRADERS = """\
from rubrics import Rubric

class Says(Rubric):
    def __init__(self, word: str):
        super().__init__()
        self.word = word
    def forward(self, action, observation):
        return float(self.word in action.content.split())
"""
SAYS = "{kind: graders.py:Says, word: yes}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("graders.py").write_text(GRADERS)
    Path("sound.yaml").write_text(f"kind: Gate\nrubric: {SAYS}\nthreshold: 0.5")
    Path("shut.yaml").write_text(f"kind: Gate\nrubric: {SAYS}\nthreshold: 1.5")
    Path("open.yaml").write_text(f"kind: Gate\nrubric: {SAYS}\nthreshold: 0")
    lines = [
        {
            "id": f"e{i}",
            "steps": [{"action": {"content": "yes it is" if i % 2 else "no, it is"}, "observation": {"done": True}}],
            "end": "terminated",
            "reward": float(i % 2),
            "metadata": {"solved": i % 2 == 0, "part": i % 4},
        }
        for i in range(40)
    ]
    Path("runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *args, "--allow-import", "graders.py"])


def test_a_sound_tree() -> None:
    result = run("sound.yaml")
    assert (result.exit_code, result.stdout) == (0, "no findings in 2 nodes\n")


def test_a_tree_that_is_not() -> None:
    result = run("shut.yaml")
    assert result.exit_code == 1
    assert (
        result.stdout
        == """\
1 finding in 2 nodes

error  (the tree)  [gate-cannot-pass]
  its threshold 1.5 is above 1, the most that rubric can score: it is always 0.
  evidence: threshold 1.5, range [0, 1]
  Lower the threshold, or declare the range that its child really has.
"""
    )


def test_the_exit_code_is_that_of_the_severity_that_was_asked_for() -> None:
    assert run("open.yaml").exit_code == 0
    assert run("open.yaml", "--fail-on", "warning").exit_code == 1
    assert run("sound.yaml", "--fail-on", "note").exit_code == 0


def test_trajectories_and_attacks() -> None:
    result = run("sound.yaml", "runs.jsonl", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["looked_at"] == {"nodes": 2, "trajectories": 40, "scored": 40, "groups": 0, "attempts": 210}
    assert {each["evidence"]["attack"] for each in found["findings"]} == {"own-words", "every-option"}
    assert run("sound.yaml", "runs.jsonl", "--no-attacks").exit_code == 0


def test_what_episodes_are_held_against() -> None:
    result = run("sound.yaml", "runs.jsonl", "--no-attacks", "--outcome", "metadata.solved")
    assert result.exit_code == 1 and "[disagrees]" in result.stdout
    result = run("sound.yaml", "runs.jsonl", "--no-attacks", "--where", "metadata.part == 1", "--limit", "5", "--json")
    assert json.loads(result.stdout)["looked_at"]["trajectories"] == 5


def test_rows_of_a_run() -> None:
    rescored = CliRunner().invoke(
        app,
        ["rescore", "runs.jsonl", "--rubric", "sound.yaml", "--out", "rows.jsonl", "--allow-import", "graders.py"],
    )
    assert rescored.exit_code == 0
    result = run("sound.yaml", "--rows", "rows.jsonl")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "no findings in 2 nodes, 40 trajectories, 40 scored, 0 groups"
    assert "not looked at: attacks: no trajectory" in result.stdout


def test_a_rubric_that_asks_models_asks_nobody_unless_it_may() -> None:
    Path("judged.yaml").write_text("kind: LLMJudge\nprompt: 'Good? {{ action | untrusted }}'\nscale: binary\nmodel: m")
    result = run("judged.yaml", "runs.jsonl")
    assert result.exit_code == 0
    assert (
        "[no-budget]" in result.stdout and "not looked at: trajectories and attacks: the rubric asks" in result.stdout
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.yaml"], "none.yaml: No such file"),
        (["sound.yaml", "none.jsonl"], "none.jsonl"),
        (["sound.yaml", "runs.jsonl", "--outcome", "solved"], "'solved' names solved; there are"),
        (["sound.yaml", "runs.jsonl", "--where", "(("], "is no expression"),
        (["sound.yaml", "runs.jsonl", "--types", "x"], "types are given as"),
        (["sound.yaml", "--rows", "none.jsonl"], "none.jsonl"),
    ],
)
def test_what_cannot_be_read(args: list[str], message: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "") and message in result.stderr
