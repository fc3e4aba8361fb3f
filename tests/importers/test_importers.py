"""Rubrics from elsewhere give the numbers that they give there."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from judges import RequirementJudge, ScriptedClient, judged_by
from rubrics import Rubric, WeightedSum, fingerprint
from rubrics.importers import (
    ImporterError,
    Passed,
    Requirement,
    healthbench,
    inspect_grading,
    paperbench,
    requirements,
    rewardkit,
    verifiers,
)
from rubrics.importers.source import names_of
from rubrics.spec import dumps, loads

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "judging"


def task(text: str, weight: float = 1, *below: dict[str, Any], score: float | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"id": f"id-{text}", "requirements": text, "weight": weight, "sub_tasks": list(below)}
    return made if score is None else {**made, "score": score}


PAPER = task(
    "The paper is reproduced.",
    1,
    task("Data", 2, task("Prepared", 1, score=1.0), task("Split", 3, score=0.0)),
    task("Model", 3, score=1.0),
)


def score(tree: Rubric) -> Any:
    evaluation = tree.evaluate_sync("action", None)
    return evaluation.score if evaluation.status == "scored" else evaluation.status


def again(tree: Rubric) -> Rubric:
    read = loads(dumps(tree))
    assert fingerprint(read) == fingerprint(tree)
    return read


def test_a_rubric_of_paperbench() -> None:
    tree: Any = paperbench(PAPER)
    # Data: (1·1 + 3·0) / 4 = 0.25; the root: (2·0.25 + 3·1) / 5.
    assert score(tree.data) == 0.25
    assert score(tree) == pytest.approx(0.7)
    assert [name for name, _ in tree.named_rubrics()] == ["data", "data.prepared", "data.split", "model"]
    assert score(again(tree)) == score(tree)


def test_grades_may_stand_elsewhere(tmp_path: Path) -> None:
    bare = json.loads(json.dumps(PAPER).replace(', "score": 1.0', "").replace(', "score": 0.0', ""))
    tree = paperbench(bare)
    assert score(tree) == "unscored"
    assert "nobody has graded 'Prepared'" in str(tree.evaluate_sync("x", None).reason)
    (tmp_path / "rubric.json").write_text(json.dumps(bare))
    (tmp_path / "graded.json").write_text(json.dumps(PAPER))
    grades = {"id-Prepared": 1, "id-Split": 0, "id-Model": True}
    for graded in (grades, tmp_path / "graded.json", PAPER):
        assert score(paperbench(tmp_path / "rubric.json", grades=graded)) == pytest.approx(0.7)


def test_leaves_may_be_answered_by_a_function_or_a_judge() -> None:
    class Says(Rubric):
        def __init__(self, word: str) -> None:
            super().__init__()
            self.word = word

        def forward(self, action: Any, observation: Any) -> float:
            return float(self.word in action)

    tree = paperbench(PAPER, leaf=lambda requirement: Says(requirement.text))
    assert tree("Data was Split, Model trained", None) == pytest.approx((2 * 0.75 + 3) / 5)
    yes, no = '{"reason": "so", "score": true}', '{"reason": "no", "score": false}'
    client = ScriptedClient(lambda request: yes if "Split" in str(request.messages) else no)
    judged: Any = paperbench(PAPER, leaf=judged_by(model="m", client=client))
    assert isinstance(judged.model, RequirementJudge)
    assert score(judged) == pytest.approx(2 * 0.75 / 5)
    assert fingerprint(loads(dumps(judged))) == fingerprint(judged)


def test_a_judge_of_a_leaf_is_shown_what_it_is_a_part_of() -> None:
    asked: list[str] = []

    def reply(request: Any) -> str:
        asked.append(request.messages[-1]["content"])
        return '{"reason": "so", "score": true}'

    leaf = judged_by(model="m", client=ScriptedClient(reply))
    tree: Any = paperbench(task("The paper.", 1, task("Its code.", 1, task("It splits.", 1))), leaf=leaf)
    assert tree.its_code.it_splits.above == ("The paper.", "Its code.")
    score(tree)
    score(requirements([{"weight": 1, "requirement": "It splits."}], leaf=leaf))
    whole, alone = asked
    assert "part of the one before:\n- The paper.\n- Its code.\n\nThe criterion: It splits.\n" in whole
    assert "part of" not in alone and "\n\nThe criterion: It splits.\n" in alone


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "a PaperBench rubric is an object"),
        ({"weight": 1}, "the data: requirements must be a text, not None"),
        (task("a", 1, {"requirements": "b"}), r"the data: sub_tasks\[0\]: weight must be a number, not None"),
        (task("a", 1, task("b", 0)), "the weights sum to 0"),
        (
            task("a", 1, task("b", 1, score=2.0)),
            r"sub_tasks\[0\].score: a grade is a number from 0 to 1, true or false; not 2.0",
        ),
    ],
)
def test_what_is_no_rubric_of_paperbench(source: Any, message: str) -> None:
    with pytest.raises(ImporterError, match=message):
        paperbench(source)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ImporterError, match=r"none\.json: No such file"):
        paperbench(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ImporterError, match=r"bad\.json:1: it is no JSON"):
        paperbench(tmp_path / "bad.json")
    (tmp_path / "bad.toml").write_text("[")
    with pytest.raises(ImporterError, match=r"bad\.toml: it is no TOML"):
        rewardkit(tmp_path / "bad.toml")
    (tmp_path / "bad.yaml").write_text("- weight: 1\n- weight: x\n  requirement: a\n")
    with pytest.raises(ImporterError, match=r"bad\.yaml:1: \[0\]: requirement must be a text"):
        requirements(tmp_path / "bad.yaml")


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared files are not here")
@pytest.mark.parametrize(
    "name", ["paperbench_ssc_human_grades", "paperbench_ssc_rubric", "paperbench_adaptive_pruning_rubric"]
)
def test_real_rubrics(name: str) -> None:
    data = json.loads((SHARED / f"{name}.json").read_text())
    tree = paperbench(data)
    leaves = [node for node in tree.rubrics() if isinstance(node, Requirement)]
    expected = {
        "paperbench_ssc_human_grades": 79,
        "paperbench_ssc_rubric": 77,
        "paperbench_adaptive_pruning_rubric": 123,
    }
    assert len(leaves) == expected[name]
    if "grades" not in name:
        assert score(tree) == "unscored"
        return
    assert score(tree) == pytest.approx(0.91)

    def compare(node: Any, given: dict[str, Any]) -> int:
        assert score(node) == pytest.approx(given["score"]), given["requirements"]
        below = list(node.children())
        return 1 + sum(map(compare, below, given["sub_tasks"]))

    assert compare(tree, data) == 1 + len(list(tree.rubrics()))
    assert score(again(tree)) == pytest.approx(0.91)


HEALTH = {
    "rubrics": [
        {"criterion": "names the danger", "points": 7, "tags": ["axis:accuracy"]},
        {"criterion": "asks for the age", "points": 3},
        {"criterion": "gives a dose", "points": -5},
    ]
}


@pytest.mark.parametrize(
    ("grades", "clipped", "whole"),
    [
        ([True, True, False], 1.0, 1.0),
        ([True, False, True], 0.2, 0.2),
        ([False, False, True], 0.0, -0.5),
        ({"names the danger": 1, "asks for the age": 0.5, "gives a dose": 0}, 0.85, 0.85),
    ],
)
def test_an_item_of_healthbench(grades: Any, clipped: float, whole: float) -> None:
    assert score(healthbench(HEALTH, grades=grades)) == pytest.approx(clipped)
    assert score(healthbench(HEALTH["rubrics"], grades=grades, clip=False)) == pytest.approx(whole)
    assert score(again(healthbench(HEALTH, grades=grades))) == pytest.approx(clipped)


def test_a_graded_item_and_one_that_is_not() -> None:
    graded = [{**each, "criteria_met": each["points"] > 0} for each in HEALTH["rubrics"]]
    assert score(healthbench(graded)) == 1.0
    assert score(healthbench(HEALTH)) == "unscored"
    assert score(healthbench(HEALTH, grades=[True, True, None])) == "unscored"
    with pytest.raises(ImporterError, match="no weight is positive"):
        healthbench([{"criterion": "x", "points": -1}])
    with pytest.raises(ImporterError, match="grades are one for each of the 3"):
        healthbench(HEALTH, grades=[True])


def test_requirements_with_weights(tmp_path: Path) -> None:
    path = tmp_path / "rubric.yaml"
    path.write_text(
        """\
