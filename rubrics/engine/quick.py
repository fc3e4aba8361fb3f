"""Steps of an episode, written out for the common case: a sync tree, not recorded, whose run can serve every step.

What `Episode._take` does for any tree, these do with less bookkeeping. The last step, a step while another is
in progress, and one of a tree that has changed go the careful way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rubrics.engine import sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, Run
from rubrics.engine.plan import LATEST, Plan
from rubrics.score import Outcome, Score, Unscored
from rubrics.trajectory import end_reader

if TYPE_CHECKING:
    from rubrics.episode import Episode

Step = Callable[[Any, Any], "float | Score | None"]


def quick_step(episode: Episode, plan: Plan, run: Run, frame: Frame) -> Step:
    """A function for the steps of one episode under one plan."""
    if plan.only_pays and plan.root.node.sees == "steps":
        return _paying(episode, plan)
    return _scoring(episode, plan, run, frame)


def _paying(episode: Episode, plan: Plan) -> Step:
    """Under a delayed root, a step before the last pays its intermediate reward, and nobody's code runs."""
    rubric: Any = episode._rubric
    journal, emit = episode._journal, episode._emitted.append
    turn, carefully = episode._turn, episode._step_carefully
    acquire, release = turn.lock.acquire, turn.lock.release
    add_action, add_observation = journal.actions.append, journal.observations.append
    kind: type | None = None
    ends: Any = None
    paid: Score | None = None
    amount = 0.0
    last: list[Outcome | None] = [None]

    def step(action: Any, observation: Any) -> float | Score | None:
        nonlocal kind, ends, paid, amount
        if plan is not rubric._plan or not acquire(False):
            return carefully(action, observation)
        try:
            if observation.__class__ is not kind:
                kind = observation.__class__
                ends = end_reader(kind)
            if episode.status is None and ends(observation) is None:
                reward: Score = rubric._intermediate
                if reward is not paid:
                    paid, amount = reward, float(reward)
                add_action(action)
                add_observation(observation)
                emit(amount)
                last[0] = reward
                episode._last = plan.last = last
                if plan.overlaps and LATEST[0] != plan.stamp:
                    plan.note_latest()
                return reward
        finally:
            release()
            if turn.waiting:
                turn.wake()
        return carefully(action, observation)

    return step


def _scoring(episode: Episode, plan: Plan, run: Run, frame: Frame) -> Step:
    rubric: Any = episode._rubric
    journal, emit = episode._journal, episode._emitted.append
    turn, carefully = episode._turn, episode._step_carefully
    acquire, release = turn.lock.acquire, turn.lock.release
    root, blank = sync.build(plan.root, False), plan.blank
    enter, leave = FRAME.set, FRAME.reset

    def step(action: Any, observation: Any) -> float | Score | None:
        if plan is not rubric._plan or not acquire(False):
            return carefully(action, observation)
        try:
            if episode.status is None and end_reader(observation.__class__)(observation) is None:
                last = run.last = Outcomes(blank)  # a new list, since the old one is what the last step answered
                last.run = run
                if run.memo is not None:
                    run.memo = {}
                journal.begin(action, observation)
                token = enter(frame)
                try:
                    outcome: Any = root(action, observation, last)
                except BaseException as error:
                    episode._roll_back(run, error)
                    raise
                finally:
                    leave(token)
                journal.keep()
                episode._memo = run.memo
                episode._last = plan.last = last.copy()
                if plan.overlaps and LATEST[0] != plan.stamp:
                    plan.note_latest()
                if outcome.__class__ is float:
                    emit(outcome)
                    return outcome
                if outcome.__class__ is Unscored:
                    emit(None)
                    return None
                emit(float(outcome))
                return outcome  # type: ignore[no-any-return]
        finally:
            release()
            if turn.waiting:
                turn.wake()
        return carefully(action, observation)

    return step
