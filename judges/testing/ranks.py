"""Ranks and correlations of items that have weights, for many weightings at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from judges.testing.columns import Codes, Floats


_FEW = 64  # groups whose sums are one product


def grouped(weights: Floats, groups: Codes) -> Floats:
    """The weight of each group, shape (resamples, groups), of weights (resamples, items) and the group of each item."""
    count = int(groups.max()) + 1
    if count <= _FEW:
        few: Floats = weights @ (groups[:, None] == np.arange(count)).astype(np.float64)
        return few
    order = np.argsort(groups, kind="stable")
    sorted_: Floats = np.take(weights, order, axis=1)
    if count == len(groups):
        return sorted_
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    summed: Floats = np.add.reduceat(sorted_, starts, axis=1)
    return summed


def midranks(weights: Floats, places: Codes) -> Floats:
    """The rank of each item, ties sharing the mean of theirs, up to a constant.

    Args:
        weights: shape (resamples, items).
        places: of each item's value among the different values, shape (items,).

    Returns:
        Shape (resamples, items).
    """
    often = grouped(weights, places)
    ranks: Floats = np.take(np.cumsum(often, axis=1) - often / 2.0, places, axis=1)
    return ranks


def correlation(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Pearson's correlation of columns of ranks, shape (resamples,); NaN where one of them is constant."""
    total = weights.sum(axis=1, keepdims=True)
    x = x - np.einsum("ij,ij->i", weights, x)[:, None] / total
    y = y - np.einsum("ij,ij->i", weights, y)[:, None] / total
    spread = np.einsum("ij,ij,ij->i", weights, x, x) * np.einsum("ij,ij,ij->i", weights, y, y)
    defined = spread > 1e-9  # ranks that differ at all are further apart
    value = np.einsum("ij,ij,ij->i", weights, x, y) / np.sqrt(np.where(defined, spread, 1.0))
    return np.where(defined, np.clip(value, -1.0, 1.0), np.nan)


def partial_correlation(weights: Floats, x: Floats, y: Floats, given: Floats) -> Floats:
    """The correlation of x and y that is left when both are freed of what `given` explains of them linearly.

    (r_xy − r_xz r_yz) / √((1 − r_xz²)(1 − r_yz²)); r_xy where `given` is constant; NaN where it explains one of them
    entirely.
    """
    plain, with_x, with_y = correlation(weights, x, y), correlation(weights, x, given), correlation(weights, y, given)
    with_x, with_y = np.nan_to_num(with_x), np.nan_to_num(with_y)
    left = (1.0 - with_x**2) * (1.0 - with_y**2)
    defined = left > 1e-9
    value = (plain - with_x * with_y) / np.sqrt(np.where(defined, left, 1.0))
    return np.where(defined, np.clip(value, -1.0, 1.0), np.nan)
