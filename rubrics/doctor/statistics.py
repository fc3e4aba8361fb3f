"""The statistics of the doctor: ranks, areas under the curve, partial correlations, on numpy arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_Z = 1.959963984540054  # the 97.5th percentile of the normal distribution


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; `n` is the number of rows behind it."""

    value: float
    low: float
    high: float
    n: int


def ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs. Shape (n,)."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Floats = (ends - (counts - 1) / 2.0)[inverse]
    return shared


def area_under_curve(scores: Floats, positive: NDArray[np.bool_]) -> Estimate | None:
    """How likely a positive row has a higher score than a negative one, ties counted half; 0.5 is chance.

    The interval is DeLong's, from structural components worked out by ranks (DeLong, DeLong and Clarke-Pearson 1988;
    Sun and Xu 2014).

    Args:
        scores: shape (n,), finite.
        positive: shape (n,).

    Returns:
        None with fewer than two rows of either kind.
    """
    above, below = scores[positive], scores[~positive]
    if above.size < 2 or below.size < 2:
        return None
    together = ranks(np.concatenate([above, below]))
    of_positive = (together[: above.size] - ranks(above)) / below.size
    of_negative = 1.0 - (together[above.size :] - ranks(below)) / above.size
    area = float(of_positive.mean())
    variance = float(of_positive.var(ddof=1)) / above.size + float(of_negative.var(ddof=1)) / below.size
    reach = _Z * math.sqrt(variance)
    return Estimate(area, max(0.0, area - reach), min(1.0, area + reach), scores.size)


def least_share(count: int, n: int) -> float:
    """The lower end of Wilson's 95 % interval of a share (Wilson 1927)."""
    share, z2 = count / n, _Z * _Z
    middle, reach = share + z2 / (2 * n), _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return (middle - reach) / (1 + z2 / n)


def correlation(x: Floats, y: Floats) -> float | None:
    """Pearson's r; None where one of the two does not vary."""
    a, b = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 1e-12 * max(1.0, float(np.abs(x).max()), float(np.abs(y).max())) else None


def partial_rank_correlation(x: Floats, y: Floats, given: Floats | None = None) -> Estimate | None:
    """Spearman's correlation of x and y, with that of `given` taken out of both, and its interval by Fisher's z.

    r_xy.z = (r_xy - r_xz r_yz) / sqrt((1 - r_xz²) (1 - r_yz²)), on ranks; the variance of atanh(r) is 1 / (n - 3 - k)
    with k things taken out (Fisher 1924).

    Returns:
        None with fewer than 5 rows, or where something does not vary.
    """
    if x.size < 5:
        return None
    a, b = ranks(x), ranks(y)
    r = correlation(a, b)
    taken = 0
    if r is not None and given is not None:
        c = ranks(given)
        with_x, with_y = correlation(a, c), correlation(b, c)
        if with_x is not None and with_y is not None:
            rest = (1.0 - with_x**2) * (1.0 - with_y**2)
            if rest < 1e-9:
                return None
            r, taken = (r - with_x * with_y) / math.sqrt(rest), 1
    if r is None:
        return None
    r = min(1.0, max(-1.0, r))
    z, reach = math.atanh(min(max(r, -1 + 1e-12), 1 - 1e-12)), _Z / math.sqrt(x.size - 3 - taken)
    return Estimate(r, math.tanh(z - reach), math.tanh(z + reach), x.size)
