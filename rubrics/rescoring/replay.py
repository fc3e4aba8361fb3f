"""One trajectory under one tree: what is checked before, what becomes of it after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from rubrics.engine.quick import only_step
from rubrics.episode import Episode
from rubrics.evaluation import NO_USAGE, Usage, evaluation_of
from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring.rows import Row, step_rewards_dict
from rubrics.rescoring.types import RebuildError, Types
from rubrics.rubric import Rubric
from rubrics.score import Outcome, RubricError
from rubrics.trajectory import End, Step, Trajectory, read_end

FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What fails one trajectory and not the run: a leaf may exit, or give up."""


def is_cancelled(error: BaseException) -> bool:
    """Whether an exception is the cancellation of this task; a leaf that gives up raises one too."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class ReplayError(RubricError, ValueError):
    """A recording that contradicts itself: it goes on after an observation that ended the episode."""


class Replay:
    """A trajectory, and the row that it becomes.

    Attributes:
        row: complete where there is nothing to score.
        episode: the episode to run; None where there is nothing to score.
        steps: the steps to take in it.
        end: how the episode ends, unless an observation says so.
    """

    def __init__(
        self, trajectory: Trajectory | FormatProblem, rubric: Rubric, assume_end: End | None, types: Types | None
    ) -> None:
        self.episode: Episode | None = None
        self.steps: list[Step] = []
        self.end: End | None = None
        if isinstance(trajectory, FormatProblem):
            place = {"path": trajectory.path, "line": trajectory.line}
            self.row = Row(None, "unreadable", reason=str(trajectory), source=place)
            return
        self.row = Row(
            trajectory.id,
            "unscored",
            recorded_reward=trajectory.reward,
            end=trajectory.end,
            steps=len(trajectory.steps),
            source=trajectory.source,
        )
        try:
            initial, self.steps = (types or Types()).of(trajectory)
            self.row.end = self.end = end_of(trajectory, self.steps) or assume_end
        except Exception as error:
            self.fail(error)
            return
        if self.end is None:
            self.row.status = "unfinished"
            self.row.reason = "neither the recording nor the last observation says how the episode ended"
        elif self.end in ("error", "abandoned"):
            self.row.reason = f"the end of the recorded episode is {self.end!r}"
        elif not self.steps:
            self.row.reason = "the trajectory has no steps"
        else:
            self.episode = rubric.episode(
                task=trajectory.task, initial=initial, record=True, reduction=trajectory.reduction
            )

    def finish(self) -> None:
        """Complete the row out of the episode, which is over."""
        assert self.episode is not None
        rewards = self.episode.rewards()
        row = self.row
        row.evaluation = self.episode.final
        row.step_rewards = step_rewards_dict(rewards)
        self._bill(self._usage())
        row.reward = rewards.total
        if rewards.total is not None:
            row.status = "scored"
            return
        judged = [number for number, step in enumerate(self.steps, start=1) if not _is_unpaid(step)]
        for number, evaluation in zip(judged, self.episode.evaluations, strict=False):
            if evaluation.score is None:
                row.reason = f"step {number} of {row.steps} is unscored: {evaluation.reason or 'no reason given'}"

    def fail(self, error: BaseException) -> None:
        """Complete the row out of what the rubric, or the replay, raised."""
        row = self.row
        row.status, row.reward, row.step_rewards = "error", None, None
        where = ""
        if self.episode is not None:
            row.evaluation = evaluation_of(error)
            spent = self._usage()
            self._bill(spent + row.evaluation.usage if row.evaluation else spent)
            where = f"step {min(self.episode.steps + 1, row.steps)} of {row.steps}: "
        own = isinstance(error, ReplayError | RebuildError)
        message = str(error) if own else f"{type(error).__name__}: {error}"
        row.reason = where + "; ".join([message, *getattr(error, "__notes__", ())])

    def _usage(self) -> Usage:
        assert self.episode is not None
        return sum((evaluation.usage for evaluation in self.episode.evaluations), NO_USAGE)

    def _bill(self, usage: Usage) -> None:
        self.row.usage = asdict(usage) if usage else None


def end_of(trajectory: Trajectory, steps: Sequence[Step]) -> End | None:
    """How a recorded episode ended: by its own word, else by that of its last observation; None where neither says so.

    Raises:
        ReplayError: it goes on after an observation that says that the episode is over.
    """
    for number, step in enumerate(steps[:-1], start=1):
        if end := read_end(step.observation):
            raise ReplayError(
                f"the recording goes on after its end: the observation of step {number} of {len(steps)} "
                f"says that the episode is over ({end})"
            )
    return trajectory.end or (read_end(steps[-1].observation) if steps else None)


def _is_unpaid(step: Step) -> bool:
    return bool(step.metadata) and step.metadata.get("unpaid") is True


Seen = list[dict[str, Outcome | None]]
"""What nodes answered at each step, by path."""


def take(episode: Episode, steps: Sequence[Step], end: End | None, seen: Seen | None = None) -> None:
    """Take recorded steps in an episode, and end it; on a tree with async nodes this thread waits.

    Args:
        episode, steps, end: the episode and what becomes of it.
        seen: where the outcomes of each step are to go.
    """
    if len(steps) == 1 and not _is_unpaid(steps[0]) and only_step(episode, steps[0].action, steps[0].observation, end):
        return
    for step in steps:
        if _is_unpaid(step):
            episode.step_unpaid(step.action, step.observation)
        else:
            episode.step(step.action, step.observation)
        if seen is not None:
            seen.append(episode.last_outcomes())
    if not episode.over:
        episode.end(end)
        if seen:
            seen[-1] = episode.last_outcomes()


async def take_async(
    episode: Episode, steps: Sequence[Step], end: End | None, seen: Seen | None = None, *, threads: bool = False
) -> None:
    """Like `take`, in async code; `threads` as in `Episode.astep`."""
    for step in steps:
        if _is_unpaid(step):
            await episode.astep_unpaid(step.action, step.observation, threads=threads)
        else:
            await episode.astep(step.action, step.observation, threads=threads)
        if seen is not None:
            seen.append(episode.last_outcomes())
    if not episode.over:
        await episode.aend(end, threads=threads)
        if seen:
            seen[-1] = episode.last_outcomes()
