"""Steps of one episode are taken one after the other; many episodes over one tree never see each other."""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rubrics import EpisodeError, EpisodeOverError, EqualSplit, Rubric, Sequential, WeightedSum
from tests.leaves import (
    ACTION,
    OBSERVATION,
    AsyncFixed,
    AsyncJudged,
    Blocking,
    Boom,
    Fixed,
    Judged,
    done,
    in_time,
    running,
)


def named(**children: Rubric) -> WeightedSum:
    return WeightedSum(children, dict.fromkeys(children, 1 / len(children)))


class Alone(Rubric):
    """Notices whether another step is inside at the same time; counts in its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.overlaps = 0

    def enter(self) -> None:
        self.inside += 1
        self.overlaps += self.inside > 1

    def leave(self) -> float:
        self.memory["count"] = self.memory.get("count", 0) + 1
        self.inside -= 1
        return float(self.memory["count"])

    def forward(self, action: Any, observation: Any) -> float:
        self.enter()
        threading.Event().wait(0.001)
        return self.leave()


class AsyncAlone(Alone):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        self.enter()
        for _ in range(3):
            await asyncio.sleep(0)
        return self.leave()


@pytest.mark.parametrize("make", [Alone, AsyncAlone])
def test_steps_from_threads_are_serialised(make: Callable[[], Alone]) -> None:
    leaf, judged = make(), Judged(0.5)
    episode = Sequential(leaf, judged).episode()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: episode.step(i, running()), range(40)))
    assert leaf.overlaps == 0
    assert episode.steps == 40
    assert episode.end() == 0.5
    assert sorted(action for action, _ in judged.seen[0]) == list(range(40))


async def test_steps_on_one_loop_are_serialised_in_order() -> None:
    leaf, judged = AsyncAlone(), AsyncJudged(0.5)
    episode = named(leaf=leaf, judged=judged).episode()
    rewards = await asyncio.gather(*(episode.astep(i, running()) for i in range(20)))
    assert leaf.overlaps == 0
    assert rewards == [(i + 1) / 2 for i in range(20)]
    await episode.aend()
    assert [action for action, _ in judged.seen[0]] == list(range(20))


async def test_steps_from_loops_and_threads_are_serialised() -> None:
    leaf = AsyncAlone()
    episode = Sequential(leaf).episode()

    async def several() -> None:
        await asyncio.gather(*(episode.astep(ACTION, running()) for _ in range(5)))

    await asyncio.wait_for(
        asyncio.gather(
            several(),
            *(asyncio.to_thread(episode.step, ACTION, running()) for _ in range(5)),
            *(asyncio.to_thread(asyncio.run, several()) for _ in range(3)),
        ),
        20,
    )
    assert (leaf.overlaps, episode.steps) == (0, 25)


async def test_one_that_gives_up_waiting_for_its_turn_holds_up_nobody() -> None:
    gate = asyncio.Event()

    class Waits(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            await gate.wait()
            return 1.0

    episode = Sequential(Waits(), Judged(1.0)).episode()
    tasks = [asyncio.create_task(episode.astep(i, running())) for i in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert isinstance(results[1], asyncio.CancelledError)
    assert episode.steps == 3
    assert [step.action for step in episode.trajectory.steps] == [0, 2, 3]


def test_one_whose_loop_has_gone_holds_up_nobody() -> None:
    leaf = Blocking(1.0)
    episode = Sequential(leaf, Judged(1.0)).episode()

    async def gives_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(episode.astep(2, running()), 0.01)

    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(episode.step, 1, running())
        assert leaf.entered.wait(10)
        asyncio.run(gives_up())
        leaf.release.set()
        assert step.result(10) == 0.0
    assert episode.end() == 1.0
    assert episode.steps == 1


async def test_a_step_that_waits_behind_the_last_one_is_too_late() -> None:
    leaf = AsyncAlone()
    episode = Sequential(leaf, Judged(1.0)).episode()
    results = await asyncio.gather(
        episode.astep(1, running()), episode.astep(2, done()), episode.astep(3, running()), return_exceptions=True
    )
    assert results[:2] == [0.0, 1.0]
    assert isinstance(results[2], EpisodeOverError)
    assert episode.steps == 2


async def test_an_end_waits_for_the_step_in_progress() -> None:
    judged = AsyncJudged(0.5)
    episode = named(leaf=AsyncFixed(1.0, turns=5), judged=judged).episode()
    step = asyncio.create_task(episode.astep(ACTION, running()))
    await asyncio.sleep(0)
    assert await episode.aend(truncated=True) == 0.75
    assert await step == 0.5
    assert episode.steps == len(judged.seen[0]) == 1


def test_an_end_waits_for_the_step_in_another_thread() -> None:
    leaf = Blocking(1.0)
    episode = named(leaf=leaf, judged=Judged(0.5)).episode()
    with ThreadPoolExecutor(2) as pool:
        step = pool.submit(episode.step, ACTION, running())
        assert leaf.entered.wait(10)
        end = pool.submit(episode.end, truncated=True)
        leaf.release.set()
        assert (step.result(10), end.result(10)) == (0.5, 0.75)


# Many episodes over one tree


class Counts(Rubric):
    def observe(self, action: Any, observation: Any) -> None:
        self.memory.setdefault("actions", []).append(action)

    def forward(self, action: Any, observation: Any) -> float:
        assert self.task == self.memory["actions"][0][0]
        return float(len(self.memory["actions"]))


class AsyncCounts(Counts):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return Counts.forward(self, action, observation)


def shared_tree(asynchronous: bool) -> Rubric:
    def own(trajectory: list[Any]) -> float:
        names = {action[0] for action, _ in trajectory}
        assert len(names) == 1
        return float(len(trajectory))

    if asynchronous:
        return named(counts=AsyncCounts(), judged=AsyncJudged(own, credit=EqualSplit()), plain=Counts())
    return named(counts=Counts(), judged=Judged(own, credit=EqualSplit()))


def right(episode: Any, name: int, steps: int, parts: int) -> None:
    counts = [float(t + 1) * (parts - 1) / parts for t in range(steps)]
    emitted = [*counts[:-1], counts[-1] + steps / parts]
    rewards = episode.rewards()
    assert rewards.emitted.tolist() == pytest.approx(emitted)
    assert rewards.values.tolist() == pytest.approx([count + 1 / parts for count in counts])
    assert [step.action for step in episode.trajectory.steps] == [(name, t) for t in range(steps)]
    assert episode.task == name


async def test_many_episodes_on_one_loop() -> None:
    tree = shared_tree(asynchronous=True)
    episodes = [tree.episode(task=i) for i in range(20)]

    async def play(i: int) -> None:
        for t in range(i % 4 + 1):
            await episodes[i].astep((i, t), done() if t == i % 4 else running())

    await asyncio.gather(*(play(i) for i in range(20)))
    for i, episode in enumerate(episodes):
        right(episode, i, i % 4 + 1, 3)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_many_episodes_in_threads(asynchronous: bool) -> None:
    tree = shared_tree(asynchronous)
    together = threading.Barrier(6)

    def play(i: int) -> None:
        together.wait(10)
        for _ in range(5):
            episode = tree.episode(task=i)
            for t in range(4):
                episode.step((i, t), running())
            episode.end()
            right(episode, i, 4, 3 if asynchronous else 2)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(play, range(6)))


async def test_many_episodes_stepped_by_turns() -> None:
    for asynchronous in (False, True):
        tree = shared_tree(asynchronous)
        episodes = [tree.episode(task=i) for i in range(5)]
        for t in range(3):
            for i, episode in enumerate(episodes):
                step = episode.astep if t % 2 else episode.step
                answer = step((i, t), running())
                if t % 2:
                    await answer
        for i, episode in enumerate(episodes):
            episode.end(truncated=True)
            right(episode, i, 3, 3 if asynchronous else 2)


def test_a_failing_episode_beside_others() -> None:
    class FailsFor(Fixed):
        def forward(self, action: Any, observation: Any) -> Any:
            if action == "bad":
                raise Boom
            return 1.0

    tree = named(fails=FailsFor(), judged=Judged(0.5))
    one, two = tree.episode(), tree.episode()
    one.step("good", running())
    with pytest.raises(Boom):
        two.step("bad", done())
    one.step("good", done())
    assert (one.steps, two.steps, two.status) == (2, 0, None)
    assert one.rewards().total == 1.25


async def count_at_once(tree: Any) -> None:
    await asyncio.gather(*(tree(ACTION, OBSERVATION) for _ in range(5)))
    assert tree[0].overlaps == 0
    assert tree.default_episode.steps == 5
    assert tree[0].memory["count"] == 5


async def test_concurrent_calls_without_an_episode_are_steps_of_the_default_one() -> None:
    await count_at_once(Sequential(AsyncAlone(), AsyncJudged(1.0, 9.0)))


async def test_concurrent_calls_of_a_tree_with_memory_are_serialised() -> None:
    await count_at_once(Sequential(AsyncAlone()))


def test_threads_that_begin_at_once_share_one_default_episode() -> None:
    for _ in range(20):
        tree = Sequential(Judged(1.0))
        together = threading.Barrier(4)

        def step(i: int, tree: Rubric = tree, together: threading.Barrier = together) -> None:
            together.wait(10)
            tree(i, OBSERVATION)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(step, range(4)))
        assert tree.default_episode.steps == 4


# A node that keeps its state on itself serves one episode at a time


class OnItself(Rubric):
    """Written for OpenEnv: state on the instance, cleared in reset."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def reset(self) -> None:
        self.count = 0

    def forward(self, action: Any, observation: Any) -> float:
        self.count += 1
        return float(self.count)


