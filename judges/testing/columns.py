"""What the statistics are given: columns of labels, one entry an observation, `None` or NaN where there is none."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from judges.scale import isfinite_number
from rubrics.score import RubricError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Codes: TypeAlias = NDArray[np.intp]

Column: TypeAlias = "Sequence[Any] | NDArray[Any]"
Clusters: TypeAlias = "Sequence[Hashable] | NDArray[Any] | None"


class MetricError(RubricError, ValueError):
    """A statistic cannot be computed from what it was given: columns of different lengths, a label off the scale, …"""


def missing(value: Any) -> bool:
    """Whether an entry is none: `None` or NaN."""
    return value is None or (isinstance(value, (float, np.floating)) and bool(value != value))


def aligned(**columns: Column) -> list[list[Any]]:
    """Columns as lists.

    Raises:
        MetricError: their lengths differ, or one is a text.
    """
    for name, column in columns.items():
        if isinstance(column, str):
            raise MetricError(f"{name} is a column, one entry an observation, not the text {column[:40]!r}")
    lists = [list(column) for column in columns.values()]
    if len({len(column) for column in lists}) > 1:
        sizes = ", ".join(f"{name} has {len(column)}" for name, column in zip(columns, lists, strict=True))
        raise MetricError(f"columns must be of one length, one entry an observation: {sizes}")
    return lists


def distinct(values: Iterable[Any]) -> list[Any]:
    """The labels that occur, in order where they have one.

    Raises:
        MetricError: one is a list or a mapping.
    """
    found = dict.fromkeys(_label(value) for value in values if not missing(value))
    try:
        return sorted(found)
    except TypeError:  # labels of several types
        return sorted(found, key=lambda label: (type(label).__name__, repr(label)))


def _label(value: Any) -> Hashable:
    if not isinstance(value, Hashable):
        raise MetricError(f"a label is a text, a number, true or false, not {value!r}")
    return value


def encoded(values: Sequence[Any], labels: Sequence[Any]) -> Codes:
    """The place of each value among the labels, -1 where it is missing.

    Raises:
        MetricError: a value is not among the labels.
    """
    places = {label: place for place, label in enumerate(labels)}
    if len(places) < len(labels):
        raise MetricError(f"labels are distinct; got {list(labels)!r}")
    codes = np.empty(len(values), dtype=np.intp)
    for row, value in enumerate(values):
        place = -1 if missing(value) else places.get(_label(value), -2)
        if place == -2:
            raise MetricError(f"entry {row} is {value!r}, which is not among the labels {list(labels)!r}")
        codes[row] = place
    return codes


def numbers(values: Sequence[Any], name: str) -> Floats:
    """A column of finite numbers, NaN where one is missing. A boolean counts as 0 or 1.

    Raises:
        MetricError: an entry is no number, or infinite.
    """
    column = np.empty(len(values))
    for row, value in enumerate(values):
        if missing(value):
            column[row] = np.nan
            continue
        number = isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))
        if not number or not isfinite_number(float(value) if isinstance(value, np.floating) else value):
            raise MetricError(f"{name}, entry {row}: {value!r} is no finite number; None stands for a missing one")
        column[row] = value
    return column


def outcomes(values: Sequence[Any], name: str) -> Floats:
    """A column of yes and no as 1 and 0, NaN where one is missing.

    Raises:
        MetricError: an entry is neither.
    """
    column = numbers(values, name)
    for row in np.flatnonzero((column != 0.0) & (column != 1.0) & ~np.isnan(column)).tolist():
        raise MetricError(f"{name}, entry {row}: {values[row]!r} is neither yes nor no (True, False, 1, 0)")
    return column


def cluster_codes(clusters: Clusters, size: int) -> Codes | None:
    """The number of each observation's cluster, counted from 0; None where each observation is one by itself.

    Raises:
        MetricError: there is not one cluster an observation, or one is missing.
    """
    if clusters is None:
        return None
    named = list(clusters)
    if len(named) != size:
        raise MetricError(f"clusters name the item of each observation: {size} observations, {len(named)} clusters")
    numbered: dict[Any, int] = {}
    for row, name in enumerate(named):
        if missing(name):
            raise MetricError(f"clusters, entry {row}: an observation belongs to an item; got {name!r}")
        numbered.setdefault(name, len(numbered))
    codes = np.array([numbered[name] for name in named], dtype=np.intp)
    return None if len(numbered) == size else codes


def chosen(clusters: Clusters, kept: NDArray[np.bool_]) -> Clusters:
    """The clusters of the observations that are kept.

    Raises:
        MetricError: there is not one cluster an observation.
    """
    if clusters is None:
        return None
    if len(clusters) != len(kept):
        raise MetricError(
            f"clusters name the item of each observation: {len(kept)} observations, {len(clusters)} clusters"
        )
    return [cluster for cluster, keep in zip(clusters, kept, strict=True) if keep]
