"""Other weights and thresholds over a finished run: the same rewards as scoring again, and no leaf is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

from judges import Binary, LLMJudge, ScriptedClient
from rubrics import AllOf, EqualSplit, Gate, Rubric, Sequential, TrajectoryRubric, WeightedSum
from rubrics.cli.app import app
from rubrics.formats import write_jsonl
from rubrics.rescoring import Row, read_rows, reaggregate, rescore, rescore_files
from rubrics.trajectory import Record, Reduction, Step, Trajectory

calls: list[str] = []


class Reads(Rubric):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, action: Any, observation: Any) -> Any:
        calls.append(self.name)
        return action[self.name]


class Last(TrajectoryRubric):
    def score_trajectory(self, trajectory: Any) -> Any:
        calls.append("last")
        return trajectory[-1][0]["a"]


def trajectory(*steps: dict[str, Any], reduction: Reduction | None = None) -> Trajectory:
    made = [Step(Record(step), Record(text="x"), metadata={"unpaid": True} if not step else {}) for step in steps]
    return Trajectory("t", steps=made, end="terminated", reward=0.5, reduction=reduction)


def tree(a: float, b: float, end: float, threshold: float) -> WeightedSum:
    return WeightedSum(
        {"a": Reads("a"), "b": Gate(Reads("b"), threshold), "end": Last(credit=EqualSplit())},
        {"a": a, "b": b, "end": end},
        normalize="total",
    )


def same(row: Row, other: Row) -> None:
    assert (row.status, row.rubric, row.reward) == (other.status, other.rubric, pytest.approx(other.reward))
    assert row.step_rewards is not None
    assert other.step_rewards is not None
    assert row.step_rewards["values"] == pytest.approx(other.step_rewards["values"])
    assert row.step_rewards["emitted"] == pytest.approx(other.step_rewards["emitted"])
    assert row.step_rewards["kind"] == other.step_rewards["kind"]


unit = st.integers(0, 8).map(lambda eighths: eighths / 8)
weights = st.integers(1, 9).map(float)
steps = st.lists(st.fixed_dictionaries({"a": unit, "b": unit}) | st.just({}), min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(steps, weights, weights, weights, unit, unit, st.sampled_from(["sum", "last"]))
def test_it_equals_scoring_again(
    actions: list[dict[str, Any]], a: float, b: float, end: float, before: float, after: float, reduction: Reduction
) -> None:
    recording = trajectory(*actions, {"a": 0.25, "b": 0.75}, reduction=reduction)
    (old,) = rescore([recording], tree(1.0, 1.0, 1.0, before), record="steps")
    (new,) = rescore([recording], tree(a, b, end, after), record="steps")
    calls.clear()
    (again,) = reaggregate([Row.from_dict(old.to_dict())], tree(a, b, end, after))
    assert calls == []
    same(again, new)
    assert [each and each.flatten() for each in again.evaluations or ()] == [
        each and each.flatten() for each in new.evaluations or ()
    ]


def test_the_last_step_will_do_where_it_alone_counts() -> None:
    recording = trajectory({"a": 1.0, "b": 0.5}, {"a": 0.5, "b": 1.0}, reduction="last")
    (old,) = rescore([recording], tree(1, 1, 1, 0.0))
    (new,) = rescore([recording], tree(3, 1, 1, 0.0))
    (again,) = reaggregate([old], tree(3, 1, 1, 0.0))
    assert (again.status, again.reward, again.step_rewards) == ("scored", new.reward, None)
    recording.reduction = "sum"
    (old,) = rescore([recording], tree(1, 1, 1, 0.0))
    (again,) = reaggregate([old], tree(3, 1, 1, 0.0))
    assert (again.status, again.reward) == ("unscored", None)
    assert "only the last of 2 steps was recorded" in (again.reason or "")


def test_what_was_not_asked_is_missing_and_says_so() -> None:
    recording = trajectory({"a": 0.25, "b": 1.0})
    gated = Sequential(Gate(Reads("a"), 0.5), Reads("b"))
    (old,) = rescore([recording], gated)
    assert old.reward == 0.0
    (again,) = reaggregate([old], Sequential(Gate(Reads("a"), 0.125), Reads("b")))
    assert (again.status, again.reward) == ("unscored", None)
    assert "not recorded, but needed now: rubric_1" in (again.reason or "")


def test_rows_without_a_result_stay_as_they_are() -> None:
    class Raises(Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            raise ValueError("boom")

    unfinished = trajectory({"a": 1.0})
    unfinished.end = None
    (error,) = rescore([trajectory({"a": 1.0})], Raises())
    (other,) = rescore([unfinished], Raises())
    made = list(reaggregate([error, other], Reads("a")))
    assert [row.status for row in made] == ["error", "unfinished"]
    assert [row.reason for row in made] == [error.reason, other.reason]


def test_another_container_over_the_same_leaves() -> None:
    recording = trajectory({"a": 0.25, "b": 1.0})
    both = {"a": Reads("a"), "b": Reads("b")}
    (old,) = rescore([recording], WeightedSum(both, {"a": 0.5, "b": 0.5}))
    (again,) = reaggregate([old], AllOf(both))
    assert (again.reward, again.evaluation and again.evaluation.kind) == (0.25, "AllOf")


RUBRIC = """
import os
from judges import Binary, LLMJudge, ScriptedClient
from rubrics import WeightedSum

