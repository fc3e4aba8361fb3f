"""Figures with their uncertainty: `Interval`, the intervals of Wilson for proportions, the bootstrap for the rest.

Intervals are two-sided, of 95 %. What is independent of one another are the *items* of a golden set, not the verdicts:
two orders or five samples of one item tell less than as many items. So a function that may be given several
observations of an item takes `clusters`, the item of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from judges.testing.columns import (
    Clusters,
    Column,
    MetricError,
    aligned,
    chosen,
    cluster_codes,
    missing,
    numbers,
    outcomes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from judges.testing.columns import Codes, Floats

Z = NormalDist().inv_cdf(0.975)
MIN_CLUSTERS = 10  # fewer resample into too few different samples for a quantile to mean anything
_BLOCK = 2**18  # weights worked on at once: about what a processor keeps at hand
_UNDEFINED = 0.05  # the share of undefined resamples that could hide both bounds

Method = Literal["wilson", "bonett-price", "bootstrap", "disagreement", "wald"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure: an estimate with its 95 % interval, and how much it rests on.

    Attributes:
        estimate: None where the figure is not defined, for instance the recall of a label that does not occur.
        low, high: the bounds; None where there are none (too few items, or resamples that all agree).
        n: the observations that count.
        clusters: the independent items they belong to; as many as `n` where each is one by itself.
        method: how the bounds were found.
        effective_n: of a proportion: the independent observations that would tell as much.
        degenerate: of a bootstrap: the resamples in which the statistic was not defined.
        why: why there is no estimate or there are no bounds; else None.
    """

    estimate: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    method: Method = "bootstrap"
    effective_n: float | None = None
    degenerate: int = 0
    why: str | None = None

    def detectable(self, power: float = 0.8) -> float | None:
        """The smallest difference from a reference value that as many such items find with this power.

        If the true difference is this large, the interval excludes the reference in that share of repetitions. Where no
        bias was found and this is large, there were too few items to find one. None where there are no bounds.

        Source: Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences": (z of the level + z of the power)
        · standard error, with the standard error that the width of the interval implies.

        Raises:
            MetricError: the power is not between 0.5 and 1.
        """
        if not 0.5 <= power < 1.0:
            raise MetricError(f"power is a probability from 0.5 to below 1, not {power!r}")
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2.0 * (1.0 + NormalDist().inv_cdf(power) / Z)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        items = f"n = {self.n}" if self.clusters == self.n else f"n = {self.n} of {self.clusters} items"
        if self.estimate is None:
            return f"not defined ({self.why}; {items})"
        if self.low is None or self.high is None:
            return f"{self.estimate:.3f} (no interval: {self.why}; {items})"
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}] ({items})"


# -- proportions ------------------------------------------------------------------------------------------------------


def wilson(successes: float, n: int, effective_n: float | None = None) -> Interval:
    """A proportion with Wilson's score interval.

    Unlike that of the bootstrap it does not shrink to a point where all or none succeed.

    Args:
        successes: from 0 to n.
        n: observations; with 0 there is no estimate.
        effective_n: the independent observations that would tell as much; by default n.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22; with an
    effective n: Franco et al. 2019, "Comparative Study of Confidence Intervals for Proportions in Complex Sample
    Surveys", J. Survey Statistics and Methodology 7.

    Raises:
        MetricError: the counts cannot be.
    """
    if n < 0 or not 0 <= successes <= n:
        raise MetricError(f"successes are from 0 to n; got {successes!r} of {n!r}")
    if n == 0:
        return Interval(None, method="wilson", why="there is nothing to count")
    size = float(n if effective_n is None else effective_n)
    if not 0.0 < size <= n:
        raise MetricError(f"effective_n is from above 0 to n = {n}, not {effective_n!r}")
    share = successes / n
    centre = (share + Z**2 / (2.0 * size)) / (1.0 + Z**2 / size)
    half = Z * (share * (1.0 - share) / size + Z**2 / (4.0 * size**2)) ** 0.5 / (1.0 + Z**2 / size)
    # The bounds of 0 and of n of n are 0 and 1 but for rounding.
    low, high = min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)
    return Interval(share, low, high, n, n, "wilson", size)


def proportion(values: Column, clusters: Clusters = None) -> Interval:
    """The share of yes, with Wilson's interval on the effective n.

    Args:
        values: yes or no (True, False, 1, 0), one an observation; None and NaN are left out.
        clusters: the item of each observation. The interval is never narrower than without them.

    Raises:
        MetricError: an entry is neither yes nor no, or there is not one cluster an observation.
    """
    (listed,) = aligned(values=values)
    column = outcomes(listed, "values")
    kept = ~np.isnan(column)
    column, codes = column[kept], cluster_codes(chosen(clusters, kept), int(kept.sum()))
    n = len(column)
    if n == 0 or codes is None:
        return wilson(float(column.sum()), n)
    found = wilson(float(column.sum()), n, effective_n(column, codes))
    return Interval(found.estimate, found.low, found.high, n, int(codes.max()) + 1, "wilson", found.effective_n)


