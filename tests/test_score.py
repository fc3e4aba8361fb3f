"""What a node may answer: one rule at every node, and scores that can explain themselves."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rubrics
from rubrics import (
    EpisodeOverError,
    Fallback,
    Gate,
    InvalidScoreError,
    Map,
    Rubric,
    RubricError,
    Score,
    Sequential,
    Threaded,
    Unscored,
    WeightedSum,
)
from tests.leaves import ACTION, DRIVERS, OBSERVATION, AsyncFixed, AsyncJudged, Fixed, Judged, done, outcome


class Level(IntEnum):
    GOOD = 1


class Celsius(float):
    """Somebody's own float."""


GOOD: list[tuple[Any, float]] = [
    (0.5, 0.5),
    (1, 1.0),
    (-3, -3.0),
    (True, 1.0),
    (False, 0.0),
    (Level.GOOD, 1.0),
    (Celsius(0.5), 0.5),
    (Score(0.5), 0.5),
    (np.float64(0.5), 0.5),
    (np.float32(0.5), 0.5),
    (np.float16(0.5), 0.5),
    (np.int64(2), 2.0),
    (np.uint8(2), 2.0),
    (np.bool_(True), 1.0),
    (np.True_, 1.0),
]

BAD: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    np.float32("nan"),
    np.float64("inf"),
    Score(math.nan),
    10**400,
    "0.5",
    b"0.5",
    [0.5],
    (0.5,),
    {"score": 0.5},
    np.array([0.5]),
    np.array(0.5),
    np.complex64(1),
    np.datetime64("2024-01-01"),
    1j,
    Decimal("0.5"),
    Fraction(1, 2),
    object(),
    Rubric,
    lambda: 0.5,
    NotImplemented,
]

# A value at every kind of node: a leaf, a custom node, a delayed node, a container's function, in sync and async trees.


class Custom(Rubric):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value, self.child = value, Fixed()

    def forward(self, action: Any, observation: Any) -> Any:
        self.child(action, observation)
        return self.value


class AsyncCustom(Custom):
    async def forward(self, action: Any, observation: Any) -> Any:
        self.child(action, observation)
        return self.value


PLACES: list[Callable[[Any], Rubric]] = [
    Fixed,
    AsyncFixed,
    Custom,
    AsyncCustom,
    lambda value: Threaded(Fixed(value)),
    lambda value: Map(Fixed(), lambda score: value),
]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("place", PLACES)
async def test_numbers_are_scores_at_every_node(place: Callable[[Any], Rubric], driver: str) -> None:
    for value, number in GOOD:
        tree = Sequential({"node": Gate(place(value), -9.0)})
        status, score = await outcome(tree, driver)
        assert (status, score) == ("scored", number)
        assert type(score) is float


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("place", PLACES)
async def test_all_else_is_refused_at_every_node(place: Callable[[Any], Rubric], driver: str) -> None:
    for value in BAD:
        if inspect.isroutine(value) and place is PLACES[-1]:
            continue
        node = place(value)
        tree = WeightedSum({"fine": Fixed(), "outer": Sequential({"inner": node})}, {"fine": 0.5, "outer": 0.5})
        assert await outcome(tree, driver) == ("error", InvalidScoreError), value
        with pytest.raises(InvalidScoreError, match=r"outer\.inner"):
            await tree.evaluate(ACTION, OBSERVATION)


@pytest.mark.parametrize("make", [Judged, AsyncJudged])
def test_the_same_rule_for_delayed_nodes(make: type[Judged]) -> None:
    for value, number in GOOD:
        assert Sequential(make(value)).episode().step(ACTION, done()) == number
    for value in BAD:
        if not callable(value):
            with pytest.raises(InvalidScoreError, match="game"):
                Sequential({"game": make(value)}).episode().step(ACTION, done())


def test_a_refusal_says_what_was_wrong_and_what_may_be_returned() -> None:
    with pytest.raises(InvalidScoreError, match=r"style \(Fixed\).*'0\.5' \(str\).*a number, a Score or None"):
        Sequential({"style": Fixed("0.5")})(ACTION, OBSERVATION)
    with pytest.raises(InvalidScoreError, match=r"Fixed \(root\).*nan.*finite"):
        Fixed(math.nan)(ACTION, OBSERVATION)
    with pytest.raises(InvalidScoreError) as caught:
        Fixed("x" * 10_000)(ACTION, OBSERVATION)
    assert len(str(caught.value)) < 400


