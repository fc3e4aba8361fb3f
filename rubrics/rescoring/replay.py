"""One trajectory under one tree: what is checked before, what becomes of it after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rubrics.engine.quick import only_step
from rubrics.episode import Episode
from rubrics.evaluation import Usage, evaluation_of
from rubrics.fingerprinting import fingerprint_of, fingerprints
from rubrics.formats.parsing import FormatProblem
from rubrics.rescoring.judging import judge_paths, refuse_unnamed, was_refused
from rubrics.rescoring.live import keeping_recorded, kept_scores
from rubrics.rescoring.rows import Row, step_rewards_dict
from rubrics.rescoring.types import RebuildError, Types
from rubrics.rubric import Rubric
from rubrics.score import Outcome, RubricError, Unscored
from rubrics.trajectory import End, Step, Trajectory, read_end

FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What fails one trajectory and not the run: a leaf may exit, or give up."""

Record = Literal["last", "steps"]
"""Which steps' Evaluations a row holds: that of the last, or those of all."""


def is_cancelled(error: BaseException) -> bool:
    """Whether an exception is the cancellation of this task; a leaf that gives up raises one too."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class ReplayError(RubricError, ValueError):
    """A recording that contradicts itself: it goes on after an observation that ended the episode."""


@dataclass(frozen=True, slots=True)
class Method:
    """How trajectories are scored again; the same for all of a run.

    Attributes:
        rubric: the tree.
        assume_end: how trajectories ended that do not say so; None leaves them unfinished.
        types: classes to make actions and observations of.
        record: which steps' Evaluations a row holds.
        fingerprint: of the tree.
        judges: fingerprints of its judges, by path.
        live: paths of nodes whose recorded scores are kept.
    """

    rubric: Rubric
    assume_end: End | None = None
    types: Types = field(default_factory=Types)
    record: Record = "last"
    fingerprint: str = ""
    judges: dict[str, str] | None = None
    live: tuple[str, ...] = ()


def prepared(
    rubric: Rubric, assume_end: End | None = None, types: Types | None = None, record: Record | None = None
) -> Method:
    """How trajectories are to be scored again.

    Args:
        rubric, assume_end, types: see `Method`.
        record: None is `"steps"` for a tree with async nodes, whose verdicts are worth keeping, else `"last"`.
    """
    if record not in (None, "last", "steps"):
        raise ValueError(f"record is 'last' or 'steps', not {record!r}")
    refuse_unnamed(rubric)
    prints = fingerprints(rubric)
    judges = {path: prints[path] for path in judge_paths(rubric)} or None
    chosen: Record = record or ("steps" if rubric.is_async_tree else "last")
    tree, live = keeping_recorded(rubric)
    print_of_all = prints[""] if types is None or types == Types() else fingerprint_of([prints[""], types])
    return Method(tree, assume_end, types or Types(), chosen, print_of_all, judges, tuple(live))


class Replay:
    """A trajectory, and the row that it becomes.

    Args:
        trajectory, method: what is scored again, and how.
        content: the trajectory's content hash.

    Attributes:
        row: complete where there is nothing to score.
        episode: the episode to run; None where there is nothing to score.
        steps: the steps to take in it.
        end: how the episode ends, unless an observation says so.
        task: of the trajectory.
        known: scores of steps that need not be replayed, by step; those of a tree that keeps no state, see `batched`.
    """

    def __init__(self, trajectory: Trajectory | FormatProblem, method: Method, content: str) -> None:
        self.episode: Episode | None = None
        self.steps: list[Step] = []
        self.end: End | None = None
        self.task: Any = None
        self.known: dict[int, float] = {}
        self._reason: str | None = None
        self._spent: Usage | None = None
        self._records = method.record == "steps"
        self.row = row_for(trajectory, content, method.fingerprint)
        if isinstance(trajectory, FormatProblem):
            return
        self.row.judges, self.row.kept = method.judges, list(method.live) or None
        rubric = method.rubric
        try:
            initial, self.steps = method.types.of(trajectory)
            self.row.end = self.end = end_of(trajectory, self.steps) or method.assume_end
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
            # What async nodes cost is in their records; of others only the last is worth its time.
            record = self._records or rubric.is_async_tree
            self.task = trajectory.task
            self.episode = rubric.episode(trajectory.task, initial, record, reduction=trajectory.reduction)
            if method.live:
                kept_scores[self.episode] = trajectory

    def play(self) -> None:
        """Take the steps and complete the row; on a tree with async nodes this thread waits.

        Raises:
            Exception: whatever the tree raises; `fail` is to be told.
        """
        episode = self.episode
        if episode is None:
            return
        last = self._last_paid()
        for index, step in enumerate(self.steps):
            if is_unpaid(step):
                episode.step_unpaid(step.action, step.observation)
                continue
            if index in self.known:
                episode.step_known(step.action, step.observation, self.known[index])
                continue
            if index == last:
                episode.record_from_here()
            try:
                reward = episode.step(step.action, step.observation)
            except FAILURES as error:
                self._look_again(error, episode, step)
                raise
            if reward is None:
                self._unscored(index, episode)
        if not episode.over and episode.end(self.end) is None:
            self._unscored(len(self.steps) - 1, episode)
        self._finish(episode)

    async def play_async(self) -> None:
        """Like `play`, in async code."""
        episode = self.episode
        if episode is None:
            return
        for index, step in enumerate(self.steps):
            if is_unpaid(step):
                await episode.astep_unpaid(step.action, step.observation)
            elif await episode.astep(step.action, step.observation) is None:
                self._unscored(index, episode)
        if not episode.over and await episode.aend(self.end) is None:
            self._unscored(len(self.steps) - 1, episode)
        self._finish(episode)

    def _look_again(self, error: BaseException, episode: Episode, step: Step) -> None:
        """Take a step that failed and was not recorded once more, for its record alone."""
        if evaluation_of(error) is not None:
            return
        self._spent = episode.usage
        episode.record_from_here()
        try:
            episode.step(step.action, step.observation)
        except FAILURES as again:
            self.row.evaluation = evaluation_of(again)

    def steps_before_the_last(self) -> list[int]:
        """The steps of which only the score counts, where one step is recorded."""
        if self.episode is None:
            return []
        return [index for index in range(self._last_paid()) if not is_unpaid(self.steps[index])]

    def _last_paid(self) -> int:
        """The step to record where only one is: the last that is judged; -1 where none is."""
        last = len(self.steps) - 1
        while last >= 0 and is_unpaid(self.steps[last]):
            last -= 1
        return last

    def _unscored(self, index: int, episode: Episode) -> None:
        root = episode.last_outcomes().get("")
        why = root.reason if isinstance(root, Unscored) else None
        self._reason = f"step {index + 1} of {self.row.steps} is unscored: {why or 'no reason given'}"

    def _finish(self, episode: Episode) -> None:
        row = self.row
        rewards = episode.rewards()
        row.evaluation = episode.final
        if self._records:
            records = iter(episode.evaluations)
            row.evaluations = [None if is_unpaid(step) else next(records, None) for step in self.steps]
        row.step_rewards = step_rewards_dict(rewards)
        self._bill(episode.usage)
        if was_refused(episode):
            row.reason, row.step_rewards = "the budget of the run is used up", None
            return
        row.reward = rewards.total
        if rewards.total is not None:
            row.status = "scored"
        else:
            row.reason = self._reason

    def fail(self, error: BaseException) -> None:
        """Complete the row out of what the rubric, or the replay, raised."""
        row = self.row
        row.status, row.reward, row.step_rewards = "error", None, None
        where = ""
        if self.episode is not None:
            spent = self.episode.usage if self._spent is None else self._spent
            if (record := evaluation_of(error)) is not None:
                row.evaluation, spent = record, spent + record.usage
            self._bill(spent)
            where = f"step {min(self.episode.steps + 1, row.steps)} of {row.steps}: "
        own = isinstance(error, ReplayError | RebuildError)
        message = str(error) if own else f"{type(error).__name__}: {error}"
        row.reason = where + "; ".join([message, *getattr(error, "__notes__", ())])

    def _bill(self, usage: Usage) -> None:
        self.row.usage = usage.to_dict() if usage else None


def row_for(trajectory: Trajectory | FormatProblem, content: str | None, rubric: str) -> Row:
    """The row of a trajectory before it is scored; complete where it could not be read.

    Args:
        trajectory: or why it could not be read.
        content: its content hash.
        rubric: the fingerprint of what it is scored by.
    """
    if isinstance(trajectory, FormatProblem):
        place = {"path": trajectory.path, "line": trajectory.line}
        return Row(None, "unreadable", reason=str(trajectory), source=place, content=content, rubric=rubric)
    return Row(
        trajectory.id,
        "unscored",
        recorded_reward=trajectory.reward,
        end=trajectory.end,
        steps=len(trajectory.steps),
        source=trajectory.source,
        content=content,
        rubric=rubric,
        group=trajectory.metadata.get("group"),
        components=trajectory.metadata.get("components") or None,
    )


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


def is_unpaid(step: Step) -> bool:
    """Whether a step was recorded as not to be judged."""
    return bool(step.metadata) and step.metadata.get("unpaid") is True


Seen = list[dict[str, Outcome | None]]
"""What nodes answered at each step, by path."""


def take(episode: Episode, steps: Sequence[Step], end: End | None, seen: Seen | None = None) -> None:
    """Take recorded steps in an episode, and end it; on a tree with async nodes this thread waits.

    Args:
        episode, steps, end: the episode and what becomes of it.
        seen: where the outcomes of each step are to go.
    """
    if len(steps) == 1 and not is_unpaid(steps[0]) and only_step(episode, steps[0].action, steps[0].observation, end):
        return
    for step in steps:
        if is_unpaid(step):
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
        if is_unpaid(step):
            await episode.astep_unpaid(step.action, step.observation, threads=threads)
        else:
            await episode.astep(step.action, step.observation, threads=threads)
        if seen is not None:
            seen.append(episode.last_outcomes())
    if not episode.over:
        await episode.aend(end, threads=threads)
        if seen:
            seen[-1] = episode.last_outcomes()
