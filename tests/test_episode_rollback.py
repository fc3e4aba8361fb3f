"""A step that fails or is cancelled leaves the episode as it was, and it can be taken again."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rubrics import EpisodeError, Fallback, Rubric, Session, Switch, Threaded, Timeout, WeightedSum
from tests.leaves import (
    ACTION,
    OBSERVATION,
    AsyncFixed,
    AsyncFlaky,
    Blocking,
    Boom,
    ByAction,
    Fixed,
    Flaky,
    Hanging,
    Judged,
    done,
    running,
    until,
)

WAYS = ("step", "astep", "evaluate", "evaluate_sync")


async def take(session: Session, way: str, action: Any = ACTION, observation: Any = OBSERVATION) -> Any:
    """One step of a session's episode, however it is taken."""
    if way == "step":
        return session.episode_now.step(action, observation)
    if way == "astep":
        return await session.episode_now.astep(action, observation)
    if way == "evaluate":
        return (await session.evaluate(action, observation)).score
    return session.evaluate_sync(action, observation).score


async def finish(session: Session, way: str, **how: Any) -> Any:
    episode = session.episode_now
    return await episode.aend(**how) if way in ("astep", "evaluate") else episode.end(**how)


def started(tree: Rubric, **options: Any) -> Session:
    session = tree.session()
    session.reset(**options)
    return session


def named(**children: Rubric) -> WeightedSum:
    return WeightedSum(children, dict.fromkeys(children, 1 / len(children)))


def state(session: Session) -> Any:
    """All that an episode shows, down to the identity of what its trajectories hold."""
    nodes = {
        path: (
            copy.deepcopy(node.memory),
            node.last_score,
            [(id(action), id(observation)) for action, observation in node.trajectory],
        )
        for path, node in session.named_rubrics()
    }
    episode = session.episode_now
    data = episode.trajectory
    rewards = [step.reward for step in data.steps]
    return nodes, session.last_score, rewards, data.end, data.metadata, episode.steps, len(episode.evaluations)


class Remembers(Fixed):
    """Keeps a count, a list and a nested list in its memory, and what it observed."""

    def observe(self, action: Any, observation: Any) -> None:
        self.memory.setdefault("observed", []).append(action)

    def forward(self, action: Any, observation: Any) -> Any:
        self.memory["count"] = self.memory.get("count", 0) + 1
        self.memory.setdefault("deep", {"list": []})["list"].append(action)
        return self.memory["count"] / 10


class AsyncRemembers(Remembers):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return Remembers.forward(self, action, observation)


class OtherPairs(Rubric):
    """Calls a delayed node with a pair of its own."""

    def __init__(self, child: Rubric) -> None:
        super().__init__()
        self.child = child

    def forward(self, action: Any, observation: Any) -> Any:
        return self.child([action], observation)


def raising(*_: Any) -> None:
    if _[1] == "bad":
        raise Boom


class BadKey(Switch):
    def __init__(self) -> None:
        super().__init__(lambda action, observation: raising(None, action) or "a", {"a": Fixed(0.5)})


class BadObserver(Fixed):
    def observe(self, action: Any, observation: Any) -> None:
        raising(None, action)


def with_hook(pre: bool) -> Rubric:
    node = Fixed(0.5)
    (node.register_forward_pre_hook if pre else node.register_forward_hook)(raising)
    return node


FAILING: dict[str, Callable[[], Rubric]] = {
    "leaf": lambda: Flaky(0.5),
    "async leaf": lambda: AsyncFlaky(0.5),
    "no score": lambda: ByAction({"bad": float("nan")}, 0.5),
    "pre-hook": lambda: with_hook(True),
    "hook": lambda: with_hook(False),
    "key": BadKey,
    "observer": BadObserver,
}


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("failing", FAILING)
async def test_a_step_that_fails_leaves_everything_as_it_was(failing: str, way: str, record: bool) -> None:
    async def play(*actions: str) -> Any:
        judged, other = Judged(lambda pairs: len(pairs)), Judged(0.5)
        parts = {"memory": Remembers(), "judged": judged, "other": OtherPairs(other), "failing": FAILING[failing]()}
        if "async" in failing:
            parts["later"] = AsyncRemembers()
        session = started(named(**parts), record=record)
        for i, action in enumerate(actions):
            if action.startswith("bad"):
                before = state(session)
                with pytest.raises((Boom, ValueError)):
                    await take(session, way, "bad", done() if action == "bad end" else running())
                assert state(session) == before
                assert session.episode_now.status is None
            else:
                await take(session, way, action, done() if i == len(actions) - 1 else running())
        memory = {path: dict(node.memory) for path, node in session.named_rubrics()}
        seen = [[action for action, _ in node.seen[-1]] for node in (judged, other)]
        return memory, session.episode_now.rewards().emitted.tolist(), seen

    smooth = await play("one", "two", "three")
    bumpy = await play("bad", "one", "bad", "bad end", "two", "bad end", "three")
    assert bumpy == smooth
    assert smooth[2] == [["one", "two", "three"], [["one"], ["two"], ["three"]]]


