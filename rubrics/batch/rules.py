"""The rules of the containers over columns: the scores of many rows at once, NaN where a row is unscored.

Each gives what the `combine` of its class gives row by row, to the bit. They are kept by class and are not inherited: a
class of a user may change a rule, so its tree is evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rubrics.batch.sums import Column, dots
from rubrics.containers.gates import AllOf, AnyOf, Gate, Product, Sequential, Switch
from rubrics.containers.transforms import Clip, Fallback, Invert, Map, Scale
from rubrics.containers.weighted_sum import WeightedSum
from rubrics.score import Unscored, checked, is_pending

AGAIN = inf
"""In a column: the row has to be evaluated by itself, since it is pending, or raises, or is no finite number."""


def weighted_sum(node: WeightedSum, columns: list[Column]) -> Column:
    weights, divisor = node.weights, node._divisor
    missing = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        missing |= np.isnan(column)
    if not missing.any():
        return dots(weights, columns) / divisor
    total = np.full(len(missing), np.nan)
    whole = np.flatnonzero(~missing)
    total[whole] = dots(weights, [column[whole] for column in columns]) / divisor
    if node.on_unscored == "renormalize":
        _renormalised(node, columns, np.flatnonzero(missing), total)
    return total


def _renormalised(node: WeightedSum, columns: list[Column], rows: NDArray[np.intp], total: Column) -> None:
    """Fill in the sums of rows in which children are missing: those that miss the same ones have the same weights."""
    scored = np.stack([~np.isnan(column[rows]) for column in columns])
    patterns, which = np.unique(scored, axis=1, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    counts = np.bincount(which.ravel(), minlength=patterns.shape[1])
    for there, members in zip(patterns.T, np.split(order, np.cumsum(counts)[:-1]), strict=True):
        scale = node._scale([0.0 if is_there else None for is_there in there])
        if scale is None:
            continue
        weights = [w * scale if w > 0.0 else w for w, is_there in zip(node.weights, there, strict=True) if is_there]
        kept = [column[rows[members]] for column, is_there in zip(columns, there, strict=True) if is_there]
        total[rows[members]] = dots(weights, kept) / node._divisor


def gate(node: Gate, columns: list[Column]) -> Column:
    (score,), threshold = columns, node.threshold
    passes = score >= threshold
    near = np.flatnonzero((score >= threshold - 1e-8 * abs(threshold) - 1e-11) & ~passes)  # within rounding, or not
    passes[near] = [node._passes(each) for each in score[near].tolist()]
    return score * passes + 0.0  # NaN stays NaN, and there is no -0.0


def last(node: Any, columns: list[Column]) -> Column:
    return columns[-1]


def all_of(node: AllOf, columns: list[Column]) -> Column:
    failed = columns[0] <= 0.0
    least = columns[0]
    for column in columns[1:]:
        failed |= column <= 0.0
        least = np.minimum(least, column)  # NaN where either is
    return np.where(failed, 0.0, least)


def any_of(node: AnyOf, columns: list[Column]) -> Column:
    most = columns[0]
    for column in columns[1:]:
        most = np.maximum(most, column)
    return most


def product(node: Product, columns: list[Column]) -> Column:
    if len(columns) == 1:
        return columns[0]
    factors = np.sort(np.stack(columns), axis=0)
    result: Column = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def scale(node: Scale, columns: list[Column]) -> Column:
    return node.factor * columns[0] + node.offset


def clip(node: Clip, columns: list[Column]) -> Column:
    return np.minimum(np.maximum(columns[0], node.low), node.high)


def invert(node: Invert, columns: list[Column]) -> Column:
    return 1.0 - columns[0]


def mapped(node: Map, columns: list[Column]) -> Column:
    return np.array([score if score != score else number_of(node.change, score) for score in columns[0].tolist()])


def fallback(node: Fallback, columns: list[Column]) -> Column:
    score = columns[-1]
    return score if node.value is None else np.where(np.isnan(score), node.value, score)


def number_of(function: Callable[..., Any], *args: Any) -> float:
    """What a function that gives a score gives, as a number of a column."""
    try:
        value = function(*args)
        if value.__class__ is float and value - value == 0.0:
            return value
        outcome = checked(value, str)
    except Unscored:
        return np.nan
    except Exception:  # raised again when the row is evaluated by itself, with its place
        return AGAIN
    if isinstance(outcome, Unscored):
        return np.nan
    return AGAIN if is_pending(outcome) else float(outcome)


RULES: dict[type, Callable[[Any, list[Column]], Column]] = {
    WeightedSum: weighted_sum,
    Gate: gate,
    Sequential: last,
    AllOf: all_of,
    AnyOf: any_of,
    Product: product,
    Switch: last,
    Scale: scale,
    Clip: clip,
    Invert: invert,
    Map: mapped,
    Fallback: fallback,
}

STOPS: dict[type, Callable[[Column], NDArray[np.bool_]]] = {
    Sequential: lambda column: ~(column > 0.0),
    AllOf: lambda column: column <= 0.0,
    Fallback: lambda column: ~np.isnan(column),
}
"""For classes that stop early: the rows that need no further child."""
