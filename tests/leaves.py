"""Leaves that the tests of trees share, and the one way they ask a tree for its outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rubrics import Evaluation, Rubric, Score, TrajectoryRubric, Unscored

ACTION, OBSERVATION = "action", "observation"
DRIVERS = ("call", "evaluate", "evaluate_sync")


class Boom(Exception):
    """What a failing leaf raises; nothing else in the tests does."""


def pending(value: float) -> Score:
    """An intermediate reward."""
    return Score(value, pending=True)


def running(**fields: Any) -> SimpleNamespace:
    """An observation with which an episode goes on."""
    return SimpleNamespace(done=False, **fields)


def done(**fields: Any) -> SimpleNamespace:
    """An observation with which an episode ends."""
    return SimpleNamespace(done=True, **fields)


class Fixed(Rubric):
    """Answers what it was given; an exception is raised, None is unscored. Counts its calls."""

    def __init__(self, value: Any = 1.0) -> None:
        super().__init__()
        self.value = value
        self.calls = 0

    def answer(self) -> Any:
        self.calls += 1
        if isinstance(self.value, Unscored):
            raise Unscored(self.value.reason, self.value.metadata)
        if isinstance(self.value, BaseException):
            raise type(self.value)(*self.value.args)
        return self.value

    def forward(self, action: Any, observation: Any) -> Any:
        return self.answer()


class AsyncFixed(Fixed):
    """The same, after a turn of the loop or more."""

    def __init__(self, value: Any = 1.0, turns: int = 1) -> None:
        super().__init__(value)
        self.turns = turns

    async def forward(self, action: Any, observation: Any) -> Any:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return self.answer()


class Flaky(Fixed):
    """Raises `Boom` where the action is `"bad"`."""

    def forward(self, action: Any, observation: Any) -> Any:
        if action == "bad":
            raise Boom("bad action")
        return self.answer()


class AsyncFlaky(Flaky):
    """The same, after a turn of the loop."""

    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)


class ByAction(Rubric):
    """Answers what a mapping says about the action; 1.0 for what it does not know."""

    def __init__(self, answers: dict[Any, Any], other: Any = 1.0) -> None:
        super().__init__()
        self.answers = answers
        self.other = other

    def forward(self, action: Any, observation: Any) -> Any:
        return self.answers.get(action, self.other)


class Hanging(Rubric):
    """An async leaf that waits until it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.started = self.cancelled = 0

    async def forward(self, action: Any, observation: Any) -> float:
        self.started += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # cleaning up takes a moment, and the parent waits for it
            self.cancelled += 1
            raise
        return 1.0


class Blocking(Fixed):
    """A plain leaf that blocks its thread until the test lets it go on."""

    def __init__(self, value: Any = 1.0) -> None:
        super().__init__(value)
        self.entered = threading.Event()
        self.release = threading.Event()
        self.left = threading.Event()
        self.thread: threading.Thread | None = None

    def forward(self, action: Any, observation: Any) -> Any:
        self.thread = threading.current_thread()
        self.entered.set()
        assert self.release.wait(10)
        try:
            return self.answer()
        finally:
            self.left.set()


class Judged(TrajectoryRubric):
    """A delayed leaf that answers what it was given; counts how often it scored, and keeps what it saw."""

    def __init__(self, value: Any = 1.0, intermediate_reward: float = 0.0, credit: Any = None) -> None:
        super().__init__(intermediate_reward, credit)
        self.value = value
        self.scorings = 0
        self.seen: list[list[tuple[Any, Any]]] = []

    def answer(self, trajectory: list[tuple[Any, Any]]) -> Any:
        self.scorings += 1
        self.seen.append(list(trajectory))
        if isinstance(self.value, Unscored):
            raise Unscored(self.value.reason, self.value.metadata)
        if isinstance(self.value, BaseException):
            raise type(self.value)(*self.value.args)
        return self.value(trajectory) if callable(self.value) else self.value

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Any:
        return self.answer(trajectory)


class AsyncJudged(Judged):
    """The same, after a turn of the loop."""

    async def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Any:
        await asyncio.sleep(0)
        return self.answer(trajectory)


def seen_by_caller(score: float | Score | None) -> tuple[str, float | None]:
    """What a bare call gave, as (status, number)."""
    if score is None:
        return "unscored", None
    return "pending" if isinstance(score, Score) and score.pending else "scored", float(score)


def recorded(evaluation: Evaluation) -> tuple[str, float | None]:
    """What a record says, as (status, number)."""
    return evaluation.status, evaluation.score


async def outcome(tree: Rubric, driver: str = "call") -> tuple[str, Any]:
    """(status, number) of a tree however it is run; an exception is ("error", its type)."""
    try:
        if driver == "call":
            score = tree(ACTION, OBSERVATION)
            return seen_by_caller(await score if tree.is_async_tree else score)
        if driver == "evaluate":
            return recorded(await tree.evaluate(ACTION, OBSERVATION))
        return recorded(tree.evaluate_sync(ACTION, OBSERVATION))
    except Exception as error:
        return "error", type(error)


async def evaluated(tree: Rubric, driver: str) -> Evaluation:
    """The record of a run, awaited or not."""
    if driver == "evaluate":
        return await tree.evaluate(ACTION, OBSERVATION)
    return tree.evaluate_sync(ACTION, OBSERVATION)


async def until(condition: Callable[[], Any]) -> None:
    """Let others go on until something has happened, in this thread or another."""
    while not condition():  # noqa: ASYNC110 - no event of a loop tells of what happens in a thread
        await asyncio.sleep(0.001)


def in_time(function: Any, *args: Any, seconds: float = 20.0) -> Any:
    """What a function returns, called in a thread of its own; fails where it never returns."""
    box: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            box.append(function(*args))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    if failure:
        raise failure[0]
    return box[0]