@pytest.mark.parametrize("way", WAYS)
async def test_the_objects_of_the_trajectory_stay_themselves(way: str) -> None:
    action, observation = ["good"], running(page=[1])
    session = started(named(other=OtherPairs(Judged(0.5)), flaky=Flaky()))
    await take(session, way, action, observation)
    pair = session.get_rubric("other.child").trajectory[0]
    with pytest.raises(Boom):
        await take(session, way, "bad", running())
    again = session.get_rubric("other.child").trajectory[0]
    assert again[0] is pair[0]
    assert again[1] is observation
    assert session.get_rubric("flaky").trajectory[0][0] is action


async def test_a_step_that_is_cancelled_leaves_everything_as_it_was() -> None:
    class HangsOn(Hanging):
        async def forward(self, action: Any, observation: Any) -> float:
            return await super().forward(action, observation) if action == "hang" else 0.5

    hanging = HangsOn()
    session = started(named(memory=AsyncRemembers(), judged=Judged(0.5), hanging=hanging))
    await session("one", running())
    before = state(session)
    task = asyncio.create_task(session("hang", done()))
    await until(lambda: hanging.started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert state(session) == before
    await session("two", done())
    assert session.get_rubric("memory").memory == {
        "observed": ["one", "two"],
        "count": 2,
        "deep": {"list": ["one", "two"]},
    }


@pytest.mark.parametrize("way", WAYS)
async def test_an_end_that_fails_can_be_tried_again(way: str) -> None:
    answers: list[Any] = [Boom(), 0.5]

    def score(pairs: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    session = started(named(memory=Remembers(), judged=Judged(0.5), flaky=Judged(score)), record=True)
    await take(session, way)
    before = state(session)
    with pytest.raises(Boom):
        await finish(session, way, truncated=True, reason="out of time")
    assert state(session) == before
    with pytest.raises(EpisodeError):
        session.get_rubric("judged").compute_step_rewards()
    assert await finish(session, way, reason="once more") == pytest.approx((0.1 + 0.5 + 0.5) / 3)
    assert session.episode_now.trajectory.metadata["end_reason"] == "once more"
    assert session.get_rubric("judged").compute_step_rewards() == [0.5]


@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_last_step_leaves_no_score_behind(way: str) -> None:
    session = started(named(judged=Judged(0.75), flaky=Flaky()))
    await take(session, way, "good", running())
    with pytest.raises(Boom):
        await take(session, way, "bad", done())
    assert session.episode_now.status is None
    await finish(session, way, status="abandoned")
    assert session.episode_now.rewards().total is None
    with pytest.raises(EpisodeError):
        session.get_rubric("judged").compute_step_rewards()


@pytest.mark.parametrize("way", WAYS)
async def test_what_a_step_did_before_it_failed_is_not_what_the_last_step_answered(way: str) -> None:
    session = started(named(first=ByAction({"good": 0.25}, 0.75), flaky=Flaky(0.5)))
    await take(session, way, "good")
    with pytest.raises(Boom):
        await take(session, way, "bad")
    assert session.get_rubric("first").last_score == 0.25
    assert session.last_score == 0.375


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("around", [lambda child: child, Threaded])
async def test_memory_of_a_child_whose_error_was_caught_is_kept(around: Callable[[Rubric], Rubric], way: str) -> None:
    class Fails(Remembers):
        def forward(self, action: Any, observation: Any) -> Any:
            super().forward(action, observation)
            raise Boom

    node = Fails()
    for other in (0.5, AsyncFixed(0.5)):
        session = started(Fallback(around(node), other, on_error=True))
        for steps in (1, 2):
            assert await take(session, way) == 0.5  # the step did not fail
            assert session.episode_now.memory_of(node)["count"] == steps


def test_memory_that_cannot_be_copied_does_not_break_a_step() -> None:
    class Locks(Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            self.memory.setdefault("lock", threading.Lock())
            self.memory["count"] = self.memory.get("count", 0) + 1
            if action == "bad":
                raise Boom
            return 1.0

    session = started(Locks())
    session("good", OBSERVATION)
    with pytest.raises(Boom):
        session("bad", OBSERVATION)
    assert session.memory["count"] == 1
    session("good", OBSERVATION)
    assert session.memory["count"] == 2


class BlocksAndRemembers(Blocking):
    def forward(self, action: Any, observation: Any) -> Any:
        memory = self.memory
        memory["before"] = True
        answer = super().forward(action, observation)
        memory["late"] = True
        self.memory["late too"] = True
        return answer


@pytest.mark.parametrize("way", WAYS)
async def test_a_thread_that_a_failed_step_left_behind_writes_nowhere(way: str) -> None:
    leaf = BlocksAndRemembers(0.5)

    class FailsMeanwhile(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            await until(leaf.entered.is_set)
            raise Boom

    session = started(named(judged=Judged(0.5), leaf=Threaded(leaf), fails=FailsMeanwhile()))
    before = state(session)
    with pytest.raises(Boom):
        await take(session, way)
    leaf.release.set()
    assert leaf.left.wait(10)
    await asyncio.sleep(0.01)
    assert state(session) == before


async def test_a_thread_that_timed_out_answers_nothing_later() -> None:
    leaf = Blocking(0.5)
    session = started(named(judged=Judged(0.5), slow=Timeout(leaf, 0.01)))
    assert await session(ACTION, OBSERVATION) is None
    before = state(session)
    leaf.release.set()
    assert leaf.left.wait(10)
    await asyncio.sleep(0.01)
    assert state(session) == before
