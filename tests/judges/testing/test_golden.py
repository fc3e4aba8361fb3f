"""Golden sets: rows, files, scales, and examples that must not come from the test."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judges import Binary, Choice, JudgeFailure, Likert, Prompt, Verdict
from judges.testing.golden import GoldenError, GoldenRow, GoldenSet, Recorded
from judges.testing.metrics import krippendorff_alpha

ROW: dict[str, Any] = {"id": "a", "inputs": {"reply": "Thanks!"}, "label": True}


def written(folder: Path, *rows: Any, name: str = "golden.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_and_its_defaults() -> None:
    row = GoldenRow.model_validate(ROW)
    assert (row.gold_field, row.gold, row.split, row.must, row.tags) == ("label", True, "test", False, [])


@pytest.mark.parametrize(
    ("gold", "value"), [("label", "good"), ("score", 0.5), ("winner", "tie"), ("ranking", ["x", "y"]), ("label", False)]
)
def test_one_gold_value(gold: str, value: Any) -> None:
    row = GoldenRow.model_validate({"id": 7, "inputs": {"x": 1}, gold: value})
    assert (row.id, row.gold_field, row.gold) == ("7", gold, value)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"score": 1}, "exactly one of label, score, winner, ranking; this has label and score"),
    ({"label": ...}, "this has none"),
    ({"label": None}, "label: a gold value is not null"),
    ({"label": ..., "winner": None}, "winner: a gold value is not null"),
    ({"label": ..., "ranking": None}, "ranking: a ranking lists two or more"),
    ({"label": ..., "ranking": ["x", "x"]}, "ranking: a ranking lists two or more"),
    (
        {"label": ..., "inputs": {"candidates": ["x", "y"]}, "ranking": [1, 2]},
        "2, which is no candidate; there are 0, 1",
    ),
    ({"label": ..., "inputs": {"candidates": ["x", "y"]}, "ranking": [-1, 0]}, "the ranking names -1"),
    ({"label": ..., "inputs": {"candidates": {"x": "", "y": ""}}, "ranking": ["x", "z"]}, "the ranking names 'z'"),
    ({"label": ..., "inputs": {"candidates": "xy"}, "ranking": [0, 1]}, "candidates are a list or a mapping, not 'xy'"),
    ({"label": ..., "winner": "A"}, "winner: Input should be 'a', 'b' or 'tie', got 'A'"),
    ({"label": ..., "score": "4"}, "score"),
    ({"label": ..., "score": True}, "score"),
    ({"lable": 1}, "lable: there is no such field; the fields are id, inputs, label"),
    ({"id": ""}, "id"),
    ({"id": True}, "id"),
    ({"inputs": {}}, "inputs"),
    ({"split": "val"}, "split: Input should be 'train', 'dev' or 'test', got 'val'"),
    ({"must": "yes"}, "must"),
    ({"tags": "short"}, "tags"),
    ({"recorded": [{"label": 1, "failure": "format"}]}, "recorded.0: a recorded verdict has a label or a failure"),
    ({"recorded": [{"order": "given"}]}, "recorded.0: a recorded verdict has a label or a failure"),
    ({"recorded": [{"failure": "bored"}]}, "recorded.0.failure"),
    ({"recorded": [{"label": 1, "verdict": 1}]}, "recorded.0.verdict: there is no such field; the fields are order"),
    ({"label": ..., "winner": "a", "annotators": ["a", "c"]}, "'c' is not a, b or tie"),
    ({"label": ..., "winner": "a", "recorded": [{"label": "A"}]}, "'A' is not a, b or tie"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_rows_that_are_wrong_name_file_and_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    row = {name: value for name, value in {**ROW, **change}.items() if value is not ...}
    path = written(tmp_path, {**ROW, "id": "fine"}, "", row)
    with pytest.raises(GoldenError) as caught:
        GoldenSet.load(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ('{"id": "a", "id": "b"}', "the key 'id' stands there twice"),
        ('{"id": "a", "inputs": {"x": NaN}, "label": 1}', "NaN is no JSON value"),
        ("[1]", "valid dictionary"),
        ("[" * 100_000, "no JSON"),
    ],
    ids=["cut", "twice", "NaN", "list", "deep"],
)
def test_lines_that_are_wrong(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, ROW, line)
    with pytest.raises(GoldenError, match=message) as caught:
        GoldenSet.load(path)
    assert f"{path}:2: " in str(caught.value)


def test_all_wrong_rows_are_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, ROW, ROW, {**ROW, "id": "b", "label": None}, *[{**ROW, "id": "c"}] * 15)
    with pytest.raises(GoldenError) as caught:
        GoldenSet.load(path)
    told = str(caught.value).splitlines()
    assert told[0] == f"{path}:2: the id 'a' is that of line 1; give each row its own"
    assert told[1].startswith(f"{path}:3: label")
    assert told[-1] == "and 6 more"


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="no rows"):
        GoldenSet.load(written(tmp_path, ""))
    with pytest.raises(GoldenError, match="No such file"):
        GoldenSet.load(tmp_path / "nowhere.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(GoldenError, match="utf-8"):
        GoldenSet.load(tmp_path / "latin.jsonl")


YAML = """\
# polite or not
- id: polite
  inputs: {reply: "Thanks, gladly!"}
  label: true
  annotators: {ann: true, ben: true}

