"""The doctor's statistics, by hand and against libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rubrics.doctor.statistics import area_under_curve, correlation, least_share, partial_rank_correlation, ranks


def test_ranks_of_equal_values_are_shared() -> None:
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_the_area_by_hand() -> None:
    # Pairs of a positive (3, 2) and a negative (1, 2): 3>1, 3>2, 2>1, 2=2: 3.5 of 4.
    found = area_under_curve(np.array([3.0, 2.0, 1.0, 2.0]), np.array([True, True, False, False]))
    assert found is not None and found.value == pytest.approx(0.875)
    # Components: of the positives 1 and 0.75, of the negatives 1 and 0.75; variances 0.03125 each.
    reach = 1.959963984540054 * math.sqrt(0.03125 / 2 + 0.03125 / 2)
    assert (found.low, found.high) == (pytest.approx(0.875 - reach), 1.0)
    assert area_under_curve(np.array([1.0, 2.0]), np.array([True, False])) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=4, max_size=40))
def test_the_area_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    scores, positive = np.array([float(s) for s, _ in rows]), np.array([p for _, p in rows])
    found = area_under_curve(scores, positive)
    if found is None:
        assert min(positive.sum(), (~positive).sum()) < 2
    else:
        assert found.value == pytest.approx(metrics.roc_auc_score(positive, scores))
        assert 0.0 <= found.low <= found.value <= found.high <= 1.0


def test_a_partial_correlation_by_hand() -> None:
    x, y, z = (np.array(values, dtype=float) for values in ([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5], [1, 2, 3, 4, 6, 5]))
    whole = partial_rank_correlation(x, y)
    # Spearman: 1 - 6 Σd² / (n (n² - 1)), d² = 1 six times: 1 - 36 / 210.
    assert whole is not None and whole.value == pytest.approx(1 - 36 / 210)
    xy, xz, yz = 1 - 36 / 210, 1 - 12 / 210, 1 - 24 / 210
    beside = partial_rank_correlation(x, y, z)
    assert beside is not None
    assert beside.value == pytest.approx((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))
    assert math.atanh(whole.high) - math.atanh(whole.value) == pytest.approx(1.959963984540054 / math.sqrt(3))


def test_the_lower_end_of_wilson() -> None:
    # Wilson's interval for 9 of 10 is .596 to .982.
    assert least_share(9, 10) == pytest.approx(0.5958, abs=1e-4)
    assert least_share(10, 10) == pytest.approx(10 / (10 + 1.959963984540054**2))


def test_where_nothing_varies_there_is_no_correlation() -> None:
    assert correlation(np.ones(30), np.arange(30.0)) is None
    assert partial_rank_correlation(np.ones(30), np.arange(30.0)) is None
    assert partial_rank_correlation(np.arange(4.0), np.arange(4.0)) is None