rubric:
  sections:
  - criteria:
    - {name: accuracy, weight: 10, requirement: "It is right: no errors"}
    - {weight: -4, requirement: It is rude}
  - criteria:
    - name: clarity
      requirement: How clear is it?
      options:
      - {label: poor, value: 0}
      - {label: fine, value: 0.5}
      - {label: clear, value: 1}
      - {label: n/a, value: 0, na: true}
"""
    )
    tree: Any = requirements(path, grades={"accuracy": True, "It is rude": True, "clarity": 0.5})
    assert score(tree) == pytest.approx((10 - 4 + 5) / 20)
    leaf = tree[0].clarity
    assert leaf.scale == {"type": "choice", "options": {"poor": 0.0, "fine": 0.5, "clear": 1.0}, "abstain": True}
    assert [name for name, _ in tree[0].named_children()] == ["accuracy", "it_is_rude", "clarity"]
    assert (
        score(requirements([{"weight": 1, "requirement": "a"}, {"weight": -3, "requirement": "b"}], grades=[1, 1]))
        == 0.0
    )
    judged: Any = requirements(path, leaf=judged_by(model="m"))
    assert judged[0].clarity.judge.scale.to_dict()["options"] == {"poor": 0.0, "fine": 0.5, "clear": 1.0}
    again(tree)


CRITERIA = """\
[judge]
judge = "anthropic/claude-sonnet-4-6"

