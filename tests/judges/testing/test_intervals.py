"""Intervals: Wilson's, Bonett and Price's, and the bootstrap."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from judges.testing.metrics import Interval, MetricError, OfSums, bootstrap, mean, paired_difference, proportion, wilson

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None and found.high is not None
    return found.low, found.high


def width(found: Interval) -> float:
    low, high = bounds(found)
    return high - low


# -- Wilson -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_by_the_book(successes: int, n: int, low: float, high: float) -> None:
    assert bounds(wilson(successes, n)) == pytest.approx((low, high), abs=5e-5)


def test_wilson_as_scipy_has_it() -> None:
    stats = pytest.importorskip("scipy.stats")
    for successes, n in [(0, 1), (1, 1), (3, 7), (50, 50), (499, 1000)]:
        reference = stats.binomtest(successes, n).proportion_ci(method="wilson")
        assert bounds(wilson(successes, n)) == pytest.approx((reference.low, reference.high), abs=1e-12)


@given(counts)
def test_wilson_contains_the_estimate(case: tuple[int, int]) -> None:
    successes, n = case
    found = wilson(successes, n)
    low, high = bounds(found)
    assert found.estimate == successes / n
    assert 0.0 <= low <= found.estimate <= high <= 1.0


@given(counts, st.integers(2, 9))
def test_wilson_is_narrower_with_more(case: tuple[int, int], times: int) -> None:
    successes, n = case
    assert width(wilson(successes * times, n * times)) < width(wilson(successes, n))


def test_all_of_a_few_is_not_certain() -> None:
    assert bounds(wilson(5, 5)) == pytest.approx((5 / (5 + 1.959964**2), 1.0))


@pytest.mark.parametrize(("successes", "n", "effective"), [(-1, 5, None), (6, 5, None), (1, 5, 6.0), (1, 5, 0.0)])
def test_counts_that_cannot_be(successes: int, n: int, effective: float | None) -> None:
    with pytest.raises(MetricError):
        wilson(successes, n, effective)


def test_nothing_to_count() -> None:
    found = proportion([None, math.nan])
    assert (found.estimate, found.low, found.high, found.n) == (None, None, None, 0)
    assert str(found) == "not defined (there is nothing to count; n = 0)"


# -- clusters ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=30))
def test_clusters_never_narrow_an_interval(items: list[list[bool]]) -> None:
    values = [value for item in items for value in item]
    clusters = [place for place, item in enumerate(items) for _ in item]
    plain, clustered = proportion(values), proportion(values, clusters)
    assert clustered.estimate == plain.estimate
    assert width(clustered) >= width(plain) - 1e-12
    assert clustered.clusters == len(items)


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_clusters_of_one_change_nothing(values: list[bool]) -> None:
    assert proportion(values, list(range(len(values)))) == proportion(values)


def test_copies_of_an_item_tell_nothing_new() -> None:
    items = [True] * 36 + [False] * 4
    copies = proportion([value for value in items for _ in range(5)], [place for place in range(40) for _ in range(5)])
    assert copies.n == 200
    assert copies.effective_n == pytest.approx(40)
    assert bounds(copies) == pytest.approx(bounds(proportion(items)))


def test_one_failure_tells_no_more_than_none() -> None:
    """Without any failure nothing is known of how failures cluster; with one, as good as nothing."""
    clusters = [place for place in range(50) for _ in range(4)]
    none, one = (proportion([True] * (200 - failures) + [False] * failures, clusters) for failures in (0, 1))
    assert bounds(one)[0] == pytest.approx(bounds(none)[0], abs=0.005)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_coverage_of_clustered_proportions(correlation: float, share: float) -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(40), 3)
    covered = 0
    for _ in range(300):
        chances = np.full(40, share)
        if correlation:
            spread = (1 - correlation) / correlation
            chances = rng.beta(share * spread, (1 - share) * spread, 40)
        low, high = bounds(proportion(rng.random(120) < chances[clusters], clusters))
        covered += low <= share <= high
    assert covered / 300 >= 0.92  # 95 %, less two standard errors of the simulation


# -- paired differences -----------------------------------------------------------------------------------------------


def test_paired_difference_by_hand() -> None:
    # Laplace's shares are 26/102 and 5/102: the difference is 21/102, its variance (31/102 − (21/102)²) / 102.
    half = 1.959964 * math.sqrt((31 / 102 - (21 / 102) ** 2) / 102)
    found = paired_difference(25, 4, 100)
    assert found.estimate == pytest.approx(0.21)
    assert bounds(found) == pytest.approx((21 / 102 - half, 21 / 102 + half))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_paired_difference_is_symmetric(only_a: int, only_b: int, others: int) -> None:
    n = max(1, only_a + only_b + others)
    one, other = paired_difference(only_a, only_b, n), paired_difference(only_b, only_a, n)
    low, high = bounds(one)
    assert one.estimate is not None
    assert -1.0 <= low <= one.estimate <= high <= 1.0
    assert bounds(other) == pytest.approx((-high, -low))


def test_coverage_of_paired_differences() -> None:
    rng = np.random.default_rng(0)
    shares = [0.10, 0.02, 0.88]
    covered = 0
    for _ in range(500):
        only_a, only_b, _ = rng.multinomial(60, shares)
        low, high = bounds(paired_difference(int(only_a), int(only_b), 60))
        covered += low <= 0.08 <= high
    assert covered / 500 >= 0.93


# -- the bootstrap ----------------------------------------------------------------------------------------------------

numbers = st.lists(st.integers(-100, 100).map(lambda n: n / 10), min_size=10, max_size=40)


@given(numbers, st.integers(0, 5))
def test_a_seed_gives_one_interval(values: list[float], seed: int) -> None:
    assert bootstrap(np.mean, values, n=100, seed=seed) == bootstrap(np.mean, values, n=100, seed=seed)


@given(numbers)
def test_sums_and_loops_agree(values: list[float]) -> None:
    table = np.stack([values, np.ones(len(values))], axis=1)
    looped = bootstrap(lambda rows: float(np.mean(rows)), values, n=100)
    at_once = bootstrap(OfSums(lambda sums: sums[:, 0] / sums[:, 1]), table, n=100)
    assert looped.estimate == pytest.approx(at_once.estimate)
    if looped.low is not None:
        assert bounds(looped) == pytest.approx(bounds(at_once), abs=1e-9)
    assert mean(values).estimate == pytest.approx(looped.estimate, abs=1e-12)


def test_as_scipy_has_it() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).exponential(size=80)
    reference = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=0).confidence_interval
    assert bounds(mean(values)) == pytest.approx((reference.low, reference.high), abs=0.02)


def test_arrays_and_lists_and_any_items() -> None:
    rows = [{"right": place % 3 > 0} for place in range(30)]
    assert bootstrap(lambda items: sum(item["right"] for item in items) / len(items), rows).estimate == pytest.approx(
        2 / 3
    )
    table = np.arange(60.0).reshape(30, 2)
    assert bootstrap(lambda items: items[:, 0].mean(), table).estimate == 29.0


def test_whole_clusters_are_resampled() -> None:
    values = [float(item % 2) for item in range(40) for _ in range(5)]
    clusters = [item for item in range(40) for _ in range(5)]
    clustered, single = bootstrap(np.mean, values, clusters), bootstrap(np.mean, values[::5])
    assert bounds(clustered) == bounds(single)
    assert (clustered.n, clustered.clusters) == (200, 40)
    assert width(bootstrap(np.mean, values)) < width(clustered) / 2
    assert bounds(bootstrap(OfSums(lambda sums: sums[:, 0] / 200), values, clusters))[0] == pytest.approx(
        bounds(clustered)[0]
    )


@pytest.mark.parametrize(("items", "clusters"), [([1.0] * 9, None), ([1.0] * 40, [1, 2, 3, 4] * 10), ([], None)])
def test_few_items_are_refused(items: list[float], clusters: list[int] | None) -> None:
    with pytest.raises(MetricError, match="a bootstrap needs 10"):
        bootstrap(np.mean, items, clusters)


def test_a_figure_of_few_items_has_no_bounds() -> None:
    found = mean([1.0, 2.0, 4.5])
    assert (found.estimate, found.low, found.high) == (2.5, None, None)
    assert str(found) == "2.500 (no interval: there are 3 independent items, and 10 are needed; n = 3)"


def test_all_resamples_alike_say_nothing() -> None:
    found = bootstrap(np.mean, [1.0] * 12)
    assert (found.estimate, found.low, found.high) == (1.0, None, None)
    assert found.why is not None and "all resamples agree" in found.why


def test_degenerate_resamples_are_counted() -> None:
    def rate(rows: list[tuple[int, int]]) -> float | None:
        return sum(hit for hit, _ in rows) / sum(n for _, n in rows)

    rare = [(1, 1)] + [(0, 1)] * 2 + [(0, 0)] * 27
    found = bootstrap(rate, rare)  # a resample has none of three of 30 with a chance of .9^30 = .042
    assert 50 <= found.degenerate <= 120
    assert found.low == 0.0
    rarer = bootstrap(rate, rare[:1] + rare[3:])
    assert (rarer.estimate, rarer.low) == (1.0, None)
    assert rarer.degenerate > 600
    assert bootstrap(lambda rows: None, rare).estimate is None
    assert bootstrap(lambda rows: math.nan, rare).why == "it is not defined for these items"


def test_the_bootstrap_alone_would_pass_judges_on_the_threshold() -> None:
    """Of judges that are right with .95, a percentile bootstrap of 60 items puts far more than 2.5 % above .95."""
    rng = np.random.default_rng(0)
    wilsons = boots = 0
    for _ in range(200):
        right = (rng.random(60) < 0.95).astype(float)
        wilsons += bounds(proportion(right))[0] > 0.95
        found = bootstrap(OfSums(lambda sums: sums[:, 0] / 60), right, n=500)
        boots += found.low is None or found.low >= 0.95
    assert wilsons == 0
    assert boots / 200 > 0.1


def test_coverage_of_the_bootstrap() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        low, high = bounds(mean(rng.normal(3.0, 2.0, 60)))
        covered += low <= 3.0 <= high
    assert 0.915 <= covered / 300 <= 0.99


@pytest.mark.parametrize("n", [0, 99, True, 2.5])
def test_how_many_resamples(n: Any) -> None:
    with pytest.raises(MetricError, match="whole number from 100"):
        bootstrap(np.mean, [1.0, 2.0] * 10, n=n)


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(MetricError, match="neither yes nor no"):
        proportion([1, 0, 2])
    with pytest.raises(MetricError, match="not the text"):
        proportion("yes")
    with pytest.raises(MetricError, match="3 observations, 2 clusters"):
        proportion([1, 0, 1], ["a", "b"])
    with pytest.raises(MetricError, match="belongs to an item"):
        proportion([1, 0], ["a", None])
    with pytest.raises(MetricError, match="no finite number"):
        mean([1.0, math.inf])
    for value in ("1", 10**400, [1.0]):
        with pytest.raises(MetricError, match="no finite number"):
            mean([value])
    assert mean([np.float32(0.5), np.int8(1), True]).estimate == pytest.approx(2.5 / 3)


# -- the smallest detectable difference -------------------------------------------------------------------------------


def test_the_detectable_difference_by_hand() -> None:
    assert Interval(0.5, 0.4, 0.6).detectable() == pytest.approx(0.1 * (1.959964 + 0.841621) / 1.959964, abs=1e-6)
    assert Interval(0.5, 0.4, 0.6).detectable(0.5) == pytest.approx(0.1)
    assert Interval(0.5, why="too few").detectable() is None
    with pytest.raises(MetricError, match="power"):
        Interval(0.5, 0.4, 0.6).detectable(1.0)


def test_a_difference_of_that_size_is_found_with_that_power() -> None:
    rng = np.random.default_rng(0)
    size = mean(rng.normal(size=2000)[:100]).detectable()
    assert size is not None
    found = sum(bounds(mean(rng.normal(size, 1.0, 100)))[0] > 0.0 for _ in range(200))
    assert found / 200 == pytest.approx(0.8, abs=0.1)


def test_as_json_values() -> None:
    assert wilson(1, 2).to_dict() == {
        "estimate": 0.5,
        "low": pytest.approx(0.0945, abs=1e-4),
        "high": pytest.approx(0.9055, abs=1e-4),
        "n": 2,
        "clusters": 2,
        "method": "wilson",
        "effective_n": 2.0,
        "degenerate": 0,
        "why": None,
    }
