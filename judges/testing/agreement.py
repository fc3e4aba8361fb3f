"""Agreement of two raters on a scale, and of scores with scores.

`cohen_kappa` gives a number, NaN where it is not defined; the other functions give a figure with its interval. Each
statistic is written once, for items that have weights, so a number, and all resamples of a bootstrap at once, come from
the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from judges.testing.columns import Clusters, Column, MetricError, aligned, chosen, distinct, encoded, numbers
from judges.testing.intervals import (
    Interval,
    OfSums,
    Weighted,
    mean,
    no_surer,
    number,
    proportion,
    resampled,
)
from judges.testing.ranks import correlation, grouped, midranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from judges.testing.columns import Codes, Floats

Weights = Literal["linear", "quadratic"]
_FEW = 1000  # labels of a scale

# -- Cohen's kappa ----------------------------------------------------------------------------------------------------


def cohen_kappa(a: Column, b: Column, weights: Weights | None = None, labels: Sequence[Any] | None = None) -> float:
    """Cohen's kappa: how much better two raters agree than by chance, 1 − observed / expected disagreement.

    Args:
        a, b: labels, one an item, shape (n,). An item that one of them did not rate (None, NaN) is left out; to count
            it as a disagreement, give it a label of its own.
        weights: how bad a disagreement is: None for all alike, `"linear"` or `"quadratic"` in the distance of the two
            labels' places on the scale.
        labels: the scale, in order. Weighted kappa needs all of it, also labels that do not occur; it may be left out
            where labels are whole numbers, and the scale has all that lie between.

    Returns:
        At most 1, 0 by chance, negative below; NaN where both raters give one and the same label throughout, or rated
        nothing.

    Source: Cohen 1960, "A Coefficient of Agreement for Nominal Scales", Educ. Psychol. Meas. 20; weighted: Cohen 1968,
    Psychological Bulletin 70.

    Raises:
        MetricError: the columns differ in length, a label is not on the scale, or the scale cannot be guessed.
    """
    over, n, _ = _kappa(a, b, weights, labels)
    return number(over, n)


def kappa_interval(
    a: Column,
    b: Column,
    weights: Weights | None = None,
    labels: Sequence[Any] | None = None,
    *,
    clusters: Clusters = None,
    seed: int = 0,
) -> Interval:
    """`cohen_kappa` with its interval, by a bootstrap over items.

    Of few disagreements a bootstrap sees too little, and of none nothing. So the lower bound is no higher than
    1 − (1 − κ) · u / d, with d the share of items that disagree and u Wilson's upper bound on it; where none do,
    1 − u / e, with e the share that would by chance.

    Args:
        a, b, weights, labels: as for `cohen_kappa`.
        clusters: the item of each pair of labels, where an item has several.
        seed: of the bootstrap.

    Raises:
        MetricError: as for `cohen_kappa`, or there is not one cluster a pair.
    """
    over, n, (first, second, kept) = _kappa(a, b, weights, labels)
    items = chosen(clusters, kept)
    found = resampled(over, n, items, seed=seed)
    if found.estimate is None:
        return found
    size = int(max(first.max(), second.max())) + 1
    chance = 1.0 - float(np.bincount(first, minlength=size) @ np.bincount(second, minlength=size)) / n**2
    return no_surer(found, proportion(first != second, items), chance)


def _kappa(
    a: Column, b: Column, weights: Weights | None, labels: Sequence[Any] | None
) -> tuple[Weighted, int, tuple[Codes, Codes, NDArray[np.bool_]]]:
    if weights is not None and weights not in get_args(Weights):
        raise MetricError(f"weights are None, {', '.join(map(repr, get_args(Weights)))}, not {weights!r}")
    left, right = aligned(a=a, b=b)
    scale = list(labels) if labels is not None else _scale([*left, *right], weighted=weights is not None)
    first, second = encoded(left, scale), encoded(right, scale)
    kept = (first >= 0) & (second >= 0)
    first, second = first[kept], second[kept]
    places = np.arange(len(scale))
    distance = np.abs(places[:, None] - places[None, :]).astype(np.float64)
    cost = (distance > 0).astype(np.float64) if weights is None else distance ** (1 if weights == "linear" else 2)
    shown = np.eye(len(scale))
    k = len(scale)

    def of(sums: Floats) -> Floats:
        observed, firsts, seconds = sums[:, 0], sums[:, 1 : k + 1], sums[:, k + 1 :]
        expected = ((firsts @ cost) * seconds).sum(axis=1)
        defined = expected > 0.0
        value = 1.0 - observed * firsts.sum(axis=1) / np.where(defined, expected, 1.0)
        return np.where(defined, value, np.nan)

    table = np.hstack([cost[first, second][:, None], shown[first], shown[second]])
    return OfSums(of).over(table), len(first), (first, second, kept)


def _scale(values: Sequence[Any], *, weighted: bool) -> list[Any]:
    seen = distinct(values)
    if not weighted or not seen:
        return seen
    whole = all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in seen)
    if whole and seen[-1] - seen[0] < _FEW:
        return list(range(int(seen[0]), int(seen[-1]) + 1))  # ends that do not occur change nothing
    if len(seen) == 2 and all(isinstance(label, (bool, np.bool_)) for label in seen):
        return seen
    raise MetricError("weighted kappa measures distances on a scale: give all of its labels, in order, as labels=")


# -- correlation and error --------------------------------------------------------------------------------------------


def spearman(a: Column, b: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """Spearman's rank correlation, ties sharing the mean of their ranks, with a bootstrap over items.

    Args:
        a, b: numbers, one an item, shape (n,); an item with a missing one (None, NaN) is left out.
        clusters: the item of each pair, where an item has several.
        seed: of the bootstrap.

    Returns:
        From -1 to 1; not defined where one column is constant.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things", Am. J. Psychology 15.

    Raises:
        MetricError: an entry is no number, or the columns differ in length.
    """
    first, second, kept = _pairs(a, b)

    def over(weights: Floats) -> Floats:
        return correlation(weights, midranks(weights, first), midranks(weights, second))

    return resampled(over, len(first), chosen(clusters, kept), seed=seed)


def kendall_tau_b(a: Column, b: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """Kendall's tau-b, which allows for ties, with a bootstrap over items.

    (concordant − discordant pairs) / √((pairs not tied in a) · (pairs not tied in b)). It compares all pairs: 5,000
    different items take seconds.

    Args, range and errors are those of `spearman`.

    Source: Kendall 1945, "The Treatment of Ties in Ranking Problems", Biometrika 33.
    """
    over, size, kept = _tau_b(a, b)
    return resampled(over, size, chosen(clusters, kept), seed=seed)


def tau_b(a: Column, b: Column) -> float:
    """`kendall_tau_b` alone; NaN where one column is constant, or there is nothing to compare."""
    over, size, _ = _tau_b(a, b)
    return number(over, size)


def _tau_b(a: Column, b: Column) -> tuple[Weighted, int, NDArray[np.bool_]]:
    first, second, kept = _pairs(a, b)
    different, places = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    x, y = different[:, 0], different[:, 1]
    concordance = np.sign(x[:, None] - x) * np.sign(y[:, None] - y).astype(np.float64)

    def over(weights: Floats) -> Floats:
        often = grouped(weights, places.ravel())
        total = often.sum(axis=1)
        agree = ((often @ concordance) * often).sum(axis=1)  # twice the difference, as are the pairs below
        untied = [total**2 - (grouped(weights, column) ** 2).sum(axis=1) for column in (first, second)]
        product = untied[0] * untied[1]
        return np.where(product > 0.0, agree / np.sqrt(np.where(product > 0.0, product, 1.0)), np.nan)

    return over, len(first), kept


def mean_absolute_error(a: Column, b: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """The mean of |a − b|, with a bootstrap over items, in the units of the columns.

    Args and errors are those of `spearman`.

    Source: Willmott and Matsuura 2005, "Advantages of the Mean Absolute Error", Climate Research 30.
    """
    left, right = aligned(a=a, b=b)
    return mean(np.abs(numbers(left, "a") - numbers(right, "b")), clusters=clusters, seed=seed)


def _pairs(a: Column, b: Column) -> tuple[Codes, Codes, NDArray[np.bool_]]:
    """The places of the values among the different values of their column, of the items that have both."""
    left, right = aligned(a=a, b=b)
    first, second = numbers(left, "a"), numbers(right, "b")
    kept = ~np.isnan(first) & ~np.isnan(second)
    x, y = (np.unique(column[kept], return_inverse=True)[1].ravel() for column in (first, second))
    return x, y, kept
