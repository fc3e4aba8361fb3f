"""`session()` and `blocking()`: one rubric object a session for a host, over one shared tree."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rubrics import (
    EpisodeError,
    EpisodeOverError,
    EqualSplit,
    Rubric,
    RubricDict,
    Sequential,
    WeightedSum,
)
from tests.leaves import ACTION, OBSERVATION, AsyncFixed, AsyncJudged, Boom, Fixed, Judged, done, in_time, running


class Echo(Rubric):
    """Answers its action and counts in its memory."""

    def forward(self, action: Any, observation: Any) -> float:
        self.memory["count"] = self.memory.get("count", 0) + 1
        return float(action)


class AsyncEcho(Echo):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().forward(action, observation)


def tree_of(echo: Rubric, judged: Rubric) -> WeightedSum:
    return WeightedSum({"checks": Sequential({"echo": echo}), "judged": judged}, {"checks": 0.5, "judged": 0.5})


def plain() -> WeightedSum:
    return tree_of(Echo(), Judged(1.0, credit=EqualSplit()))


def asynchronous() -> WeightedSum:
    return tree_of(AsyncEcho(), AsyncJudged(1.0, credit=EqualSplit()))


async def call(session: Any, action: Any, observation: Any) -> Any:
    answer = session(action, observation)
    return await answer if asyncio.iscoroutine(answer) else answer


@pytest.mark.parametrize("make", [plain, asynchronous])
async def test_a_session_is_called_like_the_tree(make: Callable[[], WeightedSum]) -> None:
    tree = make()
    session = tree.session()
    answer = session(0.5, running())
    assert asyncio.iscoroutine(answer) is tree.is_async_tree
    assert (await answer if tree.is_async_tree else answer) == 0.25
    assert await call(session, 0.5, done()) == 0.75
    with pytest.raises(EpisodeOverError):
        await call(session, 0.5, done())
    await session.reset_async()
    assert await call(session, 0.25, running()) == 0.125
    session.reset()
    assert session.episode_now.steps == 0
    record = await session.evaluate(0.5, running())
    assert (record.status, record.score) == ("pending", 0.25)
    assert session.evaluate_sync(0.5, done()).score == 0.75
    assert session.episode_now.rewards().total == 1.0


@pytest.mark.parametrize("make", [plain, asynchronous])
async def test_sessions_do_not_see_each_other(make: Callable[[], WeightedSum]) -> None:
    tree = make()
    one, two = tree.session(), tree.session()
    one.reset(task="first", initial="start")
    assert one.get_rubric("judged").compute_step_rewards() == []
    for action in (0.5, 1.0):
        await call(one, action, running())
    await call(two, 0.25, running())
    two.reset(task="second")
    await call(two, 0.75, running())
    tree.reset()  # nor what the tree itself is told
    assert [one.get_rubric("checks.echo").last_score, two.get_rubric("checks.echo").last_score] == [1.0, 0.75]
    assert [one.last_score, two.last_score] == [0.5, 0.375]
    assert [one.get_rubric("checks.echo").memory, two.get_rubric("checks.echo").memory] == [{"count": 2}, {"count": 1}]
    assert [one.task, two.task] == ["first", "second"]
    assert one.episode_now.initial == "start"
    trajectories = [[action for action, _ in session.get_rubric("judged").trajectory] for session in (one, two)]
    assert trajectories == [[0.5, 1.0], [0.75]]
    await call(one, 0.5, done())
    assert one.get_rubric("judged").compute_step_rewards() == pytest.approx([1 / 3] * 3)
    with pytest.raises(EpisodeError, match="not over"):
        two.get_rubric("judged").compute_step_rewards()


@pytest.mark.parametrize("make", [plain, asynchronous])
def test_sessions_in_threads(make: Callable[[], WeightedSum]) -> None:
    tree = make()
    together = threading.Barrier(6)

    def play(name: int) -> list[float]:
        session = tree.blocking()
        together.wait(10)
        answers = []
        for _ in range(5):
            session.reset()
            answers += [session(name, running()) for _ in range(3)]
            assert session.get_rubric("checks.echo").last_score == name
            answers.append(session(name, done()))
        return answers

    with ThreadPoolExecutor(6) as pool:
        for name, answers in enumerate(pool.map(play, range(6))):
            assert answers == [name / 2, name / 2, name / 2, name / 2 + 0.5] * 5


def test_a_session_is_introspected_like_the_tree() -> None:
    tree = plain()
    session = tree.session()
    paths = ["checks", "checks.echo", "judged"]
    assert [path for path, _ in session.named_rubrics()] == [path for path, _ in tree.named_rubrics()] == paths
    assert [name for name, _ in session.named_children()] == ["checks", "judged"]
    assert len(list(session.children())) == len(session) == 2
    assert len(list(session.rubrics())) == 3
    assert repr(session) == repr(tree)
    assert session.state_dict() == tree.state_dict()
    assert session.weights == [0.5, 0.5]
    assert session.rubric is tree
    assert [path for path, _ in session.get_rubric("checks").named_rubrics()] == ["echo"]
    with pytest.raises(KeyError, match="nope"):
        session.get_rubric("checks.nope")
    with pytest.raises(AttributeError, match="nope"):
        session.nope  # noqa: B018


def ways_to_the_echo(session: Any) -> list[Any]:
    """Every way in which a session hands out the node `checks.echo`."""
    return [
        session.get_rubric("checks.echo"),
        session.checks.echo,
        session[0][0],
        next(iter(next(iter(session)))),
        dict(session.named_rubrics())["checks.echo"],
        list(session.rubrics())[1],
        next(next(session.children()).children()),
        dict(dict(session.named_children())["checks"].named_children())["echo"],
        session.get_rubric("checks").get_rubric("echo"),
    ]


def test_every_way_into_a_session_shows_the_session() -> None:
    tree = plain()
    one, two = tree.session(), tree.session()
    one(0.25, running())
    two(0.75, running())
    two(0.75, running())
    for mine, theirs in zip(ways_to_the_echo(one), ways_to_the_echo(two), strict=True):
        assert (mine.last_score, theirs.last_score) == (0.25, 0.75)
        assert (mine.memory["count"], theirs.memory["count"]) == (1, 2)


def test_nodes_in_a_dict_are_the_sessions_too() -> None:
    class Calls(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.checks = RubricDict({"echo": Echo()})

        def forward(self, action: Any, observation: Any) -> Any:
            return self.checks["echo"](action, observation)

    tree = Calls()
    one, two = tree.session(), tree.session()
    one(0.25, running())
    two(0.75, running())
    assert one.checks["echo"].last_score == 0.25
    assert [node.last_score for node in one.checks.values()] == [0.25]
    assert {name: node.last_score for name, node in one.checks.items()} == {"echo": 0.25}
    assert "echo" in one.checks
    assert len(one.checks) == 1


def test_a_reset_abandons_what_was_running() -> None:
    session = plain().session()
    session(0.5, running())
    before = session.episode_now
    session.reset()
    assert before.status == "abandoned"
    assert before.rewards().total is None
    assert session.episode_now is not before
    session(0.5, done())
    over = session.episode_now
    session.reset()
    assert over.status == "terminated"  # what had ended stays as it ended


@pytest.mark.parametrize("how", ["reset", "reset_async"])
async def test_a_reset_while_a_step_is_in_progress_does_not_hang(how: str) -> None:
    class Waits(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            if action == "wait":
                waiting.set()
                await asyncio.sleep(0.01)
            return 1.0

    waiting = asyncio.Event()
    session = Sequential(Waits(), Judged(1.0)).session()
    task = asyncio.create_task(session("wait", running()))
    await waiting.wait()
    if how == "reset":
        session.reset()
    else:
        await asyncio.wait_for(session.reset_async(), 10)
    assert await session("go", running()) == 0.0
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 10)
    assert await session("go", done()) == 1.0
    assert session.episode_now.steps == 2
    assert [action for action, _ in session.get_rubric("rubric_1").trajectory] == ["go", "go"]


async def test_reset_async_awaits_the_overrides_of_the_tree() -> None:
    class Connects(Fixed):
        connected = 0

        async def reset_async(self) -> None:
            await asyncio.sleep(0)
            self.connected += 1

    leaf = Connects()
    session = Sequential(Sequential(leaf), Judged()).session()
    await session.reset_async()
    assert leaf.connected == 1
    await session.reset_async()
    assert leaf.connected == 2


# blocking()


@pytest.mark.parametrize("make", [plain, asynchronous])
def test_blocking_always_returns_the_score(make: Callable[[], WeightedSum]) -> None:
    session = make().blocking()
    assert [session(0.5, running()), session(0.5, done())] == [0.25, 0.75]
    session.reset()
    assert session(1.0, running()) == 0.5
    assert session.get_rubric("checks.echo").last_score == 1.0


async def test_blocking_warns_once_where_a_loop_runs() -> None:
    session = asynchronous().blocking()
    with pytest.warns(RuntimeWarning, match="event loop"):
        assert session(0.5, running()) == 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session(0.5, done()) == 0.75


async def test_blocking_does_not_warn_of_what_blocks_nobody() -> None:
    assert plain().blocking()(0.5, running()) == 0.25
    session = asynchronous().blocking()
    assert await asyncio.to_thread(session, 0.5, running()) == 0.25  # a sync step in a thread of its own


def test_blocking_passes_errors_and_unscored_on() -> None:
    class Fails(Rubric):
        async def forward(self, action: Any, observation: Any) -> Any:
            if action == "bad":
                raise Boom("x")
            return None if action == "none" else 1.0

    session = Sequential({"leaf": Fails()}).blocking()
    assert session("none", OBSERVATION) is None
    with pytest.raises(Boom, match="x") as caught:
        in_time(session, "bad", OBSERVATION)
    assert any("leaf" in note for note in caught.value.__notes__)
    assert session.episode_now.steps == 1
    assert session("good", OBSERVATION) == 1.0


def test_a_session_begins_before_its_first_reset() -> None:
    for view in (plain().session(), plain().blocking()):
        assert view.last_score is None
        assert view.episode_now.steps == 0
        assert view(0.5, running()) == 0.25


def test_a_session_of_a_tree_without_state() -> None:
    session = Sequential(Fixed(0.5)).session()
    assert [session(ACTION, OBSERVATION) for _ in range(3)] == [0.5] * 3
    assert session.episode_now.steps == 3
    assert asyncio.run(Sequential(AsyncFixed(0.5)).session()(ACTION, OBSERVATION)) == 0.5
