"""Scoring recorded trajectories again: trajectories in, rows out, in the same order and of the same number.

A replay gives the tree what the environment gave it and nothing it did not: each action with its observation, the end
where the recording says so, and never a recorded reward. A trajectory that cannot be scored is a row that says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Literal

from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring.batched import gains, scored_ahead
from rubrics.rescoring.content import content_hash
from rubrics.rescoring.replay import FAILURES, Method, Record, Replay, is_cancelled, prepared
from rubrics.rescoring.rows import Row
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

AssumedEnd = Literal["terminated", "truncated"]

Numbered = tuple[int, Trajectory | FormatProblem, str | None]
"""A trajectory with its place in the input and its content hash, where that is known."""

_AHEAD = 4  # trajectories read ahead, and rows held back for the sake of order, for each one that is being scored


def rescore(
    trajectories: Iterable[Trajectory | FormatProblem],
    rubric: Rubric,
    *,
    concurrency: int = 32,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    record: Record | None = None,
) -> Iterator[Row]:
    """Score recorded trajectories under a rubric, one row each, in order, as a stream.

    Nothing that a rubric raises ends the run: the row then has the status `"error"`. A trajectory whose end is told
    neither by the recording nor by its last observation is `"unfinished"` and not scored. One that ended in an error,
    or was abandoned, is `"unscored"`. A node that declares `needs_live_state` keeps its recorded score, and is unscored
    where there is none.

    Args:
        trajectories: as `rubrics.formats.read` gives them; a `FormatProblem` becomes a row `"unreadable"`.
        rubric: any tree. Each trajectory is an episode of its own.
        concurrency: trajectories in progress at once, if the tree has async nodes and none that keeps its state on
            itself (by overriding `reset`); else one after the other.
        assume_end: how trajectories ended that do not say so; they are then scored.
        types: classes to make actions and observations of; by default the tree gets `Record`s.
        record: whether rows hold the Evaluation of the `"last"` step only, or of all `"steps"`; by default of all for
            a tree with async nodes.

    Raises:
        RuntimeError: the tree has async nodes and an event loop runs in this thread; there, use `rescore_async`.
    """
    if not rubric.is_async_tree:
        return _one_by_one(trajectories, rubric, assume_end, types, record)
    refuse_a_running_loop("use rescore_async here")
    rows = rescore_async(
        trajectories, rubric, concurrency=concurrency, assume_end=assume_end, types=types, record=record
    )
    return on_a_loop_of_its_own(rows)


def refuse_a_running_loop(instead: str) -> None:
    """Raise RuntimeError where an event loop runs in this thread, which cannot wait for another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"the rubric has async nodes and an event loop runs in this thread; {instead}")


def _one_by_one(
    trajectories: Iterable[Trajectory | FormatProblem],
    rubric: Rubric,
    assume_end: AssumedEnd | None,
    types: Types | None,
    record: Record | None,
) -> Iterator[Row]:
    method = prepared(rubric, assume_end, types, record)
    numbered = ((number, trajectory, None) for number, trajectory in enumerate(trajectories))
    for _, row in in_order(numbered, method):
        yield row


def in_order(trajectories: Iterable[Numbered], method: Method) -> Iterator[tuple[int, Row]]:
    """Rows with their numbers, one after the other; some trajectories are read ahead where steps are scored at once."""
    replays = (
        (number, Replay(trajectory, method, content or content_hash(trajectory)))
        for number, trajectory, content in trajectories
    )
    for number, replay in scored_ahead(replays, method) if gains(method) else replays:
        yield number, _played(replay)


async def rescore_async(
    trajectories: Iterable[Trajectory | FormatProblem],
    rubric: Rubric,
    *,
    concurrency: int = 32,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    record: Record | None = None,
) -> AsyncGenerator[Row, None]:
    """Like `rescore`, in async code. Closed early, it cancels and awaits what is in progress."""
    waiting: dict[int, Row] = {}
    following = 0
    method = prepared(rubric, assume_end, types, record)
    numbered = ((number, trajectory, None) for number, trajectory in enumerate(trajectories))
    async with aclosing(as_completed(numbered, method, concurrency)) as rows:
        async for position, row in rows:
            waiting[position] = row
            while following in waiting:
                yield waiting.pop(following)
                following += 1


