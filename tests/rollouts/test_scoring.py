"""A tree as a scoring function: equal to an episode and to rescoring, and what failures and cancellations leave."""

from __future__ import annotations

import asyncio
import pickle
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rubrics import (
    ByEvidence,
    Discounted,
    EpisodeError,
    EpisodeOverError,
    EqualSplit,
    Rubric,
    RubricError,
    Score,
    Sequential,
    Terminal,
    TrajectoryRubric,
    Unscored,
    WeightedSum,
    current_episode,
)
from rubrics.rescoring import rescore_one
from rubrics.rescoring.rows import step_rewards_dict
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Step, Trajectory
from tests.leaves import AsyncFixed, AsyncJudged, Fixed, Judged, in_time
from tests.random_trees import build, waiting_specs, with_sharing
from tests.reference import Spec


def rollout(steps: int = 1, last: Any = None, **given: Any) -> Trajectory:
    taken = [Step({"n": n}, {}) for n in range(steps)]
    taken[-1].observation = last or {}
    return Trajectory("x", steps=taken, **{"end": "terminated", **given})


# -- one number -------------------------------------------------------------------------------------------------------


async def play(tree: Rubric, trajectory: Trajectory, record: bool | None, threads: bool) -> Any:
    episode = tree.episode(record=record, reduction=trajectory.reduction)
    for step in trajectory.steps:
        await episode.astep(step.action, step.observation, threads=threads)
    await episode.aend(trajectory.end, threads=threads)
    return episode


def told(episode: Any) -> str:
    """All that an episode says about numbers, as text, in which NaN equals NaN."""
    outcomes = {
        path: None if outcome is None or isinstance(outcome, Unscored) else float(outcome)
        for path, outcome in episode.last_outcomes().items()
    }
    return repr((episode.total, step_rewards_dict(episode.rewards()), outcomes))


@settings(max_examples=60)
@given(
    waiting_specs,
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(1, 3),
    st.sampled_from(["terminated", "truncated"]),
    st.booleans(),
    st.sampled_from(["sum", "last", None]),
    st.sampled_from([Terminal(), EqualSplit(), Discounted(0.5)]),
)
def test_the_same_numbers_in_sync_and_async_code_in_threads_recorded_or_not(
    spec: Spec, shared: bool, waiting: float, steps: int, end: Any, told_by_the_last: bool, reduction: Any, credit: Any
) -> None:
    def tree() -> Rubric:
        turns = random.Random(0)

        def leaf(before: Any, at_end: Any) -> Rubric:
            is_async = turns.random() < waiting
            if isinstance(before, Score):
                return (AsyncJudged if is_async else Judged)(at_end, float(before), credit)
            return AsyncFixed(before) if is_async else Fixed(before)

        return build(spec, with_sharing(leaf) if shared else leaf)

    trajectory = rollout(steps, {end: True} if told_by_the_last else None, end=end, reduction=reduction)
    row = rescore_one(trajectory, tree())
    found = set()
    for record in (False, None, True):
        scorer = Scorer(tree(), record=record)
        for scored in (scorer.score(trajectory), asyncio.run(scorer.score_async(trajectory))):
            assert (scored.status, scored.reward) == (row.status, row.reward)
            assert scored.episode is not None
            found.add(told(scored.episode))
        found |= {told(asyncio.run(play(tree(), trajectory, record, threads))) for threads in (False, True)}
    assert len(found) == 1


class Cites(TrajectoryRubric):
    def score_trajectory(self, trajectory: Any) -> Score:
        return Score(1.0, metadata={"evidence": [7]})


def test_a_credit_that_is_refused_costs_the_reward_as_in_rescoring() -> None:
    scored, row = (score(rollout(2)) for score in (Scorer(Cites(credit=ByEvidence())).score, _rescored))
    assert scored.status == row.status == "error"
    assert scored.reward is row.reward is None
    assert "evidence cites 7 of 2 steps" in str(scored.reason)


def _rescored(trajectory: Trajectory) -> Any:
    return rescore_one(trajectory, Cites(credit=ByEvidence()))


def test_step_rewards_are_those_of_the_weights_that_paid_them() -> None:
    tree = WeightedSum({"a": Judged(1.0, credit=EqualSplit()), "b": Judged(0.0)}, {"a": 0.5, "b": 0.5})
    scored = Scorer(tree).score(rollout(2))
    tree.weights = [0.25, 0.75]
    rewards = scored.rewards()
    assert rewards is not None
    assert rewards.values.tolist() == [0.25, 0.25]


