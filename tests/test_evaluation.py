"""The record of a run: paths, statuses, round trips, usage, how it prints, and scoring it again."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import (
    AllOf,
    AnyOf,
    Evaluation,
    Fallback,
    Gate,
    Rubric,
    Score,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    Unscored,
    Usage,
    WeightedSum,
    add_usage,
    evaluation_of,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, Boom, Fixed, Hanging, Judged, pending


def tree() -> WeightedSum:
    style = Sequential({"length": Fixed(0.0), "taste": Fixed(0.9)})
    code = Gate(WeightedSum({"style": style, "tests": Fixed(1.0)}, {"style": 0.25, "tests": 0.75}), 0.5)
    return WeightedSum({"code": code, "prose": Fixed(Score(0.5, "dull", {"label": 3}))}, {"code": 0.5, "prose": 0.5})


def record() -> Evaluation:
    return tree().evaluate_sync(ACTION, OBSERVATION)


# Reading it


def test_nodes_are_found_by_path() -> None:
    found = record()
    assert (found.path, found.name, found.kind, found.score) == ("", "", "WeightedSum", 0.625)
    assert found["code.rubric.style.length"].score == 0.0
    assert found["code"]["rubric.style"]["length"] is found["code.rubric.style.length"]
    prose = found["prose"]
    assert (prose.name, prose.kind, prose.status, prose.score) == ("prose", "Fixed", "scored", 0.5)
    assert (prose.reason, prose.metadata) == ("dull", {"label": 3})
    assert "code.rubric" in found
    assert "code.nope" not in found
    assert "" not in found
    with pytest.raises(KeyError, match=r"no node 'code\.nope'.*'code\.rubric\.style'"):
        found["code.nope"]


def test_a_node_that_was_not_reached_is_skipped_and_has_no_old_score() -> None:
    node = tree()
    taste = node.get_rubric("code.rubric.style.taste")
    node.get_rubric("code.rubric.style.length").value = 1.0  # type: ignore[attr-defined]
    assert node.evaluate_sync(ACTION, OBSERVATION)["code.rubric.style.taste"].score == 0.9
    node.get_rubric("code.rubric.style.length").value = 0.0  # type: ignore[attr-defined]
    skipped = node.evaluate_sync(ACTION, OBSERVATION)["code.rubric.style.taste"]
    assert (skipped.status, skipped.score, skipped.duration, skipped.kind) == ("skipped", None, 0.0, "Fixed")
    assert taste.last_score is None


def test_everything_below_a_skipped_node_is_skipped() -> None:
    skipped = Sequential({"first": Fixed(0.0), "rest": tree()}).evaluate_sync(ACTION, OBSERVATION)["rest"]
    assert {node.status for node in skipped.nodes()} == {"skipped"}
    assert [node.path.removeprefix("rest") for node in skipped.nodes()] == [
        f".{path}" if path else "" for path in record().flatten()
    ]


def test_flatten() -> None:
    assert record().flatten() == {
        "": 0.625,
        "code": 0.75,
        "code.rubric": 0.75,
        "code.rubric.style": 0.0,
        "code.rubric.style.length": 0.0,
        "code.rubric.style.taste": None,
        "code.rubric.tests": 1.0,
        "prose": 0.5,
    }


@pytest.mark.parametrize(
    ("leaf", "status", "score", "reason"),
    [
        (Fixed(0.5), "scored", 0.5, None),
        (Fixed(pending(0.5)), "pending", 0.5, None),
        (Fixed(Unscored("why")), "unscored", None, "why"),
        (Fixed(Boom("why")), "error", None, "Boom: why"),
        (Judged(1.0, 0.25), "pending", 0.25, None),
    ],
)
def test_statuses(leaf: Rubric, status: str, score: Any, reason: Any) -> None:
    node = Sequential(Fallback(leaf, 0.75, on_error=True)).evaluate_sync(ACTION, OBSERVATION)["rubric_0.rubric"]
    assert (node.status, node.score, node.reason) == (status, score, reason)


async def test_children_are_in_the_declared_order_however_they_complete() -> None:
    parts = {name: AsyncFixed(0.5, turns) for name, turns in (("slow", 9), ("fast", 0), ("middling", 4))}
    for node in (WeightedSum({**parts, "plain": Fixed()}, dict.fromkeys([*parts, "plain"], 0.25)), AnyOf(parts)):
        for found in (await node.evaluate(ACTION, OBSERVATION), node.evaluate_sync(ACTION, OBSERVATION)):
            assert [child.name for child in found.children] == [name for name, _ in node.named_children()]


async def test_a_cancelled_sibling_has_no_score() -> None:
    found = await AllOf({"hangs": Hanging(), "fails": AsyncFixed(0.0)}).evaluate(ACTION, OBSERVATION)
    assert (found.score, found["fails"].score, found["hangs"].score) == (0.0, 0.0, None)
    assert found["hangs"].status not in ("scored", "pending", "unscored")


def test_durations_hold_those_of_the_children() -> None:
    found = record()
    for node in found.nodes():
        assert node.duration >= sum(child.duration for child in node.children) >= 0.0
    assert found.duration > 0.0


# Usage


class Costs(Fixed):
    def forward(self, action: Any, observation: Any) -> Any:
        add_usage(Usage(calls=1, prompt_tokens=10, completion_tokens=2, total_tokens=12, cost=0.25))
        add_usage(Usage(calls=1))
        return self.answer()


class AsyncCosts(Costs):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return Costs.forward(self, action, observation)


@pytest.mark.parametrize("leaf", [Costs, AsyncCosts])
def test_usage_is_summed_over_the_tree(leaf: type[Costs]) -> None:
    node = Sequential({"a": leaf(), "b": Gate(leaf(Score(1.0))), "c": leaf(0.0), "d": leaf()})
    found = node.evaluate_sync(ACTION, OBSERVATION)
    assert found["a"].usage == found["b"].usage == Usage(2, 10, 0, 2, 12, 0.25)
    assert found["b"].own_usage == Usage()
    assert found["d"].usage == Usage()
    assert found.usage == Usage(6, 30, 0, 6, 36, 0.75)
    assert not Usage()
    assert found.usage


def test_what_a_failing_node_spent_is_counted() -> None:
    found = Fallback(Costs(Boom()), 0.5, on_error=True).evaluate_sync(ACTION, OBSERVATION)
    assert (found["rubric"].status, found.usage.calls) == ("error", 2)
    add_usage(Usage(calls=1))  # nothing runs here, so it is nobody's


# As data

texts = st.none() | st.text(max_size=8)
numbers = st.none() | st.floats(allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
usages = st.builds(Usage, *[st.integers(0, 99)] * 5, st.floats(0, 9))
evaluations = st.recursive(
    st.builds(Evaluation, st.text(), st.text()),
    lambda inner: st.builds(
        Evaluation,
        st.text(max_size=8),
        st.text(max_size=8),
        st.sampled_from(["scored", "pending", "unscored", "skipped", "error"]),
        numbers,
        texts,
        st.dictionaries(st.text(max_size=5), plain, max_size=3),
        st.floats(0, 9),
        usages,
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(evaluations)
def test_to_dict_and_back_is_exact(evaluation: Evaluation) -> None:
    data = evaluation.to_dict()
    assert Evaluation.from_dict(data) == evaluation
    assert Evaluation.from_dict(json.loads(json.dumps(data))) == evaluation
    assert Evaluation.from_dict(data).to_dict() == data


def test_records_are_equal_by_content() -> None:
    one, two = Evaluation("a", "Leaf", "scored", 0.5), Evaluation("a", "Leaf", "scored", 0.5)
    assert one == two
    two.children.append(Evaluation("a.b"))
    assert one != two
    assert one != "a"


# How it prints


@pytest.mark.parametrize("reason", ["[bold]no[/bold]", "[/]", "a [link=x]y", "\x1b[31mred", "two\nlines", "[", "\\["])
def test_texts_of_nodes_are_never_markup(reason: str) -> None:
    from rich.console import Console

    leaf = Fixed(Score(0.5, reason))
    found = Sequential({"[red]name[/red]": leaf}).evaluate_sync(ACTION, OBSERVATION)
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=False).print(found)
    printed = out.getvalue()
    assert "[red]name[/red]: Fixed = 0.5" in printed
    assert "\x1b" not in printed
    for line in reason.replace("\x1b", "").split("\n"):
        assert line in printed.replace("\x1b", "")


def test_every_status_prints() -> None:
    node = WeightedSum(
        {
            "unscored": Fallback(Fixed(Unscored("no key")), 0.5),
            "error": Fallback(Fixed(Boom("x")), 0.5, on_error=True),
            "skipped": Sequential(Fixed(0.0), Fixed()),
            "pending": Fixed(pending(0.25)),
        },
        dict.fromkeys(("unscored", "error", "skipped", "pending"), 0.25),
    )
    text = str(node.evaluate_sync(ACTION, OBSERVATION))
    for part in ("unscored  no key", "Fixed = error  Boom: x", "Fixed = skipped", "pending: Fixed = 0.25 (pending)"):
        assert part in text
    assert len(text.splitlines()) == 9
    assert repr(record()) == "<Evaluation WeightedSum = 0.625 nodes=8>"


# An exception brings its record along


def test_the_record_of_a_failed_run() -> None:
    node = Sequential({"fine": Fixed(0.5), "inner": Sequential({"bad": Fixed(Boom("x")), "after": Fixed()})})
    with pytest.raises(Boom) as caught:
        node.evaluate_sync(ACTION, OBSERVATION)
    found = evaluation_of(caught.value)
    assert found is not None
    statuses = {child.path: child.status for child in found.nodes() if child.status != "skipped"}
    assert statuses == {"": "error", "fine": "scored", "inner": "error", "inner.bad": "error"}
    assert evaluation_of(Boom()) is None


def test_a_bare_call_records_nothing() -> None:
    with pytest.raises(Boom) as caught:
        Sequential(Fixed(Boom("x")))(ACTION, OBSERVATION)
    assert evaluation_of(caught.value) is None


class Raises(Rubric):
    """Raises one exception object, time and again."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, action: Any, observation: Any) -> Any:
        raise self.error


