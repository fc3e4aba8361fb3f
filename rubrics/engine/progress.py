"""An episode in progress: how its steps are taken and its end comes about, and what is undone where one fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, get_args

from rubrics.engine import concurrent, sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, Run, let_go
from rubrics.engine.journal import Journal
from rubrics.engine.loop import block, uncontained
from rubrics.engine.quick import Step as QuickStep, quick_step
from rubrics.engine.replay import shares
from rubrics.engine.turn import Turn
from rubrics.evaluation import Evaluation, Usage
from rubrics.score import EpisodeError, EpisodeOverError, Outcome, Score, Unscored, is_pending, public
from rubrics.trajectory import End, Reduction, read_end

if TYPE_CHECKING:
    from rubrics.engine.plan import Plan
    from rubrics.rubric import Rubric
    from rubrics.step_rewards import StepRewards

_ENDS: tuple[End, ...] = get_args(End)
_REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


class Progress:
    """What `rubrics.Episode` is made on; its attributes are described there."""

    __slots__ = (
        "__weakref__",
        "_emitted",
        "_end_reason",
        "_frame",
        "_id",
        "_journal",
        "_keeps_end",
        "_last",
        "_memo",
        "_plan",
        "_quick",
        "_record",
        "_recorded_last",
        "_rewards",
        "_rubric",
        "_run",
        "_shares",
        "_snapshot",
        "_spent",
        "_turn",
        "_unpaid",
        "evaluations",
        "final",
        "initial",
        "reduction",
        "status",
        "task",
    )

    def __init__(
        self,
        rubric: Rubric,
        task: Any = None,
        initial: Any = None,
        record: bool | None = False,
        snapshot: bool | Callable[[Any], Any] = False,
        reduction: Reduction | None = None,
        id: str | None = None,
    ) -> None:
        self._rubric = rubric
        self._id = id
        self.task = task
        self.initial = initial
        self.status: End | None = None
        self.reduction: Reduction = rubric.reduction if reduction is None else reduction
        if self.reduction not in _REDUCTIONS:
            raise EpisodeError(f"reduction is 'sum' or 'last', not {self.reduction!r}")
        self.evaluations: list[Evaluation] = []
        self.final: Evaluation | None = None
        self._record = bool(record)
        self._recorded_last = False  # steps that were passed, unpaid or unscored, have no record
        self._keeps_end = record is not None
        self._snapshot = copy.deepcopy if snapshot is True else snapshot or None
        self._plan: Plan | None = None
        self._run: Run | None = None
        self._frame: Frame | None = None
        self._quick: QuickStep | None = None
        self._journal = Journal()
        self._emitted: list[float | None] = []
        self._last: list[Outcome | None] | None = None
        self._memo: dict[tuple[int, int, int], Any] | None = None
        self._end_reason: str | None = None
        self._turn = Turn()
        self._rewards: StepRewards | None = None
        self._shares: dict[int, float] = {}
        self._unpaid: list[int] = []
        self._spent: list[Usage] = []

    def _step_carefully(self, action: Any, observation: Any) -> float | Score | None:
        plan = self._rubric._compiled()
        if plan.is_async:
            self._turn.refuse_to_wait_for_this_thread()
            return public(block(self._take_async, plan, action, observation, self._record, True)[0])
        return public(self._take(plan, action, observation, self._record)[0])

    # -- one step -----------------------------------------------------------------------------------------------------

    def _take(self, plan: Plan, action: Any, observation: Any, recording: bool) -> tuple[Outcome, Evaluation | None]:
        self._refuse_nesting()
        with self._turn:
            with self._stepping(plan, action, observation, recording, False) as (run, action, observation):
                for place in plan.observers:
                    sync.observe(place, action, observation)
                outcome = sync.build(plan.root, run.recording)(action, observation, run.last)
            self._commit(run, outcome)
        return outcome, run.record

    async def _take_async(
        self, plan: Plan, action: Any, observation: Any, recording: bool, threads: bool
    ) -> tuple[Outcome, Evaluation | None]:
        self._refuse_nesting()
        async with self._turn:
            with self._stepping(plan, action, observation, recording, threads) as (run, action, observation):
                for place in plan.observers:
                    await concurrent.observe(place, action, observation)
                outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
            self._commit(run, outcome)
        return outcome, run.record

    def _pass(self, action: Any, observation: Any, outcome: Outcome) -> None:
        """Take a step whose outcome is settled; no node is evaluated."""
        plan = self._rubric._compiled()
        if plan.is_async:
            self._turn.refuse_to_wait_for_this_thread()
            block(self._pass_async, action, observation, outcome, True)
            return
        self._refuse_nesting()
        with self._turn, self._stepping(plan, action, observation, False, False) as (run, action, observation):
            for place in plan.observers:
                with _unless_unscored(outcome):
                    sync.observe(place, action, observation)
            self._commit_passed(run, outcome)

    async def _pass_async(self, action: Any, observation: Any, outcome: Outcome, threads: bool) -> None:
        await uncontained(self._passing(self._rubric._compiled(), action, observation, outcome, threads))

    async def _passing(self, plan: Plan, action: Any, observation: Any, outcome: Outcome, threads: bool) -> None:
        self._refuse_nesting()
        async with self._turn:
            with self._stepping(plan, action, observation, False, threads) as (run, action, observation):
                for place in plan.observers:
                    with _unless_unscored(outcome):
                        await concurrent.observe(place, action, observation)
            self._commit_passed(run, outcome)

    def _commit_passed(self, run: Run, outcome: Outcome) -> None:
        self._commit(run, outcome)
        if not isinstance(outcome, Unscored):
            self._unpaid.append(len(self._emitted) - 1)

    def _stepping(self, plan: Plan, action: Any, observation: Any, recording: bool, threads: bool) -> _Stepping:
        """A step in progress; if it fails, the episode is as it was."""
        frame = FRAME.get()
        if frame is not None and not frame.run.over and not self._emitted and self._rubric._default is self:
            raise EpisodeError(
                f"{type(self._rubric).__name__} keeps state and was called within a run that it is no part of: "
                "make it a child (an attribute, or in a RubricList or RubricDict), or give it an episode of its own"
            )
        self._refuse_over()
        if self._plan is not plan:
            self._adopt(plan)
        if self._snapshot is not None:
            action, observation = self._snapshot(action), self._snapshot(observation)
        ending = read_end(observation)
        run, frame = self._a_run(plan, recording or (ending is not None and self._records_end(plan)), threads)
        run.ending = ending
        self._journal.begin(action, observation)
        return _Stepping(self, run, frame, action, observation)

    def _a_run(self, plan: Plan, recording: bool, threads: bool) -> tuple[Run, Frame]:
        """A run for a step. Where nothing can be nested in it, left behind by it or recorded, one serves every step."""
        run = self._run
        if run is not None and self._frame is not None and not (recording or threads):
            run.last = Outcomes(plan.blank)
            run.last.run = run
            if run.memo is not None:
                run.memo = {}
            if self._quick is None and not (plan.is_async or plan.observers or self._record or self._snapshot):
                # not on the first step: it may be the only one
                self._quick = quick_step(self, plan, run, self._frame)  # type: ignore[arg-type]
                if self._rubric._default is self:
                    self._rubric._set(_call=None)  # to be asked for again
            return run, self._frame
        run = Run(plan, self, recording, threads)  # type: ignore[arg-type]  # every Progress is an Episode
        frame = Frame(run)
        if not (plan.nests or plan.threaded or recording or threads):
            self._run, self._frame = run, frame
        return run, frame

    def _adopt(self, plan: Plan) -> None:
        """Take over a plan: the first one, or that of a tree whose structure has changed."""
        for node in plan.self_stateful:
            node._claim(self)  # type: ignore[arg-type]
        self._plan = plan
        self._memo = None  # its keys are of the plan before
        self._forget_run()

    def _forget_run(self) -> None:
        self._run = self._frame = self._quick = None
        if self._rubric._default is self:
            self._rubric._set(_call=None)

    def release(self) -> None:
        """Let go of nodes that keep state on themselves, so that another episode can have them."""
        for node in (self._plan or self._rubric._compiled()).self_stateful:
            node._let_go(self)  # type: ignore[arg-type]

    def _commit(self, run: Run, outcome: Outcome) -> None:
        self._journal.keep()
        self._emitted.append(None if isinstance(outcome, Unscored) else float(outcome))
        self._last = run.last
        run.plan.finished(run.last)
        self._memo = run.memo
        self._recorded_last = self._record and run.record is not None
        if self._recorded_last:
            self.evaluations.append(run.record)  # type: ignore[arg-type]
        if run.ending is not None:
            self._close(run.ending, run.record)

    def _roll_back(self, run: Run, error: BaseException) -> None:
        self._journal.drop()
        let_go(error, run.record)

    def _close(self, status: Any, record: Evaluation | None) -> None:
        self.status = status
        self.final = record
        if self._keeps_end:  # now: weights may change before somebody asks
            self._note_shares()
        self._memo = None
        self._forget_run()

    def _records_end(self, plan: Plan) -> bool:
        """Whether the end is recorded whatever the steps are; where nodes repeat, the shares need it."""
        return plan.delays and (self._keeps_end or plan.repeats)

    def _note_shares(self) -> None:
        last, plan = self._last, self._plan
        if last is None or plan is None or not plan.delays:
            return
        if plan.repeats and self.final is not None:
            outcomes = {node.path: node.outcome for node in self.final.nodes()}
            self._shares = shares(plan.root, lambda place: outcomes.get(place.path))
        else:
            self._shares = shares(plan.root, lambda place: last[place.index])

    # -- the end ------------------------------------------------------------------------------------------------------

    def _ending(self, status: End | None, truncated: bool) -> End:
        ending = status or ("truncated" if truncated else "terminated")
        if ending not in _ENDS:
            raise EpisodeError(f"an episode ends as one of {', '.join(_ENDS)}, not {ending!r}")
        if truncated and ending != "truncated":
            raise EpisodeError(f"truncated=True contradicts status={status!r}")
        return ending

    def _closes_unscored(self, plan: Plan, ending: End, reason: str | None) -> bool:
        """Close the episode where there is nothing to score; whether that is so, or it is over already."""
        if self.status is not None:
            return True
        if self._plan is not plan:
            self._adopt(plan)
        if ending in ("error", "abandoned") or not self._emitted or not plan.delays:
            self._close(ending, self.evaluations[-1] if self.evaluations else None)
            self._end_reason = reason
            return True
        return False

    @contextmanager
    def _ending_again(self, plan: Plan, ending: End, threads: bool) -> Iterator[tuple[Run, Any, Any]]:
        """The last pair once more, now that the episode ends with it; if that fails, the episode goes on as it was."""
        run = Run(plan, self, recording=self._record or self._records_end(plan), threads=threads)  # type: ignore[arg-type]
        run.ending, run.again = ending, True
        if self._memo:  # what the last step assessed is not assessed again; what was pending is
            run.memo = {key: entry for key, entry in self._memo.items() if _settled(entry)}
        self._journal.inside = True
        token = FRAME.set(Frame(run))
        try:
            yield run, self._journal.actions[-1], self._journal.observations[-1]
        except BaseException as error:
            self._journal.undo()
            let_go(error, run.record)
            raise
        finally:
            run.close()
            FRAME.reset(token)

    def _end(self, plan: Plan, ending: End, reason: str | None) -> None:
        self._refuse_nesting()
        with self._turn:
            if not self._closes_unscored(plan, ending, reason):
                with self._ending_again(plan, ending, False) as (run, action, observation):
                    outcome = sync.build(plan.root, run.recording)(action, observation, run.last)
                self._replace_last(run, outcome, reason)

    async def _end_async(self, plan: Plan, ending: End, reason: str | None, threads: bool) -> None:
        self._refuse_nesting()
        async with self._turn:
            if not self._closes_unscored(plan, ending, reason):
                with self._ending_again(plan, ending, threads) as (run, action, observation):
                    outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
                self._replace_last(run, outcome, reason)

    def _replace_last(self, run: Run, outcome: Outcome, reason: str | None) -> None:
        self._emitted.pop()
        if len(self._emitted) in self._unpaid:
            self._unpaid.remove(len(self._emitted))  # the end is paid on it
        if self._recorded_last and run.record is not None:
            run.record.own_usage = run.record.own_usage + self.evaluations.pop().usage  # it was spent on this step too
        self._end_reason = reason
        self._commit(run, outcome)

    def _refuse_over(self) -> None:
        if self.status is not None:
            raise EpisodeOverError(
                f"the episode is over ({self.status} after {len(self._emitted)} steps): reset, or start a new episode"
            )

    def _refuse_nesting(self) -> None:
        frame = FRAME.get()
        if frame is not None and frame.run.episode is self and self._journal.inside:
            raise EpisodeError("a node cannot take a step of the episode that it is being evaluated in")


class _Stepping:  # not contextlib's: it takes three times as long
    """A step in progress, between the beginning and the commit; if it fails, the episode is as it was."""

    __slots__ = ("action", "episode", "frame", "observation", "run", "token")

    def __init__(self, episode: Progress, run: Run, frame: Frame, action: Any, observation: Any) -> None:
        self.episode, self.run, self.frame = episode, run, frame
        self.action, self.observation = action, observation

    def __enter__(self) -> tuple[Run, Any, Any]:
        self.token = FRAME.set(self.frame)
        return self.run, self.action, self.observation

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.episode._roll_back(self.run, error)
        if self.run is not self.episode._run:
            self.run.close()
        FRAME.reset(self.token)


def _unless_unscored(outcome: Outcome) -> AbstractContextManager[None]:
    """Of a step that could not be scored, a node's `observe` is most likely what failed in the first place."""
    return suppress(Exception) if isinstance(outcome, Unscored) else nullcontext()


def _settled(entry: Any) -> bool:
    """Whether what is remembered of a node can stand at the end: it is done, not pending, and did not fail."""
    return entry.__class__ is tuple and not is_pending(entry[0]) and not isinstance(entry[0], sync.Failure)
