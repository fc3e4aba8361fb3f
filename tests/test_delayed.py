"""Delayed judgements, and code that was written for OpenEnv's trajectory rubrics."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from rubrics import (
    Broadcast,
    ByEvidence,
    Discounted,
    EpisodeError,
    EpisodeOverError,
    EqualSplit,
    ExponentialDiscountingTrajectoryRubric,
    Gate,
    InvalidScoreError,
    Rubric,
    RubricError,
    Score,
    Sequential,
    StateError,
    StructureError,
    TrajectoryRubric,
    WeightedSum,
)
from tests.leaves import ACTION, OBSERVATION, AsyncJudged, Boom, Fixed, Judged, done, running


class WinLoss(ExponentialDiscountingTrajectoryRubric):
    """OpenEnv's example: the last observation says who won."""

    def score_trajectory(self, trajectory: Any) -> float:
        return 1.0 if trajectory[-1][1].won else 0.0


def play(rubric: Any, steps: int, won: bool = True) -> list[Any]:
    return [rubric(t, done(won=won) if t == steps - 1 else running(won=False)) for t in range(steps)]


# The node


@pytest.mark.parametrize("intermediate", [0.0, 0.25, -0.5, 2])
def test_it_is_pending_until_the_end(intermediate: float) -> None:
    rubric = Judged(0.75, intermediate)
    answers = play(rubric, 3)
    assert answers == [intermediate, intermediate, 0.75]
    assert [getattr(answer, "pending", False) for answer in answers] == [True, True, False]
    assert rubric.last_score == 0.75
    assert rubric.scorings == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None])
def test_an_intermediate_reward_is_a_finite_number(value: Any) -> None:
    with pytest.raises(InvalidScoreError, match="intermediate_reward"):
        Judged(1.0, value)
    with pytest.raises(StateError, match="intermediate_reward"):
        Judged(1.0).load_state_dict({"intermediate_reward": value})


@pytest.mark.parametrize("value", [float("nan"), "0.5", [1.0]])
@pytest.mark.parametrize("make", [Judged, AsyncJudged])
def test_what_is_no_score_is_refused_with_the_path(make: Callable[..., Rubric], value: Any) -> None:
    episode = Sequential({"game": Gate(make(value))}).episode()
    episode.step(ACTION, running())
    with pytest.raises(InvalidScoreError, match=r"game\.rubric"):
        episode.end()


@pytest.mark.parametrize("make", [Judged, AsyncJudged])
def test_an_error_keeps_its_type_and_its_path(make: Callable[..., Rubric]) -> None:
    episode = Sequential({"game": make(Boom("lost"))}).episode()
    with pytest.raises(Boom, match="lost") as caught:
        episode.step(ACTION, done())
    assert any("in rubric game" in note for note in caught.value.__notes__)


async def test_an_async_score_trajectory_is_awaited() -> None:
    tree = Sequential(AsyncJudged(0.75))
    assert [await tree(ACTION, running()), await tree(ACTION, done())] == [0.0, 0.75]
    assert tree[0].scorings == 1
    assert await tree.session()(ACTION, done()) == 0.75


@pytest.mark.parametrize("base", [TrajectoryRubric, ExponentialDiscountingTrajectoryRubric])
def test_without_a_score_trajectory_it_cannot_be_made(base: type[Rubric]) -> None:
    with pytest.raises(TypeError, match="score_trajectory"):
        type("Empty", (base,), {})()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_scorer_from_a_mixin_decides_what_is_async(asynchronous: bool) -> None:
    class Plain:
        def score_trajectory(self, trajectory: Any) -> float:
            return 0.5

    class Async:
        async def score_trajectory(self, trajectory: Any) -> float:
            return 0.5

    mixed = type("Mixed", (Async if asynchronous else Plain, TrajectoryRubric), {})()
    assert mixed.is_async_tree is asynchronous
    assert mixed.blocking()(ACTION, done()) == 0.5


# Credit of the node


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        (None, [0.0, 0.0, 0.0, 0.8]),
        (Discounted(0.5), [0.1, 0.2, 0.4, 0.8]),
        (EqualSplit(), [0.2] * 4),
        (Broadcast(), [0.8] * 4),
        (ByEvidence(), [0.4, 0.0, 0.4, 0.0]),
    ],
)
@pytest.mark.parametrize("make", [Judged, AsyncJudged])
async def test_compute_step_rewards(make: Callable[..., Any], credit: Any, expected: list[float]) -> None:
    rubric = make(Score(0.8, metadata={"evidence": [0, 2]}), 0.25, credit)
    tree = Sequential(rubric)
    for t in range(4):
        answer = tree(t, done() if t == 3 else running())
        if tree.is_async_tree:
            await answer
    for _ in range(3):
        assert rubric.compute_step_rewards() == pytest.approx(expected)
    assert rubric.scorings == 1