def test_nan_does_not_pass_a_gate_or_poison_a_sum() -> None:
    for tree in (Gate(Fixed(math.nan), 0.0), WeightedSum([Fixed(math.nan), Fixed()], [0.0, 1.0])):
        with pytest.raises(InvalidScoreError):
            tree(ACTION, OBSERVATION)


# Unscored


@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
@pytest.mark.parametrize("driver", ["evaluate", "evaluate_sync"])
async def test_a_leaf_may_be_unscored_in_two_ways(leaf: type[Fixed], driver: str) -> None:
    for value, reason, metadata in (
        (None, None, {}),
        (Unscored(), None, {}),
        (Unscored("no key"), "no key", {}),
        (Unscored("no key", {"judge": "a"}), "no key", {"judge": "a"}),
    ):
        tree = Sequential(leaf(value))
        record = await tree.evaluate(1, 2) if driver == "evaluate" else tree.evaluate_sync(1, 2)
        for node in (record, record["rubric_0"]):
            assert (node.status, node.score, node.reason, node.metadata) == ("unscored", None, reason, metadata)
        assert await outcome(tree) == ("unscored", None)


def test_unscored_is_not_caught_as_a_failure_nor_a_failure_as_unscored() -> None:
    tree = Fallback(Fixed(ValueError("x")), 0.5)
    with pytest.raises(ValueError, match="x"):
        tree(ACTION, OBSERVATION)


# Score


def test_a_score_is_a_float_that_can_explain_itself() -> None:
    score = Score(0.75, "short and clear", {"label": 4})
    assert (score, score.reason, score.metadata, score.pending) == (0.75, "short and clear", {"label": 4}, False)
    assert isinstance(score, float)
    assert (score + 0.25, score * 2, max(score, 0.5), round(score, 1)) == (1.0, 1.5, 0.75, 0.8)
    assert json.dumps([score]) == "[0.75]"
    assert hash(score) == hash(0.75)
    assert f"{score:.2f}" == "0.75"
    assert repr(score) == "Score(0.75, reason='short and clear', metadata={'label': 4})"
    assert repr(Score(1, pending=True)) == "Score(1.0, pending=True)"


def test_scores_do_not_share_their_metadata() -> None:
    given_metadata = {"label": 4}
    score = Score(0.5, metadata=given_metadata)
    given_metadata["label"] = 5
    assert score.metadata == {"label": 4}
    Score(0.5).metadata["x"] = 1
    assert Score(0.5).metadata == {}


@pytest.mark.parametrize("value", ["0.5", b"1", None, [0.5], 1j])
def test_a_score_is_made_from_a_number(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Score(value)


@given(
    st.floats(allow_nan=False),
    st.none() | st.text(),
    st.dictionaries(st.text(), st.integers() | st.lists(st.text())),
    st.booleans(),
)
def test_scores_can_be_copied_and_pickled(value: float, reason: str | None, metadata: Any, is_pending: bool) -> None:
    score = Score(value, reason, metadata, is_pending)
    for other in (copy.copy(score), copy.deepcopy(score), pickle.loads(pickle.dumps(score))):
        assert type(other) is Score
        assert (other, other.reason, other.metadata, other.pending) == (value, reason, metadata, is_pending)


# Errors


def test_every_error_of_the_package_is_in_one_tree() -> None:
    errors = [value for value in map(rubrics.__dict__.get, rubrics.__all__) if _is_error(value)]
    assert len(errors) >= 9
    assert all(issubclass(error, RubricError) for error in errors)
    assert issubclass(InvalidScoreError, ValueError)
    assert issubclass(EpisodeOverError, RuntimeError)


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def test_a_wrapped_error_is_one_line_that_can_be_sent() -> None:
    assert str(RubricError("legal.rubric: ValueError: boom")) == "legal.rubric: ValueError: boom"


def test_every_public_name_can_be_imported_from_the_top() -> None:
    for name in rubrics.__all__:
        assert getattr(rubrics, name) is not None
    assert sorted(rubrics.__all__) == dir(rubrics)
    with pytest.raises(AttributeError, match="nope"):
        rubrics.nope  # noqa: B018
