"""`rubrics show`, `rubrics schema`, `rubrics diff-spec`, and rubrics as data in the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result
from typer.testing import CliRunner

from rubrics import fingerprint, load
from rubrics.cli.app import app
from rubrics.rescoring import read_rows

TREE = """\
kind: WeightedSum
weights: {good: 0.75, polite: 0.25}
rubrics:
  good: {kind: Gate, rubric: {kind: graders.py:Long, words: 3}, threshold: 0.5}
  polite: {kind: Invert, rubric: {kind: graders.py:Long, words: 30}}
"""
GRADERS = """\
from rubrics import Rubric

class Long(Rubric):
    needs_live_state = True

    def __init__(self, words: int):
        super().__init__()
        self.words = words

    def extra_repr(self):
        return f"words={self.words}"

    def forward(self, action, observation):
        return float(len(action.split()) >= self.words)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("graders.py").write_text(GRADERS)
    Path("tree.yaml").write_text(TREE)
    return tmp_path / "tree.yaml"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_a_tree_is_shown(tree: Path) -> None:
    result = run("show", "tree.yaml", "--allow-import", "graders.py")
    assert result.exit_code == 0
    assert (
        result.stdout
        == f"""\
WeightedSum
├── 0.75 × good Gate(threshold=0.5)
│   └── rubric Long(words=3)
└── 0.25 × polite Invert
    └── rubric Long(words=30)

fingerprint  {fingerprint(load(tree, allow_import=["graders.py"]))}
nodes        5
range        0 to 1
live state   good.rubric, polite.rubric: cannot be scored again from a recording
"""
    )


def test_a_tree_is_drawn(tree: Path) -> None:
    result = run("show", "tree.yaml", "--as", "mermaid", "--allow-import", "graders.py")
    assert (
        result.stdout
        == """\
flowchart TD
    n0["WeightedSum"]
    n1["good: Gate(threshold=0.5)"]
    n2["rubric: Long(words=3)"]
    n1 --> n2
    n0 -->|0.75| n1
    n3["polite: Invert"]
    n4["rubric: Long(words=30)"]
    n3 --> n4
    n0 -->|0.25| n3
"""
    )
    picture = run("show", "tree.yaml", "--as", "svg", "--allow-import", "graders.py").stdout
    assert picture.startswith("<svg") and "polite" in picture and "http" not in picture.replace("http://www.w3.org", "")


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_tree_is_written(tree: Path, form: str) -> None:
    result = run("show", "tree.yaml", "--as", form, "--allow-import", "graders.py")
    again = tree.with_name(f"again.{form}")
    again.write_text(result.stdout)
    assert fingerprint(load(again, allow_import=["graders.py"])) == fingerprint(load(tree, allow_import=["graders.py"]))