def make_rubric():
    def judge(words):
        client = ScriptedClient(lambda request: {"score": "one" in request.messages[-1]["content"]})
        return LLMJudge(words + "{{ action.text | untrusted }}", Binary(), model="m", client=client, reason=False)
    weight = float(os.environ.get("WEIGHT", "0.5"))
    return WeightedSum({"one": judge("one"), "two": judge("two")}, {"one": weight, "two": 1 - weight})
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rubric.py").write_text(RUBRIC)
    steps = [Step({"text": "x"}, {"text": "x"}) for _ in range(2)]
    write_jsonl("runs.jsonl", [Trajectory(f"t{i}", steps=steps, end="terminated") for i in range(3)])
    client = ScriptedClient(lambda request: {"score": "one" in request.messages[-1]["content"]})
    leaf = LLMJudge("one{{ action.text | untrusted }}", Binary(), model="m", client=client, reason=False)
    rescore_files("runs.jsonl", WeightedSum({"one": leaf, "two": leaf}, {"one": 0.5, "two": 0.5}), "other.jsonl")
    runner = CliRunner()
    rescored = runner.invoke(app, ["rescore", "runs.jsonl", "--rubric", "rubric.py", "--out", "old.jsonl"])
    assert rescored.exit_code == 0, rescored.output
    monkeypatch.setenv("WEIGHT", "0.875")
    command = ["reaggregate", "old.jsonl", "--rubric", "rubric.py"]
    result = runner.invoke(app, [*command, "--out", "new.jsonl"])
    assert result.exit_code == 0, result.output
    assert [row.reward for row in read_rows("old.jsonl")] == [1.0] * 3
    assert [row.reward for row in read_rows("new.jsonl")] == [1.75] * 3
    for out, message in (("new.jsonl", "new.jsonl exists"), ("old.jsonl", "old.jsonl is the run itself")):
        refused = runner.invoke(app, [*command, "--out", out])
        assert (refused.exit_code, message in refused.stderr) == (2, True)
    Path("more.py").write_text(RUBRIC.replace('"two": ', '"three": '))
    missing = runner.invoke(app, ["reaggregate", "old.jsonl", "--rubric", "more.py", "--out", "missing.jsonl"])
    assert missing.exit_code == 0
    assert "rubrics: t0: step 2 of 2 is unscored: not recorded, but needed now: three" in missing.stderr
    Path("torn.jsonl").write_bytes(Path("old.jsonl").read_bytes()[:-10])
    torn = runner.invoke(app, ["reaggregate", "torn.jsonl", "--rubric", "rubric.py", "--out", "more.jsonl"])
    assert torn.exit_code == 2
    assert "torn.jsonl:3: not JSON" in torn.stderr
    before = Path("new.jsonl").read_bytes()
    torn_again = ["reaggregate", "torn.jsonl", "--rubric", "rubric.py", "--out", "new.jsonl", "--overwrite"]
    over = runner.invoke(app, torn_again)
    assert over.exit_code == 2
    assert Path("new.jsonl").read_bytes() == before  # it is replaced by a whole run only
    assert sorted(path.name for path in Path().glob(".*")) == []
