"""What would give a wrong score is refused, with its place; what the projects mean by their fields is meant here."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import Rubric
from rubrics.importers import ImporterError, healthbench, paperbench, requirements, rewardkit, verifiers
from rubrics.spec.documents import Document, line_in_json


def score(tree: Rubric) -> Any:
    return tree("an answer", None)


def leaf(id: str, weight: float = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "requirements": f"requirement {id}", "weight": weight, "sub_tasks": [], **more}


def paper(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "root", "requirements": "all of it", "weight": 1, "sub_tasks": list(parts)}


def test_a_leaf_that_its_judge_failed_on_is_unscored_and_not_0() -> None:
    failed = paper(leaf("a", score=0.0, valid_score=False), leaf("b", score=1.0, valid_score=True))
    assert score(paperbench(failed)) is None
    assert score(paperbench(paper(leaf("a"), leaf("b")), grades=failed)) is None
    assert score(paperbench(paper(leaf("a"), leaf("b")), grades={"a": True, "b": 0.5})) == 0.75


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paperbench(paper(leaf("a")), grades={"a": 1, "b": 1}), "grades: nothing in the rubric is called 'b'"),
        (lambda: paperbench(paper(leaf("a")), grades={"a": "yes"}), "grades: a: a grade is a number from 0 to 1"),
        (lambda: paperbench(paper(leaf("a"), leaf("a"))), r"sub_tasks\[1\].id: another leaf has the id 'a'"),
        (lambda: paperbench(paper(leaf("a", -1), leaf("b", 2))), r"sub_tasks\[0\].weight: weight must be 0 or more"),
        (lambda: paperbench(paper(leaf("a", float("nan")))), "weight must be 0 or more, not nan"),
        (lambda: requirements([{"requirement": "x"}], grades={"y": 1}), "nothing in the rubric is called 'y'"),
        (lambda: requirements([{"requirement": "x"}], grades=["maybe"]), r"the grades: \[0\]: a grade is .* MET"),
        (lambda: requirements([{"requirement": "x"}], grades=[7]), r"\[0\]: a grade is a number from 0 to 1"),
        (
            lambda: requirements([{"requirement": "x", "options": [{"label": "a", "value": 2}]}]),
            r"\[0\].options\[0\].value: value must be from 0 to 1, not 2",
        ),
        (
            lambda: healthbench([{"criterion": "x", "points": 1, "criteria_met": "no"}]),
            r"\[0\].criteria_met: a grade is a number from 0 to 1",
        ),
        (lambda: rewardkit({"criterion": [{"description": "x"}]}, grades={"y": 1}), "is called 'y'"),
        (lambda: rewardkit({"criterion": [{"description": "x", "weight": -1}]}), "weight must be 0 or more, not -1"),
        (lambda: verifiers([{"name": "a", "text": "x", "weight": -1}]), "weight must be 0 or more, not -1"),
        (lambda: verifiers([{"name": "a", "text": "x"}], weights={"a": -1}), "the weights: a: a must be 0 or more"),
        (lambda: verifiers([{"name": "a", "text": "x"}] * 2), "several criteria are called a"),
    ],
)
def test_what_would_give_a_wrong_score_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ImporterError, match=message):
        make()


@pytest.mark.parametrize(("annotation", "expected"), [("negative_criterion", 0.5), ("positive", 1.0), (None, 1.0)])
def test_rewardkit_takes_the_polarity_from_the_annotations(annotation: str | None, expected: float) -> None:
    second: dict[str, Any] = {"description": "b", "annotations": {} if annotation is None else {"type": annotation}}
    assert score(rewardkit({"criterion": [{"description": "a"}, second]}, grades={"a": 1, "b": 1})) == expected
    second["negate"] = False  # the key itself wins
    assert score(rewardkit({"criterion": [{"description": "a"}, second]}, grades={"a": 1, "b": 1})) == 1.0


def test_rewardkit_takes_what_is_optional_from_the_annotations() -> None:
    source = {
        "criterion": [{"description": "a"}, {"description": "b", "annotations": {"importance": "Optional"}}],
        "scoring": {"aggregation": "required-pass"},
    }
    assert score(rewardkit(source, grades={"a": 1, "b": 0})) == 1.0
    assert score(rewardkit(source, grades={"a": 0, "b": 1})) == 0.0


@pytest.mark.parametrize(
    ("weights", "grades", "expected"), [((1, -1), (1, 0), 1.0), ((2, -3), (1, 1), -1.0), ((-1, -2), (0, 1), -2.0)]
)
def test_a_weighted_sum_of_rewardkit_has_penalties(
    weights: tuple[int, int], grades: tuple[int, int], expected: float
) -> None:
    criteria = [{"description": name, "weight": weight} for name, weight in zip("ab", weights, strict=True)]
    source = {"criterion": criteria, "scoring": {"aggregation": "weighted-sum"}}
    assert score(rewardkit(source, grades=dict(zip("ab", grades, strict=True)))) == pytest.approx(expected)


def test_verdicts_in_the_words_of_rubric_and_autorubric() -> None:
    items = [{"requirement": "x", "weight": 3}, {"requirement": "y", "weight": 1}]
    assert score(requirements(items, grades=["MET", "unmet"])) == 0.75
    assert score(requirements(items, grades=["MET", "CANNOT_ASSESS"])) is None
    options = [{"label": "Poor", "value": 0}, {"label": "Fair", "value": 0.5}, {"label": "N/A", "value": 0, "na": True}]
    assert score(requirements([{"requirement": "x", "options": options}], grades=["fair"])) == 0.5
    assert score(requirements([{"requirement": "x", "options": options}], grades=["N/A"])) is None


def test_a_list_of_penalties_alone_starts_at_1() -> None:
    items = [{"requirement": "x", "weight": -1}, {"requirement": "y", "weight": -3}]
    assert [score(requirements(items, grades=g)) for g in ([0, 0], [1, 0], [1, 1])] == [1.0, 0.75, 0.0]
    with pytest.raises(ImporterError, match="no weight is positive"):
        requirements([{"requirement": "x", "weight": 0}])


def test_a_source_may_be_a_text() -> None:
    yaml = "- {weight: 3, requirement: x}\n- {weight: 1, requirement: y}\n"
    assert score(requirements(yaml, grades=[1, 0])) == 0.75
    assert score(requirements(json.dumps([{"requirement": "x"}], indent=1), grades=[1])) == 1.0
    toml = '[[criteria]]\nname = "a"\ntext = "x"\n\n[[criteria]]\nname = "b"\ntext = "y"\nweight = 3\n'
    assert score(verifiers(toml, grades={"a": "no", "b": "yes"})) == 0.75
    with pytest.raises(ImporterError, match=r"the data:8: criteria\[1\].weight: weight must be 0 or more"):
        verifiers(toml.replace("= 3", "= -3"))
    with pytest.raises(ImporterError, match=r"the data:5: criteria\[1\]: text must be a text"):
        verifiers(toml.replace('text = "y"\n', ""))


def test_a_fault_in_a_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rubric.json"
    path.write_text(json.dumps(paper(leaf("a"), paper(leaf("b", -1))), indent=2))
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "-1" in text)
    with pytest.raises(ImporterError, match=rf"rubric\.json:{line}: sub_tasks\[1\].sub_tasks\[0\].weight"):
        paperbench(path)
    path = tmp_path / "judge.toml"
    path.write_text('[judge]\njudge = "m"\n\n[[criterion]]\ndescription = "x"\n\n[scoring]\naggregation = "best"\n')
    with pytest.raises(ImporterError, match=r"judge\.toml:8: scoring.aggregation: it is one of"):
        rewardkit(path)


NAMES = st.text(alphabet='ab{}[],:"\\\né', max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def places(data: Any, place: tuple[Any, ...] = ()) -> Any:
    yield place
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(value, (*place, key))


@given(data=st.lists(JSON, min_size=1, max_size=3) | st.dictionaries(NAMES, JSON, min_size=1, max_size=3))
def test_lines_of_json_are_those_that_the_document_finds(data: Any) -> None:
    text = json.dumps(data, indent=1)
    document = Document(text, "text", is_json=True)
    for place in places(data):
        assert line_in_json(text, place) == document.line(place)
        assert line_in_json(text, (*place, "absent")) == document.line((*place, "absent"))
