"""Strengths of candidates out of who beat whom, with their intervals; the strengths are `judges.bradley_terry`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from judges.ranking import bradley_terry
from judges.testing.intervals import Interval, Z

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def strength_intervals(wins: ArrayLike, prior: float = 0.0) -> tuple[Interval, ...]:
    """The log strengths of Bradley and Terry, each with its interval.

    The intervals are Wald's, with the inverse of the Fisher information among strengths of mean 0. Games count as
    independent: where a pair was played in both orders, count its mean once.

    Args:
        wins, prior: as for `bradley_terry`; the wins of a prior count as games.

    Returns:
        For each candidate; n is its number of games.

    Source: Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs", Biometrika 39; the information: Hunter
    2004, "MM Algorithms for Generalized Bradley-Terry Models", Annals of Statistics 32.

    Raises:
        JudgeConfigError: as for `bradley_terry`.
    """
    strengths = bradley_terry(wins, prior)
    matrix = np.array(wins, dtype=np.float64)
    np.fill_diagonal(matrix, 0.0)
    games = matrix + matrix.T
    played = games + 2.0 * prior
    chance = 1.0 / (1.0 + np.exp(-(strengths[:, None] - strengths)))
    information = played * chance * (1.0 - chance)
    np.fill_diagonal(information, 0.0)
    laplacian = np.diag(information.sum(axis=1)) - information
    errors = np.sqrt(np.diag(np.linalg.pinv(laplacian, hermitian=True)))
    intervals = []
    for strength, error, n in zip(strengths.tolist(), errors.tolist(), games.sum(axis=1).tolist(), strict=True):
        count = round(n)
        intervals.append(Interval(strength, strength - Z * error, strength + Z * error, count, count, "wald"))
    return tuple(intervals)
