"""Episodes: state that lasts longer than a step, the end of it, and the rewards of its steps."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import fsum, isclose
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from rubrics.engine import concurrent, sync
from rubrics.engine.frames import FRAME, Frame, Outcomes, Run, let_go
from rubrics.engine.loop import block
from rubrics.engine.plan import LATEST
from rubrics.engine.replay import shares
from rubrics.evaluation import Evaluation
from rubrics.score import CreditError, EpisodeError, EpisodeOverError, Outcome, Score, Unscored, is_pending, public
from rubrics.trajectory import End, Reduction, Step, Trajectory, end_reader, read_end

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rubrics.engine.plan import Plan, SyncCall
    from rubrics.rubric import Rubric

Pair = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class StepRewards:
    """The rewards of a finished episode, step by step.

    Attributes:
        values: (T,) what each step gets once delayed rewards are credited to the steps; NaN where there is none.
        emitted: (T,) what each step paid while the episode ran; NaN where a step was unscored.
        total: `emitted` under the reduction; None where the episode is unscored.
        kind: `"reward"` if every credit conserves its sum, so that `values` may be summed or discounted;
            `"credit"` if not (discounted or broadcast credit), and then nobody may sum or discount `values` again.
        reduction: how `total` follows from `emitted`: `"sum"` or `"last"`.
    """

    values: NDArray[np.float64]
    emitted: NDArray[np.float64]
    total: float | None
    kind: Literal["reward", "credit"]
    reduction: Reduction


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
        "_calls",
        "_emitted",
        "_end_reason",
        "_frame",
        "_id",
        "_inside",
        "_last",
        "_lists",
        "_lock",
        "_memo",
        "_memory",
        "_pairs",
        "_kind",
        "_pays",
        "_plan",
        "_quick",
        "_reads_end",
        "_record",
        "_rewards",
        "_root",
        "_rubric",
        "_run",
        "_scores",
        "_seen",
        "_snapshot",
        "_touched",
        "_touched_lists",
        "_undo",
        "_waiters",
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
        record: bool = False,
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
        if self.reduction not in get_args(Reduction):
            raise EpisodeError(f"reduction is 'sum' or 'last', not {self.reduction!r}")
        self.evaluations: list[Evaluation] = []
        self.final: Evaluation | None = None
        self._record = record
        self._snapshot = copy.deepcopy if snapshot is True else snapshot or None
        self._plan: Plan | None = None
        self._run: Run | None = None
        self._frame: Frame | None = None
        self._quick: Plan | None = None
        self._root: SyncCall | None = None
        self._pays: Any = None
        self._kind: type | None = None
        self._reads_end: Callable[[Any], End | None] = read_end
        self._pairs: list[Pair] = []
        self._emitted: list[float | None] = []
        self._last: list[Outcome | None] | None = None
        self._memo: dict[tuple[int, int, int], Any] | None = None
        self._memory: dict[int, tuple[Rubric, dict[str, Any]]] = {}
        self._seen: dict[int, dict[int, Pair]] = {}
        self._calls: dict[int, list[tuple[int, Any, Any]]] = {}
        self._lists: dict[int, list[Pair]] = {}
        self._scores: dict[int, Outcome] = {}
        self._undo: list[Callable[[], None]] = []
        self._touched: set[int] = set()
        self._touched_lists: set[int] = set()
        self._inside = False
        self._end_reason: str | None = None
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._rewards: StepRewards | None = None

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
        plan = self._quick
        if plan is None or plan is not self._rubric._plan or not self._lock.acquire(False):
            return self._step_carefully(action, observation)
        # _take for the common case, written out: a sync tree, not recorded, whose run can be used for every step.
        ended = True
        try:
            kind = observation.__class__
            if kind is not self._kind:
                self._kind, self._reads_end = kind, end_reader(kind)
            if self._reads_end(observation) is None:
                ended = False
                run: Any = self._run
                last = run.last
                last[:] = plan.blank
                if run.memo is not None:
                    run.memo = {}
                self._pairs.append((action, observation))
                if self._pays is not None:
                    last[0] = outcome = self._pays._intermediate
                else:
                    self._inside = True
                    token = FRAME.set(self._frame)
                    try:
                        outcome = self._root(action, observation, last)  # type: ignore[misc]
                    except BaseException as error:
                        self._rollback(run, error)
                        raise
                    finally:
                        FRAME.reset(token)
                    self._inside = False
                    if self._undo:
                        self._settle_undo()
                    self._memo = run.memo
                if outcome.__class__ is float:
                    self._emitted.append(outcome)
                else:
                    self._emitted.append(None if outcome.__class__ is Unscored else float(outcome))
                self._last = plan.last = last
                if LATEST[0] is not plan:
                    plan.note_latest()
        finally:
            self._lock.release()
            if self._waiters:
                self._wake()
        if ended:
            return self._step_carefully(action, observation)
        return None if outcome.__class__ is Unscored else outcome

    def _step_carefully(self, action: Any, observation: Any) -> float | Score | None:
        plan = self._rubric._compiled()
        if plan.is_async:
            outcome = block(self._take_async, plan, action, observation, self._record, True)[0]
        else:
            outcome = self._take(plan, action, observation, self._record)[0]
        return public(outcome)

    async def astep(self, action: Any, observation: Any) -> float | Score | None:
        """Like :meth:`step`, in async code."""
        plan = self._rubric._compiled()
        return public((await self._take_async(plan, action, observation, self._record, False))[0])

    def step_unscored(self, action: Any, observation: Any) -> None:
        """Take a step that the tree could not score, for a host whose environment has moved on and cannot take it
        again.

        The trajectory holds it with reward None, so delayed nodes and nodes that observe see it (one whose `observe`
        raises
        does not). No node is evaluated. The end is read as in :meth:`step`; an episode that ends so is unscored.

        Raises:
            EpisodeOverError: after the end.
        """
        plan = self._rubric._compiled()
        if plan.is_async:
            block(self._take_unscored_async, plan, action, observation, True)
            return
        self._enter()
        try:
            run, frame, action, observation = self._begin(plan, action, observation, False, False)
            token = FRAME.set(frame)
            try:
                for place in plan.observers:
                    with suppress(Exception):  # most likely what failed in the first place
                        sync.observe(place, action, observation)
            finally:
                run.open = False
                FRAME.reset(token)
            self._commit(run, Unscored("the step could not be scored"))
        finally:
            self._leave()

    async def astep_unscored(self, action: Any, observation: Any) -> None:
        """Like :meth:`step_unscored`, in async code."""
        await self._take_unscored_async(self._rubric._compiled(), action, observation, False)

    def end(
        self, status: End | None = None, *, truncated: bool = False, reason: str | None = None
    ) -> float | Score | None:
        """End an episode whose observation did not say so; nothing happens where it is over already.

        Args:
            status: `"terminated"` (the default), `"truncated"`, `"error"` or `"abandoned"`. The first two are scored:
                delayed
                nodes, and whatever they now make reachable, are scored on the last pair and replace the last reward.
                The others are unscored, and so is an episode without steps.
            truncated: the same as `status="truncated"`.
            reason: kept in the trajectory's metadata.

        Returns:
            The last reward, or None where the episode is unscored.
        """
        plan = self._rubric._compiled()
        ending = self._ending(status, truncated)
        if plan.is_async:
            return block(self._end_async, plan, ending, reason, True)
        self._enter()
        try:
            if self._closes_unscored(plan, ending, reason):
                return self.reward
            action, observation = self._pairs[-1]
            run, frame = self._prepare_end(plan, ending)
            token = FRAME.set(frame)
            try:
                outcome = sync.build(plan.root, True)(action, observation, run.last)
            except BaseException as error:
                self._abort(run, error)
                raise
            finally:
                run.open = False
                FRAME.reset(token)
            self._finish_end(run, outcome, reason)
        finally:
            self._leave()
        return self.reward

    async def aend(
        self, status: End | None = None, *, truncated: bool = False, reason: str | None = None
    ) -> float | Score | None:
        """Like :meth:`end`, in async code."""
        return await self._end_async(self._rubric._compiled(), self._ending(status, truncated), reason, False)

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
        return None if self.status is None else self._total()

    @property
    def trajectory(self) -> Trajectory:
        """The episode so far as data; steps hold the objects that were given (or their snapshots)."""
        steps = [Step(a, o, r) for (a, o), r in zip(self._pairs, self._emitted, strict=False)]
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

    def memory_of(self, node: Rubric) -> dict[str, Any]:
        """A node's own dict for this episode.

        A step that fails puts it back as it was (copied when first asked for).
        """
        key = id(node)
        known = self._memory.get(key)
        if known is None:
            if self._inside:
                self._touched.add(key)
                self._undo.append(_PutBack(self._memory, key))
            known = self._memory[key] = (node, {})
        elif self._inside and key not in self._touched:
            self._touched.add(key)
            self._undo.append(_PutBack(self._memory, key, (node, _copied(known[1]))))
        return known[1]

    def pairs(self, node: Rubric) -> list[Pair]:
        """The (action, observation) pairs of a delayed node: what it was called with, else the step's own."""
        key = id(node)
        if key in self._lists:
            return self._lists[key]
        if node.sees == "calls":
            return [(action, observation) for _, action, observation in self._calls.get(key, ())]
        seen = self._seen.get(key)
        if not seen:
            return list(self._pairs)
        return [seen.get(t, pair) for t, pair in enumerate(self._pairs)]

    def rewards(self) -> StepRewards:
        """The rewards of the steps, after the end. Nothing is scored again.

        Raises:
            EpisodeError: the episode is not over.
            CreditError: a credit that should conserve its sum does not, or cites steps that do not exist.
        """
        if self.status is None:
            raise EpisodeError("the episode is not over: its rewards are known after the end; see Episode.end")
        if self._rewards is None:
            self._rewards = self._spread()
        return self._rewards

    # -- one step -----------------------------------------------------------------------------------------------------

    def _take(self, plan: Plan, action: Any, observation: Any, recording: bool) -> tuple[Outcome, Evaluation | None]:
        self._enter()
        try:
            run, frame, action, observation = self._begin(plan, action, observation, recording, False)
            token = FRAME.set(frame)
            try:
                for place in plan.observers:
                    sync.observe(place, action, observation)
                outcome = sync.build(plan.root, run.recording)(action, observation, run.last)
            except BaseException as error:
                self._rollback(run, error)
                raise
            finally:
                run.open = False
                FRAME.reset(token)
            self._commit(run, outcome)
            return outcome, run.record
        finally:
            self._leave()

    async def _take_async(
        self, plan: Plan, action: Any, observation: Any, recording: bool, threads: bool
    ) -> tuple[Outcome, Evaluation | None]:
        await self._enter_async()
        try:
            run, frame, action, observation = self._begin(plan, action, observation, recording, threads)
            token = FRAME.set(frame)
            try:
                for place in plan.observers:
                    await concurrent.observe(place, action, observation)
                outcome = await concurrent.build(plan.root, run.recording)(action, observation, run.last)
            except BaseException as error:
                self._rollback(run, error)
                raise
            finally:
                run.open = False
                FRAME.reset(token)
            self._commit(run, outcome)
            return outcome, run.record
        finally:
            self._leave()

    async def _take_unscored_async(self, plan: Plan, action: Any, observation: Any, threads: bool) -> None:
        await self._enter_async()
        try:
            run, frame, action, observation = self._begin(plan, action, observation, False, threads)
            token = FRAME.set(frame)
            try:
                for place in plan.observers:
                    with suppress(Exception):
                        await concurrent.observe(place, action, observation)
            finally:
                run.open = False
                FRAME.reset(token)
            self._commit(run, Unscored("the step could not be scored"))
        finally:
            self._leave()

    def _enter(self) -> None:
        self._refuse_nesting()
        self._lock.acquire()

    async def _enter_async(self) -> None:
        self._refuse_nesting()
        while not self._lock.acquire(False):
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, woken))
            if self._lock.acquire(False):  # it came free before we stood in line
                return
            await woken

    def _leave(self) -> None:
        self._lock.release()
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        """Let all who wait on an event loop try again; sync callers wait at the lock itself."""
        waiters, self._waiters = self._waiters, []
        for loop, woken in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, woken)

    def _refuse_nesting(self) -> None:
        frame = FRAME.get()
        if frame is not None and frame.run.episode is self and self._inside:
            raise EpisodeError("a node cannot take a step of the episode that it is being evaluated in")

    def _begin(
        self, plan: Plan, action: Any, observation: Any, recording: bool, threads: bool
    ) -> tuple[Run, Frame, Any, Any]:
        if self.status is not None:
            raise EpisodeOverError(
                f"the episode is over ({self.status} after {len(self._pairs)} steps): reset, or start a new episode"
            )
        if self._plan is not plan:
            self._adopt(plan)
        if self._snapshot is not None:
            action, observation = self._snapshot(action), self._snapshot(observation)
        ending = read_end(observation)
        if ending is not None and plan.delays:
            recording = True  # the record of the last step tells how much of a delayed score reached the root
        run = self._run
        if run is None or recording or threads:
            run = Run(plan, self, recording, threads)
            frame = Frame(run)
            if not (plan.nests or recording or threads):
                self._run, self._frame = run, frame
                if not (plan.is_async or plan.observers or self._record or self._snapshot):
                    self._quick, self._root = plan, sync.build(plan.root, False)
                    self._pays = plan.root.node if plan.only_pays else None
        else:  # nothing can be nested in it, so one serves every step
            run.last = Outcomes(plan.blank)
            run.last.run = run
            if run.memo is not None:
                run.memo = {}
            frame = self._frame  # type: ignore[assignment]
        run.ending = ending
        self._pairs.append((action, observation))
        self._inside = True
        return run, frame, action, observation

    def adopt(self, plan: Plan, last: list[Outcome | None], outcome: Outcome, action: Any, observation: Any) -> None:
        """Make a step of a run that was not yet an episode's: its nodes turned out to keep memory."""
        self._adopt(plan)
        run = Run(plan, self)
        run.last = last  # type: ignore[assignment]
        run.ending = read_end(observation)
        self._pairs.append((action, observation))
        self._commit(run, outcome)

    def _adopt(self, plan: Plan) -> None:
        """Take over a plan: the first one, or that of a tree whose structure has changed."""
        for node in plan.self_stateful:
            node._claim(self)
        self._plan = plan
        self._memo = None  # its keys are of the plan before
        self._run = self._frame = self._quick = self._root = None

    def _commit(self, run: Run, outcome: Outcome) -> None:
        self._inside = False
        if self._undo:
            self._settle_undo()
        if outcome.__class__ is float:
            self._emitted.append(outcome)
        else:
            self._emitted.append(None if isinstance(outcome, Unscored) else float(outcome))
        self._last = run.last
        run.plan.finished(run.last)
        self._memo = run.memo
        if self._record and run.record is not None:
            self.evaluations.append(run.record)
        if run.ending is not None:
            self._close(run.ending, run.record)

    def _rollback(self, run: Run, error: BaseException) -> None:
        self._pairs.pop()
        self._abort(run, error)

    def _abort(self, run: Run, error: BaseException) -> None:
        self._inside = False
        for undo in reversed(self._undo):
            undo()
        self._settle_undo()
        let_go(error, run.record)

    def release(self) -> None:
        """Let go of nodes that keep state on themselves, so that another episode can have them."""
        for node in (self._plan or self._rubric._compiled()).self_stateful:
            node._let_go(self)

    def abandon(self) -> None:
        """Give the episode up without waiting:

        another one takes its place. A step in progress runs to its end for nothing.
        """
        self.release()
        if self.status is None and self._lock.acquire(False):
            try:
                self._close("abandoned", None)
            finally:
                self._leave()

    def _settle_undo(self) -> None:
        self._undo = []
        self._touched.clear()
        self._touched_lists.clear()

    def _close(self, status: Any, record: Evaluation | None) -> None:
        self.status = status
        self.final = record
        self._memo = self._run = self._frame = self._quick = self._root = None

    # -- the end ------------------------------------------------------------------------------------------------------

    def _ending(self, status: End | None, truncated: bool) -> End:
        ending = status or ("truncated" if truncated else "terminated")
        if ending not in get_args(End):
            raise EpisodeError(f"an episode ends as one of {', '.join(get_args(End))}, not {ending!r}")
        if truncated and ending != "truncated":
            raise EpisodeError(f"truncated=True contradicts status={status!r}")
        return ending

    def _closes_unscored(self, plan: Plan, ending: End, reason: str | None) -> bool:
        """Close the episode where there is nothing to score; whether that is so, or it is over already."""
        if self.status is not None:
            return True
        if self._plan is not plan:
            self._adopt(plan)
        if ending in ("error", "abandoned") or not self._pairs or not plan.delays:
            self._close(ending, self.evaluations[-1] if self.evaluations else None)
            self._end_reason = reason
            return True
        return False

    def _prepare_end(self, plan: Plan, ending: End, threads: bool = False) -> tuple[Run, Frame]:
        run = Run(plan, self, recording=True, threads=threads)
        run.ending, run.again = ending, True
        if self._memo:  # what the last step assessed is not assessed again; what was pending is
            run.memo = {key: entry for key, entry in self._memo.items() if _settled(entry)}
        self._inside = True
        return run, Frame(run)

    async def _end_async(self, plan: Plan, ending: End, reason: str | None, threads: bool) -> float | Score | None:
        await self._enter_async()
        try:
            if self._closes_unscored(plan, ending, reason):
                return self.reward
            action, observation = self._pairs[-1]
            run, frame = self._prepare_end(plan, ending, threads)
            token = FRAME.set(frame)
            try:
                outcome = await concurrent.build(plan.root, True)(action, observation, run.last)
            except BaseException as error:
                self._abort(run, error)
                raise
            finally:
                run.open = False
                FRAME.reset(token)
            self._finish_end(run, outcome, reason)
        finally:
            self._leave()
        return self.reward

    def _finish_end(self, run: Run, outcome: Outcome, reason: str | None) -> None:
        self._emitted.pop()
        if self._record and self.evaluations:
            self.evaluations.pop()
        self._end_reason = reason
        self._commit(run, outcome)

    # -- what nodes tell it -------------------------------------------------------------------------------------------

    def saw(self, node: Rubric, action: Any, observation: Any) -> None:
        """A delayed node was called with this pair."""
        t = len(self._pairs) - 1
        if node.sees == "calls":
            calls = self._calls.setdefault(id(node), [])
            if calls and calls[-1][0] == t:
                calls[-1] = (t, action, observation)
            else:
                calls.append((t, action, observation))
                self._undo.append(_Shorten(calls))
            return
        own = self._pairs[t]
        if own[0] is not action or own[1] is not observation:
            seen = self._seen.setdefault(id(node), {})
            self._undo.append(_PutBack(seen, t))
            seen[t] = (action, observation)

    def scored(self, node: Rubric, outcome: Outcome) -> None:
        """A delayed node scored its trajectory."""
        if self._inside:
            self._undo.append(_PutBack(self._scores, id(node)))
        self._scores[id(node)] = outcome

    def score_of(self, node: Rubric) -> Outcome | None:
        """What a delayed node made of its trajectory; None where it was not asked."""
        return self._scores.get(id(node))

    def list_of(self, node: Rubric) -> list[Pair]:
        """The list that a delayed node with a `forward` of its own keeps (OpenEnv's habit)."""
        kept = self._lists.get(id(node))
        if kept is None:
            kept = self._lists[id(node)] = []
        if self._inside and id(node) not in self._touched_lists:
            self._touched_lists.add(id(node))
            self._undo.append(_Shorten(kept, len(kept)))
        return kept

    def set_list(self, node: Rubric, pairs: list[Pair]) -> None:
        """The node assigned its `_trajectory`."""
        if self._inside:
            self._undo.append(_PutBack(self._lists, id(node)))
        self._lists[id(node)] = pairs

    # -- rewards ------------------------------------------------------------------------------------------------------

    def _spread(self) -> StepRewards:
        import numpy as np

        steps = len(self._emitted)
        emitted = np.array([np.nan if r is None else r for r in self._emitted], dtype=np.float64)
        plan = self._plan or self._rubric._compiled()
        delayed = [group[0].node for group in plan.by_node.values() if group[0].node._scores_trajectory()]
        kind: Literal["reward", "credit"] = "reward" if all(node._conserves() for node in delayed) else "credit"
        total = self.total
        if total is None:
            return StepRewards(np.full(steps, np.nan), emitted, None, kind, self.reduction)
        values = emitted.copy()
        if delayed and self.final is not None:
            nodes = {plan.by_node[id(node)][0].index: node for node in delayed}
            for index, share in shares(plan.root, self.final).items():
                node = nodes[index]
                score = self._scores[id(node)]
                indexes = self._steps_of(node)
                credit = node._credited(self, score, len(indexes))
                credit[-1] -= float(score)  # type: ignore[arg-type]
                values[indexes] += share * credit
        if kind == "reward" and not np.isnan(values).any():  # a share that falls on an unscored step is lost with it
            paid, credited = fsum(emitted), fsum(values)
            if not isclose(paid, credited, rel_tol=1e-9, abs_tol=1e-9 * max(1.0, float(np.abs(values).max()))):
                raise CreditError(
                    f"a credit that should conserve its sum does not: the steps paid {paid}, "
                    f"the credited values sum to {credited}"
                )
        return StepRewards(values, emitted, total, kind, self.reduction)

    def _total(self) -> float | None:
        if not self._emitted or self.status in ("error", "abandoned") or self._emitted[-1] is None:
            return None
        if self.reduction == "last":
            return self._emitted[-1]
        return None if None in self._emitted else fsum(self._emitted)  # type: ignore[arg-type]

    def _steps_of(self, node: Rubric) -> list[int]:
        if node.sees == "calls" and id(node) not in self._lists:
            return [t for t, _, _ in self._calls.get(id(node), ())]
        return list(range(len(self._emitted)))

    def __repr__(self) -> str:
        state = self.status or "running"
        return f"<Episode of {type(self._rubric).__name__}: {len(self._pairs)} steps, {state}>"


