"""Krippendorff's alpha: how far several raters agree, of whom each may have left items out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from judges.testing.columns import Clusters, MetricError, chosen, distinct, encoded, numbers
from judges.testing.intervals import Interval, OfSums, Weighted, no_surer, number, proportion, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from judges.testing.columns import Codes, Floats

Level = Literal["nominal", "ordinal", "interval", "ratio"]
Ratings: TypeAlias = "Sequence[Sequence[Any]] | NDArray[Any]"


def krippendorff_alpha(ratings: Ratings, level: Level = "nominal") -> float:
    """Krippendorff's alpha, 1 − observed / expected disagreement.

    alpha = 1 − (n − 1) · Σ_u Σ_{i≠j} δ²(v_ui, v_uj) / (m_u − 1) / Σ_{c,k} n_c n_k δ²(c, k), over the items u with
    m_u ≥ 2 ratings, n = Σ m_u, and n_c how often the value c occurs among them.

    Args:
        ratings: shape (raters, items), None or NaN where a rater left an item out.
        level: what a difference δ of two values is: `"nominal"` 0 or 1, `"ordinal"` that of their mid-ranks,
            `"interval"` c − k, `"ratio"` (c − k) / (c + k). All but nominal take numbers.

    Returns:
        At most 1, 0 by chance; NaN where only one value occurs, or no item has two ratings.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".

    Raises:
        MetricError: the ratings are no table, or the values no numbers where numbers are needed, or negative on a ratio
            scale.
    """
    table = _table(ratings, level)
    return number(_alpha(table, level), len(table.values))


def alpha_interval(ratings: Ratings, level: Level = "nominal", *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """`krippendorff_alpha` with its interval, by a bootstrap over the items with two ratings or more.

    The lower bound is no surer than the share of items with different ratings, as in `kappa_interval`.

    Args:
        ratings, level: as for `krippendorff_alpha`.
        clusters: the cluster of each item, where items belong together.
        seed: of the bootstrap.

    Raises:
        MetricError: as for `krippendorff_alpha`, or there is not one cluster an item.
    """
    table = _table(ratings, level)
    items = chosen(clusters, table.kept)
    found = resampled(_alpha(table, level), len(table.values), items, seed=seed)
    apart = (table.counts > 0).sum(axis=1) > 1
    if found.estimate is None:
        return found
    often, total = table.counts.sum(axis=0), table.counts.sum()
    chance = 1.0 - float((often * (often - 1.0)).sum() / (total * (total - 1.0)))
    return no_surer(found, proportion(apart, items), chance)


@dataclass(frozen=True, slots=True)
class _Table:
    """Ratings as places among the values that occur."""

    seen: list[Any]
    values: Codes  # (items with two ratings, raters), -1 where there is none
    kept: NDArray[np.bool_]  # which items have two

    @property
    def counts(self) -> Floats:
        """How often each value was given to each item."""
        each = [(self.values == place).sum(axis=1) for place in range(len(self.seen))]
        return np.stack(each, axis=1).astype(np.float64) if each else np.zeros((len(self.values), 0))


def _table(ratings: Ratings, level: Level) -> _Table:
    if level not in get_args(Level):
        raise MetricError(f"level is one of {', '.join(get_args(Level))}, not {level!r}")
    try:
        rows = [list(rater) for rater in ratings]
    except TypeError:
        raise MetricError(
            "ratings are a table: for each rater a rating of each item, None where there is none"
        ) from None
    if len({len(rater) for rater in rows}) > 1:
        sizes = ", ".join(str(len(rater)) for rater in rows)
        raise MetricError(
            f"ratings are a table, raters by items; the raters have {sizes}. None stands for a missing one"
        )
    seen = distinct(value for rater in rows for value in rater)
    if level != "nominal" and len(numbers(seen, "ratings")) and level == "ratio" and seen[0] < 0:
        raise MetricError(f"ratings on a ratio scale are not negative; got {seen[0]!r}")
    items = np.stack([encoded(rater, seen) for rater in rows], axis=1) if rows else np.empty((0, 0), dtype=np.intp)
    kept = (items >= 0).sum(axis=1) >= 2
    return _Table(seen, items[kept], kept)


def _alpha(table: _Table, level: Level) -> Weighted:
    return _by_rank(table) if level == "ordinal" else _by_cost(table, _costs(table.seen, level))


def _costs(seen: list[Any], level: Level) -> Floats:
    if level == "nominal":
        return 1.0 - np.eye(len(seen))
    size = numbers(seen, "ratings")
    apart = size[:, None] - size
    if level == "ratio":
        both = size[:, None] + size
        apart = apart / np.where(both > 0.0, both, 1.0)
    elif len(size):
        apart = apart / max(float(np.ptp(size)), 1e-300)  # the unit cancels; squares of large values would not fit
    return apart**2


def _by_cost(table: _Table, cost: Floats) -> Weighted:
    counts = table.counts
    observed = ((counts @ cost) * counts).sum(axis=1) / (counts.sum(axis=1) - 1.0)

    def of(sums: Floats) -> Floats:
        often = sums[:, 1:]
        return _ratio(sums[:, 0], ((often @ cost) * often).sum(axis=1), often.sum(axis=1))

    return OfSums(of).over(np.hstack([observed[:, None], counts]))


def _by_rank(table: _Table) -> Weighted:
    """The ordinal difference of two values is that of their mid-ranks, of which each resample has its own."""
    counts, values = table.counts, table.values
    there = values >= 0
    given = there.sum(axis=1)

    def over(weights: Floats) -> Floats:
        often = weights @ counts
        total = often.sum(axis=1)
        ranks = np.cumsum(often, axis=1) - often / 2.0
        ranks -= (often * ranks).sum(axis=1, keepdims=True) / total[:, None]
        each = np.where(there, ranks[:, np.where(there, values, 0)], 0.0)
        # Σ_{i≠j} (r_i − r_j)² = 2 (m Σ r² − (Σ r)²)
        apart = 2.0 * (given * (each**2).sum(axis=2) - each.sum(axis=2) ** 2) / (given - 1.0)
        expected = 2.0 * total * (often * ranks**2).sum(axis=1)
        return _ratio((weights * apart).sum(axis=1), expected, total)

    return over


def _ratio(observed: Floats, expected: Floats, total: Floats) -> Floats:
    defined = expected > 1e-9  # two values that differ are further apart, by any of the costs
    value = 1.0 - (total - 1.0) * observed / np.where(defined, expected, 1.0)
    return np.where(defined, value, np.nan)
