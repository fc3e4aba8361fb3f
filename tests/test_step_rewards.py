"""Credit through mixed trees: worked by hand, conserved where it says so, and nothing scored again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rubrics import (
    AllOf,
    AnyOf,
    Broadcast,
    ByEvidence,
    Clip,
    CreditError,
    Discounted,
    Episode,
    EqualSplit,
    Fallback,
    Gate,
    Invert,
    Map,
    Product,
    Rubric,
    Scale,
    Score,
    Sequential,
    StepRewards,
    Switch,
    Terminal,
    Threaded,
    Timeout,
    TrajectoryRubric,
    Unscored,
    WeightedSum,
)
from tests.leaves import AsyncFixed, AsyncJudged, ByAction, Fixed, Judged, done, running

NAN = math.nan


def played(tree: Rubric, steps: int = 4, **options: Any) -> Episode:
    """An episode of that many steps whose actions are 0, 1, 2, …"""
    episode = tree.episode(**options)
    for t in range(steps):
        episode.step(t, done() if t == steps - 1 else running())
    return episode


def rewards(tree: Rubric, steps: int = 4, **options: Any) -> StepRewards:
    return played(tree, steps, **options).rewards()


def judged(value: Any = 0.8, intermediate: float = 0.0) -> Judged:
    """A delayed node whose credit shows: 0.2 on each of four steps."""
    return Judged(value, intermediate, EqualSplit())


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [0.5, 0.5])


# One delayed node at the root


@pytest.mark.parametrize(
    ("credit", "values", "kind"),
    [
        (None, [0.0, 0.0, 0.0, 0.8], "reward"),
        (Terminal(), [0.0, 0.0, 0.0, 0.8], "reward"),
        (EqualSplit(), [0.2, 0.2, 0.2, 0.2], "reward"),
        (ByEvidence(), [0.0, 0.4, 0.4, 0.0], "reward"),
        (Discounted(0.5), [0.1, 0.2, 0.4, 0.8], "credit"),
        (Discounted(0.0), [0.0, 0.0, 0.0, 0.8], "credit"),
        (Discounted(1.0), [0.8] * 4, "credit"),
        (Broadcast(), [0.8] * 4, "credit"),
    ],
)
def test_each_credit(credit: Any, values: list[float], kind: str) -> None:
    for make in (Judged, AsyncJudged):
        node = make(Score(0.8, metadata={"evidence": [1, 2]}), 0.0, credit)
        answer = rewards(node)
        assert_allclose(answer.values, values, atol=1e-15)
        assert answer.emitted.tolist() == [0.0, 0.0, 0.0, 0.8]
        assert (answer.total, answer.kind, answer.reduction) == (0.8, kind, "sum")
        assert node.scorings == 1


def test_intermediate_rewards_stay_on_their_step() -> None:
    answer = rewards(judged(0.8, 0.1))
    assert answer.emitted.tolist() == [0.1, 0.1, 0.1, 0.8]
    assert_allclose(answer.values, [0.3, 0.3, 0.3, 0.2])
    assert answer.total == pytest.approx(1.1)
    assert answer.values.sum() == pytest.approx(answer.total)


@pytest.mark.parametrize("credit", [Terminal(), EqualSplit(), Discounted(0.5), Broadcast(), ByEvidence()])
def test_one_step(credit: Any) -> None:
    answer = rewards(Judged(0.8, 0.3, credit), 1)
    assert answer.values.tolist() == answer.emitted.tolist() == [0.8]


# Shares: the product of weights and factors up to the root


def shifted(child: Rubric) -> Rubric:
    return Scale(child, -2.0, 1.0)


MIXED: list[tuple[str, Callable[[], Rubric], list[float], list[float]]] = [
    ("sum", lambda: halves(judged(), ByAction({0: 1.0, 2: 0.5}, 0.0)), [0.5, 0, 0.25, 0.4], [0.6, 0.1, 0.35, 0.1]),
    ("sum of sums", lambda: halves(halves(judged(), Fixed(0.0)), Fixed(0.0)), [0, 0, 0, 0.2], [0.05] * 4),
    ("weights", lambda: WeightedSum([judged(), Fixed(0.0)], [3, 1], normalize="total"), [0, 0, 0, 0.6], [0.15] * 4),
    (
        "a penalty",
        lambda: WeightedSum([Fixed(1.0), judged()], [4, -2], normalize="positive"),
        [1, 1, 1, 0.6],
        [0.9, 0.9, 0.9, 0.9],
    ),
    ("two", lambda: halves(judged(), Judged(0.4)), [0, 0, 0, 0.6], [0.1, 0.1, 0.1, 0.3]),
    ("shared", lambda: (lambda node: halves(node, Gate(node, 0.5)))(judged()), [0, 0, 0, 0.8], [0.2] * 4),
    ("scale", lambda: shifted(judged()), [1, 1, 1, -0.6], [0.6, 0.6, 0.6, 0.6]),  # 1 - 2 · 0.2
    ("scaled intermediate", lambda: shifted(judged(0.8, 0.1)), [0.8, 0.8, 0.8, -0.6], [0.4, 0.4, 0.4, 0.6]),
    ("gate that passes", lambda: Gate(judged(), 0.5), [0, 0, 0, 0.8], [0.2] * 4),
    ("gate that does not", lambda: halves(Gate(judged(), 0.9), Fixed(0.5)), [0.25] * 4, [0.25] * 4),
    ("last of a sequence", lambda: Sequential(Fixed(), judged()), [0, 0, 0, 0.8], [0.2] * 4),
    ("first of a sequence", lambda: Sequential(judged(), Fixed(0.6)), [0, 0, 0, 0.6], [0, 0, 0, 0.6]),
    ("a sequence it stops", lambda: Sequential(judged(-0.8), Fixed(0.6)), [0, 0, 0, -0.8], [-0.2] * 4),
    ("behind a failed check", lambda: halves(Sequential(Fixed(0.0), judged()), Fixed()), [0.5] * 4, [0.5] * 4),
    ("switch", lambda: Switch(lambda a, o: "a", {"a": judged(), "b": Judged(9)}), [0, 0, 0, 0.8], [0.2] * 4),
    (
        "a switch that changes",
        lambda: Switch(lambda a, o: "a" if a == 3 else "b", {"a": judged(), "b": Fixed(0.5)}),
        [0.5, 0.5, 0.5, 0.8],
        [0.7, 0.7, 0.7, 0.2],
    ),
    ("fallback", lambda: Fallback(judged(), 0.1), [0, 0, 0, 0.8], [0.2] * 4),
    ("fallback used", lambda: Fallback(judged(None), 0.4), [0, 0, 0, 0.4], [0, 0, 0, 0.4]),
    ("fallback to one", lambda: Fallback(Fixed(None), judged()), [0, 0, 0, 0.8], [0.2] * 4),
    ("fallback not used", lambda: Fallback(Fixed(0.5), judged()), [0.5] * 4, [0.5] * 4),
    ("on error", lambda: Fallback(judged(ValueError()), judged(), on_error=True), [0, 0, 0, 0.8], [0.2] * 4),
    ("clip inside", lambda: Clip(judged(), 0.0, 0.9), [0, 0, 0, 0.8], [0.2] * 4),
    ("clip at work", lambda: Clip(judged(), 0.0, 0.5), [0, 0, 0, 0.5], [0, 0, 0, 0.5]),
    ("threaded", lambda: Threaded(judged()), [0, 0, 0, 0.8], [0.2] * 4),
    ("timeout", lambda: Timeout(judged(), 60), [0, 0, 0, 0.8], [0.2] * 4),
    # opaque: their value stays where it was paid
    ("all of", lambda: AllOf(judged(), Fixed()), [0, 0, 0, 0.8], [0, 0, 0, 0.8]),
    ("any of", lambda: AnyOf(judged(), Fixed(0.1)), [0.1, 0.1, 0.1, 0.8], [0.1, 0.1, 0.1, 0.8]),
    ("product", lambda: Product(judged(), Fixed(0.5)), [0, 0, 0, 0.4], [0, 0, 0, 0.4]),
    ("map", lambda: Map(judged(), lambda x: x), [0, 0, 0, 0.8], [0, 0, 0, 0.8]),
    ("invert", lambda: Invert(judged()), [0, 0, 0, 0.2], [0, 0, 0, 0.2]),
    ("custom", lambda: Custom(), [0, 0, 0, 1.6], [0, 0, 0, 1.6]),
    ("own rule", lambda: Renamed([judged(), Fixed(0.0)], [0.5, 0.5]), [0, 0, 0, 0.4], [0, 0, 0, 0.4]),
    ("async", lambda: halves(AsyncJudged(0.8, 0.0, EqualSplit()), AsyncFixed()), [0.5] * 3 + [0.9], [0.6] * 4),
    # renormalised: the weight of what was scored grows
    (
        "renormalised",
        lambda: WeightedSum([judged(), Fixed(None)], [0.5, 0.5], on_unscored="renormalize"),
        [0, 0, 0, 0.8],
        [0.2] * 4,
    ),
    (
        "renormalised penalty",
        lambda: WeightedSum([Fixed(1.0), Fixed(None), judged()], [0.5, 1.0, -0.5], on_unscored="renormalize"),
        [1.5, 1.5, 1.5, 1.1],
        [1.4, 1.4, 1.4, 1.4],
    ),
    (
        "unscored and renormalised away",
        lambda: WeightedSum([Fixed(1.0), judged(None)], [0.5, 0.5], on_unscored="renormalize"),
        [0.5, 0.5, 0.5, 1.0],
        [0.5, 0.5, 0.5, 1.0],
    ),
]


class Custom(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.game = judged()

    def forward(self, action: Any, observation: Any) -> Any:
        return 2 * self.game(action, observation)


class Renamed(WeightedSum):
    """A container with a forward of its own is a custom node."""

    def forward(self, action: Any, observation: Any) -> Any:
        return super().forward(action, observation)


@pytest.mark.parametrize("ending", ["read", "truncated"])
@pytest.mark.parametrize(("make", "emitted", "values"), [pytest.param(*row[1:], id=row[0]) for row in MIXED])
def test_mixed_trees(make: Callable[[], Rubric], emitted: list[float], values: list[float], ending: str) -> None:
    tree = make()
    if ending == "read":
        episode = played(tree)
    else:
        episode = tree.episode()
        for t in range(4):
            episode.step(t, running())
        episode.end(truncated=True)
    answer = episode.rewards()
    assert_allclose(answer.emitted, emitted, atol=1e-12)
    assert_allclose(answer.values, values, atol=1e-12)
    assert answer.kind == "reward"
    assert answer.total == pytest.approx(sum(emitted))
    assert answer.total == pytest.approx(float(answer.values.sum()))
    assert episode.rewards() is answer  # asking again does nothing


@pytest.mark.parametrize("recorded", [False, True])
def test_recording_changes_nothing(recorded: bool) -> None:
    for name, make, emitted, values in MIXED:
        answer = rewards(make(), record=recorded)
        assert_allclose(answer.emitted, emitted, atol=1e-12, err_msg=name)
        assert_allclose(answer.values, values, atol=1e-12, err_msg=name)


def test_one_credit_that_does_not_conserve_makes_it_credit() -> None:
    answer = rewards(halves(judged(), Judged(0.4, 0.0, Discounted(0.5))))
    assert answer.kind == "credit"
    assert_allclose(answer.values, [0.125, 0.15, 0.2, 0.3])  # 0.1 + 0.2 · 0.5^(3 - t)
    assert answer.total == pytest.approx(0.6)


# Nothing is scored again


def test_a_stochastic_judge_is_asked_once() -> None:
    answers = iter([0.8, 0.3, 0.1])
    node = Judged(lambda trajectory: next(answers), 0.0, EqualSplit())
    episode = played(Sequential(node))
    for _ in range(3):
        assert_allclose(episode.rewards().values, [0.2] * 4)
        assert episode.trajectory.reward == 0.8
    assert node.scorings == 1


# Reductions


def test_the_last_reward_alone_may_count() -> None:
    tree = halves(judged(), Fixed(0.5))
    answer = rewards(tree, reduction="last")
    assert (answer.total, answer.reduction) == (0.65, "last")
    assert answer.emitted.tolist() == [0.25, 0.25, 0.25, 0.65]
    assert rewards(tree, reduction="sum").total == pytest.approx(1.4)


# Unscored


def all_nan(values: Any) -> bool:
    return bool(np.isnan(values).all())


@pytest.mark.parametrize("reduction", ["sum", "last"])
def test_an_unscored_end_is_unscored(reduction: Any) -> None:
    for tree in (judged(None), halves(judged(Unscored("no judge")), Fixed()), Sequential(Fixed(), judged(None))):
        answer = rewards(tree, reduction=reduction)
        assert answer.total is None
        assert len(answer.values) == 4
        assert all_nan(answer.values)
        assert np.isnan(answer.emitted[-1])
        assert not np.isnan(answer.emitted[:-1]).any()


def test_an_unscored_step_within() -> None:
    def tree() -> Rubric:
        return WeightedSum([ByAction({1: None}, 0.5), judged()], [1.0, 1.0], normalize="positive")

    summed = rewards(tree(), reduction="sum")
    assert summed.total is None
    assert all_nan(summed.values)
    assert np.isnan(summed.emitted).tolist() == [False, True, False, False]
    last = rewards(tree(), reduction="last")
    assert last.total == 0.65
    assert np.isnan(last.values[1])
    assert_allclose(last.values[[0, 2, 3]], [0.35, 0.35, 0.35])


def test_an_unscored_first_step_and_the_last_reward() -> None:
    answer = rewards(Sequential(ByAction({0: None}), judged()), 2, reduction="last")
    assert answer.total == 0.8
    assert answer.kind == "reward"
    assert np.isnan(answer.emitted).tolist() == [True, False]


@pytest.mark.parametrize("status", ["error", "abandoned"])
def test_an_episode_that_broke_off_is_unscored(status: Any) -> None:
    episode = halves(judged(0.8, 0.1), Fixed()).episode()
    episode.step(0, running())
    episode.end(status)
    answer = episode.rewards()
    assert answer.total is None
    assert all_nan(answer.values)
    assert answer.emitted.tolist() == [0.55]


def test_no_steps() -> None:
    episode = halves(judged(), Fixed()).episode()
    episode.end()
    answer = episode.rewards()
    assert (answer.total, answer.values.shape, answer.emitted.shape) == (None, (0,), (0,))


# What credits may not do


class Overrides(TrajectoryRubric):
    def __init__(self, credits: list[Any]) -> None:
        super().__init__()
        self.credits = credits

    def score_trajectory(self, trajectory: Any) -> float:
        return 1.0

    def compute_step_rewards(self) -> Any:
        return self.credits


class Wrong(EqualSplit):
    """Says that it conserves its score, and does not."""

    def __call__(self, score: float, steps: int) -> Any:
        return super().__call__(score, steps) * 2


def test_a_credit_that_claims_to_conserve_is_checked() -> None:
    episode = played(halves(Judged(0.8, 0.0, Wrong()), Fixed()))
    with pytest.raises(CreditError, match="conserve"):
        episode.rewards()
    assert episode.trajectory.reward == pytest.approx(2.4)  # what the steps paid is known all the same


def test_evidence_that_does_not_exist_is_refused() -> None:
    episode = played(Sequential(Judged(Score(0.8, metadata={"evidence": [7]}), 0.0, ByEvidence())))
    with pytest.raises(CreditError, match="7"):
        episode.rewards()


def test_an_override_of_another_length_is_refused() -> None:
    assert rewards(Overrides([0.1, 0.2, 0.3, 0.4])).values.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert rewards(Overrides([0.1, 0.2, 0.3, 0.4])).kind == "credit"
    with pytest.raises(CreditError, match="shape"):
        rewards(Overrides([0.1, 0.2]))
