"""Calibration: Brier score, expected calibration error, reliability curve."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from judges.testing.metrics import MetricError, brier_score, expected_calibration_error, reliability_curve

cases = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=40)


def test_by_hand() -> None:
    probabilities, happened = [0.9, 0.8, 0.3, 0.35], [True, False, False, True]
    assert brier_score(probabilities, happened).estimate == pytest.approx((0.01 + 0.64 + 0.09 + 0.4225) / 4)
    # Bins .9, .8 and .3: |.9 − 1| / 4 + |.8 − 0| / 4 + |.325 − .5| / 2
    assert expected_calibration_error(probabilities, happened).estimate == pytest.approx(0.025 + 0.2 + 0.0875)
    curve = reliability_curve(probabilities, happened)
    assert [(each.low, each.high) for each in curve] == [(0.3, 0.4), (0.8, 0.9), (0.9, 1.0)]
    assert [each.predicted for each in curve] == pytest.approx([0.325, 0.8, 0.9])
    assert [each.observed.estimate for each in curve] == [0.5, 0.0, 1.0]
    assert [each.observed.n for each in curve] == [2, 1, 1]


def test_certainty_is_in_the_last_bin() -> None:
    (only,) = reliability_curve([1.0], [True], bins=4)
    assert (only.low, only.high) == (0.75, 1.0)


@given(cases)
def test_brier_as_scikit_learn_has_it(cases: list[tuple[float, bool]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    probabilities, happened = ([case[side] for case in cases] for side in (0, 1))
    expected = metrics.brier_score_loss(happened, probabilities, labels=[False, True])
    assert brier_score(probabilities, happened).estimate == pytest.approx(expected)


@given(cases, st.integers(1, 20))
def test_the_curve_holds_every_case(cases: list[tuple[float, bool]], bins: int) -> None:
    probabilities, happened = ([case[side] for case in cases] for side in (0, 1))
    curve = reliability_curve(probabilities, happened, bins)
    assert sum(each.observed.n for each in curve) == len(cases)
    assert all(each.low - 1e-9 <= each.predicted <= each.high + 1e-9 for each in curve)
    weighed = sum(each.observed.n * abs(each.predicted - (each.observed.estimate or 0.0)) for each in curve)
    found = expected_calibration_error(probabilities, happened, bins)
    assert found.estimate == pytest.approx(weighed / len(cases), abs=1e-9)
    if found.low is not None and found.high is not None:
        assert 0.0 <= found.low <= found.estimate + 1e-12 and found.estimate <= found.high + 1e-12


def test_where_there_are_no_probabilities_there_is_no_figure() -> None:
    assert brier_score([None, None], [True, False]).estimate is None
    assert expected_calibration_error([None, None], [True, False]).estimate is None
    assert reliability_curve([None, None], [True, False]) == ()
    assert brier_score([0.5, None, 0.5], [True, True, None]).n == 1


def test_what_is_no_probability() -> None:
    with pytest.raises(MetricError, match=r"probabilities, entry 1: 1.5 is not in \[0, 1\]"):
        brier_score([0.5, 1.5], [True, True])
    with pytest.raises(MetricError, match="happened, entry 0"):
        brier_score([0.5], [3])
    with pytest.raises(MetricError, match="bins"):
        reliability_curve([0.5], [True], bins=0)


@pytest.mark.parametrize("shift", [0.1, 0.2])
def test_the_interval_holds_what_was_planted(shift: float) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        probabilities = rng.uniform(0.0, 1.0 - shift, 200)
        happened = rng.random(200) < probabilities + shift
        found = expected_calibration_error(probabilities, happened)
        assert found.low is not None and found.high is not None
        covered += found.low <= shift <= found.high
    assert covered / 60 >= 0.85