[[criterion]]
description = "Is the code correct?"
name = "correct"
weight = 2.0

[[criterion]]
description = "How readable is it?"
type = "likert"
points = 5

[[criterion]]
description = "It leaks memory"
negate = true
optional = true
"""


@pytest.mark.parametrize(
    ("scoring", "grades", "expected"),
    [
        ("", (1, 0.5, 0), (2 * 1 + 0.5 + 1) / 4),
        ("weighted_mean", (1, 0.5, 1), (2 * 1 + 0.5 + 0) / 4),
        ("weighted-sum", (1, 0.5, 0), 2 * 1 + 0.5 + 1),
        ("all-pass", (1, 1, 0), 1.0),
        ("all-pass", (1, 0.5, 0), 0.0),
        ("any-pass", (0, 1, 1), 1.0),
        ("any-pass", (0, 0.5, 1), 0.0),
        ("threshold", (1, 0, 1), 1.0),
        ("threshold", (0.9, 0, 1), 0.0),
        ("required-pass", (1, 1, 1), 1.0),
        ("required-pass", (1, 0.5, 0), 0.0),
    ],
)
def test_a_judge_file_of_rewardkit(tmp_path: Path, scoring: str, grades: tuple[float, ...], expected: float) -> None:
    path = tmp_path / "quality.toml"
    path.write_text(CRITERIA + (f'\n[scoring]\naggregation = "{scoring}"\n' if scoring else ""))
    named = dict(zip(("correct", "How readable is it?", "It leaks memory"), grades, strict=True))
    tree = rewardkit(path, grades=named)
    assert score(tree) == pytest.approx(expected)
    assert score(again(tree)) == pytest.approx(expected)


def test_what_is_no_judge_file() -> None:
    with pytest.raises(
        ImporterError, match=r"criterion\[0\]\.type: it is binary, likert, numeric or rubric, not 'stars'"
    ):
        rewardkit({"criterion": [{"description": "x", "type": "stars"}]})
    with pytest.raises(ImporterError, match=r"scoring\.aggregation: it is one of weighted-mean"):
        rewardkit({"criterion": [{"description": "x"}], "scoring": {"aggregation": "median"}})
    leveled: Any = rewardkit({"criterion": [{"description": "x", "type": "rubric", "levels": ["bad", "good"]}]})
    assert leveled.x.scale == {"type": "likert", "low": 0, "high": 1, "anchors": {"0": "bad", "1": "good"}}


VERIFIERS = """\
[[criteria]]
name = "right"
text = "Is it right?"
weight = 3

