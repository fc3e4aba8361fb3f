"""Credit assignment and group advantages: numbers worked by hand, properties, and what is refused."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from rubrics.credit import (
    Broadcast,
    ByEvidence,
    Credit,
    Discounted,
    EqualSplit,
    Terminal,
    gae,
    group_advantages,
    returns_to_go,
    shaped_rewards,
)
from rubrics.score import CreditError, RubricError

NAN = math.nan
METHODS = ("grpo", "dr_grpo", "rloo", "maxrl")
STRATEGIES = (Terminal(), Discounted(0.9), EqualSplit(), Broadcast(), ByEvidence())

# Rewards as rubrics give them, with two decimals: far from the edge where a spread counts as rounding.
reward = st.integers(-300, 300).map(lambda cents: cents / 100)
unit = st.floats(0.0, 1.0)
step_rewards = st.lists(reward, max_size=6)
ragged = st.lists(step_rewards, max_size=6)
row = st.tuples(reward | st.none(), st.sampled_from("abc"), st.booleans())
rows = st.lists(row, max_size=20)


class Cited(float):
    """A score that carries metadata, as a judgement does."""

    metadata: dict[str, Any]

    def __new__(cls, value: float, **metadata: Any) -> Cited:
        self = super().__new__(cls, value)
        self.metadata = metadata
        return self


def columns(table: list[tuple[float | None, str, bool]]) -> tuple[list[float | None], list[str], list[bool]]:
    return [r for r, _, _ in table], [g for _, g, _ in table], [e for _, _, e in table]


# Credit strategies


@pytest.mark.parametrize(
    ("credit", "score", "expected"),
    [
        (Terminal(), 0.9, [0, 0, 0, 0.9]),
        (Discounted(0.9), 1.0, [0.729, 0.81, 0.9, 1.0]),
        (Discounted(0.0), 2.0, [0, 0, 0, 2]),
        (Discounted(1.0), 2.0, [2, 2, 2, 2]),
        (EqualSplit(), 0.9, [0.225] * 4),
        (Broadcast(), 0.9, [0.9] * 4),
        (ByEvidence(), Cited(0.9, evidence=[2, 0, 2]), [0.45, 0, 0.45, 0]),
        (ByEvidence(), Cited(-1.0, evidence=(np.int64(3),)), [0, 0, 0, -1]),
        (ByEvidence(), Cited(0.9, evidence=np.array([1])), [0, 0.9, 0, 0]),
    ],
)
def test_shares_worked_by_hand(credit: Credit, score: float, expected: list[float]) -> None:
    shares = credit(score, 4)
    assert shares.dtype == np.float64
    assert_allclose(shares, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "score", [0.5, Cited(0.5), Cited(0.5, evidence=None), Cited(0.5, evidence=[]), Cited(0.5, other=[0])]
)
def test_nothing_cited_falls_to_the_last_step(score: float) -> None:
    assert_array_equal(ByEvidence()(score, 3), [0, 0, 0.5])


@pytest.mark.parametrize("credit", STRATEGIES)
def test_shares_of_no_step_and_of_one(credit: Credit) -> None:
    assert isinstance(credit, Credit)
    assert credit(1.0, 0).shape == (0,)
    assert credit(1.0, 0).dtype == np.float64
    assert_array_equal(credit(0.7, 1), [0.7])


def test_no_steps_leave_evidence_unread() -> None:
    assert ByEvidence()(Cited(1.0, evidence=[5]), 0).size == 0


@given(reward, st.integers(1, 50), st.data())
def test_conserving_strategies_hand_out_the_score(score: float, steps: int, data: st.DataObject) -> None:
    evidence = data.draw(st.lists(st.integers(0, steps - 1)))
    for credit in STRATEGIES:
        if credit.conserves:
            assert credit(Cited(score, evidence=evidence), steps).sum() == pytest.approx(score, rel=1e-12, abs=1e-15)


def test_which_strategies_conserve() -> None:
    assert [credit.conserves for credit in STRATEGIES] == [True, False, True, False, True]


@given(reward, st.integers(1, 30), unit)
def test_discounted_is_the_return_to_go_of_a_terminal_reward(score: float, steps: int, gamma: float) -> None:
    assert_allclose(Discounted(gamma)(score, steps), returns_to_go(Terminal()(score, steps), gamma), atol=1e-12)


def test_strategies_are_values() -> None:
    assert Discounted(0.9) == Discounted(0.9) != Discounted(0.8)
    from_numpy: Any = np.float32(0.5)
    assert repr(Discounted(from_numpy)) == "Discounted(gamma=0.5)"
    assert len({Terminal(), Terminal(), EqualSplit()}) == 2
    with pytest.raises(AttributeError):
        Discounted(0.9).gamma = 0.1  # type: ignore[misc]


@pytest.mark.parametrize("gamma", [-0.1, 1.1, NAN, math.inf, "0.9", None, True, np.array([0.9])])
def test_gamma_outside_0_to_1(gamma: Any) -> None:
    with pytest.raises(CreditError, match=r"gamma is .*from 0 to 1"):
        Discounted(gamma)
    with pytest.raises(CreditError, match="gamma is"):
        returns_to_go([1.0], gamma)
    with pytest.raises(CreditError, match="gamma is"):
        shaped_rewards([1.0], [1.0], gamma)
    with pytest.raises(CreditError, match="gamma is"):
        gae([1.0], [1.0], gamma, 0.9)
    with pytest.raises(CreditError, match="lam is"):
        gae([1.0], [1.0], 0.9, gamma)


@pytest.mark.parametrize("credit", STRATEGIES)
@pytest.mark.parametrize("score", [NAN, math.inf, -math.inf, None, "1"])
def test_only_a_finite_score_is_shared(credit: Credit, score: Any) -> None:
    with pytest.raises(CreditError, match="score is"):
        credit(score, 3)


@pytest.mark.parametrize("credit", STRATEGIES)
@pytest.mark.parametrize("steps", [-1, 2.0, True, None])
def test_steps_is_a_count(credit: Credit, steps: Any) -> None:
    with pytest.raises(CreditError, match="steps is"):
        credit(1.0, steps)


@pytest.mark.parametrize("index", [4, -1, 1.0, "1", None, True, [1]])
def test_evidence_must_be_steps(index: Any) -> None:
    with pytest.raises(CreditError, match=r"evidence cites .* of 4 steps: give ints from 0 to 3"):
        ByEvidence()(Cited(1.0, evidence=[0, index]), 4)


@pytest.mark.parametrize("evidence", [2, "12", {1: "why"}, {1, 2}, np.array([[1]])])
def test_evidence_must_be_a_list(evidence: Any) -> None:
    with pytest.raises(CreditError, match="evidence must be a 1-d sequence"):
        ByEvidence()(Cited(1.0, evidence=evidence), 4)


# Ragged batches

R = [0.1, 0.0, -0.2, 1.0]
V = [0.2, 0.3, 0.1, 0.5]
PHI = [0.0, 0.5, 0.4, 0.8]


def test_numbers_worked_by_hand() -> None:
    assert_allclose(returns_to_go(R, 0.9), [0.667, 0.63, 0.7, 1.0], rtol=0, atol=1e-9)
    assert_allclose(gae(R, V, 0.9, 0.95), [0.4126169, 0.2837625, 0.5775, 0.5], rtol=0, atol=5e-8)
    assert_allclose(shaped_rewards(R, PHI, 0.9), [0.55, -0.14, 0.12, 0.2], rtol=0, atol=1e-9)
    assert_allclose(shaped_rewards(R, V, 0.9), [0.17, -0.21, 0.15, 0.5], rtol=0, atol=1e-9)


def test_gamma_0_and_1() -> None:
    assert_array_equal(returns_to_go([1, 2, 3], 0), [1, 2, 3])
    assert_array_equal(returns_to_go([1, 2, 3], 1), [6, 5, 3])
    assert_array_equal(gae([1, 2, 3], [1, 1, 1], 0, 1, bootstrap=9), [0, 1, 2])
    assert_array_equal(gae([1, 2, 3], [1, 1, 1], 1, 0, bootstrap=9), [1, 2, 11])
    assert_array_equal(gae([1, 2, 3], [1, 1, 1], 1, 1, bootstrap=9), [14, 13, 11])
    assert_array_equal(shaped_rewards([1, 2, 3], [1, 2, 4], 0), [0, 0, -1])
    assert_array_equal(shaped_rewards([1, 2, 3], [1, 2, 4], 1), [2, 4, -1])


def test_no_steps_and_one_step() -> None:
    for nothing in (returns_to_go(np.array([]), 0.9), gae(np.array([]), np.array([]), 0.9, 0.9)):
        assert nothing.shape == (0,)
        assert nothing.dtype == np.float64
    assert returns_to_go([], 0.9) == gae([], [], 0.9, 0.9) == shaped_rewards([], [], 0.9) == []
    assert [len(g) for g in returns_to_go([[], [1.0], []], 0.9)] == [0, 1, 0]
    assert_array_equal(returns_to_go([3], 0.9), [3])
    assert_allclose(gae([3], [1], 0.5, 0.9, bootstrap=4), [4])
    assert_array_equal(shaped_rewards([3], [1], 0.9), [2])


def test_the_form_is_kept_and_the_input_is_not_touched() -> None:
    one = np.array(R)
    for gamma in (0.0, 0.9):
        result = returns_to_go(one, gamma)
        assert isinstance(result, np.ndarray)
        result[:] = 7
        assert_array_equal(one, R)
    for batch in ([one], (one,), [R], np.array([one, None], dtype=object)[:1]):
        result_list = returns_to_go(batch, 0.9)
        assert isinstance(result_list, list)
        assert_allclose(result_list[0], [0.667, 0.63, 0.7, 1.0])
    assert_array_equal(returns_to_go(np.array([1, 2], dtype=np.int8), 1), [3, 2])
    assert_array_equal(returns_to_go(np.array([1.0, None]), 0), [1, NAN])


def test_a_truncated_episode_has_the_value_after_its_end() -> None:
    truncated, terminated = gae([[1.0, 1.0], [1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]], 0.5, 0.5, bootstrap=[4.0, 0.0])
    assert_allclose(truncated, [0.25, 1.0])
    assert_allclose(terminated, [-0.25, -1.0])
    for scalar, each in zip(
        gae([R, [1.0], []], [V, [2.0], []], 0.9, 0.9, bootstrap=0.5),
        gae([R, [1.0], []], [V, [2.0], []], 0.9, 0.9, bootstrap=np.full(3, 0.5)),
        strict=True,
    ):
        assert_array_equal(scalar, each)


@given(ragged, unit, unit, st.data())
def test_a_batch_is_its_trajectories_one_by_one(
    batch: list[list[float]], gamma: float, lam: float, data: st.DataObject
) -> None:
    values = [data.draw(st.lists(reward, min_size=len(r), max_size=len(r))) for r in batch]
    after = data.draw(st.lists(reward, min_size=len(batch), max_size=len(batch)))
    together = zip(
        returns_to_go(batch, gamma),
        gae(batch, values, gamma, lam, bootstrap=after),
        shaped_rewards(batch, values, gamma),
        strict=True,
    )
    for i, (returns, advantages, shaped) in enumerate(together):
        r, v = np.array(batch[i]), np.array(values[i])
        assert_array_equal(returns, returns_to_go(r, gamma))
        assert_array_equal(advantages, gae(r, v, gamma, lam, bootstrap=after[i]))
        assert_array_equal(shaped, shaped_rewards(r, v, gamma))

        g, a, v_next = 0.0, 0.0, after[i]
        for t in reversed(range(len(r))):
            g = r[t] + gamma * g
            a = r[t] + gamma * v_next - v[t] + gamma * lam * a
            phi_next = v[t + 1] if t + 1 < len(r) else 0.0
            v_next = v[t]
            assert returns[t] == pytest.approx(g, abs=1e-9)
            assert advantages[t] == pytest.approx(a, abs=1e-9)
            assert shaped[t] == pytest.approx(r[t] + gamma * phi_next - v[t], abs=1e-9)


@given(hnp.arrays(float, (2, 8), elements=reward), unit, unit)
def test_gae_with_lambda_1_is_the_return_minus_the_value(two: Any, gamma: float, bootstrap: float) -> None:
    r, v = two
    with_tail = returns_to_go(np.append(r, bootstrap), gamma)[:-1]
    assert_allclose(gae(r, v, gamma, 1.0, bootstrap), with_tail - v, atol=1e-9)


@given(hnp.arrays(float, (2, 8), elements=reward), unit)
def test_shaping_takes_the_first_potential_off_the_return(two: Any, gamma: float) -> None:
    r, phi = two
    assert_allclose(
        returns_to_go(shaped_rewards(r, phi, gamma), gamma)[0], returns_to_go(r, gamma)[0] - phi[0], atol=1e-9
    )


def test_unscored_reaches_what_depends_on_it_and_no_other_trajectory() -> None:
    r: list[list[float | None]] = [[1.0, 1.0], [1.0, None, 1.0], [1.0]]
    v = [[0.0, 0.0], [0.0, 0.0, 0.0], [0.0]]
    bad_v = [[0.0, 0.0], [0.0, NAN, 0.0], [0.0]]
    fine = [[1.0, 1.0], [1.0, 1.0, 1.0], [1.0]]

    def middle(result: list[Any]) -> list[bool]:
        first, second, third = [np.isnan(part).tolist() for part in result]
        assert (first, third) == ([False, False], [False])
        return list(second)

    assert middle(returns_to_go(r, 0.5)) == [True, True, False]
    assert middle(returns_to_go(r, 0.0)) == [False, True, False]
    assert middle(gae(r, v, 0.5, 0.5)) == [True, True, False]
    assert middle(gae(r, v, 0.5, 0.0)) == [False, True, False]
    assert middle(gae(fine, bad_v, 0.5, 0.0)) == [True, True, False]
    assert middle(gae(fine, bad_v, 0.0, 0.5)) == [False, True, False]
    assert middle(gae(fine, v, 0.5, 0.0, bootstrap=[0.0, NAN, 0.0])) == [False, False, True]
    assert middle(gae(fine, v, 0.0, 0.0, bootstrap=[0.0, NAN, 0.0])) == [False, False, False]
    assert middle(shaped_rewards(r, v, 0.5)) == [False, True, False]
    assert middle(shaped_rewards(fine, bad_v, 0.5)) == [True, True, False]
    assert middle(shaped_rewards(fine, bad_v, 0.0)) == [False, True, False]


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[1.0], [0.0, math.inf]], r"rewards\[1\]\[1\] is inf"),
        ([1.0, -math.inf], r"rewards\[1\] is -inf"),
        ([[1.0], 2.0], r"rewards\[1\] has shape \(\)"),
        ([[1.0], None], r"rewards\[1\] has shape \(\)"),
        (np.ones((2, 3)), r"rewards has shape \(2, 3\).*without padding"),
        ([[[1.0]]], r"rewards\[0\] has shape \(1, 1\)"),
        ([[1.0], [[1.0], [1.0, 2.0]]], r"rewards\[1\] is no array of numbers"),
        (["0.5", "1"], r"rewards\[0\] is no array of numbers \(it holds str_\)"),
        ([[0.5, "1"]], r"rewards\[0\] is no array of numbers"),
        (np.array([1.0, "1"], dtype=object), r"rewards\[0\] has shape"),
        ([[1j]], r"rewards\[0\] is no array of numbers"),
        ([10**400], "rewards is no array of numbers"),
        ("0.5", "rewards must be a 1-d sequence"),
        ({0: [1.0]}, "rewards must be a 1-d sequence"),
        (None, "rewards must be a 1-d sequence"),
        (1.0, "rewards must be a 1-d sequence"),
    ],
)
def test_rewards_that_are_refused(rewards: Any, message: str) -> None:
    with pytest.raises(CreditError, match=message):
        returns_to_go(rewards, 0.9)


@pytest.mark.parametrize(
    ("rewards", "values", "message"),
    [
        (R, [*V, 0.0], r"values has 5 entries for 4 steps.*bootstrap"),
        ([R, R], [V, V[:3]], r"values\[1\] has 3 entries for 4 steps"),
        ([R, R], [V], "values is 1 arrays and rewards is 2 arrays"),
        (R, [V], "values is 1 arrays and rewards is one array"),
        ([R], V, "values is one array and rewards is 1 arrays"),
        ([R], [[*V[:3], math.inf]], r"values\[0\]\[3\] is inf"),
    ],
)
def test_values_that_do_not_fit(rewards: Any, values: Any, message: str) -> None:
    with pytest.raises(CreditError, match=message):
        gae(rewards, values, 0.9, 0.9)
    with pytest.raises(CreditError, match=message.replace("values", "potentials").replace(".*bootstrap", ".*end is 0")):
        shaped_rewards(rewards, values, 0.9)


@pytest.mark.parametrize("bootstrap", [[0.0], [0.0] * 3, math.inf, [0.0, -math.inf], None, "0", [[0.0, 0.0]]])
def test_bootstrap_that_does_not_fit(bootstrap: Any) -> None:
    with pytest.raises(CreditError, match="bootstrap"):
        gae([R, R], [V, V], 0.9, 0.9, bootstrap=bootstrap)


# Groups


@pytest.mark.parametrize(
    ("method", "five", "three"),
    [
        ("grpo", [1, -1, -1, 1, 0], [1 / math.sqrt(3), -2 / math.sqrt(3), 1 / math.sqrt(3)]),
        ("dr_grpo", [0.5, -0.5, -0.5, 0.5, 0], [1 / 3, -2 / 3, 1 / 3]),
        ("rloo", [0.625, -0.625, -0.625, 0.625, 0], [0.5, -1, 0.5]),
        ("maxrl", [1, -1, -1, 1, 0], [0.5, -1, 0.5]),
    ],
)
def test_groups_worked_by_hand(method: Any, five: list[float], three: list[float]) -> None:
    assert_allclose(group_advantages([1, 0, 0, 1, 0.5], ["q"] * 5, method), five, rtol=0, atol=1e-9)
    with_gap = [three[0], three[1], NAN, three[2]]
    assert_allclose(group_advantages([1, 0, None, 1], ["q"] * 4, method), with_gap, rtol=0, atol=1e-9)
    assert_allclose(group_advantages(np.array([1, 0, NAN, 1]), np.zeros(4, int), method), with_gap, rtol=0, atol=1e-9)
    excluded = group_advantages([1, 0, 9, 1], ["q"] * 4, method, exclude=[False, False, True, False])
    assert_allclose(excluded, with_gap, rtol=0, atol=1e-9)


def test_grpo_is_the_default() -> None:
    assert_array_equal(group_advantages([1, 0], [1, 1]), group_advantages([1, 0], [1, 1], "grpo"))


def test_groups_are_ragged_and_matched_by_id() -> None:
    result = group_advantages([1, 5, 0, 7, 9, 5], ["a", "b", "a", "c", "b", "b"], "dr_grpo")
    assert_allclose(result, [0.5, 5 - 19 / 3, -0.5, 0, 9 - 19 / 3, 5 - 19 / 3])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rewards",
    [
        [0.1] * 3,
        [0.7] * 11,
        [0.0] * 4,
        [-2.5] * 2,
        [1e300] * 3,
        [0.3, 0.1 + 0.2],  # one reward, added in two orders
        [0.4],
    ],
)
def test_no_variance_is_exactly_0(method: Any, rewards: list[float]) -> None:
    result = group_advantages(rewards, [1] * len(rewards), method)
    assert_array_equal(result, np.zeros(len(rewards)))
    assert not np.signbit(result).any()


@pytest.mark.parametrize("method", METHODS)
def test_what_is_left_after_exclusion_is_the_group(method: Any) -> None:
    assert_array_equal(group_advantages([1, 0], [1, 1], method, exclude=[False, True]), [0, NAN])
    assert_array_equal(group_advantages([None, 1, None], [1, 1, 1], method), [NAN, 0, NAN])
    assert_array_equal(group_advantages([None, NAN], [1, 1], method), [NAN, NAN])
    assert_array_equal(group_advantages([1, 0], [1, 1], method, exclude=[True, True]), [NAN, NAN])
    assert group_advantages([], [], method, exclude=[]).shape == (0,)


def test_maxrl_is_0_where_the_mean_is_not_positive() -> None:
    assert_array_equal(group_advantages([-1, 1, -2, 0], list("aabb"), "maxrl"), [0, 0, 0, 0])
    # The floats add up to 2.8e-17, not 0.
    assert_array_equal(group_advantages([0.1, 0.2, -0.3], [1, 1, 1], "maxrl"), [0, 0, 0])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e150])
def test_the_size_of_the_rewards_does_not_matter(scale: float) -> None:
    rewards = np.array([1, 0, 0, 1, 0.5]) * scale
    ids = [1] * 5
    assert_allclose(group_advantages(rewards, ids, "grpo"), [1, -1, -1, 1, 0], atol=1e-12)
    assert_allclose(group_advantages(rewards, ids, "maxrl"), [1, -1, -1, 1, 0], atol=1e-12)
    assert_allclose(group_advantages(rewards, ids, "rloo") / scale, [0.625, -0.625, -0.625, 0.625, 0], atol=1e-12)


def test_rewards_far_from_0_keep_their_digits() -> None:
    assert_allclose(group_advantages(1e6 + np.array([0, 0.25, 0.5]), [1, 1, 1], "grpo"), [-1, 0, 1], atol=1e-9)


def test_a_large_group_far_from_0_is_centred() -> None:
    rewards = 1e6 + np.arange(30_000) % 3 * 0.1
    mean = sum(map(Fraction, rewards.tolist()), Fraction(0)) / len(rewards)
    result = group_advantages(rewards, np.zeros(len(rewards), dtype=int), "dr_grpo")
    assert_allclose(result[:3], [float(Fraction(r) - mean) for r in rewards[:3].tolist()], rtol=0, atol=1e-10)


def test_a_group_far_larger_than_another_does_not_touch_it() -> None:
    result = group_advantages([1e200, -1e200, 1e-9, 2e-9, None], [1, 1, 2, 2, 1], "grpo")
    assert_allclose(result, [0.5**0.5, -(0.5**0.5), -(0.5**0.5), 0.5**0.5, NAN])


@pytest.mark.parametrize("method", METHODS)
@given(table=rows)
def test_against_exact_arithmetic_group_by_group(method: Any, table: list[tuple[float | None, str, bool]]) -> None:
    rewards, ids, exclude = columns(table)
    members: dict[str, list[int]] = defaultdict(list)
    expected = [NAN] * len(table)
    for i, (scored, group, out) in enumerate(table):
        if scored is not None and not out:
            members[group].append(i)
    for member in members.values():
        exact = {i: Fraction(round((rewards[i] or 0.0) * 100), 100) for i in member}
        mean = sum(exact.values()) / len(member)
        for i in member:
            others = [exact[j] for j in member if j != i]
            if not others or len(set(exact.values())) == 1:
                expected[i] = 0.0
            elif method == "grpo":
                variance = sum((r - mean) ** 2 for r in exact.values()) / len(others)
                expected[i] = float(exact[i] - mean) / math.sqrt(variance)
            elif method == "dr_grpo":
                expected[i] = float(exact[i] - mean)
            elif method == "rloo":
                expected[i] = float(exact[i] - sum(others) / len(others))
            else:
                expected[i] = float((exact[i] - mean) / mean) if mean > 0 else 0.0
    assert_allclose(group_advantages(rewards, ids, method, exclude), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@given(table=rows, data=st.data())
def test_permuting_the_rows_permutes_the_advantages(
    method: Any, table: list[tuple[float | None, str, bool]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(table))))
    straight = group_advantages(*columns(table)[:2], method, columns(table)[2])
    moved = [table[i] for i in order]
    shuffled = group_advantages(*columns(moved)[:2], method, columns(moved)[2])
    assert_allclose(shuffled, straight[np.array(order, dtype=int)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@given(table=rows)
def test_advantages_of_a_group_sum_to_0(method: Any, table: list[tuple[float | None, str, bool]]) -> None:
    rewards, ids, exclude = columns(table)
    result = group_advantages(rewards, ids, method, exclude)
    unused = [r is None or out for r, _, out in table]
    assert_array_equal(np.isnan(result), unused)
    for group in set(ids):
        inside = np.array([g == group for g in ids]) & ~np.isnan(result)
        assert result[inside].sum() == pytest.approx(0, abs=1e-9)
        if method == "grpo" and np.any(result[inside]):
            assert result[inside].std(ddof=1) == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
@given(table=rows, extra=st.lists(reward | st.just(NAN) | st.none(), max_size=5))
def test_another_group_changes_nothing(
    method: Any, table: list[tuple[float | None, str, bool]], extra: list[float | None]
) -> None:
    rewards, ids, exclude = columns(table)
    alone = group_advantages(rewards, ids, method, exclude)
    beside = group_advantages(rewards + extra, ids + ["new"] * len(extra), method, exclude + [False] * len(extra))
    assert_array_equal(beside[: len(table)], alone)


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "a", "b"],
        [1, 1, 2],
        [np.int64(1), 1, 2],
        [np.str_("a"), "a", "b"],
        np.array([1, 1, 2], dtype=np.uint8),
        np.array(["a", "a", "b"]),
        np.array(["a", "a", "b"], dtype=object),
        [("task", 1), ("task", 1), ("task", 2)],
        (1.5, 1.5, 2.5),
        [False, False, True],
        [b"a", b"a", b"b"],
        [frozenset("a"), frozenset("a"), frozenset("b")],
        ["", "", " "],
    ],
)
def test_ids_of_any_hashable_type(ids: Any) -> None:
    assert_array_equal(group_advantages([1, 0, 1], ids, "dr_grpo"), [0.5, -0.5, 0])


def test_rewards_of_any_numeric_type() -> None:
    columns_of_rewards: list[Any] = [
        [True, False, None],
        np.array([1, 0, NAN], dtype=np.float32),
        [Cited(1.0), Cited(0.0), None],
        [np.float32(1), np.int8(0), NAN],
        (Fraction(1), 0, None),
        np.array([True, False, None]),
    ]
    for rewards in columns_of_rewards:
        assert_array_equal(group_advantages(rewards, ["a"] * 3, "dr_grpo"), [0.5, -0.5, NAN])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "1", 1], r"group_ids holds int \(row 0\), str \(row 1\): give every reward the id of its group"),
        ([1, None, 1], r"group_ids holds .*NoneType \(row 1\)"),
        ([None] * 3, r"group_ids holds NoneType \(row 0\)"),
        ([1, True, 0], r"group_ids holds .*bool \(row 1\)"),
        ([1.0, NAN, 2.0], "group_ids holds NaN"),
        (np.array([1.0, NAN, 2.0]), "group_ids holds NaN"),
        ([["a"], ["a"], ["b"]], "cannot be hashed"),
        ([np.array(1), np.array(1), np.array(2)], r"group_ids holds ndarray \(row 0\)"),
        ("aab", "group_ids must be a 1-d sequence"),
        ({"a": 1, "b": 2, "c": 3}, "group_ids must be a 1-d sequence"),
        ({1, 2, 3}, "group_ids must be a 1-d sequence"),
        (7, "group_ids must be a 1-d sequence"),
        (None, "group_ids must be a 1-d sequence"),
        (np.ones((3, 1), dtype=int), "group_ids must be a 1-d sequence"),
        ([1, 1], "group_ids has 2 rows and rewards has 3"),
    ],
)
def test_ids_that_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(CreditError, match=message):
        group_advantages([1, 0, 1], ids)


@pytest.mark.parametrize(
    "exclude", [[0, 1, 0], [1], [True], [], np.ones(3), np.ones((3, 1), bool), [False, None, True], "abc", True]
)
def test_exclude_that_is_refused(exclude: Any) -> None:
    with pytest.raises(CreditError, match="exclude"):
        group_advantages([1, 0, 1], [1, 1, 1], exclude=exclude)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1, math.inf, 0], r"rewards\[1\] is inf: give finite numbers, and None where unscored"),
        ([[1, 0, 1]], r"rewards has shape \(1, 3\)"),
        ([1, [0], 1], "rewards is no array of numbers"),
        (["1", "0", "1"], "rewards is no array of numbers"),
        ([1, "0", None], r"rewards is no array of numbers \(it holds str\)"),
        (1.0, r"rewards has shape \(\)"),
        (None, r"rewards has shape \(\)"),
    ],
)
def test_group_rewards_that_are_refused(rewards: Any, message: str) -> None:
    with pytest.raises(CreditError, match=message):
        group_advantages(rewards, [1, 1, 1])


def test_an_infinite_reward_is_refused_even_where_excluded() -> None:
    with pytest.raises(CreditError, match="inf"):
        group_advantages([1, math.inf], [1, 1], exclude=[False, True])


@pytest.mark.parametrize("method", ["GRPO", "", None, ["grpo"]])
def test_unknown_method(method: Any) -> None:
    with pytest.raises(CreditError, match="use one of grpo, dr_grpo, rloo, maxrl"):
        group_advantages([1, 0], [1, 1], method)


def test_the_error_is_caught_as_either_kind() -> None:
    assert issubclass(CreditError, RubricError)
    assert issubclass(CreditError, ValueError)