class _PutBack:
    """Puts one entry of a dict back as it is now, or as the copy that is given."""

    __slots__ = ("before", "had", "kept", "key")

    def __init__(self, kept: dict[Any, Any], key: Any, copied: Any = None) -> None:
        self.kept, self.key = kept, key
        self.had, self.before = key in kept, kept.get(key) if copied is None else copied

    def __call__(self) -> None:
        if self.had:
            self.kept[self.key] = self.before
        else:
            self.kept.pop(self.key, None)


class _Shorten:
    """Cuts a list back to the length it had."""

    __slots__ = ("kept", "length")

    def __init__(self, kept: list[Any], length: int | None = None) -> None:
        self.kept = kept
        self.length = len(kept) - 1 if length is None else length

    def __call__(self) -> None:
        del self.kept[self.length :]


def _copied(memory: dict[Any, Any]) -> dict[Any, Any]:
    """A deep copy; a value that cannot be copied (a lock, a client) is kept as it is."""
    copied = {}
    for key, value in memory.items():
        try:
            copied[key] = copy.deepcopy(value)
        except Exception:  # deepcopy raises whatever the value's class raises
            copied[key] = value
    return copied


def _settled(entry: Any) -> bool:
    return entry.__class__ is tuple and not is_pending(entry[0]) and not isinstance(entry[0], sync.Failure)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
