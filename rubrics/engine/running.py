"""One run of a tree outside any episode, and calls nested in a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rubrics.engine import concurrent, sync
from rubrics.engine.frames import FRAME, Frame, Run, let_go
from rubrics.engine.plan import LEAF, Place, Plan
from rubrics.evaluation import Evaluation
from rubrics.score import Outcome, Score, checked, public

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


def caller(plan: Plan) -> Callable[[Any, Any], Any]:
    """What calling the root of a tree that keeps no state does: the score of one step, or a coroutine for it."""
    if plan.is_async:
        return partial(_score_async, plan)
    if plan.nests or plan.remembers or plan.overlaps:
        return partial(_score_in_frame, plan)
    # Nothing can be nested or remembered in such a run, and no node is in another tree, so it needs no frame.
    return _lone_leaf(plan) if plan.root.kind == LEAF and not plan.hooked else _bare(plan)


def _bare(plan: Plan) -> Callable[[Any, Any], float | Score | None]:
    root, blank = sync.build(plan.root, False), plan.blank

    def call(action: Any, observation: Any) -> float | Score | None:
        last = blank.copy()
        try:
            outcome = root(action, observation, last)
        except BaseException as error:
            _failed(plan, error)
            raise
        plan.last = last
        return outcome if outcome.__class__ is float else public(outcome)

    return call


def _lone_leaf(plan: Plan) -> Callable[[Any, Any], float | Score | None]:
    place = plan.root
    node, who = place.node, place.who
    last: list[Outcome | None] = [None]

    def call(action: Any, observation: Any) -> float | Score | None:
        value: Any
        try:  # as in sync.leaf, without the call of it
            value = node.forward(action, observation)
            if value.__class__ is float and value - value == 0.0:
                last[0] = value
                plan.last = last
                return value
            value = checked(value, who)
        except Exception as error:
            try:
                value = sync.failed(place, error)
            except Exception:
                _failed(plan, error)
                raise
        last[0] = value
        plan.last = last
        return public(value)

    return call


def _score_in_frame(plan: Plan, action: Any, observation: Any) -> float | Score | None:
    run = Run(plan, None)
    with _Running(plan, run):
        outcome = sync.build(plan.root, False)(action, observation, run.last)
    return public(outcome)


class _Running:  # not contextlib's: that writes on the exceptions that pass, which some refuse
    """The frame of one run of a tree outside any episode: `last_score` changes only when the run ends well."""

    __slots__ = ("plan", "run", "token")

    def __init__(self, plan: Plan, run: Run) -> None:
        self.plan, self.run = plan, run

    def __enter__(self) -> None:
        self.token = FRAME.set(Frame(self.run))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            _failed(self.plan, error, self.run.record)
        self.run.close()
        FRAME.reset(self.token)
        if error is None:
            self.plan.finished(self.run.last)


def _failed(plan: Plan, error: BaseException, record: Evaluation | None = None) -> None:
    """A run that failed leaves its record on the exception, and no default episode that only it began."""
    if plan.root.node._default is not None:
        plan.root.node._set_default(None)
    let_go(error, record)


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


async def _score_async(plan: Plan, action: Any, observation: Any) -> float | Score | None:
    return public((await _run_async(plan, action, observation, Run(plan, None)))[0])


async def record_async(plan: Plan, action: Any, observation: Any, threads: bool) -> Evaluation | None:
    return (await _run_async(plan, action, observation, Run(plan, None, recording=True, threads=threads)))[1]


async def _run_async(plan: Plan, action: Any, observation: Any, run: Run) -> tuple[Outcome, Evaluation | None]:
    """One run of a tree outside any episode."""
    with _Running(plan, run):
        outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
    return outcome, run.record


def record(plan: Plan, action: Any, observation: Any) -> Evaluation | None:
    run = Run(plan, None, recording=True)
    with _Running(plan, run):
        sync.build(plan.root, True)(action, observation, run.last)
    return run.record
