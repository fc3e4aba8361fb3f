"""The driver's side: an agent plays the tasks of an environment, and what happened becomes a file.

    async def agent(play):
        await play.call_tool("submit", {"answer": "42"})

    collected = await collect(agent, tasks(environment, split="train"), "runs.jsonl", concurrency=16)

The file holds one trajectory a line, which `rubrics rescore` reads: actions as they were sent, observations as the
environment gave them to its rubric, the reward of each step and, where the environment says how to reduce them, of the
whole. Hosts provide the tasks: see `tasks` in `rubrics.integrations.openreward`, `ors` and `openenv`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from math import fsum, isfinite
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol

from rubrics.engine.loop import in_thread
from rubrics.formats.jsonl import trajectory_line
from rubrics.score import RubricError
from rubrics.step_rewards import reduced
from rubrics.trajectory import End, Reduction, Step, Trajectory, plain_object, read_end

_log = logging.getLogger(__name__)


class Play:
    """One episode as it is played and recorded. A host's own session or client is behind it, for all it does not have.

    Attributes:
        session: the host's own.
        task: what the environment was asked for.
        initial: the observation before the first action.
        steps: those taken so far.
    """

    def __init__(self, session: Any, task: Any, initial: Any, reduction: Reduction | None) -> None:
        self.session = session
        self.task = task
        self.initial = initial
        self.steps: list[Step] = []
        self._reduction = reduction
        self._cut_off = False

    @property
    def over(self) -> bool:
        """Whether the environment has ended the episode."""
        return bool(self.steps) and read_end(self.steps[-1].observation) is not None

    def truncate(self) -> None:
        """Say that the agent was cut off, by a limit of turns or tokens, where it now returns without an end.

        The environment is not told, so there is no reward; the recording is "truncated", and can be scored offline.
        """
        self._cut_off = True

    def record(
        self, action: Any, observation: dict[str, Any], reward: float | None, report: Any, overlaps: int = 0
    ) -> None:
        """Keep a step.

        Args:
            action: as it was sent.
            observation: as the environment's rubric saw it.
            reward: what the environment paid.
            report: what it says of the step, if anything.
            overlaps: how many of the last steps were answered while this one was under way. Answers come in any order,
                so among those it is put where the environment took it.
        """
        step = Step(action, observation, reward)
        if isinstance(report, dict):
            step.metadata["rubric"] = report
            if report.get("status") == "unpaid":
                step.metadata["unpaid"] = True
        place = len(self.steps)
        while overlaps and _precedes(step, self.steps[place - 1]):
            place, overlaps = place - 1, overlaps - 1
        self.steps.insert(place, step)

    def _end(self) -> End:
        if self.over:
            return "terminated" if read_end(self.steps[-1].observation) == "terminated" else "truncated"
        return "truncated" if self._cut_off else "abandoned"

    def _total(self) -> tuple[float | None, Reduction | None]:
        last = self.steps[-1].metadata if self.steps else {}
        credited = last.get("rubric", {}).get("step_rewards") or {}
        reduction: Reduction | None = self._reduction or credited.get("reduction")
        if reduction is None or not self.over:
            return None, reduction
        paid = [0.0 if step.metadata.get("unpaid") else step.reward for step in self.steps]
        total = reduced(paid, reduction)
        return total if total is None or isfinite(total) else None, reduction

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "session":
            raise AttributeError(name)
        return getattr(self.session, name)


@dataclass(frozen=True, slots=True)
class PlayTask:
    """A task to be played.

    Attributes:
        content: what the environment is asked for, as JSON values; its hash is the task's name.
        open: starts an episode of it.
    """

    content: Any
    open: Callable[[], AbstractAsyncContextManager[Play]]

    @property
    def key(self) -> str:
        """A name made of the content, the same in every run."""
        text = json.dumps(self.content, sort_keys=True, default=plain_object, ensure_ascii=False)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


class Tasks(Protocol):
    """The tasks of an environment."""

    name: str
    host: str

    def tasks(self) -> AsyncIterator[PlayTask]:
        """They, one by one."""
        ...


@dataclass(slots=True)
class Collected:
    """What became of a collection.

    Attributes:
        path: the file.
        rewards: of the episodes played now, by id; None of one without a reward.
        errors: why episodes failed, by id.
        skipped: how many were in the file already.
    """

    path: Path
    rewards: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    skipped: int = 0

    @property
    def mean_reward(self) -> float | None:
        """Of those that have one."""
        scored = [reward for reward in self.rewards.values() if reward is not None]
        return fsum(scored) / len(scored) if scored else None

    def __str__(self) -> str:
        scored = sum(reward is not None for reward in self.rewards.values())
        text = f"{len(self.rewards)} episodes, {scored} with a reward"
        if self.mean_reward is not None:
            text += f" (mean {self.mean_reward:.3f})"
        text += f", {len(self.errors)} failed" if self.errors else ""
        return text + (f"; {self.skipped} were there already" if self.skipped else "") + f": {self.path}"


async def collect(
    agent: Callable[[Any], Awaitable[Any]],
    tasks: Tasks,
    to: str | PathLike[str],
    *,
    name: str = "",
    repeats: int = 1,
    concurrency: int = 8,
    resume: bool = False,
    retry_errors: bool = False,
    on_error: Literal["record", "raise"] = "record",
) -> Collected:
    """Let an agent play tasks, and write each episode to a file as it ends.

    Args:
        agent: an async function of a `Play`. It plays the episode and returns; what it returns is not looked at.
        tasks: of an environment, see `tasks` of the host's module.
        to: the file; each line is written at once, so that a killed run loses only what was being played. One
            collection at a time writes to it.
        name: of the agent, such as a checkpoint. It is a part of every id, so that a resumed run never takes another
            agent's episodes for its own.
        repeats: episodes of each task; those of one task and this agent share `metadata["group"]`.
        concurrency: episodes in progress at once.
        resume: go on with a file that exists: episodes that are in it are not played again, but for those that were
            under way when a run was stopped.
        retry_errors: when resuming, play those again that had failed; their lines are taken out of the file.
        on_error: `"record"`: an episode whose agent, or environment, raises is written with the end "error" and what it
            was; `"raise"`: it is, and the collection stops with what was raised first. Episodes in progress are then
            written as "abandoned".

    Returns:
        Rewards and errors of the episodes that were played now.

    Raises:
        FileExistsError: the file exists, and `resume` does not say to go on with it.
        TypeError: the agent is no async function.
        Exception: the tasks cannot be listed, or an episode failed and `on_error` is `"raise"`.
    """
    if not (inspect.iscoroutinefunction(agent) or inspect.iscoroutinefunction(type(agent).__call__)):
        raise TypeError("the agent must be an async function; move what blocks in it to asyncio.to_thread")
    if concurrency < 1 or repeats < 1:
        raise ValueError(f"concurrency and repeats are at least 1, not {concurrency} and {repeats}")
    path = Path(to)
    known = await in_thread(_opened, path, resume, retry_errors)
    collected = Collected(path)
    run = _Run(agent, tasks, collected, name, on_error)
    episodes = run.episodes(known, repeats)
    turn = asyncio.Lock()

    async def work() -> None:
        while True:
            async with turn:
                episode = await anext(episodes, None)
            if episode is None:
                return
            await run.play(*episode)
            if _is_cancelled():  # a client that waits for something of its own at its close may have swallowed it
                raise asyncio.CancelledError

    try:
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(concurrency)]
    except BaseExceptionGroup as several:  # the others were cancelled for the first
        raise several.exceptions[0] from None
    if any(worker.cancelled() for worker in workers):  # of which the group takes no notice
        raise RubricError(f"an agent cancelled the task that it runs in; resume=True goes on with {path}")
    return collected


class _Run:
    """One call of `collect`."""

    def __init__(self, agent: Any, tasks: Tasks, collected: Collected, name: str, on_error: str) -> None:
        self.agent, self.tasks, self.collected, self.name = agent, tasks, collected, name
        self.on_error = on_error

    async def episodes(self, known: set[str], repeats: int) -> AsyncIterator[tuple[str, int, PlayTask]]:
        """Those to be played: an id, the number among the episodes of its task, the task."""
        times: dict[str, int] = {}
        async for task in self.tasks.tasks():
            again = times[task.key] = times.get(task.key, -1) + 1  # listed twice, it is played twice as often
            for repeat in range(again * repeats, (again + 1) * repeats):
                id = "/".join(part for part in (self.tasks.name, self.name, task.key, str(repeat)) if part)
                if id in known:
                    self.collected.skipped += 1
                else:
                    yield id, repeat, task

    async def play(self, id: str, repeat: int, task: PlayTask) -> None:
        play: Play | None = None
        failure: BaseException | None = None
        try:
            async with task.open() as play:
                await self.agent(play)
        except (Exception, asyncio.CancelledError) as error:
            failure = error
        stopped = isinstance(failure, asyncio.CancelledError) and _is_cancelled()
        trajectory = self._trajectory(id, repeat, task, play, failure, stopped)
        unwritten = await asyncio.shield(in_thread(_append, self.collected.path, trajectory, task.content))
        self.collected.rewards[id] = trajectory.reward
        failure = failure or unwritten
        if failure is None:
            return
        self.collected.errors[id] = trajectory.metadata["error"]
        if stopped or self.on_error == "raise":
            raise failure
        _log.warning("the episode %s failed", id, exc_info=failure)

    def _trajectory(
        self,
        id: str,
        repeat: int,
        task: PlayTask,
        play: Play | None,
        failure: BaseException | None,
        stopped: bool,
    ) -> Trajectory:
        found = Trajectory(
            id=id,
            task=task.content,
            end="abandoned" if stopped else "error",
            source={"host": self.tasks.host, "environment": self.tasks.name},
            metadata={"group": "/".join(part for part in (self.name, task.key) if part), "repeat": repeat},
        )
        if self.name:
            found.metadata["agent"] = self.name
        if failure is not None:
            found.metadata["error"] = f"{type(failure).__name__}: {failure}"
        if stopped:
            found.metadata["stopped"] = True
        if play is not None:
            found.task, found.initial, found.steps = play.task, play.initial, play.steps
            if failure is None or play.over:  # what fails after the environment's end, such as a close, changes nothing
                found.end = play._end()
            found.reward, found.reduction = play._total()
        return found


def _opened(path: Path, resume: bool, retry_errors: bool) -> set[str]:
    """The ids in a file that is to be gone on with.

    Lines of episodes that are to be played again, and half a line that a killed run left, are taken out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or not path.stat().st_size:
        return set()
    if not resume:
        raise FileExistsError(f"{path} exists: resume=True goes on with it")
    known: set[str] = set()
    same = True
    fresh = path.with_name(f"{path.name}.new")
    with path.open("rb") as lines, fresh.open("wb") as kept:
        for number, line in enumerate(lines, start=1):
            whole = line.endswith(b"\n")
            try:
                record = json.loads(line)
                id, metadata = record["id"], record.get("metadata") or {}
            except (ValueError, TypeError, KeyError, AttributeError):
                if whole:
                    fresh.unlink()
                    raise RubricError(
                        f"{path}:{number} is no trajectory of ours, so this file cannot be gone on with"
                    ) from None
                same = False  # only the last line can be without an end
                continue
            failed = record.get("end") in ("error", "abandoned") and bool(metadata.get("error"))
            if failed and (retry_errors or metadata.get("stopped")):
                same = False
                continue
            known.add(id)
            kept.write(line if whole else line + b"\n")
            same = same and whole
    if same:
        fresh.unlink()
    else:
        fresh.replace(path)
    return known


def _is_cancelled() -> bool:
    """Whether it is this task that is cancelled, and not one that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _precedes(step: Step, other: Step) -> bool:
    """Whether the environment took one of two overlapping steps before the other; nothing is taken after an end."""
    number, others = (one.metadata.get("rubric", {}).get("step") for one in (step, other))
    if isinstance(number, int) and isinstance(others, int):
        return number < others
    return read_end(other.observation) is not None and read_end(step.observation) is None


def _append(path: Path, trajectory: Trajectory, task: Any) -> Exception | None:
    """Write an episode; of one with something in it that JSON cannot hold no more than that, and what was raised."""
    failure: Exception | None = None
    try:
        line = trajectory_line(trajectory)
    except (TypeError, ValueError) as error:
        failure = error
        trajectory.task, trajectory.initial, trajectory.steps = task, None, []
        trajectory.end, trajectory.reward = "error", None
        told = trajectory.metadata.get("error")
        trajectory.metadata["error"] = (f"{told}; " if told else "") + f"{type(error).__name__}: {error}"
        line = trajectory_line(trajectory)
    with path.open("ab", buffering=0) as file:
        file.write(line)
    return failure
