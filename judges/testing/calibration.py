"""Calibration: whether what a judge calls 80 % sure comes true in 80 of 100 cases. Only where there are probabilities.

`probabilities` are of an event, for instance of the label true (`Verdict.metadata["probabilities"]` with
`expected=True`), and `happened` says whether the gold label is that. For scales of several labels take the probability
of the label that was given, and whether it is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from judges.testing.columns import Clusters, Column, MetricError, aligned, chosen, numbers, outcomes
from judges.testing.intervals import Interval, OfSums, mean, proportion, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from judges.testing.columns import Codes, Floats


@dataclass(frozen=True, slots=True)
class Bin:
    """A point of a reliability curve.

    Attributes:
        low, high: the probabilities it holds, from low to below high (the last one holds 1 too).
        predicted: their mean.
        observed: the share of cases in which the event happened.
    """

    low: float
    high: float
    predicted: float
    observed: Interval


def reliability_curve(
    probabilities: Column, happened: Column, bins: int = 10, *, clusters: Clusters = None
) -> tuple[Bin, ...]:
    """What happened by what was predicted, in bins of equal width; empty ones are left out.

    Args:
        probabilities: in [0, 1], one an observation; None and NaN are left out.
        happened: whether the event did; None and NaN are left out.
        bins: how many.
        clusters: the item of each observation.

    Returns:
        The bins in order; none where there are no probabilities.

    Source: DeGroot and Fienberg 1983, "The Comparison and Evaluation of Forecasters", The Statistician 32.

    Raises:
        MetricError: an entry is no probability, or no yes or no; the columns differ in length.
    """
    predicted, observed, kept = _pairs(probabilities, happened)
    places, items = _places(predicted, bins), chosen(clusters, kept)
    curve = []
    for place in np.unique(places):
        inside = places == place
        rate = proportion(observed[inside], chosen(items, inside))
        curve.append(Bin(place / bins, (place + 1) / bins, float(predicted[inside].mean()), rate))
    return tuple(curve)


def expected_calibration_error(
    probabilities: Column, happened: Column, bins: int = 10, *, clusters: Clusters = None, seed: int = 0
) -> Interval:
    """The distance of what was predicted from what happened, averaged over the bins of `reliability_curve`.

    Σ_b n_b / n · |mean probability − share that happened|. Chance alone makes it positive, the more so the fewer cases
    a bin has, and resampling adds about as much again. So the interval is that of the basic bootstrap, which takes it
    off: 2 · estimate − the percentiles, but no further than 0 and the estimate itself.

    Args and errors are those of `reliability_curve`.

    Returns:
        In [0, 1]; not defined where there are no probabilities.

    Source: Naeini et al. 2015, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI; the interval:
    Davison and Hinkley 1997, "Bootstrap Methods and their Application", 5.2.
    """
    predicted, observed, kept = _pairs(probabilities, happened)
    places = _places(predicted, bins)
    table = np.zeros((len(predicted), bins + 1))
    table[np.arange(len(predicted)), places] = predicted - observed
    table[:, -1] = 1.0
    over = OfSums(lambda sums: np.abs(sums[:, :-1]).sum(axis=1) / sums[:, -1]).over(table)
    found = resampled(over, len(predicted), chosen(clusters, kept), seed=seed)
    if found.estimate is None or found.low is None or found.high is None:
        return found
    twice = 2.0 * found.estimate
    return replace(found, low=max(0.0, twice - found.high), high=max(found.estimate, twice - found.low))


def brier_score(probabilities: Column, happened: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """The mean squared distance of the probabilities from what happened (1 or 0), with a bootstrap over items.

    Args and errors are those of `reliability_curve`.

    Returns:
        In [0, 1], 0 the best, 0.25 for one who always says one half; not defined where there are no probabilities.

    Source: Brier 1950, "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review 78.
    """
    predicted, observed, kept = _pairs(probabilities, happened)
    return mean((predicted - observed) ** 2, clusters=chosen(clusters, kept), seed=seed)


def _pairs(probabilities: Column, happened: Column) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    said, done = aligned(probabilities=probabilities, happened=happened)
    predicted, observed = numbers(said, "probabilities"), outcomes(done, "happened")
    for row in np.flatnonzero((predicted < 0.0) | (predicted > 1.0)).tolist():
        raise MetricError(f"probabilities, entry {row}: {said[row]!r} is not in [0, 1]")
    kept = ~np.isnan(predicted) & ~np.isnan(observed)
    return predicted[kept], observed[kept], kept


def _places(predicted: Floats, bins: int) -> Codes:
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise MetricError(f"bins is a whole number from 1, not {bins!r}")
    return np.minimum((predicted * bins).astype(np.intp), bins - 1)