def test_one_exception_object_in_two_runs_tells_of_the_latest() -> None:
    error = Boom("x")
    for name in ("one", "two"):
        with pytest.raises(Boom) as caught:
            Sequential({name: Raises(error)}).evaluate_sync(ACTION, OBSERVATION)
        found = evaluation_of(caught.value)
        assert found is not None
        assert name in found
        assert caught.value.__notes__[-1] == f"in rubric {name} (Raises)"


@dataclass(frozen=True)
class Frozen(Exception):
    """An exception that takes no attributes."""

    code: int = 7


def test_an_exception_that_takes_no_attributes_stays_itself() -> None:
    node = Sequential({"bad": Raises(Frozen())})
    for run in (node, node.evaluate_sync, lambda *pair: asyncio.run(node.evaluate(*pair))):
        with pytest.raises(Frozen) as caught:
            run(ACTION, OBSERVATION)
        assert caught.value.code == 7
    assert Fallback(node, 0.5, on_error=True)(ACTION, OBSERVATION) == 0.5


# Scoring a record again


def test_other_weights_and_thresholds() -> None:
    found, other = record(), tree()
    other.weights = [0.25, 0.75]
    assert other.reaggregate(found).score == 0.5625
    other.get_rubric("code").threshold = 0.8  # type: ignore[attr-defined]
    again = other.reaggregate(found)
    assert again.flatten() == {**found.flatten(), "": 0.375, "code": 0.0}
    assert all(leaf.calls == 0 for leaf in other.rubrics() if isinstance(leaf, Fixed))
    assert found == found.from_dict(found.to_dict())  # the old record is untouched
    assert again["prose"].reason == "dull"
    assert again.usage == Usage()