def test_a_second_live_episode_is_refused() -> None:
    tree = Sequential(OnItself())
    one = tree.episode()
    one.step(ACTION, running())
    with pytest.raises(EpisodeError, match="OnItself keeps state on itself"):
        tree.episode()
    assert one.step(ACTION, running()) == 2.0
    one.end("abandoned")
    two = tree.episode()
    assert two.step(ACTION, running()) == 1.0


def test_episodes_after_one_another_are_fine() -> None:
    tree = Sequential(OnItself(), Judged(1.0, 7.0))
    for _ in range(3):
        episode = tree.episode()
        assert [episode.step(ACTION, running()) for _ in range(2)] == [7.0, 7.0]
        assert tree[0].count == 2
        episode.end()
    for _ in range(3):
        tree.reset()
        tree(ACTION, running())
        assert tree[0].count == 1


def test_one_that_nobody_holds_any_more_is_no_obstacle() -> None:
    tree = Sequential(OnItself())
    tree.episode().step(ACTION, running())
    gc.collect()
    assert tree.episode().step(ACTION, running()) == 1.0


def test_sessions_over_it_take_turns() -> None:
    tree = Sequential(OnItself())
    one, two = tree.session(), tree.session()
    assert [one(ACTION, running()), one(ACTION, running())] == [1.0, 2.0]
    with pytest.raises(EpisodeError, match="one episode at a time"):
        two(ACTION, running())
    one.episode_now.end()
    assert two(ACTION, running()) == 1.0
    two.reset()  # a session gives up its own
    assert two(ACTION, running()) == 1.0


def test_copies_of_it_serve_episodes_at_once() -> None:
    tree = Sequential(OnItself())
    one, two = tree.episode(), copy.deepcopy(tree).episode()
    assert [one.step(ACTION, running()), two.step(ACTION, running()), one.step(ACTION, running())] == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("hold", [False, True])
def test_reset_gives_up_the_default_episode(hold: bool) -> None:
    tree = Sequential(OnItself(), Judged(1.0, 7.0))
    tree(ACTION, running())
    held = tree.default_episode if hold else None
    tree.reset()
    assert tree(ACTION, running()) == 7.0
    assert tree[0].count == 1
    assert held is None or held is not tree.default_episode


def test_a_step_never_hangs_on_its_own_lock() -> None:
    class Steps(Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            return other.step(action, observation) if action == "other" else 1.0

    tree = Sequential(Steps())
    other = Sequential(Fixed(0.25)).episode()
    assert in_time(tree.episode().step, "other", OBSERVATION) == 0.25