def test_compute_step_rewards_before_the_end_and_without_steps() -> None:
    rubric = WinLoss()
    assert rubric.compute_step_rewards() == []
    rubric(ACTION, running(won=True))
    with pytest.raises(EpisodeError, match="not over"):
        rubric.compute_step_rewards()
    rubric.default_episode.end(truncated=True)
    assert rubric.compute_step_rewards() == [1.0]


def test_a_node_that_was_not_reached_or_is_unscored_has_no_credit() -> None:
    for tree in (Sequential(Fixed(0.0), Judged(1.0)), Sequential(Fixed(), Judged(None))):
        play(tree, 2)
        with pytest.raises(EpisodeError, match="no score"):
            tree[1].compute_step_rewards()


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, [0.0, 0.0, 1.0]), (1.0, [1.0] * 3), (0.5, [0.25, 0.5, 1.0])])
def test_exponential_discounting(gamma: float, expected: list[float]) -> None:
    rubric = WinLoss(gamma=gamma)
    assert play(rubric, 3) == [0.0, 0.0, 1.0]
    assert rubric.compute_step_rewards() == expected


@pytest.mark.parametrize("gamma", [7, -0.1, float("nan"), "0.5", None, True])
def test_a_gamma_that_is_refused(gamma: Any) -> None:
    with pytest.raises(StructureError, match="gamma"):
        WinLoss(gamma=gamma)
    rubric = WinLoss(gamma=0.5)
    with pytest.raises(RubricError, match="gamma"):
        rubric.load_state_dict({"gamma": gamma, "intermediate_reward": 0.25})
    assert rubric.state_dict() == {"intermediate_reward": 0.0, "gamma": 0.5}


def test_a_loaded_gamma_counts() -> None:
    rubric = WinLoss(gamma=0.5)
    play(rubric, 2)
    rubric.load_state_dict({"gamma": 0.25})
    assert rubric.compute_step_rewards() == [0.25, 1.0]


# OpenEnv's habits


class KeepsItself(ExponentialDiscountingTrajectoryRubric):
    """A forward of its own that keeps `self._trajectory` and scores by itself."""

    scorings = 0

    def forward(self, action: Any, observation: Any) -> Any:
        self._trajectory.append((action, observation))
        return self.score_trajectory(self._trajectory) if observation.done else self.intermediate_reward

    def score_trajectory(self, trajectory: Any) -> float:
        self.scorings += 1
        return len(trajectory) / 10


class CallsSuper(KeepsItself):
    """A forward that changes the pair and builds on the inherited one."""

    def forward(self, action: Any, observation: Any) -> Any:
        return ExponentialDiscountingTrajectoryRubric.forward(self, ("seen", action), observation)


