"""Each fault of a tree is planted and found; a sound tree is left in peace."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from judges import Binary, Budget, Checklist, Likert, LLMJudge
from judges.prompt import PromptWarning
from rubrics import (
    AllOf,
    Clip,
    Fallback,
    Gate,
    Invert,
    Map,
    Rubric,
    RubricDict,
    RubricList,
    Scale,
    Sequential,
    Timeout,
    WeightedSum,
)
from rubrics.doctor import CHECKS, examine
from rubrics.doctor.findings import diagnosis, found

ASK = "Rate it.\n{{ action | untrusted }}"


class Check(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(len(action) > 3)


class Penalty(Check):
    range = (-1.0, 0.0)


class Always(Check):
    range = (1.0, 1.0)


class Slow(Rubric):
    async def forward(self, action: Any, observation: Any) -> float:
        return 1.0


class Doubled(WeightedSum):
    range = (0.0, 2.0)


def judge(prompt: str = ASK, **options: Any) -> LLMJudge:
    return LLMJudge(prompt, Binary(), model="m", budget=Budget(usd=1.0), **options)


def unfenced() -> LLMJudge:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PromptWarning)
        return judge("Rate\n{{ action }} and {{ task }}\n{{ observation | untrusted }}")


FAULTS: dict[str, tuple[Rubric, list[tuple[str, str, str]]]] = {
    "a list": (RubricList([Check()]), [("no-score", "", "a RubricList holds rubrics and has no score")]),
    "a dict": (RubricDict({"a": Check()}), [("no-score", "", "a RubricDict holds")]),
    "behind a penalty": (
        Sequential({"rude": Penalty(), "good": Check(), "better": Check()}),
        [("unreachable", "good", "rude never scores above 0"), ("unreachable", "better", "rude never")],
    ),
    "a gate too high": (
        WeightedSum({"part": Gate(Scale(Check(), 0.5), 0.75), "rest": Check()}, {"part": 0.5, "rest": 0.5}),
        [("gate-cannot-pass", "part", "its threshold 0.75 is above 0.5, the most that part.rubric can score")],
    ),
    "all of a penalty": (AllOf(Check(), Penalty()), [("gate-cannot-pass", "", "rubric_1 never scores above 0")]),
    "a gate too low": (Gate(Check(), 0.0), [("gate-cannot-fail", "", "its threshold 0 is not above 0, the least")]),
    "a weight of 0": (
        WeightedSum({"a": Check(), "b": Check()}, {"a": 1.0, "b": 0.0}),
        [("weight-cannot-matter", "b", "its weight is 0")],
    ),
    "a part that never varies": (
        WeightedSum({"a": Check(), "b": Always()}, {"a": 0.5, "b": 0.5}),
        [("weight-cannot-matter", "b", "it always scores 1: its weight 0.5 only shifts the sum")],
    ),
    "a weight too small": (
        WeightedSum({"a": Check(), "b": Check()}, {"a": 9999, "b": 1}, normalize="total"),
        [("weight-cannot-matter", "b", "its weight 1 moves the sum by 0.01 % of what its parts move together")],
    ),
    "a function beyond its range": (
        Map(Check(), lambda x: 2 * x),
        [("range", "", "its function gives 1.0625 at 0.53125, outside the declared range 0 to 1")],
    ),
    "a function that raises": (
        Gate(Map(Check(), lambda x: 1 / x)),
        [("range", "rubric", "its function raises ZeroDivisionError")],
    ),
    "a range of one's own": (
        Doubled([Check()], [1.0]),
        [("range", "", "it declares the range 0 to 2, and its parts give 0 to 1")],
    ),
    "a judge first": (
        Sequential({"judged": Gate(judge(), 0.5), "short": Check()}),
        [("judge-before-check", "judged", "it asks a model before short, which asks none")],
    ),
    "a checklist first": (
        Sequential({"points": Checklist(["a"], model="m", budget=Budget(usd=1.0)), "short": Check()}),
        [("judge-before-check", "points", "it asks a model before short")],
    ),
    "no time limit": (Gate(Slow()), [("no-timeout", "rubric", "Slow is async and nothing limits its time")]),
    "no budget": (LLMJudge(ASK, Likert(1, 5), model="m"), [("no-budget", "", "nothing limits what its judge")]),
    "no fence": (unfenced(), [("unfenced", "", "its prompt prints a value without a fence (line 2)")]),
    "a number before": (
        Fallback(Fallback(Check(), 0.5), Check()),
        [("unreachable", "", "what it falls back to is never used: rubric falls back to 0.5 before")],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_nothing_else(name: str) -> None:
    tree, expected = FAULTS[name]
    result = examine(tree)
    assert len(result.findings) == len(expected), result.text()
    for check, path, what in expected:
        assert any((each.check, each.path) == (check, path) and each.what.startswith(what) for each in result.findings)


SOUND: dict[str, Rubric] = {
    "sum": WeightedSum(
        {"format": Gate(Check(), 0.5), "good": Check(), "rude": Check()},
        {"format": 2, "good": 8, "rude": -5},
        normalize="positive",
    ),
    "checks before a judge": Sequential(Check(), Gate(judge(), 0.5)),
    "a penalty at the end": Sequential(Check(), Penalty()),
    "timed": Timeout(Gate(Slow()), 5.0),
    "clipped": Clip(Scale(Check(), 2.0, -1.0), 0.0, 1.0),
    "mapped": Map(Check(), lambda x: 1.0 - x),
    "inverted": Invert(Fallback(Check(), 0.5)),
    "two fallbacks": Fallback(Fallback(Check(), Check()), 0.0),
    "an error is caught outside": Fallback(Fallback(Check(), 0.5), 0.25, on_error=True),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_tree_is_left_in_peace(name: str) -> None:
    assert examine(SOUND[name]).findings == ()


def test_findings_are_told_the_worst_first() -> None:
    tree = Sequential(
        {"a": LLMJudge(ASK, Binary(), model="m"), "b": Gate(Scale(Check(), 0.5), 0.75), "c": Gate(Check(), 0)}
    )
    result = examine(tree)
    assert [(each.severity, each.check) for each in result.findings] == [
        ("error", "gate-cannot-pass"),
        ("error", "unreachable"),
        ("warning", "judge-before-check"),
        ("warning", "gate-cannot-fail"),
        ("note", "no-budget"),
    ]
    assert result.worst == "error" and len(result.of("no-budget")) == 1
    assert result.looked_at == {"nodes": 7}


def test_a_diagnosis_in_words_and_as_data() -> None:
    result = diagnosis(
        [found("constant", "a.b", "it scored 1 in all of 30 trajectories", n=30, share=0.123456)], {"nodes": 2}
    )
    assert (
        result.text()
        == """\
1 finding in 2 nodes

warning  a.b  [constant]
  it scored 1 in all of 30 trajectories.
  evidence: n 30, share 0.123.
  Make it harder or easier, or take it out: what never varies teaches nothing.""".replace("0.123.\n", "0.123\n")
    )
    data = result.to_dict()
    assert data["findings"][0]["evidence"] == {"n": 30, "share": 0.123456}
    assert set(CHECKS) >= {each["check"] for each in data["findings"]}
    assert str(result.findings[0]).startswith("warning: a.b: it scored 1 in all of 30 trajectories. Make it")
