"""Ranks within groups: a trainer that compares the rollouts of a task sees their order, not their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""Two rewards are equal within these tolerances, as in `math.isclose`."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The order of the rollouts of one task under the old and the new rewards; only those that have both count.

    Attributes:
        group: what they share.
        n: number of rollouts.
        pairs: number of pairs of them, n (n - 1) / 2.
        discordant: pairs whose order is reversed.
        tied: pairs that are equal in the new run and were not in the old.
        untied: pairs that were equal in the old run and are not in the new.
        tau: Kendall's tau-b, in [-1, 1]; None where all rollouts are equal in one of the runs.
        best_changed: no rollout that was best is still best. Several may be.
        old_mean, new_mean: of the rewards.
        old_flat, new_flat: all rewards are equal, so that the group teaches a trainer nothing.
    """

    group: str
    n: int
    pairs: int
    discordant: int
    tied: int
    untied: int
    tau: float | None
    best_changed: bool
    old_mean: float
    new_mean: float
    old_flat: bool
    new_flat: bool


def group_change(group: str, old: Sequence[float], new: Sequence[float]) -> GroupChange:
    """Compare the order of a group's rollouts.

    Kendall's tau-b is (C - D) / sqrt((C + D + T) (C + D + U)) with C concordant and D discordant pairs, T pairs tied in
    the new rewards only and U in the old only (M. G. Kendall, The treatment of ties in ranking problems, 1945).

    Args:
        group: its name.
        old, new: rewards of the same rollouts in the same order, at least one. Time grows with the square of their
            number.
    """
    import numpy as np

    before, after = np.asarray(old, float), np.asarray(new, float)
    concordant = discordant = tied = untied = 0
    for i in range(len(before) - 1):
        a, b = _signs(before, i), _signs(after, i)
        concordant += int(np.count_nonzero(a * b > 0))
        discordant += int(np.count_nonzero(a * b < 0))
        tied += int(np.count_nonzero((a != 0) & (b == 0)))
        untied += int(np.count_nonzero((a == 0) & (b != 0)))
    ordered = concordant + discordant
    scale = sqrt((ordered + tied) * (ordered + untied))
    best_before, best_after = (np.isclose(x, x.max(), rtol=RELATIVE, atol=ABSOLUTE) for x in (before, after))
    return GroupChange(
        group=group,
        n=len(before),
        pairs=len(before) * (len(before) - 1) // 2,
        discordant=discordant,
        tied=tied,
        untied=untied,
        tau=(concordant - discordant) / scale if scale else None,
        best_changed=not bool(np.any(best_before & best_after)),
        old_mean=float(before.mean()),
        new_mean=float(after.mean()),
        old_flat=ordered + tied == 0,
        new_flat=ordered + untied == 0,
    )


def _signs(values: Any, i: int) -> Any:
    """The order of the value `i` and each one after it: -1, 0 where they are equal, or 1."""
    import numpy as np

    here, rest = values[i], values[i + 1 :]
    near = np.maximum(RELATIVE * np.maximum(np.abs(rest), abs(here)), ABSOLUTE)
    return np.where(np.abs(rest - here) <= near, 0.0, np.sign(rest - here))
