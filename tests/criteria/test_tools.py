"""Criteria of whole episodes: tools, errors, budgets, side effects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from rubrics import ByEvidence, Evaluation, Record, Rubric, Step, StructureError, Trajectory
from rubrics.criteria import (
    ArgumentsMatch,
    AtMostCalls,
    Called,
    CalledInOrder,
    NeverCalled,
    NoRepeatedCalls,
    RecoversFromErrors,
    SideEffect,
    WithinBudget,
)
from rubrics.criteria.calls import Call, calls_of
from rubrics.hosting.tool_calls import ToolCall
from rubrics.rescoring import rescore_one


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def judged(leaf: Rubric, *steps: Any, task: Any = None) -> Evaluation:
    """What an episode is worth; a step is an action, or an action and an observation."""
    pairs = [step if isinstance(step, tuple) else (step, {}) for step in steps]
    row = rescore_one(Trajectory(id="x", task=task, steps=[Step(*pair) for pair in pairs], end="terminated"), leaf)
    assert row.evaluation is not None
    return row.evaluation


ONE = {"n": 1}


class Action:
    def __init__(self, tool_name: str, arguments: dict[str, Any]) -> None:
        self.tool_name, self.arguments = tool_name, arguments


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (ToolCall("search", {"q": "x"}), [("search", {"q": "x"})]),
        ({"name": "search", "input": {"q": "x"}}, [("search", {"q": "x"})]),
        (
            Record(
                content="", tool_calls=[{"id": "1", "name": "a", "arguments": {}}, {"name": "b", "arguments": {"n": 1}}]
            ),
            [("a", {}), ("b", {"n": 1})],
        ),
        (
            {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"n": 1}'}}]},
            [("a", {"n": 1})],
        ),
        ({"tool_calls": [{"function": {"name": "a", "arguments": "{broken"}}]}, [("a", "{broken")]),
        (Action("move", {"to": "e4"}), [("move", {"to": "e4"})]),
        ({"tool_calls": [{"function": {"name": "a"}}, {"name": "b"}, {}, None]}, [("a", {}), ("b", {})]),
        (
            {"content": [{"type": "text", "text": "x"}, {"type": "tool_use", "name": "a", "input": {"n": 1}}]},
            [("a", {"n": 1})],
        ),
        (
            {
                "content": [{"type": "tool_use", "name": "a", "input": {"n": 1}}],
                "tool_calls": [{"name": "a", "args": {"n": 1}}],
            },
            [("a", {"n": 1})],
        ),
        ([ToolCall("a", {}), {"tool_name": "b", "arguments": None}], [("a", {}), ("b", {})]),
        (Record(get="x", name="a", input={}), [("a", {})]),
        ({"content": "no call", "name": "alice"}, []),
        ({"content": "x", "tool_calls": None}, []),
        ("text", []),
        (None, []),
    ],
)
def test_the_calls_of_an_action(action: Any, calls: list[tuple[str, Any]]) -> None:
    assert calls_of(action, 3) == [Call(3, name, arguments) for name, arguments in calls]


A, B, C = call("a", n=1), call("b"), call("c")
SAVED = {"state": {"saved": True}}
FAILED, FINE = {"error": "no such file"}, {"content": "done"}


@pytest.mark.parametrize(
    ("leaf", "steps", "score", "evidence"),
    [
        (Called("a"), [A, B], 1.0, [0]),
        (Called("a"), [B, C], 0.0, None),
        (Called("a", least=2), [A, B, A], 1.0, [0, 2]),
        (Called("a", most=1), [A, A], 0.0, [0, 1]),
        (Called("a", least=0, most=0), [B], 1.0, None),
        (NeverCalled("a"), [B, C], 1.0, None),
        (NeverCalled(["x", "a"]), [B, A], 0.0, [1]),
        (CalledInOrder(["a", "b"]), [A, C, B], 1.0, [0, 2]),
        (CalledInOrder(["a", "b"]), [B, A], 0.0, [1]),
        (CalledInOrder(["a", "b"], partial=True), [B, A], 0.5, [1]),
        (AtMostCalls(2), [A, B], 1.0, None),
        (AtMostCalls(2), [A, B, C], 0.0, [2]),
        (AtMostCalls(1, "a"), [A, B, C], 1.0, None),
        (NoRepeatedCalls(), [A, B, C], 1.0, None),
        (NoRepeatedCalls(), [A, B, A, A], 0.5, [2, 3]),
        (NoRepeatedCalls(), [A, call("a", n=2)], 1.0, None),
        (NoRepeatedCalls(["a"]), [A, A, A], 1.0, None),
        (NoRepeatedCalls(), ["just text"], 1.0, None),
        (ArgumentsMatch("a", {"n": 1}), [A], 1.0, [0]),
        (ArgumentsMatch("a", {"n": 2}), [A], 0.0, [0]),
        (ArgumentsMatch("a", {"n": True}), [A], 0.0, [0]),
        (ArgumentsMatch("a", {"n": 1}), [call("a", n=1, m=2)], 1.0, [0]),
        (ArgumentsMatch("a", {"n": 1}, exact=True), [call("a", n=1, m=2)], 0.0, [0]),
        (ArgumentsMatch("a", {"o": {"x": 1}}), [call("a", o={"x": 1, "y": 2})], 1.0, [0]),
        (ArgumentsMatch("a", {"n": 1}), [B], 0.0, None),
        (ArgumentsMatch("a", {"n": 1}, calls="any"), [call("a", n=2), A], 1.0, [1]),
        (ArgumentsMatch("a", {"n": 1}, calls="all"), [call("a", n=2), A], 0.0, [0]),
        (ArgumentsMatch("a", {"n": 1}, calls="last"), [call("a", n=2), A], 1.0, [1]),
        (ArgumentsMatch("a", schema={"properties": {"n": {"minimum": 1}}}), [A], 1.0, [0]),
        (ArgumentsMatch("a", schema={"properties": {"n": {"minimum": 2}}}), [A], 0.0, [0]),
        (RecoversFromErrors(), [(A, FINE), (B, FINE)], 1.0, None),
        (RecoversFromErrors(), [(A, FAILED), (A, FAILED), (B, FINE)], 1.0, [0]),
        (RecoversFromErrors(), [(A, FAILED), (B, FINE), (A, FAILED)], 0.5, [0, 2]),
        (RecoversFromErrors(), [(A, {"content": "Traceback (most recent call last): …"})], 0.0, [0]),
        (RecoversFromErrors(), [(A, {"messages": [{"is_error": True}]}), (A, FINE)], 1.0, [0]),
        (RecoversFromErrors(), [(A, {"status": "error"})], 0.0, [0]),
        (RecoversFromErrors("observation.failed"), [(A, {"failed": True}), (A, {"failed": False})], 1.0, [0]),
        (RecoversFromErrors("observation.failed"), [(A, FAILED)], 1.0, None),
        (WithinBudget(3), [A, B, C], 1.0, None),
        (WithinBudget(2), [A, B, C], 0.0, None),
        (WithinBudget(2, cushion=4), [A, B, C], 0.75, None),
        (WithinBudget(1, of="calls"), ["text", A], 1.0, None),
        (WithinBudget(10, 10, "action.tokens"), [{"tokens": 8}, {"tokens": 7}], 0.5, None),
        (
            SideEffect("observation.state.saved", True),
            [(A, {"state": {"saved": False}}), (B, {"state": {"saved": True}})],
            1.0,
            [1],
        ),
        (SideEffect("observation.saved", True), [(A, {"saved": True}), (B, {"saved": False})], 0.0, None),
        (SideEffect("observation.saved", True, when="ever"), [(A, {"saved": True}), (B, {"saved": False})], 1.0, [0]),
        (SideEffect("observation.files", contains="a.txt"), [(A, {"files": ["a.txt"]}), B], 1.0, [0]),
        (SideEffect("observation.files", contains="a.txt"), [(A, {"files": {"a.txt": 1}})], 1.0, [0]),
        (SideEffect("observation.log", contains="done"), [(A, {"log": "all done"})], 1.0, [0]),
    ],
)
def test_what_an_episode_is_worth(leaf: Rubric, steps: list[Any], score: float, evidence: list[int] | None) -> None:
    for each in (leaf, copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        found = judged(each, *steps)
        assert (found.status, found.score) == ("scored", score), found.reason
        assert found.metadata.get("evidence") == evidence


def test_calls_that_json_cannot_write_are_compared() -> None:
    odd = {"name": "a", "input": {("x", 1): 2}}
    assert judged(NoRepeatedCalls(), odd, {"name": "a", "input": {("x", 1): 3}}).score == 1.0
    assert judged(NoRepeatedCalls(), odd, odd).score == 0.5


def test_what_nobody_reports_is_unscored() -> None:
    found = judged(SideEffect("observation.saved", True), A, B)
    assert (found.status, found.reason) == ("unscored", "no step reports observation.saved")
    found = judged(WithinBudget(10, of="action.tokens"), {"tokens": "many"})
    assert (found.status, found.reason) == ("unscored", "action.tokens is 'many', no number")


def test_the_steps_that_are_cited_are_paid() -> None:
    leaf = Called("a", credit=ByEvidence())
    episode = leaf.episode()
    for action in (B, A, C, A):
        episode.step(action, {})
    episode.end()
    assert episode.rewards().values.tolist() == [0.0, 0.5, 0.0, 0.5]


def test_recorded_episodes_get_the_same() -> None:
    steps = [Step(Record(name="a", input={"n": 1}), Record()), Step(Record(name="b", input={}), Record(done=True))]
    row = rescore_one(Trajectory(id="x", steps=steps), CalledInOrder(["a", "b"]))
    assert (row.status, row.reward) == ("scored", 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Called("a", 2, 1), "most not below it"),
        (lambda: CalledInOrder([]), "tools is a list of names"),
        (lambda: CalledInOrder("a"), "tools is a list of names"),
        (lambda: AtMostCalls(-1), "most is 0 or more"),
        (lambda: NoRepeatedCalls("a"), "ignore is a list of names"),
        (lambda: ArgumentsMatch("a"), "give either arguments or schema"),
        (lambda: ArgumentsMatch("a", schema={"type": "x"}), "it is no JSON Schema"),
        (lambda: ArgumentsMatch("a", {}, calls="some"), "calls is 'any', 'all' or 'last'"),  # type: ignore[arg-type]
        (lambda: RecoversFromErrors("failed"), "a path into the step begins with"),
        (lambda: WithinBudget(-1), "most and cushion are 0 or more"),
        (lambda: SideEffect("observation.x"), "give either expected or contains"),
        (lambda: SideEffect("observation.x", 1, when="now"), "when is 'end' or 'ever'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()