class AsyncKeepsItself(KeepsItself):
    async def forward(self, action: Any, observation: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return KeepsItself.forward(self, action, observation)


class HandsOn(KeepsItself):
    """A plain forward over an async score_trajectory: what the inherited one hands back is awaited."""

    async def score_trajectory(self, trajectory: Any) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return KeepsItself.score_trajectory(self, trajectory)

    def forward(self, action: Any, observation: Any) -> Any:
        return ExponentialDiscountingTrajectoryRubric.forward(self, action, observation)


@pytest.mark.parametrize("make", [KeepsItself, CallsSuper, AsyncKeepsItself, HandsOn])
@pytest.mark.parametrize("above", [lambda node: node, lambda node: Sequential(Fixed(), Gate(node, 0.1))])
async def test_a_forward_of_its_own(make: Callable[..., KeepsItself], above: Callable[[Any], Any]) -> None:
    node = make(gamma=0.5)
    tree = above(node)
    for _ in range(2):
        tree.reset()
        answers = []
        for t in range(3):
            answer = tree(t, done() if t == 2 else running())
            answers.append(await answer if tree.is_async_tree else answer)
        assert answers == pytest.approx([0.0, 0.0, 0.3])
        assert len(node.trajectory) == 3
        assert node.compute_step_rewards() == pytest.approx([0.075, 0.15, 0.3])
        rewards = tree.default_episode.rewards()
        assert rewards.values.tolist() == pytest.approx([0.075, 0.15, 0.3])
        assert (rewards.kind, rewards.total) == ("credit", pytest.approx(0.3))
    assert node.scorings == 2
    assert node.trajectory[0][0] == (("seen", 0) if make is CallsSuper else 0)
    with pytest.raises(EpisodeOverError):
        answer = tree(3, done())
        await answer


def test_a_forward_of_its_own_in_two_sessions() -> None:
    tree = Sequential(KeepsItself(gamma=0.5))
    one, two = tree.session(), tree.session()
    for session, steps in ((one, 2), (two, 3), (one, 3)):
        for t in range(steps):
            session(t, running())
    assert [one(9, done()), two(9, done())] == [0.6, 0.4]
    assert [len(session.get_rubric("rubric_0").trajectory) for session in (one, two)] == [6, 4]


def test_a_forward_of_its_own_is_undone_with_its_step() -> None:
    class Fails(Fixed):
        def forward(self, action: Any, observation: Any) -> float:
            if action == "bad":
                raise Boom
            return 1.0

    node = KeepsItself()
    tree = WeightedSum([node, Fails()], [0.5, 0.5])
    tree("good", running())
    with pytest.raises(Boom):
        tree("bad", done())
    assert [action for action, _ in node.trajectory] == ["good"]
    assert tree("good", done()) == pytest.approx(0.6)


class AssignsTrajectory(KeepsItself):
    """Assigns `self._trajectory`: in reset, and to keep the last two pairs only."""

    def forward(self, action: Any, observation: Any) -> Any:
        self._trajectory = [*self._trajectory[-1:], (action, observation)]
        return self.score_trajectory(self._trajectory) if observation.done else self.intermediate_reward

    def reset(self) -> None:
        self._trajectory = []


def test_an_assigned_trajectory_is_honoured() -> None:
    node = AssignsTrajectory()
    tree = Sequential(node)
    for _ in range(2):
        for t in range(4):
            answer = tree(t, done() if t == 3 else running())
        assert answer == 0.2
        assert [action for action, _ in node.trajectory] == [2, 3]
        tree.reset()
        assert node.trajectory == []


def test_an_assigned_trajectory_of_a_node_without_a_forward() -> None:
    class Preset(Judged):
        def __init__(self) -> None:
            super().__init__(lambda pairs: float(len(pairs)))
            self._trajectory = []

    rubric = Preset()
    assert rubric.trajectory == []
    assert play(rubric, 3) == [0.0, 0.0, 3.0]


class Cleared(WinLoss):
    """Attributes of its own, cleared in reset, with and without super()."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[Any] = []

    def score_trajectory(self, trajectory: Any) -> float:
        self.moves.append(len(trajectory))
        return 1.0

    def reset(self) -> None:
        self.moves = []


class ClearedWithSuper(Cleared):
    def reset(self) -> None:
        super().reset()
        self.moves = []


@pytest.mark.parametrize("make", [Cleared, ClearedWithSuper])
def test_attributes_cleared_in_reset(make: Callable[[], Cleared]) -> None:
    tree = Sequential(Gate(make()))
    for _ in range(2):
        play(tree, 3)
        assert tree[0][0].moves == [3]
        tree.reset()
        assert tree[0][0].moves == []


class OwnRewards(WinLoss):
    """An overridden compute_step_rewards, as in OpenEnv: it calls score_trajectory."""

    scorings = 0

    def score_trajectory(self, trajectory: Any) -> float:
        self.scorings += 1
        return 1.0 / self.scorings  # a stochastic judge, as it were

    def compute_step_rewards(self) -> list[float]:
        if not self._trajectory:
            return []
        final = self.score_trajectory(self._trajectory)
        return [final * (t + 1) / len(self._trajectory) for t in range(len(self._trajectory))]


class OwnRewardsOnSuper(OwnRewards):
    def compute_step_rewards(self) -> list[float]:
        return [2 * reward for reward in super().compute_step_rewards()]


@pytest.mark.parametrize(("make", "factor"), [(OwnRewards, 1.0), (OwnRewardsOnSuper, 2.0)])
def test_an_overridden_compute_step_rewards_never_scores_again(make: Callable[[], OwnRewards], factor: float) -> None:
    rubric = make()
    assert rubric.compute_step_rewards() == []
    assert play(rubric, 4) == [0.0, 0.0, 0.0, 1.0]
    expected = [factor * share for share in (0.25, 0.5, 0.75, 1.0)]
    for _ in range(3):
        assert rubric.compute_step_rewards() == expected
        assert rubric.default_episode.rewards().values.tolist() == expected
    assert rubric.default_episode.rewards().kind == "credit"
    assert rubric.scorings == 1
    session = rubric.session()
    play(session, 2)
    assert session.compute_step_rewards() == [factor * 0.25, factor * 0.5]
    assert rubric.scorings == 2


def test_copies_and_pickles_take_no_running_episode_along() -> None:
    rubric = WinLoss(gamma=0.5)
    rubric(ACTION, running(won=False))
    for other in (copy.copy(rubric), copy.deepcopy(rubric), pickle.loads(pickle.dumps(rubric))):
        assert (other.gamma, other.trajectory) == (0.5, [])
        assert play(other, 2) == [0.0, 1.0]
    assert len(rubric.trajectory) == 1


def test_the_trajectory_is_readable_while_it_scores() -> None:
    class Reads(Judged):
        def score_trajectory(self, trajectory: Any) -> float:
            assert list(self.trajectory) == list(self._trajectory) == list(trajectory)
            return float(len(trajectory))

    assert play(Sequential(Reads()), 3)[-1] == 3.0
    assert play(Sequential(Reads()).session(), 3)[-1] == 3.0


def test_called_outside_a_step_the_forward_says_what_to_do() -> None:
    with pytest.raises(EpisodeError, match="call the rubric"):
        WinLoss().forward(ACTION, OBSERVATION)
