"""Steps of an episode, written out for the common cases: a sync tree, not recorded, whose run can serve every step, or
whose episode has one step.

What `Episode._take` does for any tree, these do with less bookkeeping. The last of several steps, a step while another
is in progress, and one of a tree that has changed go the careful way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rubrics.engine import sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, Run
from rubrics.engine.plan import LATEST, Plan
from rubrics.score import Outcome, Score, Unscored
from rubrics.trajectory import End, end_reader

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


def only_step(episode: Episode, action: Any, observation: Any, end: End | None) -> bool:
    """Take the first step of an episode, and end it: what `Episode.step` and `Episode.end` do.

    Args:
        episode: one that nobody else knows yet.
        action, observation: the step.
        end: how the episode ends, unless the observation says so.

    Returns:
        Whether the step was taken; if not, it has to go the careful way.
    """
    plan = episode._rubric._compiled()
    ending = end_reader(observation.__class__)(observation)
    if not plan.plain or episode._record or episode._snapshot is not None or episode._plan is not None:
        return False
    if plan.delays and (ending is None or episode._records_end(plan)):
        return False
    run = Run(plan, episode)
    run.ending = ending
    journal, turn, last = episode._journal, episode._turn, run.last
    turn.lock.acquire()  # a node may hand its episode to others
    try:
        journal.begin(action, observation)
        episode._plan = plan
        token = FRAME.set(Frame(run))
        try:
            outcome = sync.build(plan.root, False)(action, observation, last)
        except BaseException as error:
            episode._roll_back(run, error)
            raise
        finally:
            run.close()
            FRAME.reset(token)
        journal.keep()
        episode._emitted.append(None if isinstance(outcome, Unscored) else float(outcome))
        episode._last = plan.last = last.copy()
        if LATEST[0] != plan.stamp:
            plan.note_latest()
        episode.status = ending or end or "terminated"
    finally:
        turn.lock.release()
        if turn.waiting:
            turn.wake()
    if not plan.nests:
        del last.run  # which holds them too, and a cycle a rollout keeps the garbage collector busy
    return True
