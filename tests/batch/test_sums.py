"""Weighted sums of columns give what the scalar sum gives, bit for bit."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.batch import sums
from rubrics.containers.exact import dot

RNG = np.random.default_rng(7)
ROWS = 10_000  # more than a block

finite = st.floats(allow_nan=False, allow_infinity=False)
modest = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, -1.0, 0.1, 0.3, 1 / 3, 1e-17, 1.0 + 2**-52]),
    st.floats(-4.0, 4.0),
)


def by_row(weights: list[float], columns: list[np.ndarray]) -> list[float]:
    return [dot(weights, list(row)) for row in zip(*(column.tolist() for column in columns), strict=True)]


@pytest.fixture(params=[sums._MANY, 1], ids=["as they are", "all of them many"], autouse=True)
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_MANY", request.param)


def same(weights: list[float], columns: list[np.ndarray]) -> None:
    found = sums.dots(weights, columns).tolist()
    assert list(map(repr, found)) == list(map(repr, by_row(weights, columns)))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 6), st.sampled_from([modest, finite]))
def test_any_columns_give_what_the_scalar_sum_gives(data: st.DataObject, terms: int, numbers: object) -> None:
    weights = data.draw(st.lists(numbers, min_size=terms, max_size=terms))  # type: ignore[arg-type]
    rows = data.draw(st.integers(0, 12))
    row = st.lists(numbers, min_size=rows, max_size=rows)  # type: ignore[arg-type]
    same(weights, [np.array(data.draw(row), np.float64) for _ in weights])


COLUMNS = {
    "any numbers": lambda: RNG.random(ROWS),
    "tenths": lambda: RNG.integers(0, 11, ROWS) / 10,
    "verdicts": lambda: RNG.integers(0, 2, ROWS).astype(float),
    "quarters": lambda: RNG.integers(0, 5, ROWS) / 4,
    "verdicts, and one row that is none": lambda: np.r_[np.ones(ROWS - 1), 0.123],
    "mostly nothing": lambda: np.where(RNG.random(ROWS) < 0.9, 0.0, RNG.random(ROWS)),
    "of all sizes": lambda: RNG.random(ROWS) * 10.0 ** RNG.integers(-30, 30, ROWS),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(
    "weights", [[0.1] * 10, [10.0, 5.0, -15.0], [1 / 3, 0.0, 2 / 3]], ids=["tenths", "points", "zero"]
)
def test_columns_of_one_kind(name: str, weights: list[float]) -> None:
    same(weights, [COLUMNS[name]() for _ in weights])


def test_columns_of_several_kinds() -> None:
    chance = random.Random(3)
    for _ in range(20):
        kinds = [chance.choice(list(COLUMNS)) for _ in range(5)]
        same([chance.uniform(-2, 2) for _ in kinds], [COLUMNS[kind]()[:2000] for kind in kinds])


def test_ties_are_settled_without_the_scalar_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 + 2**-53 lies half way between two floats, and is rounded to the even one."""
    monkeypatch.setattr(sums, "_one_by_one", lambda weights, columns, rows: np.full(len(rows), np.nan))
    step = 2.0**-52
    ones = 1.0 + step * np.arange(1000)
    found = sums.dots([1.0, 2.0**-53], [ones, np.ones(1000)])
    expected = [float(Fraction(one) + Fraction(1, 2**53)) for one in ones.tolist()]
    assert found.tolist() == expected
    assert expected[:3] == [1.0, 1.0 + 2 * step, 1.0 + 2 * step]


def test_few_kinds_of_rows_are_summed_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(sums, "dot", lambda weights, scores: asked.append(scores) or dot(weights, scores))
    columns = [RNG.integers(0, 2, ROWS).astype(float) for _ in range(3)]
    assert sums.dots([0.2, 0.3, 0.5], columns).tolist() == by_row([0.2, 0.3, 0.5], columns)
    assert len(asked) == 8


def test_what_does_not_fit_into_a_float_is_infinite() -> None:
    assert sums.dots([1e300, 1.0], [np.array([1e300, 1.0]), np.array([0.3, 0.7])]).tolist() == [np.inf, 1e300]
