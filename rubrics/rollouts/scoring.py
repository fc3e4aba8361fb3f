"""A tree as a scoring function for whole rollouts: what every adapter for a trainer or an evaluator is made of.

    scorer = Scorer(tree)
    scored = scorer.score(trajectory_of(prompt, completion, task=row))
    scored.reward, scored.status, scored.scores        # 0.75 "scored" {"format": 1.0, "judge": 0.5}

A rollout has a reward, or it has none and a reason. A tree that raises (a bug in a leaf, a judge that is down) leaves
its rollout without one and is logged; where every rollout of a batch fails so, the first failure is raised, because
nothing would be learnt from it. What becomes of a rollout without a reward differs from host to host; where a host has
no place for it, its adapter asks for a rule, see `filled`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, Literal

from rubrics.engine.loop import block, contained, in_thread, uncontained
from rubrics.engine.turn import Turn
from rubrics.episode import Episode
from rubrics.evaluation import NO_USAGE, Evaluation, Usage
from rubrics.hosting.report import StepReport
from rubrics.rescoring.replay import FAILURES, ReplayError, Seen, end_of, is_cancelled, take, take_async
from rubrics.rubric import Rubric
from rubrics.score import Outcome, RubricError, Score, Unscored
from rubrics.step_rewards import StepRewards
from rubrics.trajectory import Trajectory

_log = logging.getLogger(__name__)

Fill = Literal["raise"] | float
"""What stands for a reward that there is not, in a host that has no place for that: an exception, or a number."""


@dataclass(repr=False)
class Scored:
    """What a tree made of one rollout. Scores and reasons are worked out when they are asked for.

    Attributes:
        reward: of the whole rollout; None where there is none.
        status: `"scored"`, `"unscored"` (it could not be assessed) or `"error"` (the tree raised).
        reason: why there is no reward, or what the root gave as its reason.
        scores: what each node below the root contributed, by path: its score, and in a rollout of several steps their
            sum, or the last, as the reward is reduced, so that the weighted scores of a sum's children add up to the
            reward. None for one that was never reached, or unscored on a step that counts.
        reasons: what nodes gave as their reasons at the last step, by path; the root's is under `""`.
        error: what was raised.
        usage: what model calls cost.
        evaluation: the record of the last step, of trees with async nodes or where asked for.
        episode: the episode; `scored.rewards()` gives the rewards of its steps.
    """

    reward: float | None
    status: Literal["scored", "unscored", "error"]
    reason: str | None = None
    error: BaseException | None = None
    usage: Usage = NO_USAGE
    evaluation: Evaluation | None = None
    episode: Episode | None = None
    _paths: Sequence[tuple[str, int]] = ()  # of nodes, with their places in `_last`
    _last: Sequence[Outcome | None] = ()
    _seen: Seen | None = None  # of each step, where all of them count

    @cached_property
    def scores(self) -> dict[str, float | None]:
        if self._seen is None:
            return {path: _score(self._last[index]) for path, index in self._paths if path}
        return {path: _sum([outcomes.get(path) for outcomes in self._seen]) for path, _ in self._paths if path}

    @cached_property
    def reasons(self) -> dict[str, str]:
        return {path: reason for path, index in self._paths if (reason := _reason(self._last[index]))}

    def rewards(self) -> StepRewards | None:
        """The rewards of the steps; None of a rollout without a reward."""
        return None if self.reward is None or self.episode is None else self.episode.rewards()

    def feedback(self) -> str:
        """Scores and reasons in words, a line a node: what a person, or an optimiser of prompts, can act on."""
        lines = [_line("reward", self.reward, self.reason)]
        lines += [_line(path, score, self.reasons.get(path)) for path, score in self.scores.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Scored(reward={self.reward!r}, status={self.status!r}, reason={self.reason!r}, scores={self.scores!r}, "
            f"reasons={self.reasons!r}, usage={self.usage!r}, episode={self.episode!r})"
        )


def _line(name: str, score: float | None, reason: str | None) -> str:
    return f"{name}: {'unscored' if score is None else format(score, '.4g')}" + (f" ({reason})" if reason else "")


def filled(scored: Scored, fill: Fill) -> float:
    """The reward of a rollout for a host that needs a number.

    Args:
        scored: the rollout.
        fill: `"raise"`, or the number for a rollout without a reward.

    Raises:
        RubricError: there is no reward, and the rule is `"raise"`.
    """
    if scored.reward is not None:
        return scored.reward
    if fill == "raise":
        raise RubricError(scored.reason or "the rollout is unscored") from scored.error
    return fill


def checked_fill(fill: Any, *names: str) -> Any:
    """A rule for rollouts without a reward, as given by a user: `"raise"`, a finite number, or one of `names`.

    Raises:
        ValueError: it is nothing of that.
    """
    if fill in ("raise", *names):
        return fill
    if isinstance(fill, bool) or not isinstance(fill, int | float) or fill - fill != 0:
        choices = ", ".join(repr(name) for name in ("raise", *names))
        raise ValueError(f"unscored is {choices} or a finite number, not {fill!r}")
    return float(fill)


class Scorer:
    """A tree as a function of whole rollouts, one or many at once. It can be pickled where the tree can.

    Args:
        rubric: the tree. Each rollout is an episode of its own, so one tree serves any number at once. Those of a tree
            that keeps state on itself (a node overrides `reset`) take turns, also when several callers score at once.
        concurrency: rollouts in progress at once, if the tree has async nodes.
        on_error: `"unscored"`: a tree that raises leaves its rollout without a reward; it is logged as a warning, and
            raised where every rollout of the batch failed. `"log"`: it is logged even then, for hosts whose batches
            are the rollouts of one task. `"raise"`: it is raised at once.
        record: keep the Evaluation of each rollout. None: of trees with async nodes, to know what their calls cost.
    """

    def __init__(
        self,
        rubric: Rubric,
        *,
        concurrency: int = 256,
        on_error: Literal["unscored", "log", "raise"] = "unscored",
        record: bool | None = None,
    ) -> None:
        if not isinstance(rubric, Rubric):
            raise TypeError(f"expected a tree (an instance of rubrics.Rubric), not {rubric!r:.80}")
        if on_error not in ("unscored", "log", "raise"):
            raise ValueError(f"on_error is 'unscored', 'log' or 'raise', not {on_error!r}")
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        self.rubric = rubric
        self.concurrency = concurrency
        self.on_error = on_error
        self.record = record
        self._turn = Turn()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=Turn())

    # -- one ----------------------------------------------------------------------------------------------------------

    def score(self, trajectory: Trajectory) -> Scored:
        """Score one rollout; on a tree with async nodes this thread waits."""
        return self.score_all([trajectory])[0]

    async def score_async(self, trajectory: Trajectory) -> Scored:
        """Like `score`, in async code. Nodes that are not async run in a worker thread."""
        return (await self.score_all_async([trajectory]))[0]

    # -- many ---------------------------------------------------------------------------------------------------------

    def score_all(self, trajectories: Sequence[Trajectory]) -> list[Scored]:
        """Score rollouts, in order; on a tree with async nodes this thread waits."""
        if self.rubric.is_async_tree:
            return block(lambda: self._concurrently(trajectories))
        return self._one_by_one(trajectories)

    async def score_all_async(self, trajectories: Sequence[Trajectory]) -> list[Scored]:
        """Like `score_all`, in async code. A tree without async nodes runs in a worker thread."""
        if self.rubric.is_async_tree:
            return await uncontained(self._concurrently(trajectories))
        given_up = threading.Event()
        try:
            return await in_thread(self._one_by_one, trajectories, given_up)
        finally:
            given_up.set()  # when cancelled, the thread finishes the rollout that it is at, and no more

    def _one_by_one(self, trajectories: Iterable[Trajectory], given_up: threading.Event | None = None) -> list[Scored]:
        scored = []
        for trajectory in trajectories:
            if given_up is not None and given_up.is_set():
                break
            scored.append(self._run(trajectory))
        return self._checked(scored)

    async def _concurrently(self, trajectories: Sequence[Trajectory]) -> list[Scored]:
        slots = asyncio.Semaphore(self.concurrency)

        async def run(trajectory: Trajectory) -> Scored:
            async with slots:
                return await self._run_async(trajectory)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(contained(run(trajectory))) for trajectory in trajectories]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return self._checked([task.result() for task in tasks])

    def _checked(self, scored: list[Scored]) -> list[Scored]:
        failures = [one.error for one in scored if one.error is not None]
        all_failed = len(failures) == len(scored) > 1
        if failures and (self.on_error == "raise" or (self.on_error == "unscored" and all_failed)):
            raise _raisable(failures[0])
        for error in failures:
            _log.warning("a rollout has no reward: the rubric failed", exc_info=error)
        return scored

    # -- a rollout ----------------------------------------------------------------------------------------------------

    def _run(self, trajectory: Trajectory) -> Scored:
        if self.rubric.keeps_state:  # one episode at a time, whoever calls
            with self._turn:
                return self._run_now(trajectory)
        return self._run_now(trajectory)

    def _run_now(self, trajectory: Trajectory) -> Scored:
        episode = self._episode(trajectory)
        if isinstance(episode, Scored):
            return episode
        try:
            seen = _to_see(episode, trajectory)
            take(episode, trajectory.steps, trajectory.end, seen)
            return _scored(episode, seen)
        except FAILURES as error:
            episode.abandon()
            return self._failed(error, episode)
        except BaseException:
            episode.abandon()
            raise

    async def _run_async(self, trajectory: Trajectory) -> Scored:
        if self.rubric.keeps_state:
            async with self._turn:
                return await self._run_now_async(trajectory)
        return await self._run_now_async(trajectory)

    async def _run_now_async(self, trajectory: Trajectory) -> Scored:
        episode = self._episode(trajectory)
        if isinstance(episode, Scored):
            return episode
        try:
            seen = _to_see(episode, trajectory)
            await take_async(episode, trajectory.steps, trajectory.end, seen, threads=True)
            return _scored(episode, seen)
        except FAILURES as error:
            episode.abandon()
            if is_cancelled(error):
                raise
            return self._failed(error, episode)
        except BaseException:
            episode.abandon()
            raise

    def _failed(self, error: BaseException, episode: Episode) -> Scored:
        if self.on_error == "raise":
            raise _raisable(error)
        return _failed(error, episode)

    def _episode(self, trajectory: Trajectory) -> Episode | Scored:
        """The episode to run, or what is to be said where there is nothing to score."""
        try:
            end = end_of(trajectory, trajectory.steps)
        except ReplayError as error:
            return Scored(None, "error", str(error), error=error)
        if end is None:
            return Scored(None, "unscored", "the rollout does not say how it ended")
        if end in ("error", "abandoned"):
            return Scored(None, "unscored", f"the end of the rollout is {end!r}")
        if not trajectory.steps:
            return Scored(None, "unscored", "the rollout has no steps")
        record = self.rubric.is_async_tree if self.record is None else self.record
        return self.rubric.episode(
            trajectory.task, trajectory.initial, record or None, False, trajectory.reduction, trajectory.id
        )


def _to_see(episode: Episode, trajectory: Trajectory) -> Seen | None:
    """Where the outcomes of all steps go, if more than the last one's count."""
    return [] if len(trajectory.steps) > 1 and episode.reduction == "sum" else None