[[criteria]]
name = "depth"
text = "How deep is it?"
choices = ["shallow", "some", "deep"]
"""


def test_criteria_of_verifiers(tmp_path: Path) -> None:
    path = tmp_path / "criteria.toml"
    path.write_text(VERIFIERS)
    assert score(verifiers(path, grades={"right": "yes", "depth": "some"})) == pytest.approx((3 * 1 + 0.5) / 4)
    assert score(verifiers(path, grades={"right": "yes", "depth": "some"}, weights={"right": 1})) == 0.75
    tree: Any = verifiers(path)
    assert tree.depth.scale == {"type": "choice", "options": {"shallow": 0.0, "some": 0.5, "deep": 1.0}}
    again(tree)
    with pytest.raises(ImporterError, match=r"criteria: grades name width; the criteria are right, depth"):
        verifiers(path, grades={"width": 1})
    with pytest.raises(ImporterError, match=r"criteria\[1\]: 'very' is none of the choices shallow, some, deep"):
        verifiers(path, grades={"depth": "very"})


def test_grading_text_of_inspect() -> None:
    assert score(inspect_grading("Paris", grade="C")) == 1.0
    assert score(inspect_grading("Paris", partial_credit=True, grade="P")) == 0.5
    assert score(inspect_grading("Paris")) == "unscored"
    with pytest.raises(ImporterError, match="a grade is C, I, not 'P'"):
        inspect_grading("Paris", grade="P")
    judged = inspect_grading("Paris", leaf=judged_by(model="m"))
    assert isinstance(judged, RequirementJudge) and judged.requirement == "Paris"


def test_a_threshold_that_is_met_within_rounding() -> None:
    ten = WeightedSum([Requirement(f"r{i}", 1.0) for i in range(10)], [0.1] * 10)
    assert score(Passed(ten)) == 1.0
    assert score(Passed(Requirement("x", 0.99))) == 0.0
    assert score(Passed(Requirement("x"))) == "unscored"


@given(st.lists(st.text(max_size=60), max_size=12))
def test_names_are_fit_for_nodes(texts: list[str]) -> None:
    names = names_of(texts)
    assert len(set(names)) == len(names) == len(texts)
    names = names or ["a"]
    tree = WeightedSum({name: Requirement("x", 1.0) for name in names}, dict.fromkeys(names, 1.0), "total")
    assert score(tree) == 1.0


def test_a_large_tree_is_read_whole() -> None:
    chance = random.Random(0)

    def grow(depth: int, name: str) -> dict[str, Any]:
        if depth == 0:
            return task(f"leaf {name}", chance.randrange(1, 5), score=float(chance.random() < 0.5))
        return task(f"node {name}", chance.randrange(1, 5), *(grow(depth - 1, f"{name}.{i}") for i in range(2)))

    def expected(node: dict[str, Any]) -> float:
        below = node["sub_tasks"]
        if not below:
            return float(node["score"])
        return sum(each["weight"] * expected(each) for each in below) / sum(each["weight"] for each in below)

    data = grow(8, "0")
    assert score(paperbench(data)) == pytest.approx(expected(data))
