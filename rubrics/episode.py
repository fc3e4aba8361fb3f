"""Episodes: state that lasts longer than a step, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rubrics.engine.journal import Pair
from rubrics.engine.loop import block, uncontained
from rubrics.engine.progress import Progress
from rubrics.evaluation import NO_USAGE, Usage
from rubrics.score import EpisodeError, Outcome, Score, Unscored, public
from rubrics.step_rewards import StepRewards, reduced, spread
from rubrics.trajectory import End, Step, Trajectory, read_end

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


class Episode(Progress):
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

    __slots__ = ()

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

    def step_known(self, action: Any, observation: Any, reward: float) -> None:
        """Take a step before the last whose reward is known, such as from a batch, under a tree that keeps no state.

        The trajectory holds it. No node sees it.

        Raises:
            EpisodeError: the tree keeps state, or the observation ends the episode.
            EpisodeOverError: after the end.
        """
        if self._rubric._compiled().stateful or read_end(observation) is not None:
            raise EpisodeError("a step that is not replayed is one before the last, under a tree that keeps no state")
        self._refuse_over()
        self._journal.begin(action, observation)
        self._journal.keep()
        self._emitted.append(reward)

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
            block(self._end_async, plan, ending, reason, True)
        else:
            self._end(plan, ending, reason)
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
        await uncontained(self._end_async(self._rubric._compiled(), ending, reason, threads))
        return self.reward

    def record_from_here(self) -> None:
        """Keep the Evaluation of each step from the next one on."""
        self._record = True
        self._forget_run()

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
    def usage(self) -> Usage:
        """What the model calls of all steps cost so far, whether steps are recorded or not."""
        records = list(self.evaluations)
        if self.final is not None and (not records or records[-1] is not self.final):
            records.append(self.final)  # of a tree whose end alone is recorded
        return sum([*self._spent, *(record.usage for record in records)], NO_USAGE)

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
        return plan is not None and plan.delays and any(node._spreads() for node in plan.delayed)

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
