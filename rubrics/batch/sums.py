"""Weighted sums of columns, each row rounded once: what `exact.dot` gives, bit for bit, for many rows at a time.

Scores and weights are cut into parts of so few bits that the products of the upper parts, and the sums of those, are
floats (Zielke and Drygalla 2003; Rump, Ogita and Oishi 2008). What is left is so small that its rounding hardly ever
matters. Where it may, sums and products are taken with what their rounding loses (Dekker 1971; Ogita, Rump and Oishi
2005), and where that does not tell either, `dot` is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil, frexp, log2
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rubrics.containers.exact import SPLIT, dot, halves, written_out

Column: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

_BLOCK = 2**15  # numbers at a time: what one block needs stays near the core
_FEW = 4  # so many different values in a column, or fewer, are few
_KINDS = 4096  # rows of so many kinds, or fewer, are summed once a kind, where that is fewer than one in _PAYS rows
_PAYS = 32
_MANY = 200  # fewer rows are summed one by one
_ROUNDING = 2.0**-53
_LARGE, _SMALL = 1e140, 1e-140  # outside of these, products of parts might overflow or underflow


def dots(weights: Sequence[float], columns: Sequence[Column]) -> Column:
    """Σ w·s of each row, exactly, rounded once; not finite where it does not fit into a float.

    Args:
        weights: finite.
        columns: as many as there are weights, each (rows,), finite.
    """
    rows = len(columns[0])
    if rows < _MANY:
        return _one_by_one(weights, columns, range(rows))
    values = [_few_values(column) for column in columns]
    kinds = 1
    for found in values:
        kinds *= len(found) if found else _KINDS + 1
    if kinds <= min(_KINDS, rows // _PAYS):
        return _by_kind(weights, columns, [found or [] for found in values])
    total = np.zeros(rows, np.float64)
    doubtful = np.arange(rows)
    most, tame = _sizes(columns)
    most_of_weights, tame_weights = _sizes([np.array(weights)])
    if tame and tame_weights:
        with np.errstate(all="ignore"):
            doubtful = _quickly(weights, columns, most_of_weights, most, total)
            if len(doubtful) >= _MANY:
                doubtful = _carefully(weights, columns, doubtful, total)
    if len(doubtful):
        total[doubtful] = _one_by_one(weights, columns, doubtful.tolist())
    return total


def _one_by_one(weights: Sequence[float], columns: Sequence[Column], rows: Sequence[int]) -> Column:
    sum_of = written_out(weights, 1.0, partial(dot, weights))
    if len(rows) < len(columns[0]):
        columns = [column[rows] for column in columns]
    scores = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([sum_of(row) for row in scores], np.float64)  # type: ignore[arg-type]  # a tuple is as good


def _sizes(columns: Sequence[Column]) -> tuple[float, bool]:
    """The greatest absolute value, and whether all of them lie where parts are safe."""
    most, tame = 0.0, True
    for column in columns:
        least, greatest = float(column.min()), float(column.max())
        most = max(most, greatest, -least)
        tame = tame and most < _LARGE
        if tame and least <= _SMALL:  # else all of them are above
            size = np.absolute(column)
            tame = not (size <= _SMALL).any(where=size > 0.0)
    return most, tame


def _few_values(column: Column) -> list[float] | None:
    """The different values of a column, or None where there are more than a few."""
    found = list(dict.fromkeys(column[:64].tolist()))
    if len(found) > _FEW:
        return None
    known = np.zeros(len(column), np.bool_)
    for value in found:
        known |= column == value
    while not known.all():
        found.append(float(column[known.argmin()]))
        if len(found) > _FEW:
            return None
        known |= column == found[-1]
    return found


def _by_kind(weights: Sequence[float], columns: Sequence[Column], values: Sequence[list[float]]) -> Column:
    """Where rows are of few kinds, the sum of each kind is worked out once."""
    kind = np.zeros(len(columns[0]), np.int16)
    for column, found in zip(columns, values, strict=True):
        if len(found) > 1:
            kind *= len(found)
            for number, value in enumerate(found[1:], start=1):
                kind += np.int16(number) * (column == value)
    sizes = [len(found) for found in values]
    there = np.bincount(kind, minlength=int(np.prod(sizes)))
    table = np.zeros(len(there), np.float64)
    for each in np.flatnonzero(there):
        places = np.unravel_index(each, sizes)
        table[each] = dot(weights, [found[place] for found, place in zip(values, places, strict=True)])
    return table[kind]


def _quickly(
    weights: Sequence[float], columns: Sequence[Column], most_of_weights: float, most: float, total: Column
) -> Rows:
    """Fill in the sums, a block at a time; returns the rows that may be rounded wrongly."""
    terms = len(weights)
    bits = (52 - ceil(log2(2 * terms))) // 2  # of a part, so that a sum of so many products of parts is a float
    unit, unit_of_weights = (2.0 ** (frexp(size)[1] - bits) for size in (most, most_of_weights))
    whole, none = np.array(weights), np.zeros(terms)
    upper, middle, lower = np.empty((3, terms))
    _cut(whole, unit_of_weights, 2.0**-bits, upper, middle, lower)
    by_part = np.stack(  # of the upper, the middle and the lower parts of scores
        [
            np.concatenate([upper, none, none]),
            np.concatenate([middle, upper, none]),
            np.concatenate([lower, middle + lower, whole]),
        ]
    )
    # The first two sums are exact. The third is one of 3 n products, none larger than a unit times a unit.
    bound = 1.01 * (3 * terms + 4) * _ROUNDING * 4 * terms * unit * unit_of_weights
    doubtful = []
    rows = min(max(_BLOCK // terms, 64), max(len(total), 1))
    room, scores = np.empty((3, terms, rows)), np.empty((terms, rows))
    for start in range(0, len(total), rows):
        size = min(rows, len(total) - start)
        for into, column in zip(scores, columns, strict=True):
            into[:size] = column[start : start + size]
        _cut(scores, unit, 2.0**-bits, *room)  # of the last block, also what is left there of the one before
        high, low, rest = by_part @ room.reshape(3 * terms, rows)
        high, low = _both(high, low)
        low += rest
        loss = 2 * _ROUNDING * float(np.absolute(low).max())
        rounded, rest = _both(high, low)
        safe = np.absolute(rest) + (bound + loss) < _half_gap(rounded)
        total[start : start + size] = rounded[:size] + 0.0  # which is never -0.0
        if not safe[:size].all():
            doubtful.append(np.flatnonzero(~safe[:size]) + start)
    return np.concatenate(doubtful) if doubtful else np.empty(0, np.intp)


def _cut(x: Column, unit: float, finer: float, upper: Column, middle: Column, lower: Column) -> None:
    """Write three parts whose sum is x: multiples of a unit, multiples of a finer one, and what is left."""
    rounder = 1.5 * 2.0**52 * unit  # adding it leaves no bits below the unit
    np.add(x, rounder, out=upper)
    np.subtract(upper, rounder, out=upper)
    np.subtract(x, upper, out=lower)
    np.add(lower, rounder * finer, out=middle)
    np.subtract(middle, rounder * finer, out=middle)
    np.subtract(lower, middle, out=lower)


def _carefully(weights: Sequence[float], columns: Sequence[Column], rows: Rows, total: Column) -> Rows:
    """The same for some rows, with what the sum of the losses loses: it is nothing where the exact sum is a tie."""
    sum_, lost, beyond = np.zeros((3, len(rows)), np.float64)
    for weight, column in zip(weights, columns, strict=True):
        scores = column[rows]
        high, low = halves(weight)
        upper = SPLIT * scores
        upper -= upper - scores
        lower = scores - upper
        product = scores * weight
        of_product = ((upper * high - product) + upper * low + lower * high) + lower * low
        sum_, of_sum = _both(sum_, product)
        for loss in (of_product, of_sum):
            lost, further = _both(lost, loss)
            beyond += np.absolute(further)
    rounded, rest = _both(sum_, lost)
    total[rows] = rounded + 0.0
    safe = (beyond == 0.0) | (np.absolute(rest) + 1.01 * beyond < _half_gap(rounded))
    return rows[np.flatnonzero(~safe | ~np.isfinite(rounded))]


def _both(a: Column, b: Column) -> tuple[Column, Column]:
    """A sum, rounded, and what the rounding lost."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _half_gap(x: Column) -> Column:
    """Half the smaller one of the distances to the two floats beside each; NaN for 0."""
    size = np.absolute(x)
    below: Column = (size.view(np.int64) - 1).view(np.float64)
    return 0.5 * (size - below)