def test_what_code_makes_can_be_shown_and_written(tree: Path) -> None:
    Path("made.py").write_text(
        "import graders\nfrom rubrics import Gate\ndef make_rubric():\n    return Gate(graders.Long(3))\n"
    )
    assert "rubric Long(words=3)" in run("show", "made.py:make_rubric").stdout
    result = run("show", "made.py:make_rubric", "--as", "yaml")
    assert result.stdout == "kind: Gate\nrubric:\n  kind: graders:Long\n  words: 3\n"
    Path("made.py").write_text(
        "from rubrics import Invert, Map, AllOf, Sequential\nrubric = Map(Sequential(), lambda x: x)\n"
    )
    result = run("show", "made.py:rubric", "--as", "yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith("rubrics: made.py:rubric: function: <lambda> has no name that a file could give")


def test_what_cannot_be_loaded(tree: Path) -> None:
    result = run("show", "tree.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "rubrics: tree.yaml:4: rubrics.good.rubric.kind: graders.py:Long is code, and graders.py"
    )
    assert len(result.stderr.splitlines()) == 2
    assert run("show", "none.yaml").stderr == "rubrics: none.yaml: No such file or directory\n"


def test_the_schema(tree: Path) -> None:
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator(schema).validate({"kind": "Gate", "rubric": {"kind": "Sequential"}})


def test_what_differs(tree: Path) -> None:
    allowed = ("--allow-import", "graders.py")
    Path("same.yaml").write_text(f"# a comment\n{TREE}")
    result = run("diff-spec", "tree.yaml", "same.yaml", *allowed)
    assert (result.exit_code, result.stdout) == (0, "the same rubric\n")
    Path("other.yaml").write_text("""\
kind: WeightedSum
weights: {good: 0.5, kind: 0.25, new: 0.25}
rubrics:
  good: {kind: Gate, rubric: {kind: graders.py:Long, words: 5}, threshold: 0.25}
  kind: {kind: Invert, rubric: {kind: graders.py:Long, words: 30}}
  new: {kind: Scale, rubric: {kind: Sequential}, factor: 2}
""")
    result = run("diff-spec", "tree.yaml", "other.yaml", *allowed)
    assert (result.exit_code, result.stdout) == (
        1,
        """\
the root: weights.good 0.75 → 0.5
the root: weights.polite 0.25 is gone
the root: weights.kind 0.25 is new
the root: weights.new 0.25 is new
good: threshold 0.5 → 0.25
good.rubric: words 3 → 5
kind: it was polite
new: added, a Scale(factor=2.0, offset=0.0)
""",
    )
    back = run("diff-spec", "other.yaml", "tree.yaml", *allowed).stdout.splitlines()
    assert "polite: it was kind" in back and "new: removed, a Scale(factor=2.0, offset=0.0)" in back
    Path("gate.yaml").write_text("kind: Gate\nrubric: {kind: graders.py:Long, words: 3}")
    result = run("diff-spec", "tree.yaml", "gate.yaml", *allowed)
    assert result.stdout.startswith("the root: WeightedSum(weights=[0.75, 0.25]) became Gate(threshold=1.0)\n")


def test_a_change_of_the_source_is_told(tree: Path) -> None:
    Path("other.py").write_text(GRADERS.replace(">=", ">"))
    Path("other.yaml").write_text(TREE.replace("graders.py:", "other.py:"))
    result = run("diff-spec", "tree.yaml", "other.yaml", "--allow-import", "graders.py", "--allow-import", "other.py")
    assert result.stdout.splitlines() == [
        f"{path}: the source of its class, or what it keeps beside its arguments, changed"
        for path in ("good.rubric", "polite.rubric")
    ]


def test_trajectories_are_scored_by_a_file_of_data(tree: Path) -> None:
    Path("graders.py").write_text(GRADERS.replace("live_state = True", "live_state = False"))
    line = {"id": "a", "steps": [{"action": "one two three", "observation": {"done": True}}], "end": "terminated"}
    Path("runs.jsonl").write_text(json.dumps(line) + "\n")
    result = run("rescore", "runs.jsonl", "--rubric", "tree.yaml", "--out", "out.jsonl", "--allow-import", "graders.py")
    assert result.exit_code == 0, result.output
    assert [row.reward for row in read_rows(Path("out.jsonl"))] == [1.0]
    Path("light.yaml").write_text(TREE.replace("0.75", "0.5").replace("polite: 0.25", "polite: 0.5"))
    result = run(
        "reaggregate", "out.jsonl", "--rubric", "light.yaml", "--out", "again.jsonl", "--allow-import", "graders.py"
    )
    assert result.exit_code == 0, result.output
    assert [row.reward for row in read_rows(Path("again.jsonl"))] == [1.0]
    refused = run("rescore", "runs.jsonl", "--rubric", "tree.yaml", "--out", "no.jsonl")
    assert refused.exit_code == 2 and "is code, and graders.py is not allowed" in refused.stderr


def test_a_judge_without_a_model_is_shown_written_and_compared_and_not_asked(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    Path("judge.yaml").write_text("kind: LLMJudge\nprompt: 'Is it polite? {{ action | untrusted }}'\nscale: binary\n")
    shown = run("show", "judge.yaml")
    assert shown.exit_code == 0 and "model        none named: set JUDGE_MODEL (the root)" in shown.stdout
    assert run("show", "judge.yaml", "--as", "yaml").exit_code == 0
    assert run("diff-spec", "judge.yaml", "judge.yaml").stdout == "the same rubric\n"
    judge = load("judge.yaml")
    before = fingerprint(judge)
    monkeypatch.setenv("JUDGE_MODEL", "m")
    assert fingerprint(judge) == fingerprint(load("judge.yaml")) != before
    monkeypatch.delenv("JUDGE_MODEL")
    Path("runs.jsonl").write_text('{"id": "a", "steps": [{"action": "x", "observation": "y"}], "end": "terminated"}\n')
    refused = run("rescore", "runs.jsonl", "--rubric", "judge.yaml", "--out", "scored.jsonl")
    assert refused.exit_code == 2 and "no model is named" in refused.stderr
    assert not Path("scored.jsonl").exists()


def test_names_and_arguments_are_shown_as_they_are(tree: Path) -> None:
    Path("odd.yaml").write_text(
        "kind: Sequential\n"
        "rubrics:\n"
        "  \"%%{init: {'theme': 'dark'}}%%\": {kind: Regex, pattern: ':x: [bold] `y`'}\n"
        '  "two\\nlines": {kind: Sequential}\n'
    )
    text = run("show", "odd.yaml").stdout
    assert "├── %%{init: {'theme': 'dark'}}%% Regex(pattern=':x: [bold] `y`')\n" in text
    assert "└── two lines Sequential\n" in text
    assert ":x:&#160;[bold]&#160;`y`" in run("show", "odd.yaml", "--as", "svg").stdout
    chart = run("show", "odd.yaml", "--as", "mermaid").stdout
    assert "%%" not in chart and "`" not in chart and '"two lines: Sequential"' in chart
