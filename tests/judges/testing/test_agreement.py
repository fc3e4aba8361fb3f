"""Agreement: Cohen's kappa, Krippendorff's alpha, rank correlations."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from judges.testing.metrics import (
    Interval,
    MetricError,
    alpha_interval,
    bootstrap,
    cohen_kappa,
    kappa_interval,
    kendall_tau_b,
    krippendorff_alpha,
    mean_absolute_error,
    spearman,
    wilson,
)

labels = st.integers(1, 5)
pairs = st.lists(st.tuples(labels, labels), min_size=2, max_size=40)
WEIGHTS: list[Any] = [None, "linear", "quadratic"]
LEVELS: list[Any] = ["nominal", "ordinal", "interval", "ratio"]

# -- Cohen's kappa ----------------------------------------------------------------------------------------------------


def expand(table: list[list[int]]) -> tuple[list[int], list[int]]:
    cells = [(i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    return [i for i, _ in cells], [j for _, j in cells]


def test_kappa_by_hand() -> None:
    # 20 and 15 of 50 agree: .7; by chance .5 · .6 + .5 · .4 = .5.
    assert cohen_kappa(*expand([[20, 5], [10, 15]])) == pytest.approx(0.4)


def test_weighted_kappa_by_hand() -> None:
    a, b = [1, 1, 3, 3], [1, 3, 3, 3]
    # Squared distances: observed 4 / 4 = 1. Of the 16 pairs by chance 2 · 3 + 2 · 1 are 4: 32 / 16 = 2.
    assert cohen_kappa(a, b, "quadratic", [1, 2, 3]) == pytest.approx(0.5)
    # One outlier of two steps among disagreements of one.
    a, b = [1, 2, 3, 1], [1, 2, 3, 3]
    # Linear: observed 2 / 4. By chance: 1 meets 1, 2, 3, 3: 0 1 2 2, twice; 2: 1 0 1 1; 3: 2 1 0 0. 16 / 16.
    assert cohen_kappa(a, b, "linear") == pytest.approx(0.5)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_kappa_as_scikit_learn_has_it(weights: Any) -> None:
    reference = pytest.importorskip("sklearn.metrics").cohen_kappa_score
    rng = np.random.default_rng(0)
    for scale in ([1, 2, 3, 4, 5], [0, 3, 7], list(range(10))):
        a = rng.choice(scale, 60)
        b = np.where(rng.random(60) < 0.6, a, rng.choice(scale, 60))
        expected = reference(a, b, weights=weights, labels=scale)
        assert cohen_kappa(a, b, weights, scale) == pytest.approx(expected)
        assert kappa_interval(a.tolist(), b.tolist(), weights, scale).estimate == pytest.approx(expected)


@pytest.mark.parametrize("weights", WEIGHTS)
@given(pairs=pairs)
def test_laws_of_kappa(weights: Any, pairs: list[tuple[int, int]]) -> None:
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    kappa = cohen_kappa(a, b, weights)
    assert cohen_kappa(b, a, weights) == pytest.approx(kappa, nan_ok=True)
    assert cohen_kappa(a, b, weights, [1, 2, 3, 4, 5]) == pytest.approx(kappa, nan_ok=True)
    assert cohen_kappa([6 - label for label in a], [6 - label for label in b], weights) == pytest.approx(
        kappa, nan_ok=True
    )
    assert math.isnan(kappa) or kappa <= 1.0 + 1e-12
    alone = cohen_kappa(a, a, weights)
    assert math.isnan(alone) if len(set(a)) == 1 else alone == 1.0


def test_kappa_takes_the_whole_scale() -> None:
    a, b = [0.0, 0.5, 1.0, 1.0], [0.0, 1.0, 1.0, 0.5]
    for far in (a, [0, 10**9, 1, 1]):
        with pytest.raises(MetricError, match="all of its labels"):
            cohen_kappa(far, b, "linear")
    assert cohen_kappa(a, b, "linear", [0.0, 0.25, 0.5, 0.75, 1.0]) == cohen_kappa([0, 2, 4, 4], [0, 4, 4, 2], "linear")
    assert cohen_kappa([1, 3, 3], [1, 3, 1], "linear") == cohen_kappa([1, 3, 3], [1, 3, 1], "linear", range(1, 6))
    with pytest.raises(MetricError, match="entry 1 is 6, which is not among the labels"):
        cohen_kappa([1, 6], [1, 2], labels=[1, 2, 3])
    with pytest.raises(MetricError, match="distinct"):
        cohen_kappa([1], [1], labels=[1, 1])
    with pytest.raises(MetricError, match="'linear', 'quadratic'"):
        cohen_kappa([1], [1], "cubic")  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="a label is a text"):
        cohen_kappa([["x"]], [["x"]])
    with pytest.raises(MetricError, match="a has 1, b has 2"):
        cohen_kappa([1], [1, 2])


def test_what_one_rater_left_out_is_left_out() -> None:
    a, b = expand([[20, 5], [10, 15]])
    assert cohen_kappa([*a, 0, None, math.nan], [*b, None, 1, 1]) == pytest.approx(0.4)
    assert kappa_interval([*a, 0, None], [*b, None, 1]).n == 50
    assert cohen_kappa([*a, 0], [*b, "none"]) < 0.4
    assert math.isnan(cohen_kappa([], []))
    assert math.isnan(cohen_kappa([None], [1]))


def test_kappa_without_disagreement_is_not_certain() -> None:
    a = [True, False] * 20
    found = kappa_interval(a, a)
    # Wilson's upper bound on the share of 0 of 40 is z² / (40 + z²) = .0876; by chance half would disagree.
    assert (found.estimate, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - 0.0876 / 0.5, abs=1e-3)
    clustered = kappa_interval(a, a, clusters=[place // 2 for place in range(40)])
    assert clustered.low is not None and found.low is not None and clustered.low < found.low
    assert kappa_interval([True] * 40, [True] * 40).estimate is None


def test_an_error_more_makes_no_judge_surer() -> None:
    gold = [True, False] * 20
    lows = [kappa_interval(gold, [not label for label in gold[:errors]] + gold[errors:]).low for errors in range(6)]
    assert lows == sorted(lows, reverse=True)  # type: ignore[type-var]
    ratings = [alpha_interval([gold, [not label for label in gold[:errors]] + gold[errors:]]) for errors in range(6)]
    assert [found.low for found in ratings] == sorted((found.low for found in ratings), reverse=True)  # type: ignore[type-var]
    assert [found.method for found in ratings][:2] == ["disagreement"] * 2


def test_the_interval_of_kappa() -> None:
    def statistic(items: list[tuple[int, int]]) -> float:
        return cohen_kappa([a for a, _ in items], [b for _, b in items])

    a, b = expand([[20, 5], [10, 15]])
    looped = bootstrap(statistic, list(zip(a, b, strict=True)))
    found = kappa_interval(a, b)
    assert found.high == pytest.approx(looped.high, abs=1e-9)
    assert found.low == pytest.approx(0.4 - 0.6 * (wilson(15, 50).high / 0.3 - 1.0))  # type: ignore[operator]
    assert found.low < looped.low < found.low + 0.03  # type: ignore[operator]
    # Cohen's large-sample error is √(.7 · .3 / (50 · .25)) = .13.
    assert (found.low, found.high) == pytest.approx((0.4 - 1.96 * 0.13, 0.4 + 1.96 * 0.13), abs=0.04)


# -- Krippendorff's alpha ---------------------------------------------------------------------------------------------

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", part C: 4 observers, 12 units.
_ = None
PAPER = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_alpha_of_the_paper(level: Any, alpha: float) -> None:
    assert krippendorff_alpha(PAPER, level) == pytest.approx(alpha, abs=5e-4)
    assert alpha_interval(PAPER, level).estimate == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("level", LEVELS)
@given(ratings=st.lists(st.lists(st.none() | labels, min_size=6, max_size=6), min_size=2, max_size=4))
def test_alpha_as_krippendorff_has_it(level: Any, ratings: list[list[int | None]]) -> None:
    reference = pytest.importorskip("krippendorff").alpha
    values = np.array(ratings, dtype=float)
    twice = values[:, (~np.isnan(values)).sum(axis=0) >= 2]
    if len(set(twice[~np.isnan(twice)])) < 2:
        assert math.isnan(krippendorff_alpha(ratings, level))
        return
    expected = reference(reliability_data=values, level_of_measurement=level)
    assert krippendorff_alpha(ratings, level) == pytest.approx(expected)
    assert krippendorff_alpha(values, level) == pytest.approx(expected)


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data())
def test_laws_of_alpha(level: Any, data: st.DataObject) -> None:
    ratings = data.draw(st.lists(st.lists(st.none() | labels, min_size=5, max_size=5), min_size=2, max_size=4))
    alpha = krippendorff_alpha(ratings, level)
    assert krippendorff_alpha(data.draw(st.permutations(ratings)), level) == pytest.approx(alpha, nan_ok=True)
    order = data.draw(st.permutations(range(5)))
    assert krippendorff_alpha([[rater[i] for i in order] for rater in ratings], level) == pytest.approx(
        alpha, nan_ok=True
    )
    alone = [each for each in ratings[0] if each is not None]
    assume(len(set(alone)) > 1)
    assert krippendorff_alpha([alone, alone], level) == pytest.approx(1.0)


def test_alpha_of_far_values() -> None:
    """Large values that lie close together lose nothing of their differences."""
    assert krippendorff_alpha(np.array([[1.0, 2, 3, 4], [1, 2, 4, 4]]) + 1e9, "interval") == pytest.approx(
        krippendorff_alpha([[1, 2, 3, 4], [1, 2, 4, 4]], "interval")
    )


def test_the_interval_of_alpha() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 80)
    raters = [np.where(rng.random(80) < 0.7, truth, rng.integers(1, 6, 80)) for _ in range(3)]
    for level in LEVELS:
        looped = bootstrap(
            lambda items, level=level: krippendorff_alpha(items.T, level), np.stack(raters, axis=1), n=300
        )
        found = alpha_interval(raters, level)
        assert (found.low, found.high) == pytest.approx((looped.low, looped.high), abs=0.04)
    perfect = alpha_interval([[1, 2, 3] * 10] * 3)
    assert (perfect.estimate, perfect.high) == (1.0, 1.0)
    assert perfect.low is not None and 0.7 < perfect.low < 0.9


def test_ratings_that_are_none() -> None:
    assert math.isnan(krippendorff_alpha([[1, None], [None, 2]]))
    assert math.isnan(krippendorff_alpha([]))
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    assert alpha_interval([[1, None], [None, 2]]).estimate is None
    assert krippendorff_alpha([["x", "y"], ["x", "y"]]) == 1.0
    with pytest.raises(MetricError, match="the raters have 2, 1"):
        krippendorff_alpha([[1, 2], [1]])
    with pytest.raises(MetricError, match="no finite number"):
        krippendorff_alpha([["x"], ["y"]], "ordinal")
    with pytest.raises(MetricError, match="not negative"):
        krippendorff_alpha([[-1, 2], [1, 2]], "ratio")
    with pytest.raises(MetricError, match="level is one of"):
        krippendorff_alpha([[1], [1]], "binary")  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="table"):
        krippendorff_alpha([1, 2])  # type: ignore[list-item]


# -- correlation and error --------------------------------------------------------------------------------------------


@given(pairs)
def test_correlations_as_scipy_has_them(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert spearman(a, b).estimate is None
        assert kendall_tau_b(a, b).estimate is None
        return
    assert spearman(a, b).estimate == pytest.approx(stats.spearmanr(a, b).statistic)
    assert kendall_tau_b(a, b).estimate == pytest.approx(stats.kendalltau(a, b).statistic)
    assert spearman(b, a).estimate == pytest.approx(spearman(a, b).estimate)


@pytest.mark.parametrize(("statistic", "reference"), [(spearman, "spearmanr"), (kendall_tau_b, "kendalltau")])
@pytest.mark.parametrize("levels", [5, None])
def test_intervals_of_correlations(statistic: Any, reference: str, levels: int | None) -> None:
    """What comes from weights is what comes from items drawn one by one."""
    of = getattr(pytest.importorskip("scipy.stats"), reference)
    rng = np.random.default_rng(0)
    a = rng.normal(size=80)
    b = a + rng.normal(size=80)
    if levels:
        a, b = np.round(a), np.round(b)
    found: Interval = statistic(a, b, seed=3)
    looped = bootstrap(lambda rows: of(rows[:, 0], rows[:, 1]).statistic, np.stack([a, b], axis=1), n=2000, seed=3)
    assert (found.low, found.high) == pytest.approx((looped.low, looped.high), abs=1e-9)
    clustered: Interval = statistic(np.repeat(a, 3), np.repeat(b, 3), clusters=np.repeat(np.arange(80), 3), seed=3)
    assert (clustered.n, clustered.clusters) == (240, 80)
    assert (clustered.low, clustered.high) == pytest.approx((found.low, found.high), abs=1e-6)


def test_correlations_by_hand() -> None:
    a, b = [1, 2, 3, 4, 5], [2, 1, 4, 3, 5]
    assert spearman(a, b).estimate == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert kendall_tau_b(a, b).estimate == pytest.approx((8 - 2) / 10)
    assert mean_absolute_error(a, b).estimate == pytest.approx(0.8)
    assert mean_absolute_error([1, None, True], [2, 5, False]).n == 2
    assert mean_absolute_error([None], [1]).estimate is None
    assert spearman([None, 1], [1, None]).estimate is None
    assert kendall_tau_b([], []).estimate is None
    with pytest.raises(MetricError, match="a, entry 0: 'x' is no finite number"):
        spearman(["x"], [1])
