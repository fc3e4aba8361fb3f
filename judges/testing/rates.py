"""How often a judge gives no verdict, and what its verdicts cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from judges.testing.columns import Clusters, Column, aligned, chosen, numbers
from judges.testing.intervals import Interval, Weighted, mean, proportion, resampled
from judges.verdict import FailureKind, JudgeFailure, Verdict

if TYPE_CHECKING:
    from judges.testing.columns import Floats

Rate = Literal["verdict", "abstention", "format", "refusal", "truncation", "unreached"]
_OF_KIND: dict[FailureKind, Rate] = {
    "format": "format",
    "out_of_scale": "format",
    "ambiguous": "format",
    "empty": "format",
    "logprobs": "format",
    "refused": "refusal",
    "truncated": "truncation",
}


def rate_of(kind: FailureKind) -> Rate:
    """The rate that a kind of failure counts in: `"unreached"` for what says nothing of the judge."""
    return _OF_KIND.get(kind, "unreached")


def is_unreached(failure: FailureKind | None) -> bool:
    """Whether a question has no reply of the model, which says nothing of the judge."""
    return failure is not None and rate_of(failure) == "unreached"


def answer_rates(answers: Sequence[Verdict | JudgeFailure], *, clusters: Clusters = None) -> dict[Rate, Interval]:
    """What became of each question, as shares that sum to 1.

    Args:
        answers: one a question.
        clusters: the item of each question, where an item was asked several.

    Returns:
        `"verdict"`: a score; `"abstention"`: the judge says that it cannot tell; `"format"`: a reply that holds no
        verdict on the scale, or several (kinds format, out_of_scale, ambiguous, empty, logprobs); `"refusal"`;
        `"truncation"`; and `"unreached"`: no reply of the model (all other kinds of failure).

    Raises:
        MetricError: there is not one cluster an answer.
    """
    became: list[Rate] = []
    for answer in answers:
        if isinstance(answer, JudgeFailure):
            became.append(rate_of(answer.kind))
        else:
            became.append("abstention" if answer.abstained else "verdict")
    return {rate: proportion([each == rate for each in became], clusters) for rate in get_args(Rate)}


@dataclass(frozen=True, slots=True)
class Summary:
    """What was spent: dollars, seconds, tokens.

    Attributes:
        n: the values that count.
        total: their sum.
        mean, median, p95: with their intervals.
        highest: None where there are no values.
    """

    n: int
    total: float
    mean: Interval
    median: Interval
    p95: Interval
    highest: float | None


def summarise(values: Column, *, clusters: Clusters = None, seed: int = 0) -> Summary:
    """Sum up costs (`answer.usage.cost`) or latencies, one an answer.

    Args:
        values: numbers in any unit; None and NaN (not measured) are left out.
        clusters: the item of each answer, where an item has several.
        seed: of the bootstrap over items.

    Raises:
        MetricError: an entry is no number, or there is not one cluster an entry.
    """
    (listed,) = aligned(values=values)
    column = numbers(listed, "values")
    kept = ~np.isnan(column)
    rest, items = column[kept], chosen(clusters, kept)
    middle, high = (resampled(_quantile(rest, share), len(rest), items, seed=seed) for share in (0.5, 0.95))
    highest = float(rest.max()) if len(rest) else None
    return Summary(len(rest), float(rest.sum()), mean(rest, clusters=items, seed=seed), middle, high, highest)


def _quantile(values: Floats, share: float) -> Weighted:
    """The least value that at least this share of the values does not exceed."""
    order = np.argsort(values)
    ranked = values[order]

    def over(weights: Floats) -> Floats:
        below = np.cumsum(np.take(weights, order, axis=1), axis=1)
        found: Floats = ranked[(below < share * below[:, -1:] - 1e-9).sum(axis=1)]
        return found

    return over
