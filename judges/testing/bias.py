"""What sways a judge besides the work: the order of a pair, the length of a response, and chance.

Verdicts on pairs come as `picks`, shape (items, 2): which candidate won, in the first column where the first candidate
was shown first, in the second where the second was; None where there is no verdict. Any other value than the two
candidates is a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from judges.testing.classification import accuracy, is_label
from judges.testing.columns import Clusters, Column, MetricError, aligned, chosen, missing, numbers
from judges.testing.intervals import Interval, mean, paired_difference, proportion, resampled
from judges.testing.ranks import midranks, partial_correlation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from judges.testing.columns import Floats

Table: TypeAlias = "Sequence[Sequence[Any]] | NDArray[Any]"

# -- the order of a pair ----------------------------------------------------------------------------------------------


def accuracy_over_orders(gold: Column, picks: Table) -> Interval:
    """The share of games, two an item, won by the better candidate. No verdict is not right.

    Args:
        gold: the winner of each item, shape (items,); items without one are left out.
        picks: see the module.

    Source: Tan et al. 2024, "JudgeBench"; Zeng et al. 2023, "Evaluating Large Language Models at Evaluating
    Instruction Following" (LLMBar).

    Raises:
        MetricError: the picks are no table of two orders an item.
    """
    truths, rows = aligned(gold=gold, picks=_games(picks))
    items = [item for item in range(len(rows)) for _ in range(2)]
    return accuracy([truths[item] for item in items], [pick for row in rows for pick in row], clusters=items)


def both_orders_accuracy(gold: Column, picks: Table) -> Interval:
    """The share of items whose better candidate wins in both orders; args and errors are `accuracy_over_orders`'."""
    truths, rows = aligned(gold=gold, picks=_games(picks))
    return proportion(
        [
            None if missing(truth) else all(is_label(pick, truth) for pick in row)
            for truth, row in zip(truths, rows, strict=True)
        ]
    )


def consistency(picks: Table) -> Interval:
    """The share of items whose verdict is the same in both orders, of those that have both.

    Args:
        picks: see the module.

    Source: Zheng et al. 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena".

    Raises:
        MetricError: the picks are no table of two orders an item.
    """
    return proportion([None if missing(a) or missing(b) else is_label(a, b) for a, b in _games(picks)])


def first_position_rate(picks: Table, candidates: tuple[Any, Any] = ("a", "b")) -> Interval:
    """The share of games won by the candidate that was shown first: 0.5 without a bias of position.

    Only items decided in both orders count, so that a set whose first candidates are better shows no bias. As one that
    is decided alike in both adds one half, the rate is (1 + d) / 2, with d the difference between the share of items
    that go to the first position twice and the share that go to the second twice: its interval is that of
    `paired_difference`.

    Args:
        picks: see the module.
        candidates: what the first and the second candidate of an item are called.

    Source: as for `consistency`.

    Raises:
        MetricError: the picks are no table of two orders an item.
    """
    one, other = candidates
    decided = [row for row in _games(picks) if all(is_label(pick, one) or is_label(pick, other) for pick in row)]
    first = sum(is_label(a, one) and is_label(b, other) for a, b in decided)
    second = sum(is_label(a, other) and is_label(b, one) for a, b in decided)
    found = paired_difference(first, second, len(decided))
    if found.estimate is None or found.low is None or found.high is None:
        return found
    return replace(found, estimate=(1 + found.estimate) / 2, low=(1 + found.low) / 2, high=(1 + found.high) / 2)


def _games(picks: Table) -> list[list[Any]]:
    try:
        rows = [list(row) for row in picks if not isinstance(row, str)]
    except TypeError:
        rows = []
    if len(rows) != len(picks) or any(len(row) != 2 for row in rows):
        raise MetricError("picks are a table, for each item who won in the given and in the swapped order, or None")
    return rows


# -- length -----------------------------------------------------------------------------------------------------------


def verbosity(scores: Column, lengths: Column, gold: Column, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """Spearman's correlation of score and response length, given the gold score: 0 where length alone sways nobody.

    The partial correlation of the ranks, so that good responses may be the longer ones. It is not defined where the
    scores follow from the gold scores alone.

    Args:
        scores: the judge's, one an item, shape (n,).
        lengths: of the responses, in any unit.
        gold: the gold labels as numbers: their scores, or yes and no. An item that lacks one of the three is left out.
        clusters: the item of each score, where an item has several.
        seed: of the bootstrap over items.

    Source: Kendall 1942, "Partial Rank Correlation", Biometrika 32; of judges: Dubois et al. 2024, "Length-Controlled
    AlpacaEval".

    Raises:
        MetricError: an entry is no number, or the columns differ in length.
    """
    columns = aligned(scores=scores, lengths=lengths, gold=gold)
    values = [numbers(column, name) for column, name in zip(columns, ("scores", "lengths", "gold"), strict=True)]
    kept = np.asarray(~np.isnan(values).any(axis=0))
    places = [np.unique(column[kept], return_inverse=True)[1].ravel() for column in values]

    def over(weights: Floats) -> Floats:
        return partial_correlation(weights, *(midranks(weights, each) for each in places))

    return resampled(over, int(kept.sum()), chosen(clusters, kept), seed=seed)


# -- chance -----------------------------------------------------------------------------------------------------------


def self_agreement(samples: Table, *, clusters: Clusters = None, seed: int = 0) -> Interval:
    """How far a judge agrees with itself: the share of pairs of samples with one label, averaged over items.

    Args:
        samples: labels, shape (items, k), None where there is no verdict; items with fewer than two are left out.
        clusters: what several items belong to, such as the pair that is shown in two orders.
        seed: of the bootstrap over items.

    Returns:
        From 0 to 1. With two labels, a judge that tosses a coin has 0.5.

    Source: Fleiss 1971, "Measuring Nominal Scale Agreement among Many Raters", Psychological Bulletin 76: its P̄.

    Raises:
        MetricError: the samples are no table.
    """
    shares: list[float | None] = []
    for row in _samples(samples):
        same = sum(is_label(a, b) for place, a in enumerate(row) for b in row[place + 1 :])
        shares.append(same / comb(len(row), 2) if len(row) > 1 else None)
    return _bounded(mean(shares, clusters=clusters, seed=seed), shares, clusters)


def unanimity(samples: Table, *, clusters: Clusters = None) -> Interval:
    """The share of items whose samples are all equal, of those with two or more.

    Args and errors are those of `self_agreement`. More samples an item agree less often: compare only with as many.
    """
    rows = _samples(samples)
    same = [all(is_label(row[0], each) for each in row) if len(row) > 1 else None for row in rows]
    return proportion(same, clusters)


def _samples(samples: Table) -> list[list[Any]]:
    try:
        if any(isinstance(row, str) for row in samples):
            raise TypeError
        return [[label for label in row if not missing(label)] for row in samples]
    except TypeError:
        raise MetricError("samples are a table, for each item its labels, or None") from None


def _bounded(found: Interval, shares: list[float | None], clusters: Clusters) -> Interval:
    """Where all items agree wholly, the bootstrap has no bounds; a share in [0, 1] is then no less sure than a yes."""
    if found.estimate == 1.0 and found.low is None:
        return proportion([share == 1.0 if share is not None else None for share in shares], clusters)
    return found
