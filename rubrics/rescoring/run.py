"""Scoring recorded trajectories again: trajectories in, rows out, in the same order and of the same number.

A replay gives the tree what the environment gave it and nothing it did not: each action with its observation, the end
where the recording says so, and never a recorded reward. A trajectory that cannot be scored is a row that says why.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Literal

from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring.replay import FAILURES, Replay, is_cancelled, take, take_async
from rubrics.rescoring.rows import Row
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import Trajectory

AssumedEnd = Literal["terminated", "truncated"]


class LiveStateError(RubricError, ValueError):
    """A tree that needs the live environment was asked to score a recording."""


_AHEAD = 4  # trajectories read ahead, and rows held back for the sake of order, for each one that is being scored


def rescore(
    trajectories: Iterable[Trajectory | FormatProblem],
    rubric: Rubric,
    *,
    concurrency: int = 32,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
) -> Iterator[Row]:
    """Score recorded trajectories under a rubric, one row each, in order, as a stream.

    Nothing that a rubric raises ends the run: the row then has the status `"error"`. A trajectory whose end is told
    neither by the recording nor by its last observation is `"unfinished"` and not scored. One that ended in an error,
    or was abandoned, is `"unscored"`.

    Args:
        trajectories: as `rubrics.formats.read` gives them; a `FormatProblem` becomes a row `"unreadable"`.
        rubric: any tree. Each trajectory is an episode of its own.
        concurrency: trajectories in progress at once, if the tree has async nodes and none that keeps its state on
            itself (by overriding `reset`); else one after the other.
        assume_end: how trajectories ended that do not say so; they are then scored.
        types: classes to make actions and observations of; by default the tree gets `Record`s.

    Raises:
        LiveStateError: a node declares `needs_live_state`.
        RuntimeError: the tree has async nodes and an event loop runs in this thread; there, use `rescore_async`.
    """
    refuse_live_state(rubric)
    if not rubric.is_async_tree:
        return (rescore_one(trajectory, rubric, assume_end=assume_end, types=types) for trajectory in trajectories)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        rows = rescore_async(trajectories, rubric, concurrency=concurrency, assume_end=assume_end, types=types)
        return _on_a_loop_of_its_own(rows)
    raise RuntimeError("the rubric has async nodes and an event loop runs in this thread; use rescore_async here")


async def rescore_async(
    trajectories: Iterable[Trajectory | FormatProblem],
    rubric: Rubric,
    *,
    concurrency: int = 32,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
) -> AsyncGenerator[Row, None]:
    """Like `rescore`, in async code. Closed early, it cancels and awaits what is in progress."""
    refuse_live_state(rubric)
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, not {concurrency}")
    slots = asyncio.Semaphore(1 if rubric.keeps_state else concurrency)

    async def run(trajectory: Trajectory | FormatProblem) -> Row:
        async with slots:
            return await rescore_one_async(trajectory, rubric, assume_end=assume_end, types=types)

    source = iter(trajectories)
    tasks: deque[asyncio.Task[Row]] = deque()
    try:
        while True:
            while len(tasks) < _AHEAD * concurrency and (trajectory := next(source, None)) is not None:
                tasks.append(asyncio.create_task(run(trajectory)))
            if not tasks:
                return
            yield await tasks[0]
            tasks.popleft()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def refuse_live_state(rubric: Rubric) -> None:
    """Raise `LiveStateError` where a node declares that it needs the live environment."""
    for path, node in [("", rubric), *rubric.named_rubrics()]:
        if node.needs_live_state:
            raise LiveStateError(
                f"{path or 'the root'} ({type(node).__name__}) needs the live environment (needs_live_state), so this "
                "tree cannot score a recording; leave the node out of the rubric for rescoring"
            )


def rescore_one(
    trajectory: Trajectory | FormatProblem,
    rubric: Rubric,
    *,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
) -> Row:
    """The row of one trajectory; on a tree with async nodes this thread waits."""
    replay = Replay(trajectory, rubric, assume_end, types)
    if replay.episode is not None:
        try:
            take(replay.episode, replay.steps, replay.end)
            replay.finish()
        except FAILURES as error:
            replay.fail(error)
            replay.episode.end("abandoned")
    return replay.row


async def rescore_one_async(
    trajectory: Trajectory | FormatProblem,
    rubric: Rubric,
    *,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
) -> Row:
    """Like `rescore_one`, in async code."""
    replay = Replay(trajectory, rubric, assume_end, types)
    if replay.episode is not None:
        try:
            await take_async(replay.episode, replay.steps, replay.end)
            replay.finish()
        except FAILURES as error:
            if is_cancelled(error):
                replay.episode.abandon()
                raise
            replay.fail(error)
            await replay.episode.aend("abandoned")
    return replay.row


def _on_a_loop_of_its_own(rows: AsyncGenerator[Row, None]) -> Iterator[Row]:
    async def following() -> Row | None:
        return await anext(rows, None)

    # Leaving the block, also by an exception or because nobody reads on, cancels what is in progress.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        while (row := loop.run_until_complete(following())) is not None:
            yield row
