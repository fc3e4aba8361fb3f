"""Episodes: how they end, what their end scores, and that a step that fails leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from rubrics import (
    AllOf,
    Episode,
    EpisodeError,
    EpisodeOverError,
    Fallback,
    Gate,
    Product,
    Record,
    Rubric,
    Score,
    Sequential,
    Switch,
    Unscored,
    WeightedSum,
    current_episode,
)
from tests.leaves import (
    ACTION,
    OBSERVATION,
    AsyncFixed,
    AsyncFlaky,
    AsyncJudged,
    Boom,
    ByAction,
    Fixed,
    Flaky,
    Judged,
    done,
    running,
)

WAYS = ("step", "astep", "evaluate", "evaluate_sync")


async def take(episode: Episode, way: str, action: Any = ACTION, observation: Any = OBSERVATION) -> Any:
    """One step of an episode, however it is taken."""
    if way == "step":
        return episode.step(action, observation)
    if way == "astep":
        return await episode.astep(action, observation)
    tree = episode._rubric
    if way == "evaluate":
        return (await tree.evaluate(action, observation, episode)).score
    return tree.evaluate_sync(action, observation, episode).score


async def finish(episode: Episode, way: str, **how: Any) -> Any:
    return await episode.aend(**how) if way in ("astep", "evaluate") else episode.end(**how)


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


# The end is read


@pytest.mark.parametrize(
    ("observation", "status"),
    [
        (SimpleNamespace(done=True), "terminated"),
        ({"done": True}, "terminated"),
        (Record({"done": True}), "terminated"),
        (SimpleNamespace(finished=True), "terminated"),
        ({"finished": True}, "terminated"),
        (SimpleNamespace(terminated=True, truncated=False), "terminated"),
        ({"terminated": False, "truncated": True}, "truncated"),
        (SimpleNamespace(done=True, truncated=True), "truncated"),
        (SimpleNamespace(done=np.True_), "terminated"),
        ({"done": np.bool_(True)}, "terminated"),
    ],
)
def test_an_end_that_is_read(observation: Any, status: str) -> None:
    for tree in (Fixed(0.5), Sequential(Judged(0.5))):
        episode = tree.episode()
        episode.step(ACTION, observation)
        assert (episode.status, episode.over) == (status, True)
        assert episode.rewards().total == 0.5
        assert episode.trajectory.end == status


@pytest.mark.parametrize(
    "value", ["2 of 5", "True", 1, 1.0, [True], None, False, np.False_, np.array(True), object(), MagicMock()]
)
@pytest.mark.parametrize("name", ["done", "finished", "terminated", "truncated"])
def test_only_real_booleans_end_an_episode(name: str, value: Any) -> None:
    for observation in (SimpleNamespace(**{name: value}), {name: value}, MagicMock(**{name: value}), MagicMock()):
        episode = Sequential(Judged()).episode()
        assert episode.step(ACTION, observation) == 0.0
        assert episode.status is None


# The four ends


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("how", "status"), [({}, "terminated"), ({"truncated": True}, "truncated")])
async def test_an_end_that_is_given_scores_what_was_delayed(how: Any, status: str, way: str) -> None:
    for judged in (Judged(0.75, 0.125), AsyncJudged(0.75, 0.125)):
        episode = halves(judged, Fixed(0.5)).episode()
        assert [await take(episode, way) for _ in range(3)] == [0.3125] * 3
        assert await finish(episode, way, **how) == 0.625
        assert (episode.status, episode.reward, episode.steps) == (status, 0.625, 3)
        assert episode.rewards().emitted.tolist() == [0.3125, 0.3125, 0.625]  # it replaces the last reward
        assert judged.seen == [[(ACTION, OBSERVATION)] * 3]
        assert await finish(episode, way) == 0.625  # once is enough
        assert (episode.status, judged.scorings) == (status, 1)


@pytest.mark.parametrize("status", ["error", "abandoned"])
@pytest.mark.parametrize("way", WAYS)
async def test_an_error_and_an_abandonment_are_unscored(way: str, status: Any) -> None:
    judged = Judged(0.75, 0.125)
    episode = halves(judged, Fixed(0.5)).episode()
    await take(episode, way)
    assert await finish(episode, way, status=status, reason="the sandbox died") is None
    rewards = episode.rewards()
    assert (episode.status, episode.reward, rewards.total, judged.scorings) == (status, None, None, 0)
    assert rewards.emitted.tolist() == [0.3125]
    assert np.isnan(rewards.values).all()
    assert episode.trajectory.metadata["end_reason"] == "the sandbox died"
    assert episode.trajectory.reward is None


@pytest.mark.parametrize("status", ["terminated", "truncated", "error", "abandoned"])
@pytest.mark.parametrize("make", [Judged, AsyncJudged, Fixed])
def test_an_episode_without_steps_is_unscored(make: Callable[[], Rubric], status: Any) -> None:
    episode = Sequential(make()).episode()
    assert episode.end(status) is None
    rewards = episode.rewards()
    assert rewards.total is None
    assert rewards.values.shape == rewards.emitted.shape == (0,)
    assert episode.trajectory.steps == []
    with pytest.raises(EpisodeOverError):
        episode.step(ACTION, OBSERVATION)


def test_ends_that_make_no_sense() -> None:
    episode = Sequential(Judged()).episode()
    episode.step(ACTION, OBSERVATION)
    with pytest.raises(EpisodeError, match="finished"):
        episode.end("finished")  # type: ignore[arg-type]
    with pytest.raises(EpisodeError, match="contradicts"):
        episode.end("error", truncated=True)
    with pytest.raises(EpisodeError, match="reduction"):
        Judged().episode(reduction="mean")  # type: ignore[arg-type]
    assert episode.status is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [Fixed, AsyncFixed, Judged, AsyncJudged])
async def test_a_step_after_the_end_is_an_error(make: Callable[[], Any], way: str) -> None:
    leaf = make()
    episode = Sequential(leaf).episode()
    await take(episode, way, observation=done())
    before = episode.rewards()
    for observation in (done(), running()):
        with pytest.raises(EpisodeOverError, match="terminated after 1 step"):
            await take(episode, way, observation=observation)
    assert (episode.steps, len(episode.trajectory.steps), episode.rewards()) == (1, 1, before)
    assert getattr(leaf, "scorings", 1) == 1


def test_rewards_before_the_end_are_an_error() -> None:
    episode = Sequential(Judged()).episode()
    episode.step(ACTION, OBSERVATION)
    with pytest.raises(EpisodeError, match="not over"):
        episode.rewards()
    assert episode.trajectory.reward is None
    assert episode.trajectory.end is None


# What the end makes reachable


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("leaf", [Fixed, AsyncFixed])
async def test_truncation_reaches_what_waited_behind_a_delayed_node(leaf: type[Fixed], way: str) -> None:
    style, length, last = leaf(0.5), leaf(1.0), leaf(0.25)
    tree = Sequential({"length": length, "game": Gate(Judged(1.0)), "style": style, "other": Judged(0.5), "last": last})
    episode = tree.episode(record=True)
    assert [await take(episode, way, i, running()) for i in range(3)] == [0.0] * 3
    assert (length.calls, style.calls, last.calls) == (3, 0, 0)
    assert await finish(episode, way, truncated=True) == 0.25
    assert (length.calls, style.calls, last.calls) == (3, 1, 1)  # what was assessed is not asked again
    assert len(episode.evaluations) == 3
    assert episode.evaluations[-1].flatten()["style"] == 0.5
    assert episode.evaluations[-1]["length"].score == 1.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [0.5, None, Score(0.5, "fine"), -0.5])
async def test_truncation_asks_no_assessed_leaf_again(answer: Any, way: str) -> None:
    leaf, judge, custom = Fixed(answer), AsyncFixed(answer), Doubles()
    tree = halves(leaf, Sequential(Fixed(), judge), custom, Judged(1.0))
    episode = tree.episode()
    await take(episode, way)
    await take(episode, way)
    calls = (leaf.calls, judge.calls, custom.leaf.calls)
    await finish(episode, way, truncated=True)
    assert (leaf.calls, judge.calls, custom.leaf.calls) == calls


@pytest.mark.parametrize("way", WAYS)
async def test_nor_after_a_step_that_failed(way: str) -> None:
    for flaky in (Flaky(), AsyncFlaky()):
        leaf = Fixed(0.5)
        episode = halves(leaf, Judged(1.0), flaky).episode()
        await take(episode, way, "good")
        with pytest.raises(Boom):
            await take(episode, way, "bad")
        calls = leaf.calls
        await finish(episode, way, truncated=True)
        assert (leaf.calls, episode.steps) == (calls, 1)


class Doubles(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = Fixed(0.25)

    def forward(self, action: Any, observation: Any) -> Any:
        return 2 * self.leaf(action, observation)


@pytest.mark.parametrize("way", WAYS)
async def test_a_custom_forward_over_a_delayed_node_is_scored_at_the_end(way: str) -> None:
    class Bonus(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.game = Judged(0.5, 0.25)

        def forward(self, action: Any, observation: Any) -> Any:
            return 1.0 + self.game(action, observation)

    episode = Bonus().episode()
    reward = await take(episode, way)
    assert reward == 1.25
    assert await finish(episode, way, truncated=True) == 1.5


@pytest.mark.parametrize("way", WAYS)
async def test_every_delayed_node_sees_every_step(way: str) -> None:
    nodes = [Judged(0.5) for _ in range(5)]
    tree = halves(
        Sequential(ByAction({"bad": 0.0}), nodes[0]),  # a badly formatted step never reaches it
        AllOf(ByAction({"bad": -1.0}), nodes[1]),
        Switch(lambda action, observation: action, {"good": nodes[2], "bad": nodes[3]}),
        Fallback(Fixed(0.5), nodes[4]),
    )
    episode = tree.episode()
    pairs = [("good", running()), ("bad", running()), ("good", running()), ("good", done())]
    for pair in pairs:
        await take(episode, way, *pair)
    assert [node.seen for node in nodes[:3]] == [[pairs]] * 3
    assert nodes[3].scorings == nodes[4].scorings == 0


def test_the_last_step_may_be_the_badly_formatted_one() -> None:
    judged = Judged(0.75)
    episode = halves(Sequential(ByAction({"bad": 0.0}), Fixed()), Sequential(judged)).episode()
    episode.step("good", running())
    assert episode.step("bad", done()) == 0.375
    assert len(judged.seen[0]) == 2


def test_a_node_cannot_take_a_step_of_the_episode_it_runs_in() -> None:
    class Meddles(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            episode = current_episode()
            assert episode is not None
            episode.end() if action == "end" else episode.step(action, observation)
            return 1.0

    for action in ("step", "end"):
        episode = Product(Meddles(), Judged()).episode()
        with pytest.raises(EpisodeError, match="cannot"):
            episode.step(action, OBSERVATION)
        assert episode.steps == 0


def test_unscored_is_not_zero_at_the_end() -> None:
    episode = Sequential(Judged(Unscored("no judge"))).episode(record=True)
    episode.step(ACTION, running())
    assert episode.step(ACTION, done()) is None
    assert episode.rewards().total is None
    assert episode.evaluations[-1].reason == "no judge"


# A step that the tree could not score, and that cannot be taken again


class Watches(Fixed):
    """Notes what it observed."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.observed: list[Any] = []

    def observe(self, action: Any, observation: Any) -> None:
        self.observed.append(action)
        if action == "bad":
            raise Boom


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_step_that_could_not_be_scored_is_part_of_the_trajectory(asynchronous: bool) -> None:
    watches, judged, flaky = Watches(), Judged(1.0), AsyncFlaky(0.5) if asynchronous else Flaky(0.5)
    episode = halves(watches, judged, flaky).episode(reduction="last")
    episode.step("one", running())
    for way in ("step", "astep"):
        with pytest.raises(Boom):
            await take(episode, way, "bad", running())
        if way == "step":
            assert episode.step_unscored("bad", running()) is None
        else:
            await episode.astep_unscored("bad", running())
    assert (episode.steps, episode.reward, episode.status) == (3, None, None)
    assert [step.reward for step in episode.trajectory.steps] == [pytest.approx(1 / 3), None, None]
    assert episode.step("two", done()) == pytest.approx(2 / 3)
    assert [action for action, _ in judged.seen[0]] == ["one", "bad", "bad", "two"]
    assert watches.observed.count("bad") == 4  # each one tried, and once more when it could not be scored
    rewards = episode.rewards()
    assert rewards.total == pytest.approx(2 / 3)
    assert np.isnan(rewards.emitted).tolist() == [False, True, True, False]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_episode_that_ends_with_one_is_unscored(asynchronous: bool) -> None:
    judged = Judged(1.0)
    episode = halves(judged, AsyncFixed() if asynchronous else Fixed()).episode()
    episode.step("one", running())
    if asynchronous:
        await episode.astep_unscored("two", done())
    else:
        episode.step_unscored("two", done())
    assert (episode.status, episode.reward, judged.scorings) == ("terminated", None, 0)
    assert episode.rewards().total is None
    assert episode.end(truncated=True) is None
    with pytest.raises(EpisodeOverError):
        episode.step_unscored("three", done())
    assert episode.steps == 2


@pytest.mark.parametrize("passed", ["step_unpaid", "step_unscored"])
@pytest.mark.parametrize("record", [True, False])
def test_a_driver_may_cut_off_after_a_step_that_was_not_judged(passed: str, record: bool) -> None:
    tree = halves(ByAction({1: 0.25, 2: 0.5}), Judged(1.0))
    episode = tree.episode(record=record)
    episode.step(1, running())
    getattr(episode, passed)(2, running())
    episode.end(truncated=True)
    assert (episode.rewards().emitted.tolist(), episode.total) == ([0.125, 0.75], 0.875)
    assert [evaluation.score for evaluation in episode.evaluations] == ([0.125, 0.75] if record else [])
    assert [(step.reward, step.metadata) for step in episode.trajectory.steps] == [(0.125, {}), (0.75, {})]