def test_what_is_needed_now_but_was_skipped_is_missing() -> None:
    found, other = record(), tree()
    style = other.get_rubric("code.rubric.style")
    del style.length  # type: ignore[attr-defined]
    again = other.reaggregate(found)
    assert (again.status, again.score) == ("unscored", None)
    assert again.metadata["missing"] == ["code.rubric.style.taste"]
    assert again["prose"].score == 0.5


def test_every_missing_node_is_listed() -> None:
    wanted = WeightedSum(
        {"prose": Fixed(), "new": Fixed(), "other": Sequential(Fixed())}, {"prose": 0.5, "new": 0.25, "other": 0.25}
    )
    again = wanted.reaggregate(record())
    assert again.metadata["missing"] == ["new", "other.rubric_0"]
    assert set(again.flatten()) == {"", "prose", "new", "other", "other.rubric_0"}


def test_a_missing_node_that_does_not_matter_is_no_matter() -> None:
    found = Sequential({"a": Fixed(0.5)}).evaluate_sync(ACTION, OBSERVATION)
    assert AllOf({"b": Fixed(), "a": Gate(Fixed())}).reaggregate(found).metadata["missing"]
    found = Sequential({"a": Fixed(0.0)}).evaluate_sync(ACTION, OBSERVATION)
    for lenient in (AllOf({"b": Fixed(), "a": Fixed()}), Sequential({"a": Fixed(), "b": Fixed()})):
        assert lenient.reaggregate(found).score == 0.0