def test_the_episode_of_a_rollout_of_one_step_is_like_any_other() -> None:
    met: list[Any] = []

    class Meets(Rubric):
        def forward(self, action: Any, observation: Any) -> Score:
            episode = current_episode()
            assert episode is not None
            met.append((episode, self.task, episode.initial, episode.over))
            thread = threading.Thread(target=lambda: asyncio.run(self.steps_in_it(episode)))
            thread.start()
            met.append(thread)
            with pytest.raises(EpisodeError, match="cannot take a step of the episode that it is being evaluated in"):
                episode.step(action, observation)
            time.sleep(0.05)  # the other one stands in line by now
            return Score(0.5, "met")

        async def steps_in_it(self, episode: Any) -> None:
            with pytest.raises(EpisodeOverError):
                await asyncio.wait_for(episode.astep("more", {}), 5.0)
            met.append("told that it is over")

    trajectory = rollout(last={"done": True}, task="t", initial="i")
    scored = Scorer(Meets()).score(trajectory)
    (episode, *seen), thread = met[:2]
    thread.join()
    assert scored.episode is episode and seen == ["t", "i", False] and met[-1] == "told that it is over"
    assert (episode.id, episode.status, episode.steps, scored.reward, scored.reason) == (
        "x",
        "terminated",
        1,
        0.5,
        "met",
    )
    assert episode.trajectory.steps == [Step({"n": 0}, {"done": True}, 0.5)]


def test_a_rollout_of_one_step_that_fails_leaves_nothing_of_it() -> None:
    judged, memory = Judged(1.0), Remembers()
    tree = Sequential(judged, memory, Fixed(ValueError("no")))
    scored = Scorer(tree).score(rollout(last={"done": True}))
    assert scored.status == "error" and scored.episode is not None
    assert scored.episode.status == "abandoned" and scored.episode.steps == 0 and scored.episode.trajectory.steps == []
    assert scored.episode.score_of(judged) is None and scored.episode.memory_of(memory) == {}


