"""Decisions on the bounds, and comparisons of two judges."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from judges.testing.metrics import (
    Interval,
    MetricError,
    decide,
    first_position_rate,
    kappa_interval,
    mcnemar,
    mean,
    proportion,
    sign_flip,
    wilson,
)

# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most", "outcome"),
    [
        (0.8, 0.9, 0.8, None, "PASS"),  # on the bound
        (0.7999, 0.9, 0.8, None, "INCONCLUSIVE"),
        (0.7, 0.8, 0.8, None, "INCONCLUSIVE"),
        (0.7, 0.7999, 0.8, None, "FAIL"),
        (0.1, 0.2, None, 0.2, "PASS"),
        (0.1, 0.2001, None, 0.2, "INCONCLUSIVE"),
        (0.2001, 0.3, None, 0.2, "FAIL"),
        (0.46, 0.54, 0.45, 0.55, "PASS"),
        (0.46, 0.56, 0.45, 0.55, "INCONCLUSIVE"),
        (0.40, 0.60, 0.45, 0.55, "INCONCLUSIVE"),
        (0.56, 0.60, 0.45, 0.55, "FAIL"),
        (0.40, 0.44, 0.45, 0.55, "FAIL"),
    ],
)
def test_thresholds_lie_on_the_bounds(
    low: float, high: float, at_least: float | None, at_most: float | None, outcome: str
) -> None:
    found = decide(Interval((low + high) / 2, low, high, 100, 100), at_least=at_least, at_most=at_most)
    assert found.outcome == outcome
    assert (found.needed is None) == (outcome != "INCONCLUSIVE")


def test_five_of_five_pass_nothing() -> None:
    found = decide(wilson(5, 5), at_least=0.5)
    assert found.outcome == "INCONCLUSIVE"
    assert str(found) == "INCONCLUSIVE: at least 0.5 was asked, of 10 items or more; there are 5"
    assert found.needed == 10
    assert decide(wilson(5, 5), at_least=0.5, min_n=5).outcome == "PASS"
    assert decide(wilson(0, 5), at_least=0.9).outcome == "INCONCLUSIVE"


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.05, 0.95))
def test_the_n_that_decides_a_proportion(case: tuple[int, int], threshold: float) -> None:
    successes, n = case
    found = decide(wilson(successes, n), at_least=threshold, min_n=1)
    if found.outcome != "INCONCLUSIVE" or found.needed is None or found.needed > 10**6:
        return
    assert found.needed > n
    share = successes / n

    def outcome(size: int) -> str:
        return decide(wilson(share * size, size), at_least=threshold, min_n=1).outcome

    assert outcome(found.needed + 1) in ("PASS", "FAIL")
    assert outcome(found.needed - 1) == "INCONCLUSIVE"


def test_the_n_that_decides_counts_items() -> None:
    clusters = [item for item in range(50) for _ in range(4)]
    found = decide(proportion([item % 10 > 0 for item in clusters], clusters), at_least=0.8)
    assert found.outcome == "INCONCLUSIVE"
    assert found.needed == decide(wilson(45, 50), at_least=0.8).needed


def test_the_n_that_decides_other_figures() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    figure = mean(values[:60] - values[:60].mean() + 0.2)
    needed = decide(figure, at_least=0.0).needed
    assert needed is not None
    assert needed == pytest.approx(60 * (figure.estimate - figure.low) ** 2 / 0.2**2, abs=1)  # type: ignore[operator]
    labels = [True, False] * 20
    perfect = decide(kappa_interval(labels, labels), at_least=0.9)
    assert perfect.needed is not None
    enough = [True, False] * (perfect.needed // 2 + 1)
    assert decide(kappa_interval(enough, enough), at_least=0.9).outcome == "PASS"
    too_few = [True, False] * (perfect.needed // 2 - 1)
    assert decide(kappa_interval(too_few, too_few), at_least=0.9).outcome == "INCONCLUSIVE"


def test_where_no_number_decides() -> None:
    found = decide(wilson(80, 100), at_least=0.8)
    assert (found.outcome, found.needed) == ("INCONCLUSIVE", None)
    assert "the estimate is the threshold" in found.reason
    nothing = decide(mean([1.0] * 20), at_least=0.5)
    assert nothing.outcome == "INCONCLUSIVE"
    assert "all resamples agree" in nothing.reason
    assert decide(mean([1.0, 2.0]), at_least=0.5).needed == 10


@pytest.mark.parametrize("limits", [{}, {"at_least": math.nan}, {"at_least": 0.6, "at_most": 0.5}])
def test_thresholds_that_are_none(limits: dict[str, float]) -> None:
    with pytest.raises(MetricError):
        decide(wilson(5, 10), **limits)


# -- McNemar ----------------------------------------------------------------------------------------------------------


def judged(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[bool], list[bool]]:
    a = [True] * (both + only_a) + [False] * (only_b + neither)
    b = [True] * both + [False] * only_a + [True] * only_b + [False] * neither
    return a, b


def test_mcnemar_by_hand() -> None:
    found = mcnemar(*judged(20, 8, 2, 10))
    assert found.p_value == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    assert (found.a_better, found.b_better) == (8, 2)
    assert found.difference.estimate == pytest.approx(6 / 40)
    assert mcnemar(*judged(20, 5, 5, 0)).p_value == 1.0
    assert mcnemar(*judged(20, 0, 0, 5)).p_value == 1.0
    assert mcnemar(*judged(0, 5200, 4800, 0)).p_value == pytest.approx(6.6e-5, abs=2e-5)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_as_scipy_has_it(only_a: int, only_b: int, both: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = judged(both, only_a, only_b, 1)
    one, other = mcnemar(a, b), mcnemar(b, a)
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert one.p_value == pytest.approx(expected)
    assert other.p_value == one.p_value
    assert (other.a_better, other.b_better) == (one.b_better, one.a_better)
    assert other.difference.estimate == -(one.difference.estimate or 0.0)


def test_items_of_one_judge_alone_are_left_out() -> None:
    a, b = judged(20, 8, 2, 10)
    assert mcnemar([*a, None, True], [*b, True, None]) == mcnemar(a, b)
    nothing = mcnemar([None], [True])
    assert (nothing.p_value, nothing.difference.estimate, nothing.detectable) == (None, None, None)


def test_none_found_and_too_few_read_differently() -> None:
    few, many = (mcnemar(*judged(12 * times, times, times, 6 * times)) for times in (1, 40))
    assert few.p_value == many.p_value == 1.0
    assert few.detectable is not None and many.detectable is not None
    assert few.detectable > 0.2
    assert many.detectable < 0.05


def test_a_difference_of_the_detectable_size_is_found() -> None:
    rng = np.random.default_rng(0)
    size = mcnemar(*judged(70, 15, 15, 0)).detectable
    assert size is not None
    shares = [0.15 + size / 2, 0.15 - size / 2, 0.7]
    found = 0
    for _ in range(300):
        only_a, only_b, both = (int(count) for count in rng.multinomial(100, shares))
        low = mcnemar(*judged(both, only_a, only_b, 0)).difference.low
        found += low is not None and low > 0.0
    assert found / 300 == pytest.approx(0.8, abs=0.08)


def test_mcnemar_finds_nothing_where_there_is_nothing() -> None:
    rng = np.random.default_rng(0)
    false = sum((mcnemar(rng.random(60) < 0.7, rng.random(60) < 0.7).p_value or 0.0) < 0.05 for _ in range(400))
    assert false / 400 <= 0.06


# -- the sign-flip test -----------------------------------------------------------------------------------------------


def test_sign_flip_by_hand() -> None:
    found = sign_flip([3.0, 2.0, 1.0], [0.0, 0.0, 2.0])  # differences 3, 2, -1: of 8 sums, ±4 and ±6 reach 4
    assert found.p_value == 4 / 8
    assert (found.a_better, found.b_better) == (2, 1)
    assert found.difference.estimate == pytest.approx(4 / 3)


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 7))
def test_on_single_answers_it_is_mcnemar(only_a: int, only_b: int, both: int) -> None:
    a, b = judged(both, only_a, only_b, 1)
    assert sign_flip(a, b).p_value == pytest.approx(mcnemar(a, b).p_value)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40), st.integers(0, 3))
def test_sign_flip_is_symmetric(pairs: list[tuple[int, int]], seed: int) -> None:
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    one, other = sign_flip(a, b, n=200, seed=seed), sign_flip(b, a, n=200, seed=seed)
    assert one.p_value == other.p_value
    assert (other.a_better, other.b_better) == (one.b_better, one.a_better)


def test_many_items_are_sampled() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.35, 1, 40), rng.normal(0, 1, 40)
    reference = stats.permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", rng=0).pvalue
    assert sign_flip(a, b).p_value == pytest.approx(reference, abs=0.02)


def test_samples_of_an_item_are_one_difference() -> None:
    a, b = judged(20, 8, 2, 10)
    clusters = [item for item in range(40) for _ in range(5)]
    copied = sign_flip([x for x in a for _ in range(5)], [x for x in b for _ in range(5)], clusters)
    assert copied.p_value == pytest.approx(mcnemar(a, b).p_value)
    assert copied.difference.n == 40
    assert sign_flip([1, None], [0, 1], ["x", "x"]).p_value == 1.0
    assert sign_flip([None], [1]).p_value is None
    with pytest.raises(MetricError, match="assignments"):
        sign_flip([1], [1], n=10)


def test_a_planted_difference_between_judges_is_found() -> None:
    rng = np.random.default_rng(0)
    hard = rng.random(80)
    clusters = np.repeat(np.arange(80), 4)
    a, b, c = (rng.random(320) < share - 0.4 * hard[clusters] for share in (1.0, 0.85, 1.0))
    assert (sign_flip(a, b, clusters).p_value or 1.0) < 0.01
    assert (sign_flip(a, c, clusters).p_value or 0.0) > 0.05


def test_the_figures_of_a_pair_say_what_could_have_been_found() -> None:
    few = first_position_rate([["a", "a"], ["b", "b"]] * 6)
    assert few.estimate == 0.5
    assert (few.detectable() or 0.0) > 0.1