def test_an_error_is_missing_unless_it_is_caught() -> None:
    found = Fallback(Fixed(Boom()), 0.5, on_error=True).evaluate_sync(ACTION, OBSERVATION)
    assert Fallback(Fixed(), 0.25, on_error=True).reaggregate(found).score == 0.25
    assert Fallback(Fixed(), 0.25).reaggregate(found).metadata["missing"] == ["rubric"]


def test_a_switch_keeps_its_branch_and_a_custom_forward_its_score() -> None:
    class Custom(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.gate = Gate(Fixed(0.5), 0.25)

        def forward(self, action: Any, observation: Any) -> Any:
            return 2 * self.gate(action, observation)

    def of(key: str) -> WeightedSum:
        switch = Switch(lambda action, observation: key, {"a": Gate(Fixed(0.5), 0.1), "b": Fixed(0.25)})
        return WeightedSum({"kind": switch, "custom": Custom()}, {"kind": 0.5, "custom": 0.5})

    found, other = of("a").evaluate_sync(ACTION, OBSERVATION), of("b")
    assert other.reaggregate(found).score == 0.75
    other.get_rubric("kind.a").threshold = 0.9  # type: ignore[attr-defined]
    other.get_rubric("custom.gate").threshold = 0.9  # type: ignore[attr-defined]
    again = other.reaggregate(found)
    assert (again.score, again["custom"].score, again["custom.gate"].score) == (0.5, 1.0, 0.5)


@pytest.mark.parametrize("around", [Threaded, lambda child: Timeout(child, 60)])
def test_what_waits_for_its_child_follows_its_rule(around: Callable[[Rubric], Rubric]) -> None:
    def of(on_unscored: Any) -> Rubric:
        return around(WeightedSum([Fixed(1.0), Fixed(None)], [0.5, 0.5], on_unscored=on_unscored))

    found = of("unscored").evaluate_sync(ACTION, OBSERVATION)
    assert of("renormalize").reaggregate(found).score == 1.0
    assert of("unscored").reaggregate(of("renormalize").evaluate_sync(ACTION, OBSERVATION)).status == "unscored"


def test_a_timeout_that_ran_out_keeps_its_outcome() -> None:
    found = Sequential(Timeout(Hanging(), 0.001)).evaluate_sync(ACTION, OBSERVATION)
    again = Fallback(Timeout(Hanging(), 60), 0.25).reaggregate(found)
    assert again.metadata["missing"] == ["rubric.rubric"]  # another path: nothing is known of it
    same = Sequential(Timeout(Hanging(), 60)).reaggregate(found)
    assert (same.status, same["rubric_0"].reason) == ("unscored", "timed out after 0.001 s")


def test_a_record_from_disk_scores_the_same() -> None:
    found = Evaluation.from_dict(json.loads(json.dumps(record().to_dict())))
    assert tree().reaggregate(found).score == 0.625
    assert not math.isnan(found.duration)