def effective_n(values: Floats, codes: Codes) -> float:
    """How many independent observations tell as much as these clustered ones: n / max(1, design effect).

    The design effect is the variance of the clusters' sums over what it would be without clusters (Kish 1965, "Survey
    Sampling", 8.2). Where nearly all succeed it cannot be estimated, and one failure would seem to tell more than none;
    so a cluster that succeeds as a whole and one that fails are counted in, after the manner of Agresti and Coull 1998
    ("Approximate Is Better than 'Exact' for Interval Estimation of Binomial Proportions", Am. Statistician 52).
    """
    n = len(values)
    sizes, sums = np.bincount(codes), np.bincount(codes, weights=values)
    size = n / len(sizes)
    share = (sums.sum() + size) / (n + 2.0 * size)
    between = ((sums - sizes * share) ** 2).sum() + size**2 * ((1.0 - share) ** 2 + share**2)
    effect = between / ((n + 2.0 * size) * share * (1.0 - share))
    return n / max(1.0, float(effect))


def paired_difference(only_a: int, only_b: int, n: int) -> Interval:
    """The difference of two proportions over the same items, with the adjusted Wald interval of Bonett and Price.

    Args:
        only_a, only_b: the items on which one succeeds and the other does not; at most n together.
        n: items; with 0 there is no estimate.

    Returns:
        (only_a − only_b) / n, in [-1, 1]. Like that of Wilson, the interval does not shrink to a point.

    Source: Bonett and Price 2012, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on
    Paired Data", J. Educational and Behavioral Statistics 37.

    Raises:
        MetricError: the counts cannot be.
    """
    if min(only_a, only_b) < 0 or only_a + only_b > n:
        raise MetricError(f"of n items some are one's alone, and some the other's; got {only_a}, {only_b} of {n}")
    if n == 0:
        return Interval(None, method="bonett-price", why="there is nothing to count")
    estimate = (only_a - only_b) / n
    first, second = (only_a + 1.0) / (n + 2.0), (only_b + 1.0) / (n + 2.0)
    half = Z * ((first + second - (first - second) ** 2) / (n + 2.0)) ** 0.5
    low, high = max(-1.0, first - second - half), min(1.0, first - second + half)
    return Interval(estimate, min(low, estimate), max(high, estimate), n, n, "bonett-price")


# -- the bootstrap ----------------------------------------------------------------------------------------------------

Weighted = Callable[["Floats"], "Floats"]
"""A statistic of its observations under weights, shape (resamples, observations): one value a resample, NaN where it is
not defined. A resample is how often each observation was drawn."""


class OfSums:
    """A statistic that is a function of sums over the items, so that all resamples are one product.

    `bootstrap(OfSums(lambda sums: sums[:, 0] / sums[:, 1]), table)` is the interval of a ratio.

    Args:
        function: takes sums of the columns of a table, shape (resamples, columns), and gives shape (resamples,).
    """

    def __init__(self, function: Callable[[Floats], Floats]) -> None:
        self.function = function

    def __call__(self, items: Column) -> float:
        return float(self.over(items)(np.ones((1, len(items))))[0])

    def over(self, items: Column) -> Weighted:
        """The statistic of a table, shape (items, columns), or of one column."""
        table = np.asarray(items, dtype=np.float64)
        columns = table if table.ndim > 1 else table[:, None]
        return lambda weights: self.function(weights @ columns)


def bootstrap(
    statistic: OfSums | Callable[[Any], float | None],
    items: Column,
    clusters: Clusters = None,
    n: int = 2000,
    seed: int = 0,
) -> Interval:
    """A statistic with the percentile interval of a bootstrap over items.

    Args:
        statistic: takes items, and gives a number; None, NaN and a division by zero mean that it is not defined, which
            is counted as `degenerate`. An `OfSums` is computed for all resamples at once.
        items: what is resampled: a list, or an array whose first axis is the items. For an `OfSums`, a table of
            numbers.
        clusters: the item that each entry belongs to; whole clusters are then resampled.
        n: resamples.
        seed: the same seed gives the same interval.

    Returns:
        The interval, without bounds where more than 5 % of the resamples are degenerate (they could hide both bounds),
        or where all agree (a judge that made no error in 12 items is not free of errors).

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13; over clusters: Davison and
    Hinkley 1997, "Bootstrap Methods and their Application", 3.8.

    Raises:
        MetricError: there are fewer than ten items or clusters, or not one cluster an entry.
    """
    size = len(items)
    codes = cluster_codes(clusters, size)
    count = size if codes is None else int(codes.max()) + 1
    if count < MIN_CLUSTERS:
        raise MetricError(f"{_few(count)}: a bootstrap needs {MIN_CLUSTERS}; gather more items")
    over = statistic.over(items) if isinstance(statistic, OfSums) else _one_by_one(statistic, items)
    return resampled(over, size, clusters, n=n, seed=seed)