class Remembers(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        self.memory["seen"] = action
        return 1.0


# -- what leaves raise ------------------------------------------------------------------------------------------------


class Raising(Rubric):
    """Raises what it was given, for the task `"bad"`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, action: Any, observation: Any) -> float:
        if self.task == "bad":
            raise self.error
        return 1.0


class RaisingAsync(Raising):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().forward(action, observation)


class Gone(BaseException):
    """Such as the timeouts of some test runners and green threads."""


def scoring(leaf: Any, awaited: bool, tasks: list[str], **options: Any) -> Any:
    """The batch scored, in a thread of its own, since what is wrong here hangs."""
    scorer = Scorer(WeightedSum({"a": leaf, "b": leaf}, {"a": 0.5, "b": 0.5}), **options)
    batch = [rollout(task=task) for task in tasks]
    score = (lambda: asyncio.run(scorer.score_all_async(batch))) if awaited else (lambda: scorer.score_all(batch))
    try:
        return in_time(score)
    finally:
        assert in_time(scorer.score, rollout(task="good")).reward == 1.0


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("kind", [Raising, RaisingAsync])
@pytest.mark.parametrize("error", [ValueError, StopIteration, SystemExit, asyncio.CancelledError, GeneratorExit, Gone])
def test_a_leaf_that_exits_or_gives_up_fails_its_own_rollout(kind: Any, error: Any, awaited: bool) -> None:
    leaf = kind(error("x"))
    if error in (GeneratorExit, Gone):
        with pytest.raises(error):
            scoring(leaf, awaited, ["good", "bad", "good"])
        return
    scored = scoring(leaf, awaited, ["good", "bad", "good"])
    assert [one.reward for one in scored] == [1.0, None, 1.0]
    assert scored[1].status == rescore_one(rollout(task="bad"), leaf).status == "error"
    expected = error if issubclass(error, Exception) and not issubclass(error, StopIteration) else Exception
    for options in ({"on_error": "raise"}, {}):
        with pytest.raises(expected):
            scoring(leaf, awaited, ["bad", "bad"], **options)


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("kind", [Raising, RaisingAsync])
def test_an_interrupt_goes_through(kind: Any, awaited: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        scoring(kind(KeyboardInterrupt()), awaited, ["good", "bad"])


def test_with_on_error_raise_nothing_is_paid_for_after_the_first_failure() -> None:
    class Counted(Raising):
        calls = 0

        def forward(self, action: Any, observation: Any) -> float:
            Counted.calls += 1
            return super().forward(action, observation)

    with pytest.raises(ValueError, match="x"):
        Scorer(Counted(ValueError("x")), on_error="raise").score_all([rollout(task="bad") for _ in range(5)])
    assert Counted.calls == 1


def test_a_batch_without_rewards_ends_no_training_as_an_exit() -> None:
    with pytest.raises(RubricError, match="SystemExit: 3"):
        Scorer(Raising(SystemExit(3))).score_all([rollout(task="bad")] * 2)


# -- cancellation -----------------------------------------------------------------------------------------------------


class Slow(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.calls = self.seen = 0

    def reset(self) -> None:
        super().reset()
        self.seen = 0

    def forward(self, action: Any, observation: Any) -> float:
        self.calls += 1
        self.seen += 1
        time.sleep(0.02)
        return float(self.seen)


class SlowAsync(Slow):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        self.calls += 1
        self.seen += 1
        await asyncio.sleep(0.02)
        return float(self.seen)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("kind", [Slow, SlowAsync])
async def test_a_cancelled_batch_goes_no_further_and_the_tree_serves_again(kind: Any, mixed: bool) -> None:
    leaf = kind()
    tree: Rubric = WeightedSum({"leaf": leaf, "other": AsyncFixed()}, {"leaf": 1, "other": 0}) if mixed else leaf
    scorer = Scorer(tree)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await scorer.score_all_async([rollout(2) for _ in range(50)])
    await asyncio.sleep(0.1)
    assert leaf.calls <= 2
    assert len(asyncio.all_tasks()) == 1
    assert (await scorer.score_async(rollout(2))).reward == 3.0


class Keeps(TrajectoryRubric):
    """Keeps its state on itself, as OpenEnv's rubrics do."""

    def reset(self) -> None:
        self.total = 0.0

    def score_trajectory(self, trajectory: list[Any]) -> float:
        time.sleep(0.001)
        self.total += len(trajectory[-1][0].content)
        return self.total


class KeepsAsync(Keeps):
    async def score_trajectory(self, trajectory: list[Any]) -> float:
        await asyncio.sleep(0.001)
        self.total += len(trajectory[-1][0].content)
        return self.total


@pytest.mark.parametrize("tree", [Keeps, KeepsAsync])
def test_a_tree_that_keeps_state_is_scored_by_turns(tree: type[TrajectoryRubric]) -> None:
    scorer = pickle.loads(pickle.dumps(Scorer(tree())))
    rollouts = [trajectory_of("q", "x" * n) for n in range(1, 9)]

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(scorer.score_async(one) for one in rollouts))

    with ThreadPoolExecutor(4) as threads:
        by_threads = list(threads.map(scorer.score, rollouts))
    for scored in (asyncio.run(at_once()), by_threads, scorer.score_all(rollouts)):
        assert [one.reward for one in scored] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


class Says(Rubric):
    """The share of letters that are `a`; what asks is not judged."""

    def forward(self, action: Any, observation: Any) -> Any:
        return None if "?" in action.content else action.content.count("a") / max(len(action.content), 1)


class Ends(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[Any]) -> float:
        return float(trajectory[-1][0].content == "end")


@given(
    st.lists(st.sampled_from(["aa", "ab", "b", "end", "a?"]), min_size=1, max_size=6), st.sampled_from(["sum", "last"])
)
def test_scores_of_a_rollout_add_up_to_its_reward(said: list[str], reduction: Any) -> None:
    tree = WeightedSum({"says": Says(), "ends": Ends(intermediate_reward=0.1)}, {"says": 0.25, "ends": 0.75})
    tree.reduction = reduction
    messages = [{"role": role, "content": text} for text in said for role in ("assistant", "user")]
    scored = Scorer(tree).score(trajectory_of("q", messages))
    counting = said if reduction == "sum" else said[-1:]
    assert (scored.reward is None) == ("a?" in counting) == (scored.scores["says"] is None)
    if scored.reward is not None:
        assert 0.25 * scored.scores["says"] + 0.75 * scored.scores["ends"] == pytest.approx(scored.reward)


def test_a_node_that_was_not_reached_on_some_steps_contributes_on_the_others() -> None:
    tree = Sequential({"says": Says(), "ends": Fixed(0.5)})
    messages = [{"role": "assistant", "content": text} for text in ("b", "a", "a")]
    scored = Scorer(tree).score(trajectory_of("q", messages))
    assert scored.scores == {"says": 2.0, "ends": 1.0} and scored.reward == 1.0
    never = Scorer(tree).score(trajectory_of("q", [{"role": "assistant", "content": "b"}] * 2))
    assert never.scores == {"says": 0.0, "ends": None}
