"""Episodes: state that lasts longer than a step, and its end."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, get_args
from uuid import uuid4

from rubrics.engine import concurrent, sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, Run, let_go
from rubrics.engine.journal import Journal, Pair
from rubrics.engine.loop import block, uncontained
from rubrics.engine.quick import Step as QuickStep, quick_step
from rubrics.engine.replay import shares
from rubrics.engine.turn import Turn
from rubrics.evaluation import Evaluation
from rubrics.score import EpisodeError, EpisodeOverError, Outcome, Score, Unscored, is_pending, public
from rubrics.step_rewards import StepRewards, reduced, spread
from rubrics.trajectory import End, Reduction, Step, Trajectory, read_end

if TYPE_CHECKING:
    from rubrics.engine.plan import Plan
    from rubrics.rubric import Rubric

_ENDS: tuple[End, ...] = get_args(End)
_REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


class Episode:
    """One trajectory in progress under one tree. Many may be in progress over a shared tree at once.

    Made by `rubric.episode(...)`. Steps of one episode are taken one after the other, whoever calls. A step that
    raises or is cancelled leaves the episode as it was.

    Attributes:
        task, initial: as given; nodes read `self.task`.
        status: None while it runs; then `"terminated"`, `"truncated"`, `"error"` or `"abandoned"`.
        reduction: how the episode's total follows from what its steps pay.
        evaluations: the Evaluation of each step, where `record=True`.
        final: the Evaluation that ended the episode, where there is one (recorded, or with delayed nodes).
    """

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
        self._unpaid: set[int] = set()

    # -- what a driver does -------------------------------------------------------------------------------------------

    def step(self, action: Any, observation: Any) -> float | Score | None:
        """Score one step; the end is read from the observation.

        Args:
            action, observation: what the agent did and what came of it.

        Returns:
            The reward: a float, a Score, or None where the step is unscored. On a tree with async nodes this thread
            waits.

        Raises:
            EpisodeOverError: after the end.
            Exception: whatever a node raises, with a note that names the node.
        """
        quick = self._quick
        return self._step_carefully(action, observation) if quick is None else quick(action, observation)

    def _step_carefully(self, action: Any, observation: Any) -> float | Score | None:
        plan = self._rubric._compiled()
        if plan.is_async:
            self._turn.refuse_to_wait_for_this_thread()
            return public(block(self._take_async, plan, action, observation, self._record, True)[0])
        return public(self._take(plan, action, observation, self._record)[0])

    async def astep(self, action: Any, observation: Any, *, threads: bool = False) -> float | Score | None:
        """Like `step`, in async code.

        Args:
            action, observation: as in `step`.
            threads: run what is not async in worker threads, so that a node that blocks does not hold up the loop.
        """
        plan = self._rubric._compiled()
        taking = self._take_async(plan, action, observation, self._record, threads)
        return public((await (uncontained(taking) if threads else taking))[0])

    def step_unscored(self, action: Any, observation: Any) -> None:
        """Take a step that the tree could not score, for a host that cannot take it again since its state has moved on.

        The trajectory holds it with reward None, so delayed nodes and nodes that observe see it (one whose `observe`
        raises does not). No node is evaluated. The end is read as in `step`; an episode that ends so is unscored.

        Raises:
            EpisodeOverError: after the end.
        """
        self._pass(action, observation, Unscored("the step could not be scored"))

    async def astep_unscored(self, action: Any, observation: Any, *, threads: bool = False) -> None:
        """Like `step_unscored`, in async code; `threads` as in `astep`."""
        await self._pass_async(action, observation, Unscored("the step could not be scored"), threads)

    def step_unpaid(self, action: Any, observation: Any) -> None:
        """Take a step that is not to be judged, such as a read-only call that a host runs beside others.

        The trajectory holds it, marked `metadata["unpaid"]`, and delayed nodes and nodes that observe see it. No node
        is evaluated, and it pays nothing: 0 in the sum of the episode, where `step_unscored` leaves no sum.

        Raises:
            EpisodeError: the observation ends the episode; such a step is to be judged.
            EpisodeOverError: after the end.
        """
        self._refuse_unpaid_end(observation)
        self._pass(action, observation, 0.0)

    async def astep_unpaid(self, action: Any, observation: Any, *, threads: bool = False) -> None:
        """Like `step_unpaid`, in async code; `threads` as in `astep`."""
        self._refuse_unpaid_end(observation)
        await self._pass_async(action, observation, 0.0, threads)

    def _refuse_unpaid_end(self, observation: Any) -> None:
        if read_end(observation) is not None:
            raise EpisodeError("a step that ends the episode has to be judged: it cannot be unpaid")

    def end(
        self, status: End | None = None, *, truncated: bool = False, reason: str | None = None
    ) -> float | Score | None:
        """End an episode whose observation did not say so; nothing happens where it is over already.

        Args:
            status: `"terminated"` (the default), `"truncated"`, `"error"` or `"abandoned"`. The first two are scored:
                delayed nodes, and whatever they now make reachable, are scored on the last pair and replace the last
                reward. The others are unscored, and so is an episode without steps.
            truncated: the same as `status="truncated"`.
            reason: kept in the trajectory's metadata.

        Returns:
            The last reward, or None where the episode is unscored.
        """
        plan = self._rubric._compiled()
        ending = self._ending(status, truncated)
        if plan.is_async:
            self._turn.refuse_to_wait_for_this_thread()
            return block(self._end_async, plan, ending, reason, True)
        self._refuse_nesting()
        with self._turn:
            if not self._closes_unscored(plan, ending, reason):
                with self._ending_again(plan, ending, False) as (run, action, observation):
                    outcome = sync.build(plan.root, run.recording)(action, observation, run.last)
                self._replace_last(run, outcome, reason)
        return self.reward

    async def aend(
        self,
        status: End | None = None,
        *,
        truncated: bool = False,
        reason: str | None = None,
        threads: bool = False,
    ) -> float | Score | None:
        """Like `end`, in async code; `threads` as in `astep`."""
        ending = self._ending(status, truncated)
        return await uncontained(self._end_async(self._rubric._compiled(), ending, reason, threads))

    def abandon(self) -> None:
        """Give the episode up without waiting, as another takes its place; a step in progress runs on for nothing."""
        self.release()
        if self.status is None and self._turn.lock.acquire(False):
            try:
                self._close("abandoned", None)
            finally:
                self._turn.lock.release()
                self._turn.wake()

    # -- what it knows ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """A name for the episode: as given, or a random one."""
        if self._id is None:
            self._id = uuid4().hex
        return self._id

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.status is not None

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self._emitted)

    @property
    def reward(self) -> float | None:
        """What the last step paid.

        None before the first, where it was unscored, and after an error or an abandonment.
        """
        if not self._emitted or self.status in ("error", "abandoned"):
            return None
        return self._emitted[-1]

    @property
    def total(self) -> float | None:
        """What the steps paid, under the reduction; None before the end, and where the episode is unscored."""
        if self.status in (None, "error", "abandoned"):
            return None
        return reduced(self._emitted, self.reduction)

    @property
    def trajectory(self) -> Trajectory:
        """The episode so far as data; steps hold the objects that were given (or their snapshots)."""
        steps = [Step(a, o, r) for (a, o), r in zip(self._journal.pairs, self._emitted, strict=False)]
        for index in self._unpaid:
            steps[index].reward = None
            steps[index].metadata["unpaid"] = True
        return Trajectory(
            id=self.id,
            task=self.task,
            initial=self.initial,
            steps=steps,
            end=self.status,
            reward=self.total,
            reduction=self.reduction,
            metadata={"end_reason": self._end_reason} if self._end_reason else {},
        )

    def last_score(self, node: Rubric) -> float | Score | None:
        """What a node answered at the last step; None where it was unscored or not reached."""
        if self._last is None or self._plan is None:
            return None
        group = self._plan.by_node.get(id(node))
        return None if group is None else public(self._last[group[0].index])

    def last_outcomes(self) -> dict[str, Outcome | None]:
        """What every node answered at the last step, by path, the root under `""`.

        A score, an `Unscored` with its reason, or None for a node that was not reached.
        """
        if self._last is None or self._plan is None:
            return {}
        last = self._last
        return {path: last[index] for path, index in self._plan.paths}

    def pairs(self, node: Rubric) -> list[Pair]:
        """The (action, observation) pairs of a delayed node: what it was called with, else the step's own."""
        return self._journal.pairs_of(node)

    def memory_of(self, node: Rubric) -> dict[str, Any]:
        """A node's own dict for this episode, the one that its code has as `self.memory`."""
        return self._journal.memory_of(node)

    def score_of(self, node: Rubric) -> float | Score | None:
        """What a delayed node made of the whole trajectory; None where it was not asked, or could not say."""
        return public(self._journal.score_of(node))

    @property
    def spreads(self) -> bool:
        """Whether a delayed score is credited to any step but the last, by a rule that may refuse."""
        plan = self._plan
        return plan is not None and plan.delays and any(group[0].node._spreads() for group in plan.by_node.values())

    def rewards(self) -> StepRewards:
        """The rewards of the steps, after the end. Nothing is scored again.

        Raises:
            EpisodeError: the episode is not over.
            CreditError: a credit that should conserve its sum does not, or cites steps that do not exist.
        """
        if self.status is None:
            raise EpisodeError("the episode is not over: its rewards are known after the end; see Episode.end")
        if self._rewards is None:
            plan = self._plan or self._rubric._compiled()
            if not self._keeps_end:
                self._note_shares()
            self._rewards = spread(self, plan, self._journal, self._emitted, self._shares)
        return self._rewards

    def __repr__(self) -> str:
        return f"<Episode of {type(self._rubric).__name__}: {self.steps} steps, {self.status or 'running'}>"

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
            self._unpaid.add(len(self._emitted) - 1)

    def _stepping(self, plan: Plan, action: Any, observation: Any, recording: bool, threads: bool) -> _Stepping:
        """A step in progress; if it fails, the episode is as it was."""
        frame = FRAME.get()
        if frame is not None and not frame.run.over and not self._emitted and self._rubric._default is self:
            raise EpisodeError(
                f"{type(self._rubric).__name__} keeps state and was called within a run that it is no part of: "
                "make it a child (an attribute, or in a RubricList or RubricDict), or give it an episode of its own"
            )
        if self.status is not None:
            raise EpisodeOverError(
                f"the episode is over ({self.status} after {self.steps} steps): reset, or start a new episode"
            )
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
                self._quick = quick_step(self, plan, run, self._frame)  # not on the first step: it may be the only one
                if self._rubric._default is self:
                    self._rubric._set(_call=None)  # to be asked for again
            return run, self._frame
        run = Run(plan, self, recording, threads)
        frame = Frame(run)
        if not (plan.nests or plan.threaded or recording or threads):
            self._run, self._frame = run, frame
        return run, frame

    def _adopt(self, plan: Plan) -> None:
        """Take over a plan: the first one, or that of a tree whose structure has changed."""
        for node in plan.self_stateful:
            node._claim(self)
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
            node._let_go(self)

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
        run = Run(plan, self, recording=self._record or self._records_end(plan), threads=threads)
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

    async def _end_async(self, plan: Plan, ending: End, reason: str | None, threads: bool) -> float | Score | None:
        self._refuse_nesting()
        async with self._turn:
            if not self._closes_unscored(plan, ending, reason):
                with self._ending_again(plan, ending, threads) as (run, action, observation):
                    outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
                self._replace_last(run, outcome, reason)
        return self.reward

    def _replace_last(self, run: Run, outcome: Outcome, reason: str | None) -> None:
        self._emitted.pop()
        self._unpaid.discard(len(self._emitted))  # the end is paid on it
        if self._recorded_last and run.record is not None:
            run.record.own_usage = run.record.own_usage + self.evaluations.pop().usage  # it was spent on this step too
        self._end_reason = reason
        self._commit(run, outcome)

    def _refuse_nesting(self) -> None:
        frame = FRAME.get()
        if frame is not None and frame.run.episode is self and self._journal.inside:
            raise EpisodeError("a node cannot take a step of the episode that it is being evaluated in")


class _Stepping:  # not contextlib's: it takes three times as long
    """A step in progress, between the beginning and the commit; if it fails, the episode is as it was."""

    __slots__ = ("action", "episode", "frame", "observation", "run", "token")

    def __init__(self, episode: Episode, run: Run, frame: Frame, action: Any, observation: Any) -> None:
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
