"""One run of a tree outside any episode, and calls nested in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rubrics.engine import concurrent, sync
from rubrics.engine.frames import FRAME, Frame, Run, let_go
from rubrics.engine.plan import Place, Plan
from rubrics.evaluation import Evaluation
from rubrics.score import Outcome, Score, public

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


def score(plan: Plan, action: Any, observation: Any) -> float | Score | None:
    """A run of a sync tree outside any episode in which nodes can be nested or remembered."""
    run = Run(plan, None)
    token = FRAME.set(Frame(run))
    try:
        outcome = sync.build(plan.root, False)(action, observation, run.last)
    except BaseException as error:
        let_go(error, run.record)
        raise
    finally:
        run.close()
        FRAME.reset(token)
    plan.finished(run.last)
    return public(outcome)


def nested(frame: Frame, node: Rubric, action: Any, observation: Any) -> Any:
    """A call from within a running forward."""
    place = (frame.place and frame.place.descendants.get(id(node))) or frame.run.plan.by_node[id(node)][0]
    run = frame.run
    if place.is_async:
        coroutine = _nested_async(frame, place, action, observation)
        frame.coroutines = [*(frame.coroutines or ()), coroutine]
        return coroutine
    outcome = sync.build(place, run.recording)(action, observation, run.last)
    frame.note(place, outcome)
    return public(outcome)


async def _nested_async(frame: Frame, place: Place, action: Any, observation: Any) -> float | Score | None:
    outcome = await concurrent.build(place, frame.run.recording)(action, observation, frame.run.last)
    frame.note(place, outcome)
    return public(outcome)


async def score_async(plan: Plan, action: Any, observation: Any) -> float | Score | None:
    return public((await _run_async(plan, action, observation, Run(plan, None)))[0])


async def record_async(plan: Plan, action: Any, observation: Any, threads: bool) -> Evaluation | None:
    return (await _run_async(plan, action, observation, Run(plan, None, recording=True, threads=threads)))[1]


async def _run_async(plan: Plan, action: Any, observation: Any, run: Run) -> tuple[Outcome, Evaluation | None]:
    """One run of a tree outside any episode."""
    token = FRAME.set(Frame(run))
    try:
        outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
    except BaseException as error:
        let_go(error, run.record)
        raise
    finally:
        run.close()
        FRAME.reset(token)
    plan.finished(run.last)
    return outcome, run.record


def record(plan: Plan, action: Any, observation: Any) -> Evaluation | None:
    run = Run(plan, None, recording=True)
    token = FRAME.set(Frame(run))
    try:
        sync.build(plan.root, True)(action, observation, run.last)
    except BaseException as error:
        let_go(error, run.record)
        raise
    finally:
        run.close()
        FRAME.reset(token)
    plan.finished(run.last)
    return run.record
