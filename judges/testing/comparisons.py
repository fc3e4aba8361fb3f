"""Two judges, or two versions of a prompt, on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from judges.testing.columns import Clusters, Column, MetricError, aligned, chosen, cluster_codes, numbers, outcomes
from judges.testing.intervals import Interval, mean, paired_difference

if TYPE_CHECKING:
    from judges.testing.columns import Floats

_EXACT = 14  # items that differ up to which all assignments of signs are gone through
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Paired:
    """Two judges on the same items.

    Attributes:
        difference: of the first from the second, with its interval.
        p_value: two-sided, that they differ as much by chance; None where nothing can be compared.
        a_better, b_better: the items on which one does better than the other.
        test: which.
        detectable: the smallest difference that as many such items find with a power of 80 %; None where the difference
            has no interval. Where no difference was found and this is large, there were too few items to find one.
    """

    difference: Interval
    p_value: float | None
    a_better: int
    b_better: int
    test: Literal["mcnemar", "sign-flip"]

    @property
    def detectable(self) -> float | None:
        return self.difference.detectable()


def mcnemar(a: Column, b: Column) -> Paired:
    """The exact test of McNemar: whether one of two judges is right more often, one pair an item.

    Under the hypothesis of no difference, the items on which only one is right are tosses of a fair coin. p is twice
    the smaller tail of that binomial, at most 1. The interval of the difference is that of `paired_difference`.

    Args:
        a, b: whether each is right, shape (n,). An item that has no entry (None, NaN) of one is left out: for a judge
            that gives no verdict, say False, unless only what both answer is compared.

    Source: McNemar 1947, "Note on the Sampling Error of the Difference between Correlated Proportions or Percentages",
    Psychometrika 12; exact: Agresti 2002, "Categorical Data Analysis", 10.1.

    Raises:
        MetricError: an entry is neither yes nor no, or the columns differ in length.
    """
    left, right = aligned(a=a, b=b)
    difference = outcomes(left, "a") - outcomes(right, "b")
    only_a, only_b = int((difference == 1.0).sum()), int((difference == -1.0).sum())
    n = int((~np.isnan(difference)).sum())
    discordant = only_a + only_b
    tail = term = 1  # n over k, from k = 0
    for k in range(min(only_a, only_b)):
        term = term * (discordant - k) // (k + 1)
        tail += term
    p = min(1.0, 2 * tail / 2**discordant) if n else None
    return Paired(paired_difference(only_a, only_b, n), p, only_a, only_b, "mcnemar")


def sign_flip(a: Column, b: Column, clusters: Clusters = None, n: int = 10_000, seed: int = 0) -> Paired:
    """A sign-flip test: whether two judges differ on average over items that have several orders or samples.

    An item's difference is the mean over its observations. Under the hypothesis of no difference, its sign might as
    well be the other. p is the share of assignments of signs whose mean is at least as far from 0: of all assignments
    where at most 14 items differ, else (1 + those of n random ones) / (1 + n). The interval is that of a bootstrap.

    Args:
        a, b: numbers or yes and no, such as scores, or whether each is right, shape (observations,). An observation
            that has no entry (None, NaN) of one is left out.
        clusters: the item of each observation; without them each is one by itself.
        n: random assignments.
        seed: of them, and of the bootstrap.

    Source: Fisher 1935, "The Design of Experiments", 21; for language models Dror et al. 2018, "The Hitchhiker's Guide
    to Testing Statistical Significance in Natural Language Processing", ACL.

    Raises:
        MetricError: an entry is no number, the columns differ in length, or there is not one cluster an observation.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 100:
        raise MetricError(f"n, the number of random assignments, is a whole number from 100, not {n!r}")
    left, right = aligned(a=a, b=b)
    each = numbers(left, "a") - numbers(right, "b")
    kept = ~np.isnan(each)
    each = each[kept]
    codes = cluster_codes(chosen(clusters, kept), len(each))
    items = each if codes is None else np.bincount(codes, weights=each) / np.bincount(codes)
    p = _flipped(items[items != 0.0], n, seed) if len(items) else None
    return Paired(mean(items, seed=seed), p, int((items > 0.0).sum()), int((items < 0.0).sum()), "sign-flip")


def _flipped(differences: Floats, n: int, seed: int) -> float:
    count = len(differences)
    reached = abs(float(differences.sum())) - 1e-9 * float(np.abs(differences).sum())
    if count <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float((np.abs(signs @ differences) >= reached).mean())
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // count)
    hits = 0
    for start in range(0, n, block):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (min(block, n - start), count))
        hits += int((np.abs(signs @ differences) >= reached).sum())
    return (1 + hits) / (1 + n)