- id: rude
  inputs:
    reply: |
      Read the manual.
  label: false
  annotators: {ann: false, cem: true}
  split: dev
  tags: [short, cold]
"""


def test_yaml_and_json_lines_are_one(tmp_path: Path) -> None:
    path = written(tmp_path, YAML, name="golden.yaml")
    golden = GoldenSet.load(path, Binary())
    assert [row.id for row in golden] == ["polite", "rude"]
    assert golden["rude"].inputs == {"reply": "Read the manual.\n"}
    assert golden.place("rude") == f"{path}:7"
    lines = written(tmp_path, *[row.model_dump_json(exclude_unset=True) for row in golden])
    assert GoldenSet.load(lines).rows == golden.rows
    lines.write_bytes(b"\xef\xbb\xbf" + lines.read_bytes().replace(b"\n", b"\r\n"))
    assert GoldenSet.load(lines).rows == golden.rows


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- id: a\n  label: [1, }\n", 2, "no YAML"),
        ("- id: a\n  inputs: {x: 1}\n  label: 1\n  label: 2\n", 4, "the key 'label' stands there twice"),
        ("rows:\n- id: a\n", 1, "a list of rows"),
        ("- id: a\n  inputs: {x: 1}\n  label: 1\n- 3\n", 4, "valid dictionary"),
        ("- id: a\n  inputs: {x: 1}\n  label: .nan\n", 1, "finite"),
        ("- id: a\n  inputs: {x: !!set {a, b}}\n  label: 1\n", 2, "a set is no value of a row; write a list"),
        ("- id: a\n  inputs: {x: !!binary gIGCgw==}\n  label: 1\n", 2, "a binary is no value of a row"),
        ("- id: a\n  inputs: &all {x: *all}\n  label: 1\n", 1, "the row has no JSON form: Circular reference"),
        ("- id: a\n  inputs: {x: {2024-01-01: 1}}\n  label: 1\n", 1, "the row has no JSON form: keys must be str"),
    ],
)
def test_yaml_that_is_wrong(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, name="golden.yml")
    with pytest.raises(GoldenError, match=message) as caught:
        GoldenSet.load(path)
    assert f"{path}:{line}: " in str(caught.value)


def test_values_are_labels_of_the_scale(tmp_path: Path) -> None:
    row = {**ROW, "label": " GOOD", "annotators": ["good", None, "Bad"], "recorded": [{"label": "bad"}]}
    scale = Choice({"Good": 1.0, "Bad": 0.0})
    (read,) = GoldenSet.load(written(tmp_path, row), scale)
    assert (read.gold, read.annotators, read.recorded[0].label) == ("Good", ["Good", None, "Bad"], "Bad")
    assert GoldenRow.model_validate({**ROW, "label": 4.0}).on(Likert()).gold == 4
    path = written(tmp_path, ROW, {**row, "id": "b"})
    with pytest.raises(GoldenError, match=r":2: label: the score is .*GOOD.*; it must be the JSON value"):
        GoldenSet.load(path, Binary())
    path = written(tmp_path, {**ROW, "annotators": {"ann": 1}}, {**ROW, "id": "b", "recorded": [{"label": 0}]})
    with pytest.raises(GoldenError, match=r"(?s):1: annotators.ann: .*:2: recorded.0.label: "):
        GoldenSet.load(path, Binary())
    winner = GoldenRow.model_validate({"id": "w", "inputs": {"x": 1}, "winner": "a"})
    assert winner.on(Binary()) is winner


def test_selection(tmp_path: Path) -> None:
    golden = GoldenSet.load(written(tmp_path, YAML, name="golden.yaml"))
    assert [row.id for row in golden.select("dev")] == ["rude"]
    assert [row.id for row in golden.select(tags=["short"])] == ["rude"]
    assert len(golden.select("dev", ["warm"])) == 0
    assert golden.select("dev").place("rude").endswith(":7")


def test_what_people_said(tmp_path: Path) -> None:
    golden = GoldenSet.load(written(tmp_path, YAML, name="golden.yaml"))
    assert golden.ratings() == [[True, False], [True, None], [None, True]]
    listed = GoldenSet.load(written(tmp_path, *[{**ROW, "id": str(i), "annotators": [i % 2, i % 2]} for i in range(4)]))
    assert listed.ratings() == [[0, 1, 0, 1]] * 2
    assert krippendorff_alpha(listed.ratings()) == 1.0


def test_recorded_verdicts() -> None:
    assert Recorded(label=4).answer(Likert()) == Verdict(0.75, 4)
    assert Recorded(label=None).answer(Likert(abstain=True)) == Verdict(None)
    assert Recorded(label="b").answer() == Verdict(0.0, "b")
    assert Recorded(label=None).answer() == Verdict(None)
    failure = Recorded(failure="format").answer()
    assert isinstance(failure, JudgeFailure) and failure.kind == "format"
    with pytest.raises(GoldenError, match="it must be"):
        Recorded(label=9).answer(Likert())
    with pytest.raises(GoldenError, match="give the judge's"):
        Recorded(label=9).answer()
    with pytest.raises(ValidationError):
        Recorded()


# -- examples ---------------------------------------------------------------------------------------------------------


def prompt(*examples: dict[str, Any]) -> Prompt:
    return Prompt("{{ question }} {{ reply | untrusted }}".replace("{{ question }}", ""), examples=examples)


@pytest.mark.parametrize("split", ["dev", "test", None])
@pytest.mark.parametrize("inputs", [{"reply": "Thanks!"}, {"reply": "  thanks!\n"}, {"reply": "Thanks!", "more": 1}])
def test_examples_out_of_the_test_are_refused(split: str | None, inputs: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, {**ROW, "id": "train", "split": "train"}, {**ROW, **({"split": split} if split else {})})
    golden = GoldenSet.load(path)
    fine = {"inputs": {"reply": "Go away."}, "score": False}
    golden.refuse_examples(prompt())
    golden.refuse_examples(prompt(fine))
    with pytest.raises(GoldenError) as caught:
        golden.refuse_examples(prompt(fine, {"inputs": inputs, "score": True}))
    assert f"example 1 is row 'a' of the {split or 'test'} split ({path}:2)" in str(caught.value)


def test_examples_out_of_the_train_split_are_fine() -> None:
    example = prompt({"inputs": ROW["inputs"], "score": True})
    GoldenSet((GoldenRow.model_validate({**ROW, "split": "train"}),)).refuse_examples(example)
    with pytest.raises(GoldenError, match="of the dev split"):  # the split alone decides
        GoldenSet((GoldenRow.model_validate({**ROW, "split": "dev"}),)).refuse_examples(example)


def test_rows_that_share_a_question_are_not_one() -> None:
    row = GoldenRow.model_validate({**ROW, "inputs": {"question": "Why?", "reply": "So."}})
    GoldenSet((row,)).refuse_examples(prompt({"inputs": {"question": "Why?", "reply": "Because."}, "score": True}))
    with pytest.raises(GoldenError, match=r"the prompt: example 0 is row 'a' of the test split \(row 'a'\)"):
        GoldenSet((row,)).refuse_examples(prompt({"inputs": row.inputs, "score": True}))
