"""How often a judge is right: over all rows, over those it answered, and label by label.

A row without a verdict is not left out silently: it is not right, and not given its label. What a judge does on the
rows it answers is `accuracy_of_parsed`, and how many those are is in `answer_rates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judges.testing.columns import Clusters, Column, MetricError, aligned, distinct, encoded, missing
from judges.testing.intervals import Interval, proportion


def accuracy(gold: Column, judged: Column, *, clusters: Clusters = None) -> Interval:
    """The share of all rows on which the judge gives the gold label. No verdict is not right.

    Args:
        gold: labels, one an observation; rows without one are left out.
        judged: the judge's labels, None where there is no verdict, or an abstention.
        clusters: the item of each observation.

    Raises:
        MetricError: the columns differ in length.
    """
    return proportion([right for _, _, right in _rows(gold, judged)], clusters)


def accuracy_of_parsed(gold: Column, judged: Column, *, clusters: Clusters = None) -> Interval:
    """The share of the rows with a verdict on which it is the gold label. Args and errors are those of `accuracy`."""
    return proportion([None if missing(found) else right for _, found, right in _rows(gold, judged)], clusters)


def recall(gold: Column, judged: Column, label: Any, *, clusters: Clusters = None) -> Interval:
    """Of the rows whose gold label is this, the share that the judge gives it. No verdict is not given.

    Args:
        gold, judged, clusters: as for `accuracy`.
        label: which.

    Source: van Rijsbergen 1979, "Information Retrieval", chapter 7.

    Raises:
        MetricError: the columns differ in length.
    """
    return proportion([right if is_label(truth, label) else None for truth, _, right in _rows(gold, judged)], clusters)


def precision(gold: Column, judged: Column, label: Any, *, clusters: Clusters = None) -> Interval:
    """Of the rows that the judge gives this label, the share that have it. Args and errors are those of `recall`."""
    return proportion([right if is_label(found, label) else None for _, found, right in _rows(gold, judged)], clusters)


def true_positive_rate(gold: Column, judged: Column, positive: Any = True, *, clusters: Clusters = None) -> Interval:
    """Of the good rows, the share that the judge passes: its sensitivity. Args and errors are those of `recall`."""
    return recall(gold, judged, positive, clusters=clusters)


def true_negative_rate(gold: Column, judged: Column, positive: Any = True, *, clusters: Clusters = None) -> Interval:
    """Of the rows that are not good, the share that the judge does not pass: its specificity.

    On a scale of several labels, any that is not `positive` does not pass. No verdict is no rejection.

    Args and errors are those of `recall`.
    """
    rows = _rows(gold, judged)
    rejected = [
        None if missing(truth) or is_label(truth, positive) else not (missing(found) or is_label(found, positive))
        for truth, found, _ in rows
    ]
    return proportion(rejected, clusters)


@dataclass(frozen=True, slots=True)
class Confusion:
    """What became of each gold label.

    Attributes:
        labels: the scale.
        counts: row i, column j: how often gold label i was judged label j.
        unjudged: by gold label, the rows without a verdict.
    """

    labels: tuple[Any, ...]
    counts: tuple[tuple[int, ...], ...]
    unjudged: tuple[int, ...]


def confusion(gold: Column, judged: Column, labels: Sequence[Any] | None = None) -> Confusion:
    """The confusion matrix.

    Args:
        gold, judged: as for `accuracy`.
        labels: the scale, in order; by default the labels that occur.

    Raises:
        MetricError: the columns differ in length, or a label is not on the scale.
    """
    truths, founds = aligned(gold=gold, judged=judged)
    scale = distinct([*truths, *founds]) if labels is None else list(labels)
    true, found = encoded(truths, scale), encoded(founds, scale)
    counts = np.zeros((len(scale), len(scale) + 1), dtype=np.int64)
    kept = true >= 0
    np.add.at(counts, (true[kept], found[kept]), 1)  # no verdict is -1, the last column
    rows = counts.tolist()
    return Confusion(tuple(scale), tuple(tuple(row[:-1]) for row in rows), tuple(row[-1] for row in rows))


def is_label(value: Any, label: Any) -> bool:
    """Whether an entry is a label. Yes is not 1."""
    return not missing(value) and bool(value == label) and _is_bool(value) == _is_bool(label)


def _rows(gold: Column, judged: Column) -> list[tuple[Any, Any, bool | None]]:
    """Gold label, judged label, and whether they are one; None where there is no gold label."""
    truths, founds = aligned(gold=gold, judged=judged)
    kinds = [{_is_bool(value) for value in column if not missing(value)} for column in (truths, founds)]
    if any(len(kind) > 1 for kind in kinds) or (all(kinds) and kinds[0] != kinds[1]):
        raise MetricError("true and false are no numbers: gold and judged are labels of one scale")
    return [
        (truth, found, None if missing(truth) else not missing(found) and bool(truth == found))
        for truth, found in zip(truths, founds, strict=True)
    ]


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))
