"""Intervals of Bradley-Terry strengths."""

from math import log, sqrt

import numpy as np
import pytest

from judges import JudgeConfigError
from judges.testing.metrics import bradley_terry, strength_intervals

pytest.importorskip("choix")


def test_two_by_hand() -> None:
    first, second = strength_intervals([[0, 30], [10, 0]])
    half = 1.959964 * sqrt(1 / 30 + 1 / 10) / 2  # half the error of the log odds
    assert (first.estimate, second.estimate) == pytest.approx((log(3) / 2, -log(3) / 2))
    assert (first.low, first.high) == pytest.approx((log(3) / 2 - half, log(3) / 2 + half))
    assert (first.n, first.method) == (40, "wald")


def test_strengths_are_those_of_bradley_terry() -> None:
    wins = np.random.default_rng(0).integers(1, 9, (4, 4))
    assert [found.estimate for found in strength_intervals(wins, 0.5)] == pytest.approx(bradley_terry(wins, 0.5))
    with pytest.raises(JudgeConfigError, match="strongly connected"):
        strength_intervals([[0, 1], [0, 0]])


def test_coverage() -> None:
    rng = np.random.default_rng(0)
    true = np.array([0.8, 0.1, -0.2, -0.7])
    chance = 1 / (1 + np.exp(true - true[:, None]))
    covered = 0
    for _ in range(100):
        wins = np.triu(rng.binomial(30, chance), 1)
        wins = wins + np.tril(30 - wins.T, -1)
        found = strength_intervals(wins)
        covered += sum(each.low <= strength <= each.high for each, strength in zip(found, true, strict=True))  # type: ignore[operator]
    assert 0.92 <= covered / 400 <= 0.985
