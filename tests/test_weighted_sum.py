"""Gate and WeightedSum in numbers: worked by hand, against exact fractions, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from rubrics import (
    AnyOf,
    Clip,
    Evaluation,
    Gate,
    InvalidScoreError,
    Invert,
    Map,
    Product,
    Rubric,
    Scale,
    Sequential,
    StateError,
    StructureError,
    Switch,
    Unscored,
    WeightedSum,
)
from tests.leaves import ACTION, OBSERVATION, Fixed, pending

number = st.floats(-1e9, 1e9, allow_subnormal=False).filter(lambda x: x == 0.0 or abs(x) > 1e-90)
some = st.lists(st.tuples(number, number), min_size=1, max_size=8)


def record(tree: Rubric) -> Evaluation:
    return tree.evaluate_sync(ACTION, OBSERVATION)


def total(weights: list[float], scores: list[Any], **options: Any) -> Any:
    return WeightedSum([Fixed(score) for score in scores], weights, **options)(ACTION, OBSERVATION)


def bounds(weights: list[float], scores: list[Any], **options: Any) -> Any:
    children = [score if isinstance(score, Rubric) else Fixed(score) for score in scores]
    answer = record(WeightedSum(children, weights, **options))
    assert answer.status == "unscored"
    return answer.metadata["bounds"]


@pytest.mark.parametrize(
    ("weights", "normalize", "scores", "expected"),
    [
        ([0.7, 0.3], None, [0.8, 0.5], 0.71),  # .56 + .15
        ([2, -1], None, [0.5, 0.25], 0.75),  # a penalty; the weights sum to 1
        ([1], None, [-3.0], -3.0),
        ([1, 2, 5], "total", [1.0, 0.5, 0.2], 0.375),  # (1 + 1 + 1) / 8
        ([2, -1], "total", [0.5, 0.25], 0.75),
        ([-1, -3], "total", [1.0, 0.5], 0.625),  # (-1 - 1.5) / -4
        ([10, 5, -15], "positive", [1, 1, 1], 0.0),
        ([10, 5, -15], "positive", [1, 1, 0], 1.0),
        ([10, 5, -15], "positive", [1, 0, 1], -1 / 3),
        ([10, 5, 0], "positive", [1, 0, 1], 2 / 3),
    ],
)
def test_sums_worked_by_hand(weights: list[float], normalize: Any, scores: list[float], expected: float) -> None:
    assert total(weights, scores, normalize=normalize) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("n", [3, 6, 7, 10, 11, 49, 100])
def test_perfect_children_make_a_perfect_sum(n: int) -> None:
    children = [Fixed(1.0) for _ in range(n)]
    assert WeightedSum(children, [1.0] * n, normalize="total")(ACTION, OBSERVATION) == 1.0
    assert WeightedSum(children, [0.1] * n, normalize="positive")(ACTION, OBSERVATION) == 1.0
    assert Gate(WeightedSum(children, [1.0 / n] * n))(ACTION, OBSERVATION) == pytest.approx(1.0, rel=1e-12)


@given(some)
def test_the_sum_is_rounded_once(parts: list[tuple[float, float]]) -> None:
    weights = [weight for weight, _ in parts]
    weights.append(1.0 - math.fsum(weights))
    scores = [score for _, score in parts] + [1.0]
    assume(abs(math.fsum(weights) - 1.0) <= 1e-7)
    exact = sum(Fraction(w) * Fraction(s) for w, s in zip(weights, scores, strict=True))
    assert total(weights, scores) == float(exact)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0])), min_size=1, max_size=12))
def test_sums_of_verdicts_are_rounded_once(parts: list[tuple[float, float]]) -> None:
    weights = [1.0, *(weight for weight, _ in parts)]
    scores = [0.0, *(score for _, score in parts)]
    divisor = math.fsum(weight for weight in weights if weight > 0.0)
    exact = sum(Fraction(w) * Fraction(s) for w, s in zip(weights, scores, strict=True))
    assert total(weights, scores, normalize="positive") == float(exact) / divisor


@pytest.mark.parametrize("weight", [5e-324, 3e-320, -1e-323])
def test_half_of_a_tiny_weight_is_rounded_once(weight: float) -> None:
    assert total([1.0, weight, weight], [0.0, 0.5, 0.5], normalize="positive") == weight


@pytest.mark.parametrize("scores", [[5e-324, 5e-324], [3e-320, 1e-323], [1e-310, -1e-310], [2.5e-308, 5e-324]])
def test_tiny_sums_are_rounded_once(scores: list[float]) -> None:
    exact = sum(Fraction(1, 2) * Fraction(s) for s in scores)
    assert total([0.5, 0.5], scores) == float(exact)


@pytest.mark.parametrize("scores", [[1e308, -1e308, 0.5], [1.7e308, 1.7e308, 0.0], [1e305, 1e-305, -1e305]])
def test_huge_sums_are_rounded_once(scores: list[float]) -> None:
    exact = sum(Fraction(w) * Fraction(s) for w, s in zip([0.5, 0.25, 0.25], scores, strict=True))
    assert total([0.5, 0.25, 0.25], scores) == float(exact)


def test_a_sum_beyond_floats_is_refused() -> None:
    with pytest.raises(InvalidScoreError, match=r"total \(WeightedSum\)"):
        Sequential({"total": WeightedSum([Fixed(1.7e308), Fixed(0.0)], [3.0, -2.0])})(ACTION, OBSERVATION)


@given(some, st.sampled_from(["total", "positive"]))
def test_normalised_sums_are_close_to_the_exact_quotient(parts: list[tuple[float, float]], normalize: Any) -> None:
    weights, scores = [w for w, _ in parts], [s for _, s in parts]
    divisor = math.fsum(w for w in weights if normalize == "total" or w > 0.0)
    assume(divisor != 0.0)
    assume(normalize == "total" or any(w > 0.0 for w in weights))
    exact = sum(Fraction(w) * Fraction(s) for w, s in zip(weights, scores, strict=True)) / sum(
        Fraction(w) for w in weights if normalize == "total" or w > 0.0
    )
    assume(abs(exact) < 1e300)
    assert total(weights, scores, normalize=normalize) == pytest.approx(float(exact), rel=1e-15, abs=1e-300)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([0.5, 0.6], {}, "must sum to 1.0, got 1.1"),
        ([0.5], {}, r"number of rubrics \(2\) must match number of weights \(1\)"),
        ([float("nan"), 1.0], {}, "finite"),
        ([float("inf"), 1.0], {"normalize": "total"}, "finite"),
        (["0.5", 0.5], {}, "finite"),
        ([True, 0.0], {}, "finite"),
        ([None, 1.0], {}, "finite"),
        ([1.0, -1.0], {"normalize": "total"}, "sum to 0"),
        ([-1.0, -1.0], {"normalize": "positive"}, "no weight is positive"),
        ([0.0, 0.0], {"normalize": "positive"}, "no weight is positive"),
        ([0.5, 0.5], {"normalize": "max"}, "normalize"),
        ([0.5, 0.5], {"on_unscored": "zero"}, "on_unscored"),
        ({"rubric_0": 0.5, "rubric_1": 0.5}, {}, "one shape"),
    ],
)
def test_weights_that_are_refused(weights: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        WeightedSum([Fixed(), Fixed()], weights, **options)


def test_an_empty_sum_is_refused() -> None:
    for rubrics, weights in (([], []), ({}, {})):
        for normalize in (None, "total", "positive"):
            with pytest.raises(StructureError):
                WeightedSum(rubrics, weights, normalize=normalize)  # type: ignore[arg-type]


def test_a_mapping_of_weights_follows_the_names_not_the_order() -> None:
    tree = WeightedSum({"a": Fixed(1.0), "b": Fixed(0.0)}, {"b": 0.25, "a": 0.75})
    assert tree(ACTION, OBSERVATION) == 0.75
    assert tree.weights == [0.75, 0.25]
    with pytest.raises(StructureError, match="must match keys"):
        WeightedSum({"a": Fixed()}, {"b": 1.0})


def test_weights_can_be_changed_and_are_checked_again() -> None:
    tree = WeightedSum([Fixed(1.0), Fixed(0.0)], [0.5, 0.5])
    assert tree(ACTION, OBSERVATION) == 0.5
    tree.weights = [0.25, 0.75]
    assert tree(ACTION, OBSERVATION) == 0.25
    for wrong in ([0.5, 0.6], [1.0], [0.5, 0.25, 0.25], [float("nan"), 1.0], {"a": 1.0}):
        with pytest.raises(StructureError):
            tree.weights = wrong  # type: ignore[assignment]
    tree.weights.append(9.0)  # a copy
    assert tree(ACTION, OBSERVATION) == 0.25
    tree.load_state_dict({"weights": [0.75, 0.25]})
    assert tree(ACTION, OBSERVATION) == 0.75
    with pytest.raises(StateError):
        tree.load_state_dict({"weights": [2.0, 2.0]})
    assert tree(ACTION, OBSERVATION) == 0.75


# Bounds: the least and the greatest value an unscored sum could have had


class Wide(Fixed):
    """A leaf whose score lies in [-1, 3]."""

    range = (-1.0, 3.0)


def test_an_outage_of_the_judge_is_no_perfect_score() -> None:
    assert bounds([1, 5, 5, 5, -10], [1.0, None, None, None, None], normalize="positive") == [-0.5625, 1.0]
    options = {"normalize": "positive", "on_unscored": "renormalize"}
    assert total([1, 5, 5, 5, -10], [1.0, None, None, None, 1.0], **options) == 0.375  # (1 · 16 - 10) / 16


@pytest.mark.parametrize(
    ("weights", "scores", "options", "expected"),
    [
        ([0.5, 0.5], [1.0, None], {}, [0.5, 1.0]),
        ([0.75, 0.25], [None, 0.0], {}, [0.0, 0.75]),
        ([0.5, 0.5], [None, None], {}, [0.0, 1.0]),
        ([2, -1], [1.0, None], {}, [1.0, 2.0]),
        ([0.5, 0.5], [0.0, Wide(None)], {}, [-0.5, 1.5]),
        ([2, -1], [0.0, Wide(None)], {}, [-3.0, 1.0]),
        ([0.5, 0.5], [pending(0.25), None], {}, [0.0, 1.0]),  # what is pending is not known yet either
        ([1, 3], [1.0, None], {"normalize": "total"}, [0.25, 1.0]),
        ([-1, -3], [1.0, None], {"normalize": "total"}, [0.25, 1.0]),
        ([0.5, 0.5], [1.0, Gate(Wide(None))], {}, [0.5, 2.0]),
        ([0.5, 0.5], [1.0, Scale(Wide(None), -2.0, 1.0)], {}, [-2.0, 2.0]),
        ([0.5, 0.5], [1.0, Clip(Wide(None), 0.5, 2.5)], {}, [0.75, 1.75]),
        ([0.5, 0.5], [1.0, Invert(Wide(None))], {}, [-0.5, 1.5]),
        ([0.5, 0.5], [1.0, Map(Wide(None), abs, range=(0.0, 5.0))], {}, [0.5, 3.0]),
        ([0.5, 0.5], [1.0, Sequential(Fixed(), Wide(None))], {}, [0.0, 2.0]),
        ([0.5, 0.5], [1.0, AnyOf(Fixed(1.0), Wide(None))], {}, [0.5, 2.0]),
        ([0.5, 0.5], [1.0, Product(Wide(2.0), Wide(None))], {}, [-1.0, 5.0]),
        ([0.5, 0.5], [1.0, Switch(lambda a, o: "w", {"w": Wide(None), "x": Fixed()})], {}, [0.0, 2.0]),
        ([0.5, 0.5], [1.0, WeightedSum([Fixed(1.0), Wide(None)], [0.5, 0.5])], {}, [0.25, 1.5]),
    ],
)
def test_bounds_worked_by_hand(
    weights: list[float], scores: list[Any], options: dict[str, Any], expected: list[float]
) -> None:
    assert bounds(weights, scores, **options) == pytest.approx(expected)


@given(st.lists(st.tuples(st.floats(-5, 5), st.none() | st.floats(-1, 3)), min_size=1, max_size=6), st.data())
def test_bounds_hold_whatever_the_missing_scores_are(
    parts: list[tuple[float, float | None]], data: st.DataObject
) -> None:
    weights = [weight for weight, _ in parts]
    assume(abs(math.fsum(weights)) > 0.1)
    assume(any(score is None for _, score in parts))
    low, high = bounds(weights, [Wide(score) for _, score in parts], normalize="total")
    filled = [data.draw(st.floats(-1, 3)) if score is None else score for _, score in parts]
    assert low - 1e-9 <= total(weights, filled, normalize="total") <= high + 1e-9


def test_an_unscored_sum_says_what_is_missing() -> None:
    tree = WeightedSum({"style": Fixed(1.0), "tests": Fixed(Unscored("no sandbox"))}, {"style": 0.5, "tests": 0.5})
    answer = record(tree)
    assert answer.reason is not None
    assert "tests" in answer.reason
    assert "no sandbox" in answer.reason


# Renormalisation


@pytest.mark.parametrize(
    ("weights", "scores", "normalize", "expected"),
    [
        ([0.5, 0.3, 0.2], [1.0, None, 0.5], None, 6 / 7),  # (.5 + .1) / .7
        ([0.5, 0.5], [None, 0.25], None, 0.25),
        ([2, 1, -2], [None, 0.5, 0.5], None, 0.5),  # (1 · 3) · .5 - 2 · .5
        ([10, 5, -15], [1.0, None, 1.0], "positive", 0.0),  # (10 · 1.5 - 15) / 15
        ([10, 5, -15], [None, 1.0, 1.0], "positive", 0.0),
        ([10, 5, -5], [None, 0.5, 1.0], "positive", 1 / 6),  # (15 · .5 - 5) / 15: the penalty keeps its weight
        ([10, 5, -5], [1.0, 0.0, None], "positive", 2 / 3),
        ([1, 3], [None, 0.5], "total", 0.5),
    ],
)
def test_renormalised_sums_worked_by_hand(weights: Any, scores: Any, normalize: Any, expected: float) -> None:
    assert total(weights, scores, normalize=normalize, on_unscored="renormalize") == pytest.approx(expected)


def test_with_no_positive_weight_scored_it_is_unscored() -> None:
    assert bounds([2, -1], [None, 1.0], on_unscored="renormalize") == [-1.0, 1.0]
    assert bounds([2, -1], [None, None], on_unscored="renormalize") == [-1.0, 2.0]


def test_a_renormalised_sum_says_so() -> None:
    answer = record(WeightedSum({"a": Fixed(1.0), "b": Fixed(None)}, {"a": 0.5, "b": 0.5}, on_unscored="renormalize"))
    assert answer.status == "scored"
    assert "b" in str(answer.reason)


@given(st.lists(st.tuples(st.floats(0.1, 5), st.none() | st.just(0.5)), min_size=1, max_size=6))
def test_renormalising_equal_scores_changes_nothing(parts: list[tuple[float, float | None]]) -> None:
    assume(any(score is not None for _, score in parts))
    weights = [weight for weight, _ in parts]
    scores = [score for _, score in parts]
    answer = total(weights, scores, normalize="total", on_unscored="renormalize")
    assert answer == pytest.approx(0.5, rel=1e-12)


# Gate


@pytest.mark.parametrize(
    ("score", "threshold", "passes"),
    [
        (1.0, 1.0, True),
        (math.nextafter(1.0, 0.0), 1.0, True),
        (1.0 - 9e-10, 1.0, True),
        (1.0 - 1.1e-9, 1.0, False),
        (0.1 + 0.2, 0.3, True),
        (0.3, 0.1 + 0.2, True),
        (1e9 - 0.5, 1e9, True),
        (1e9 - 2.0, 1e9, False),
        (-9e-13, 0.0, True),
        (-1.1e-12, 0.0, False),
        (0.0, 0.0, True),
        (-0.5, -1.0, True),
        (-1.0, -0.5, False),
        (2.0, 1.0, True),
    ],
)
def test_a_threshold_is_met_within_rounding(score: float, threshold: float, passes: bool) -> None:
    assert Gate(Fixed(score), threshold)(ACTION, OBSERVATION) == (score if passes else 0.0)


def test_a_gate_over_ten_tenths_passes() -> None:
    tree = Gate(WeightedSum([Fixed(1.0)] * 10, [0.1] * 10))
    assert tree(ACTION, OBSERVATION) == 1.0
