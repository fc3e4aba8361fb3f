"""Decisions on figures: thresholds lie on the bounds of an interval, and too few items decide nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal

from judges.testing.columns import MetricError
from judges.testing.intervals import Interval, Z

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a figure says about a threshold.

    Attributes:
        outcome: `"PASS"`, `"FAIL"` or `"INCONCLUSIVE"`.
        figure: the figure.
        reason: why, in words.
        needed: where inconclusive: about how many items would decide, if the estimate stayed what it is; None where no
            number would, or none is known.
    """

    outcome: Outcome
    figure: Interval
    reason: str
    needed: int | None = None

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}"


def decide(
    figure: Interval, *, at_least: float | None = None, at_most: float | None = None, min_n: int = 10
) -> Decision:
    """Hold a figure against a threshold.

    With `at_least` = t: PASS when low ≥ t, FAIL when high < t, else INCONCLUSIVE. With `at_most` = t: PASS when
    high ≤ t, FAIL when low > t. With both it must lie between, as the first-position rate of a judge without a bias.

    Args:
        figure: with its interval. Without bounds it is inconclusive.
        at_least, at_most: the thresholds, one or both.
        min_n: independent items below which nothing is decided.

    Source: acceptance by confidence bound: Piaggio et al. 2012, "Reporting of Noninferiority and Equivalence Randomized
    Trials", JAMA 308, whose figure 1 shows the cases. The n that decides is the one at which the bound of the interval
    reaches the threshold.

    Raises:
        MetricError: there is no threshold, or at_least is above at_most.
    """
    limits = [limit for limit in (at_least, at_most) if limit is not None]
    if not limits or not all(isfinite(limit) for limit in limits):
        raise MetricError("a decision needs a threshold: give at_least=, at_most= or both, as numbers")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise MetricError(f"nothing is at least {at_least} and at most {at_most}")
    named = {"at least": at_least, "at most": at_most}
    asked = " and ".join(f"{name} {limit:g}" for name, limit in named.items() if limit is not None) + " was asked"
    if figure.estimate is None or figure.low is None or figure.high is None:
        needed = min_n if figure.clusters < min_n else None
        return Decision("INCONCLUSIVE", figure, f"{asked}; there is no interval: {figure.why}", needed)
    needed = _needed(figure, at_least, at_most)
    hint = "more would not decide: the estimate is the threshold" if needed is None else f"about {needed} would decide"
    if figure.clusters < min_n:
        more = f" (about {needed} would decide)" if needed is not None and needed > min_n else ""
        why = f"{asked}, of {min_n} items or more; there are {figure.clusters}{more}"
        return Decision("INCONCLUSIVE", figure, why, max(min_n, needed or 0))
    why = f"{asked}, and the interval is {figure.low:.3f} to {figure.high:.3f}"
    if (at_least is not None and figure.high < at_least) or (at_most is not None and figure.low > at_most):
        return Decision("FAIL", figure, why)
    if (at_least is None or figure.low >= at_least) and (at_most is None or figure.high <= at_most):
        return Decision("PASS", figure, why)
    return Decision("INCONCLUSIVE", figure, f"{why} of {figure.clusters} items ({hint})", needed)


def _needed(figure: Interval, at_least: float | None, at_most: float | None) -> int | None:
    """The n at which the bounds have left all thresholds that the estimate meets, or the nearest it does not."""
    assert figure.estimate is not None
    estimate = figure.estimate
    if at_least is not None and estimate < at_least:
        return _reaching(figure, at_least)
    if at_most is not None and estimate > at_most:
        return _reaching(figure, at_most)
    each = [_reaching(figure, limit) for limit in (at_least, at_most) if limit is not None]
    return None if None in each else max(n for n in each if n is not None)


def _reaching(figure: Interval, limit: float) -> int | None:
    """The number of items at which the bound that faces a limit reaches it."""
    assert figure.estimate is not None and figure.low is not None and figure.high is not None
    apart = abs(figure.estimate - limit)
    if apart < 1e-12:
        return None
    facing = figure.estimate - figure.low if limit < figure.estimate else figure.high - figure.estimate
    items = float(figure.clusters)
    if figure.method == "wilson" and figure.effective_n is not None:
        # Wilson's bound is the share t that a test with the variance t (1 − t) / n just does not reject.
        items *= Z**2 * limit * (1.0 - limit) / apart**2 / figure.effective_n
    elif figure.method == "disagreement" and figure.effective_n is not None:  # there was none
        # The upper bound of a share of none is z² / (n + z²).
        items *= ((figure.effective_n + Z**2) * facing / apart - Z**2) / figure.effective_n
    else:
        items *= (facing / apart) ** 2  # widths shrink with the root of n
    return max(1, ceil(items - 1e-9))
