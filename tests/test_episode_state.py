"""What an episode gives its nodes: task, memory, observations, trajectories; the default episode and its reset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rubrics import (
    Episode,
    EpisodeError,
    EpisodeOverError,
    EqualSplit,
    Gate,
    Rubric,
    Sequential,
    Switch,
    Trajectory,
    WeightedSum,
    current_episode,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, AsyncJudged, ByAction, Fixed, Judged, done, running


def halves(*children: Rubric) -> WeightedSum:
    return WeightedSum(list(children), [1 / len(children)] * len(children))


# The trajectory as data


def test_the_trajectory_as_data() -> None:
    episode = halves(Judged(1.0), Fixed(0.5)).episode(task={"goal": "win"}, initial="start", id="e-1")
    first, last = running(board=1), done(board=2)
    episode.step("left", first)
    episode.step("right", last)
    data = episode.trajectory
    assert isinstance(data, Trajectory)
    assert (data.id, data.task, data.initial, data.end) == ("e-1", {"goal": "win"}, "start", "terminated")
    assert [(step.action, step.observation, step.reward) for step in data.steps] == [
        ("left", first, 0.25),
        ("right", last, 0.75),
    ]
    assert (data.reward, data.reduction) == (1.0, "sum")


def test_an_id_is_made_once_and_differs() -> None:
    tree = Fixed()
    one, two = tree.episode(), tree.episode()
    assert one.id == one.id != two.id


def test_the_reduction_of_the_tree_can_be_overridden() -> None:
    class Last(Fixed):
        reduction = "last"

    for episode, total in ((Last(0.5).episode(), 0.5), (Last(0.5).episode(reduction="sum"), 1.0)):
        episode.step(ACTION, running())
        episode.step(ACTION, done())
        assert episode.rewards().total == episode.total == episode.trajectory.reward == total


# References and snapshots


def test_the_trajectory_refers_to_what_was_given() -> None:
    judged = Judged(lambda pairs: float(pairs[0][1].page[0]))
    episode = Sequential(judged).episode()
    observation = running(page=[1])
    episode.step(ACTION, observation)
    observation.page[0] = 2
    assert episode.trajectory.steps[0].observation is observation
    assert episode.end() == 2.0


@pytest.mark.parametrize("tree", [Sequential(Judged(1.0)), Sequential(AsyncFixed(), AsyncJudged(1.0))])
def test_a_snapshot_is_not_rewritten(tree: Rubric) -> None:
    episode = tree.episode(snapshot=True)
    action, observation = ["go"], running(page=[1])
    episode.step(action, observation)
    observation.page[0] = 2
    action.append("back")
    step = episode.trajectory.steps[0]
    assert (step.action, step.observation.page) == (["go"], [1])
    episode.end()
    assert tree.get_rubric("rubric_0").is_async_tree or tree[0].seen[0][0][1].page == [1]  # type: ignore[index]


def test_a_snapshot_may_be_a_function() -> None:
    episode = Sequential(Judged(1.0)).episode(snapshot=lambda thing: str(thing))
    episode.step(1, 2)
    assert [(step.action, step.observation) for step in episode.trajectory.steps] == [("1", "2")]


# What nodes can ask


def test_the_current_episode_is_known_to_nodes_and_hooks() -> None:
    seen: list[Episode | None] = []

    class Looks(Fixed):
        def observe(self, action: Any, observation: Any) -> None:
            seen.append(current_episode())

        def forward(self, action: Any, observation: Any) -> float:
            seen.append(current_episode())
            return 1.0

    tree = Sequential(Looks())
    tree.register_forward_hook(lambda *_: seen.append(current_episode()))
    episode = tree.episode()
    episode.step(ACTION, OBSERVATION)
    assert seen == [episode] * 3
    assert current_episode() is None


# Observations


class Watches(Fixed):
    """Notes what it observed, and how many nodes had been evaluated by then."""

    def __init__(self, value: Any = 1.0) -> None:
        super().__init__(value)
        self.observed: list[Any] = []

    def observe(self, action: Any, observation: Any) -> None:
        self.observed.append((action, observation, self.calls))


class AsyncWatches(Watches):
    async def observe(self, action: Any, observation: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().observe(action, observation)


@pytest.mark.parametrize("make", [Watches, AsyncWatches])
async def test_a_node_observes_every_step_once_before_it_is_evaluated(make: type[Watches]) -> None:
    node = make()
    tree = Sequential(ByAction({"bad": 0.0}), halves(node, Gate(node)), Judged(1.0))
    episode = tree.episode()
    pairs = [("good", running()), ("bad", running()), ("good", running())]
    for pair in pairs:
        await episode.astep(*pair)
    assert [(action, observation) for action, observation, _ in node.observed] == pairs
    assert [calls for _, _, calls in node.observed] == [0, 1, 1]
    await episode.aend()
    assert len(node.observed) == 3  # the end is no step


def test_a_bare_call_is_observed_too() -> None:
    node = Watches()
    tree = Sequential(Fixed(0.0), node)
    tree("one", OBSERVATION)
    tree.evaluate_sync("two", OBSERVATION)
    assert [action for action, _, _ in node.observed] == ["one", "two"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_observer_that_raises_is_named(asynchronous: bool) -> None:
    class Fails(Fixed):
        def observe(self, action: Any, observation: Any) -> None:
            raise KeyError("board")

    class AsyncFails(Fixed):
        async def observe(self, action: Any, observation: Any) -> None:
            raise KeyError("board")

    tree = Sequential({"inner": Sequential({"watch": AsyncFails() if asynchronous else Fails()})})
    for take in (tree.episode().astep, lambda *pair: asyncio.to_thread(tree.episode().step, *pair)):
        with pytest.raises(KeyError) as caught:
            await take(ACTION, OBSERVATION)
        assert any("inner.watch" in note for note in caught.value.__notes__)


# What a delayed node saw: the steps, or its own calls


class Routes(Rubric):
    """Routes moves to the children of two players."""

    def __init__(self, sees: str, **options: Any) -> None:
        super().__init__()
        self.white, self.black = Judged(1.0, **options), Judged(0.5, **options)
        self.white.sees = self.black.sees = sees

    def forward(self, action: Any, observation: Any) -> Any:
        return (self.white if action[0] == "w" else self.black)(action[1], observation)


MOVES = [("w", 1), ("b", 2), ("w", 3), ("b", 4), ("w", 5)]


def test_a_parent_that_routes_moves_sets_sees_to_calls() -> None:
    tree = Routes("calls")
    session = tree.session()
    for move in MOVES:
        session(move, running())
    assert [[action for action, _ in session.get_rubric(name).trajectory] for name in ("white", "black")] == [
        [1, 3, 5],
        [2, 4],
    ]
    assert session.episode_now.end() == 1.0
    assert [len(seen) for seen in tree.white.seen] == [3]
    assert tree.black.scorings == 0


@pytest.mark.parametrize("record", [False, True])
def test_a_root_that_sees_calls_sees_every_step(record: bool) -> None:
    root = Judged(1.0)
    root.sees = "calls"
    episode = root.episode(record=record)
    for i in range(3):
        episode.step(i, running())
    episode.step(3, done())
    assert [[action for action, _ in seen] for seen in root.seen] == [[0, 1, 2, 3]]


def test_by_default_it_sees_every_step_and_the_pairs_it_was_called_with() -> None:
    tree = Routes("steps")
    episode = tree.episode()
    for move in MOVES:
        episode.step(move, running())
    episode.end()
    assert [action for action, _ in tree.white.seen[0]] == [1, ("b", 2), 3, ("b", 4), 5]


def test_credit_of_a_node_that_sees_calls_falls_on_its_calls() -> None:
    tree = Switch(
        lambda action, observation: action[0],
        {"w": Judged(0.9, credit=EqualSplit()), "b": Judged(0.5, credit=EqualSplit())},
    )
    for child in tree:
        child.sees = "calls"
    session = tree.session()
    for move in MOVES:
        session(move, running())
    session.episode_now.end()
    assert session.episode_now.rewards().values.tolist() == pytest.approx([0.3, 0.0, 0.3, 0.0, 0.3])
    assert session.get_rubric("w").compute_step_rewards() == pytest.approx([0.3] * 3)


# The default episode


@pytest.mark.parametrize("make", [Judged, lambda value: Sequential(Gate(Judged(value)), Fixed(0.5))])
def test_episodes_of_three_steps_are_scored_as_three_steps(make: Any) -> None:
    tree = make(1.0)
    judged = tree if isinstance(tree, Judged) else tree.get_rubric("rubric_0.rubric")
    for _ in range(3):
        tree.reset()
        for observation in (running(), running(), done()):
            tree(ACTION, observation)
    assert [len(seen) for seen in judged.seen] == [3, 3, 3]


def test_a_default_episode_that_is_over_wants_a_reset() -> None:
    tree = Sequential(Judged(1.0))
    tree(ACTION, done())
    with pytest.raises(EpisodeOverError, match="reset"):
        tree(ACTION, done())
    assert tree[0].scorings == 1
    tree.reset()
    assert tree(ACTION, done()) == 1.0


def test_reset_touches_no_explicit_episode() -> None:
    tree = Sequential(Judged(1.0, 0.5))
    episode = tree.episode()
    episode.step(1, running())
    tree("default", running())
    tree.reset()
    episode.step(2, done())
    assert [action for action, _ in tree[0].seen[0]] == [1, 2]
    assert tree.default_episode.steps == 0


def test_the_trajectory_of_a_node_is_the_default_episodes_and_a_copy() -> None:
    tree = Sequential(Judged(1.0))
    episode = tree.episode()
    episode.step("explicit", running())
    tree("default", OBSERVATION)
    assert tree[0].trajectory == [("default", OBSERVATION)]
    tree[0].trajectory.clear()
    assert len(tree[0].trajectory) == 1
    tree.reset()
    assert tree[0].trajectory == []


def test_an_episode_of_another_tree_is_refused() -> None:
    one, two = Sequential(Judged()), Sequential(Judged())
    with pytest.raises(EpisodeError, match="another tree"):
        one.evaluate_sync(ACTION, OBSERVATION, two.episode())


def test_a_tree_may_change_between_the_steps() -> None:
    tree = WeightedSum({"a": Fixed(1.0), "judged": Judged(1.0)}, {"a": 0.5, "judged": 0.5})
    episode = tree.episode()
    assert episode.step(1, running()) == 0.5
    tree.a = Fixed(0.0)
    tree.weights = [0.25, 0.75]
    assert episode.step(2, running()) == 0.0
    tree.a = replacement = Fixed(0.5)
    assert episode.end(truncated=True) == 0.875  # the new node is asked about the last pair
    assert replacement.calls == 1
    assert len(tree.judged.seen[0]) == 2