async def as_completed(
    trajectories: Iterable[Numbered],
    method: Method,
    concurrency: int,
    stopped: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[tuple[int, Row], None]:
    """Rows with their numbers, each as soon as it is done. Closed early, it cancels and awaits what is in progress.

    Args:
        trajectories: with their numbers, from some first one upwards.
        method: how they are scored.
        concurrency: trajectories in progress at once. None is begun that is more than four times as many ahead of the
            first that is still in progress, so that rows can be put in order within a bounded memory.
        stopped: asked before a trajectory is begun; once it says so, what is in progress is finished.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, not {concurrency}")
    at_once = 1 if method.rubric.keeps_state else concurrency
    source = iter(trajectories)
    running: dict[asyncio.Task[Row], int] = {}
    exhausted = False
    done: asyncio.Queue[asyncio.Task[Row]] = asyncio.Queue()
    try:
        while True:
            while not exhausted and len(running) < at_once:
                if running and max(running.values()) - min(running.values()) >= _AHEAD * concurrency:
                    break
                following = None if stopped() else next(source, None)
                if following is None:
                    exhausted = True
                    break
                number, trajectory, content = following
                task = asyncio.create_task(row_of_async(trajectory, method, content))
                task.add_done_callback(done.put_nowait)
                running[task] = number
            if not running:
                return
            finished = await done.get()
            number = running.pop(finished)
            yield number, finished.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def rescore_one(
    trajectory: Trajectory | FormatProblem,
    rubric: Rubric,
    *,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    record: Record | None = None,
) -> Row:
    """The row of one trajectory, as `rescore` makes it; on a tree with async nodes this thread waits."""
    return row_of(trajectory, prepared(rubric, assume_end, types, record))


async def rescore_one_async(
    trajectory: Trajectory | FormatProblem,
    rubric: Rubric,
    *,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    record: Record | None = None,
) -> Row:
    """Like `rescore_one`, in async code."""
    return await row_of_async(trajectory, prepared(rubric, assume_end, types, record))


def row_of(trajectory: Trajectory | FormatProblem, method: Method, content: str | None = None) -> Row:
    """The row of one trajectory, whose content hash may be known; on a tree with async nodes this thread waits."""
    return _played(Replay(trajectory, method, content or content_hash(trajectory)))


def _played(replay: Replay) -> Row:
    try:
        replay.play()
    except FAILURES as error:
        replay.fail(error)
        if replay.episode is not None:
            replay.episode.end("abandoned")
    return replay.row


async def row_of_async(trajectory: Trajectory | FormatProblem, method: Method, content: str | None = None) -> Row:
    """Like `row_of`, in async code."""
    replay = Replay(trajectory, method, content or content_hash(trajectory))
    try:
        await replay.play_async()
    except FAILURES as error:
        if is_cancelled(error):
            if replay.episode is not None:
                replay.episode.abandon()
            raise
        replay.fail(error)
        if replay.episode is not None:
            await replay.episode.aend("abandoned")
    return replay.row


def failed_row(trajectory: Trajectory | FormatProblem, method: Method, content: str | None, reason: str) -> Row:
    """The row of a trajectory that could not be scored, for a reason that lies outside of the tree."""
    replay = Replay(trajectory, method, content or content_hash(trajectory))
    if replay.episode is not None:
        replay.episode.abandon()
    replay.row.status, replay.row.reason = "error", reason
    return replay.row


def on_a_loop_of_its_own(rows: AsyncGenerator[Row, None]) -> Iterator[Row]:
    """An async stream of rows for plain code."""

    async def following() -> Row | None:
        return await anext(rows, None)

    # Leaving the block, also by an exception or because nobody reads on, cancels what is in progress.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        while (row := loop.run_until_complete(following())) is not None:
            yield row