def resampled(over: Weighted, size: int, clusters: Clusters = None, *, n: int = 2000, seed: int = 0) -> Interval:
    """What `bootstrap` does, for a statistic under weights. With too few items there is an estimate without bounds."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 100:
        raise MetricError(f"n, the number of resamples, is a whole number from 100, not {n!r}")
    codes = cluster_codes(clusters, size)
    count = size if codes is None else int(codes.max()) + 1
    if size == 0:
        return Interval(None, why="there is nothing to count")
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = float(over(np.ones((1, size)))[0])
        if not np.isfinite(estimate):
            return Interval(None, n=size, clusters=count, why="it is not defined for these items")
        if count < MIN_CLUSTERS:
            return Interval(estimate, n=size, clusters=count, why=f"{_few(count)}, and {MIN_CLUSTERS} are needed")
        drawn = _drawn(count, n, seed)
        block = max(1, _BLOCK // size)
        values = np.empty(n)
        for start in range(0, n, block):
            weights = drawn[start : start + block].astype(np.float64)
            values[start : start + block] = over(weights if codes is None else np.take(weights, codes, axis=1))
    defined = values[np.isfinite(values)]
    degenerate = n - len(defined)
    if degenerate > _UNDEFINED * n:
        why = f"it is not defined in {degenerate} of {n} resamples"
        return Interval(estimate, n=size, clusters=count, degenerate=degenerate, why=why)
    low, high = (float(bound) for bound in np.quantile(defined, (0.025, 0.975)))
    if np.ptp(defined) <= 1e-12 * max(1.0, abs(estimate)):
        why = "all resamples agree, which says nothing of the items that were not seen"
        return Interval(estimate, n=size, clusters=count, degenerate=degenerate, why=why)
    return Interval(estimate, low, high, size, count, "bootstrap", degenerate=degenerate)


def mean(values: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """The mean of numbers, with the percentile interval of a bootstrap over items.

    Args:
        values: one an observation; None and NaN are left out.
        clusters: the item of each observation.
        seed: of the bootstrap.

    Raises:
        MetricError: an entry is no number, or there is not one cluster an observation.
    """
    (listed,) = aligned(values=values)
    column = numbers(listed, "values")
    kept = ~np.isnan(column)
    rest = column[kept]
    shift = rest.mean() if len(rest) else 0.0  # sums of what is left lose no digits
    table = np.stack([rest - shift, np.ones(len(rest))], axis=1)
    over = OfSums(lambda sums: shift + sums[:, 0] / sums[:, 1]).over(table)
    return resampled(over, len(rest), chosen(clusters, kept), seed=seed)


def number(over: Weighted, size: int) -> float:
    """A statistic of all its observations; NaN where it is not defined, or there are none."""
    if size == 0:
        return float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(over(np.ones((1, size)))[0])


def no_surer(found: Interval, apart: Interval, chance: float) -> Interval:
    """The interval of an agreement, whose lower bound is no surer than the share of items that disagree.

    A bootstrap draws from the disagreements it saw: of few it is too sure, of none it is certain.

    Args:
        found: the agreement κ, with the interval of a bootstrap.
        apart: the share of items that disagree, with its interval: the lower bound is at most
            1 − (1 − κ) · high / estimate.
        chance: the share that would disagree by chance: where none do, the bound is 1 − high / chance.
    """
    if found.estimate is None or apart.estimate is None or apart.high is None:
        return found
    if apart.estimate == 0.0:
        low = 1.0 - apart.high / chance
        effective = apart.effective_n
        return replace(found, low=low, high=1.0, method="disagreement", effective_n=effective, why=None)
    low = 1.0 - (1.0 - found.estimate) * apart.high / apart.estimate
    return found if found.low is None or found.low <= low else replace(found, low=low, method="disagreement")


def _few(count: int) -> str:
    return f"there {'is' if count == 1 else 'are'} {count or 'no'} independent item{'' if count == 1 else 's'}"


@lru_cache(maxsize=1)  # the figures of one report are over the same items
def _drawn(count: int, n: int, seed: int) -> NDArray[np.uint8]:
    """How often each of `count` clusters is drawn in each resample, shape (n, count); more than 255 times is never."""
    rng = np.random.default_rng(seed)
    drawn = np.empty((n, count), dtype=np.uint8)
    for row in range(n):
        drawn[row] = np.bincount(rng.integers(0, count, count), minlength=count)
    drawn.setflags(write=False)
    return drawn


def _one_by_one(statistic: Callable[[Any], float | None], items: Column) -> Weighted:

    def value(weights: Floats) -> float:
        rows = np.repeat(np.arange(len(items)), weights.astype(np.intp))
        try:
            found = statistic(items[rows] if isinstance(items, np.ndarray) else [items[int(row)] for row in rows])
        except ZeroDivisionError:
            return np.nan
        return np.nan if missing(found) else float(found)  # type: ignore[arg-type]

    return lambda weights: np.array([value(row) for row in weights])
