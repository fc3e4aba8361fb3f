"""Weighted sums that are rounded once: the exact Σ w·s, as a float.

A product of two floats is exact when it is cut in halves (Veltkamp, Dekker 1971): each float is the sum of two of 26
bits, and the four products of halves are floats again. `fsum` then rounds the exact sum of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from math import fsum, inf
from typing import Any

SPLIT = 134217729.0  # 2**27 + 1
TINY = 1e-290  # below it, products of halves may underflow
UNROLLED = 24  # sums of up to so many terms are written out
SHORT = frozenset((0.0, 0.5, 1.0, -1.0))  # scores with which a product is exact as it is, and which most nodes give


def halves(x: float) -> tuple[float, float]:
    """Two floats of at most 26 bits whose sum is x."""
    high = SPLIT * x
    high -= high - x
    return high, x - high


def dot(weights: Sequence[float], scores: Sequence[float]) -> float:
    """The exact Σ w·s, rounded once; infinite where it does not fit into a float."""
    terms: list[float] = []
    for weight, score in zip(weights, scores, strict=True):
        wh, wl = halves(weight)
        sh, sl = halves(score)
        terms += (wh * sh, wl * sh, wh * sl, wl * sl)
    try:
        total = fsum(terms)
    except (OverflowError, ValueError):
        total = inf
    if total - total == 0.0 and (abs(total) > TINY or not any(scores)):
        return total
    try:  # halves that overflow or underflow
        return float(sum(Fraction(w) * Fraction(s) for w, s in zip(weights, scores, strict=True)))
    except (OverflowError, ValueError):
        return inf


def written_out(
    weights: Sequence[float], divisor: float, carefully: Callable[[list[Any]], Any]
) -> Callable[[list[Any]], Any]:
    """A faster function for `dot(weights, scores) / divisor`.

    Args:
        weights, divisor: of the sum.
        carefully: answers where the scores are not all plain floats, and where halves may not be exact.
    """
    if len(weights) > UNROLLED or any(0.0 < abs(weight) < TINY for weight in weights):
        return carefully
    parts = [part for weight in weights for part in (weight, *halves(weight))]
    return _unrolled(len(weights))(parts, divisor, carefully)


@cache
def _unrolled(n: int) -> Callable[[list[float], float, Callable[[list[Any]], Any]], Callable[[list[Any]], Any]]:
    """Writes the sum of n terms out as code, once for each n: a loop over so few costs more than the sum itself."""
    scores = ", ".join(f"s{i}" for i in range(n))
    products = ", ".join(f"h{i} * a{i}, l{i} * a{i}, h{i} * b{i}, l{i} * b{i}" for i in range(n))
    lines = [
        "def bind(parts, divisor, carefully):",
        f"    {', '.join(f'w{i}, h{i}, l{i}' for i in range(n))}, = parts",
        "    def rule(scores):",
        f"        {scores}, = scores",
        f"        if not ({' is '.join(f's{i}.__class__' for i in range(n))} is float):",
        "            return carefully(scores)",
        "        try:",
        "            if SHORT.issuperset(scores):",
        f"                return fsum(({', '.join(f'w{i} * s{i}' for i in range(n))},)) / divisor",
        *(f"            a{i} = SPLIT * s{i}; a{i} -= a{i} - s{i}; b{i} = s{i} - a{i}" for i in range(n)),
        f"            total = fsum(({products}))",
        "        except (OverflowError, ValueError):",
        "            return carefully(scores)",
        "        if total - total == 0.0 and (total > TINY or total < -TINY):",
        "            return total / divisor",
        "        return carefully(scores)",
        "    return rule",
    ]
    names: dict[str, Any] = {"fsum": fsum, "SPLIT": SPLIT, "TINY": TINY, "SHORT": SHORT}
    exec("\n".join(lines), names)
    return names["bind"]  # type: ignore[no-any-return]