def _scored(episode: Episode, seen: Seen | None) -> Scored:
    reward = episode.total
    if reward is not None and episode.spreads:
        episode.rewards()  # now: a credit may be refused, and weights may change before somebody asks
    plan, last = episode._plan, episode._last
    assert plan is not None and last is not None  # a step was taken
    scored = Scored(reward, "scored", _reason(last[0]), episode=episode, _paths=plan.paths, _last=[*last], _seen=seen)
    if reward is None:
        scored.status, scored.reason = "unscored", _why_unscored(episode)
    if episode.evaluations:
        scored.evaluation = episode.evaluations[-1]
        scored.usage = sum((evaluation.usage for evaluation in episode.evaluations), NO_USAGE)
    return scored


def _score(outcome: Outcome | None) -> float | None:
    if outcome.__class__ is float:
        return outcome
    return None if outcome is None or isinstance(outcome, Unscored) else float(outcome)


def _reason(outcome: Outcome | None) -> str | None:
    return outcome.reason or None if isinstance(outcome, Score | Unscored) else None


def _sum(outcomes: list[Outcome | None]) -> float | None:
    """What a node contributed over the steps on which it was reached; None where one of them is unscored."""
    reached = [outcome for outcome in outcomes if outcome is not None]
    if not reached or any(isinstance(outcome, Unscored) for outcome in reached):
        return None
    return fsum(float(outcome) for outcome in reached if not isinstance(outcome, Unscored))


def _why_unscored(episode: Episode) -> str:
    outcomes = episode.last_outcomes()
    unscored = {path: outcome for path, outcome in outcomes.items() if isinstance(outcome, Unscored)}
    if "" not in unscored:
        return "an earlier step is unscored, and the reward is the sum of all"
    innermost = [path for path in unscored if not any(other.startswith(f"{path}.") for other in unscored if path)]
    named = [path for path in innermost if path] or [""]
    return "; ".join(
        f"{path or type(episode._rubric).__name__} is unscored: {unscored[path].reason or 'no reason given'}"
        for path in named
    )


def _raisable(error: BaseException) -> Exception:
    """An exit or a cancellation out of a leaf ends a training no other way than an error does."""
    if isinstance(error, Exception):
        return error
    named = RubricError(StepReport.of_error(error).message)
    named.__cause__ = error
    return named


def _failed(error: BaseException, episode: Episode) -> Scored:
    report = StepReport.of_error(error)
    spent = sum((evaluation.usage for evaluation in episode.evaluations), NO_USAGE)
    if report.evaluation is not None:
        spent = spent + report.evaluation.usage
    return Scored(
        None, "error", report.message, error=error, usage=spent, evaluation=report.evaluation, episode=episode
    )
