"""`Rubric`: one small base class. Children are attributes, a reward is `forward(action, observation)`."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rubrics.engine import replay, running
from rubrics.engine.frames import FRAME
from rubrics.engine.loop import block, uncontained
from rubrics.engine.plan import CUSTOM, LEAF, Plan
from rubrics.episode import Episode
from rubrics.evaluation import Evaluation
from rubrics.node import Node, definer, has_class_forward, is_initialised, is_ours
from rubrics.overrides import Resetting, asks_for_memory, reset_override
from rubrics.score import EpisodeError, Score, StructureError, public
from rubrics.trajectory import Reduction

if TYPE_CHECKING:
    from rubrics.batch import BatchEvaluation
    from rubrics.session import BlockingSession, Session


class Rubric(Node):
    """One named judgement, or a tree of them. Subclasses write `forward(action, observation)`.

    `forward` may be `async def`, and may return a float, int, bool, numpy scalar, `Score`, or None for
    "could not be assessed". Children assigned as attributes register themselves. Inside a run `self.task` is the
    episode's task and `self.memory` the node's own dict for the episode.

    A leaf that gains by scoring many steps at once may define `forward_batch(actions, observations)` beside `forward`,
    for `evaluate_batch`. It gives a float64 array, a number for each row, NaN where it is unscored, equal to what
    `forward` gives. Within it `self.tasks` are the rows' tasks. Where a row raises it raises, and the rows are then
    tried one by one.

    Attributes:
        range: the least and the greatest score, used where a score is missing. Default (0, 1).
        needs_live_state: True where a score cannot be computed again from a recording.
        is_async: whether calling the node gives a coroutine; taken from `forward` being `async def`. Set it on a class
            whose plain `forward` hands back an awaitable.
        reduction: how an episode's total follows from what its steps pay, `"sum"` or `"last"`; read at the root.
        sees: what a delayed node's trajectory holds: `"steps"`, every step of the episode, or `"calls"`, only those on
            which its parent called it (set by parents that route moves to different children).
    """

    range: Any = (0.0, 1.0)
    needs_live_state: bool = False
    is_async: bool = False
    reduction: Reduction = "sum"
    sees: str = "steps"
    _remembers: ClassVar[bool] = False  # whether methods read `self.memory`

    if TYPE_CHECKING:
        _plan: Plan | None
        _call: Callable[[Any, Any], Any] | None
        _previous: Plan | None
        _homes: list[tuple[weakref.ref[Plan], int]]
        _default: Episode | None
        _owner: weakref.ref[Episode] | None
        tasks: Sequence[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        if "__call__" in own:
            raise StructureError(
                f"{cls.__name__} overrides __call__; write forward, so that hooks and records keep working"
            )
        if definer(cls, "forward") is not definer(cls, "is_async") and "is_async" not in own:
            cls.is_async = cls._forward_is_async()
        if any(asks_for_memory(value) for base in cls.__mro__ if not is_ours(base) for value in vars(base).values()):
            cls._remembers = True
        for name in ("reset", "reset_async"):
            if name in own and not is_ours(own[name]):
                setattr(cls, name, reset_override(own[name]))

    @classmethod
    def _forward_is_async(cls) -> bool:
        return inspect.iscoroutinefunction(cls.forward)

    def __init__(self) -> None:
        if type(self).forward is Rubric.forward:
            raise TypeError(f"{type(self).__name__} cannot be made: it has no forward(action, observation)")
        super().__init__()

    def forward(self, action: Any, observation: Any) -> Any:
        """The judgement. Subclasses write this, plain or `async def`.

        Args:
            action: what the agent did.
            observation: what came of it.

        Returns:
            A float, int, bool, numpy scalar or Score, finite; None where it could not be assessed.
        """
        raise NotImplementedError

    # -- being called -------------------------------------------------------------------------------------------------

    def __call__(self, action: Any, observation: Any) -> Any:
        """The score of one step; on a tree with an async node, a coroutine for it.

        Called within a running forward, it is a part of that run. As a root it scores a step of the tree's default
        episode.

        Returns:
            A float, or a Score with a reason; None where it is unscored.

        Raises:
            InvalidScoreError: a node answered with something that is not a score.
            EpisodeOverError: the default episode is over; `reset()` starts another.
        """
        call = self._call
        return self._call_anew(action, observation) if call is None else call(action, observation)

    def _call_anew(self, action: Any, observation: Any) -> Any:
        """A call where it is not known yet what a call is, or where that depends on who calls."""
        frame = FRAME.get()
        if frame is not None and frame.run.open and id(self) in frame.run.plan.by_node:
            return running.nested(frame, self, action, observation)
        plan = self._compiled()
        call: Callable[[Any, Any], Any]
        if plan.stateful or self._default is not None:
            episode = self.default_episode
            call = episode.astep if plan.is_async else episode._quick or episode.step
        else:
            call = running.caller(plan)
        if not plan.overlaps:  # a node of one tree only is called as its root, or by a forward that holds it
            self._set(_call=call)
        return call(action, observation)

    def _set_default(self, episode: Episode | None) -> None:
        before = self._default
        if before is not None:
            before.release()
        self._set(_default=episode, _call=None)

    async def evaluate(
        self, action: Any, observation: Any, episode: Episode | None = None, *, threads: bool = False
    ) -> Evaluation:
        """Score one step and return the whole record.

        Args:
            action, observation: the step.
            episode: the episode whose step it is; without one it is a step of the default episode, where the tree
                keeps state.
            threads: run what is not async in worker threads, so that a node that blocks does not hold up the loop.
        """
        plan = self._compiled()
        episode = self._episode_for(plan, episode)
        if episode is not None:
            record = (await uncontained(episode._take_async(plan, action, observation, True, threads)))[1]
        else:
            record = await uncontained(running.record_async(plan, action, observation, threads))
        assert record is not None
        return record

    def evaluate_sync(self, action: Any, observation: Any, episode: Episode | None = None) -> Evaluation:
        """Like `evaluate`, for sync code.

        A tree with async nodes runs on the library's own loop, also where one runs here.
        """
        plan = self._compiled()
        episode = self._episode_for(plan, episode)
        record: Evaluation | None
        if episode is not None:
            if plan.is_async:
                record = block(episode._take_async, plan, action, observation, True, True)[1]
            else:
                record = episode._take(plan, action, observation, True)[1]
        elif plan.is_async:
            record = block(running.record_async, plan, action, observation, True)
        else:
            record = running.record(plan, action, observation)
        assert record is not None
        return record

    def evaluate_batch(
        self,
        actions: Sequence[Any],
        observations: Sequence[Any],
        tasks: Sequence[Any] | None = None,
        *,
        on_error: Literal["raise", "keep"] = "raise",
        concurrency: int = 32,
    ) -> BatchEvaluation:
        """Score many steps, each as the first of an episode of its own: what `self.episode(task).step(…)` gives.

        Where the tree has leaves with a `forward_batch`, and neither hooks, custom forwards, delayed nodes, async nodes
        without a `forward_batch`, nor state, it is scored node by node over all rows; a child of a `Sequential`, an
        `AllOf`, a `Fallback` or a `Switch` then only sees the rows that need it. Else it is scored row by row.

        Args:
            actions, observations: of each row; lists or arrays of one length.
            tasks: of each row; None where there are none.
            on_error: what becomes of a row that raises: `"raise"` the error, or `"keep"` it in `errors`.
            concurrency: rows in progress at once, where a tree with async nodes is scored row by row.

        Raises:
            EpisodeError: there are more of one than of the others.
            InvalidScoreError: a `forward_batch` gave something else than a number for each row.
            Exception: whatever a node raises, with a note that names the node and the row.
        """
        from rubrics.batch import evaluate_batch

        return evaluate_batch(self, actions, observations, tasks, on_error, concurrency)

    def _episode_for(self, plan: Plan, episode: Episode | None) -> Episode | None:
        if episode is None:
            return self.default_episode if plan.stateful or self._default is not None else None
        if episode._rubric is not self:
            raise EpisodeError(f"this episode belongs to another tree ({type(episode._rubric).__name__})")
        return episode

    def reaggregate(self, evaluation: Evaluation) -> Evaluation:
        """A recorded run under this tree's weights and thresholds, nodes matched by path; no leaf is called.

        Returns:
            A new record. Where a node is needed now that was skipped or is missing there, its root is unscored and
            `metadata["missing"]` lists the paths. A `Switch` keeps its recorded branch, a custom forward its recorded
            score.
        """
        return replay.reaggregate(self._compiled(), evaluation)

    # -- episodes -----------------------------------------------------------------------------------------------------

    def episode(
        self,
        task: Any = None,
        initial: Any = None,
        record: bool | None = False,
        snapshot: bool | Callable[[Any], Any] = False,
        reduction: Reduction | None = None,
        id: str | None = None,
    ) -> Episode:
        """Start an episode. Many can be in progress over one tree at once.

        Args:
            task: what the agent was asked to do; nodes read `self.task`.
            initial: the first observation.
            record: keep the Evaluation of every step. Without, there is one of the end of a tree with delayed nodes
                (`final`); None: there is none, which is the fastest (but where a delayed tree has a node at several
                places, whose rewards need it).
            snapshot: True to deep-copy every action and observation (or a function that copies one), so that a later
                change of an object does not rewrite the trajectory. By default it refers to the objects given.
            reduction: overrides the tree's.
            id: a name for the episode; a random one by default.

        Raises:
            EpisodeError: a node keeps its state on itself (it overrides `reset`), and another episode is in progress.
        """
        episode = Episode(self, task, initial, record, snapshot, reduction, id)
        for node in self._compiled().self_stateful:
            node._claim(episode)
            node.reset()
        return episode

    @property
    def default_episode(self) -> Episode:
        """The episode of a root that is called without one; `reset()` replaces it."""
        if self._default is None:
            self._set_default(Episode(self))
        return self._default  # type: ignore[return-value]

    def session(self) -> Session:
        """A view of the tree with a default episode of its own: for a host that wants one rubric a session."""
        from rubrics.session import Session

        return Session(self)

    def blocking(self) -> BlockingSession:
        """A session whose call always returns the score, for a host whose `step` is sync.

        An async tree blocks the thread.
        """
        from rubrics.session import BlockingSession

        return BlockingSession(self)

    def reset(self) -> None:
        """Start a new default episode here and in every node below; episodes made with `episode()` are not touched.

        Subclasses that keep state on themselves override it; nodes below are reached even without `super().reset()`.
        """
        with Resetting(self) as resetting:
            if not (resetting.inside or resetting.done):
                self._reset_tree()

    async def reset_async(self) -> None:
        """Like `reset`; overrides of `reset_async` below are awaited."""
        with Resetting(self) as resetting:
            if not (resetting.inside or resetting.done):
                await self._reset_tree_async()

    def _reset_tree(self) -> None:
        self._set_default(None)
        for child in list(self._rubric_children.values()):
            child.reset()

    async def _reset_tree_async(self) -> None:
        self._set_default(None)
        for child in list(self._rubric_children.values()):
            if type(child).reset_async is not Rubric.reset_async or not child._overrides_reset():
                await child.reset_async()
            else:
                child.reset()

    @property
    def task(self) -> Any:
        """The task of the episode that is running, or of the default one; None where none was given."""
        frame = FRAME.get()
        if frame is not None and id(self) in frame.run.plan.by_node:
            return None if frame.run.episode is None else frame.run.episode.task
        default = self._home()._default
        return None if default is None else default.task

    @task.setter
    def task(self, value: Any) -> None:
        raise StructureError(f"{type(self).__name__}.task is the episode's: give it to rubric.episode(task=...)")

    def __getattr__(self, name: str) -> Any:
        if name == "tasks":  # not a property, so that a node may have tasks of its own
            frame = FRAME.get()
            tasks = None if frame is None else getattr(frame.run, "tasks", None)
            if tasks is not None:
                return tasks
            raise AttributeError("self.tasks is known within forward_batch; in forward there is self.task")
        return super().__getattr__(name)

    @property
    def memory(self) -> dict[str, Any]:
        """This node's own dict for the episode that is running, or for the default one.

        A step that fails puts it back as it was. That takes a copy, so keep running totals here rather than whole
        histories.
        """
        frame = FRAME.get()
        if frame is not None and id(self) in frame.run.plan.by_node:
            apart = frame.apart
            if apart is not None:  # a worker thread, which may be left behind
                if id(self) not in apart:
                    apart[id(self)] = (self, {} if frame.run.over else self._where()._journal.copy_of_memory(self))
                return apart[id(self)][1]
            if frame.run.over:
                return {}  # code that a run has left behind, such as a task nobody awaited
        return self._where()._journal.memory_of(self)

    def _where(self) -> Episode:
        """The episode that this node's code runs in.

        Outside a run the default one of the root it was last run under.
        """
        frame = FRAME.get()
        if frame is not None and id(self) in frame.run.plan.by_node:
            run = frame.run
            if run.episode is None:
                run.episode = run.plan.root.node.default_episode
            return run.episode
        return self._home().default_episode

    def _home(self) -> Rubric:
        found = self._latest()
        return self if found is None else found[0].root.node

    def _latest(self) -> tuple[Plan, int] | None:
        """The tree that this node was run in last, and its index there."""
        homes = [(plan, index) for ref, index in self._homes if (plan := ref()) is not None]
        return max(homes, key=lambda home: home[0].stamp, default=None)

    @property
    def last_score(self) -> float | Score | None:
        """What the node answered in the latest run it was part of.

        None before, and where it was unscored or not reached.
        """
        found = self._latest()
        return None if found is None else public(found[0].last[found[1]])

    @property
    def keeps_state(self) -> bool:
        """Whether a node of the tree keeps state on itself (it overrides `reset`), so that episodes take turns."""
        return bool(self._compiled().self_stateful)

    @property
    def is_async_tree(self) -> bool:
        """Whether this node or any below it is async, so that a call gives a coroutine."""
        return self._compiled().is_async

    # -- what the engine asks -----------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Forget what was compiled, here and above."""
        if not is_initialised(self):
            return
        if self._plan is not None:
            self._set(_previous=self._plan)
        self._set(_plan=None, _call=None)
        for ref in self._parents:
            parent = ref()
            if parent is not None:
                parent._changed()

    def _compiled(self) -> Plan:
        plan = self._plan
        if plan is None:
            plan = Plan(self, self._previous)
            self._set(_plan=plan, _previous=None)
        return plan

    def _kind(self) -> str:
        return CUSTOM if self._rubric_children else LEAF

    def _own_async(self) -> bool:
        forward = None if has_class_forward(self) else self.forward
        hooks = (*self._forward_hooks.values(), *self._forward_pre_hooks.values(), self._observer())
        own = self.is_async if forward is None else inspect.iscoroutinefunction(forward)
        return own or any(_is_async_callable(hook) for hook in hooks)

    def _is_delayed(self) -> bool:
        return False

    def _spreads(self) -> bool:
        """Whether its score is credited to steps by more than the rule that gives all of it to the last."""
        return False

    def _observes(self) -> bool:
        return self._observer() is not None

    def _observer(self) -> Callable[..., Any] | None:
        observe = getattr(self, "observe", None)  # a child may bear the name too
        return observe if callable(observe) and not isinstance(observe, Rubric) else None

    def _overrides_reset(self) -> bool:
        return type(self).reset is not Rubric.reset

    def _keeps_state(self) -> bool:
        return self._overrides_reset() or type(self).reset_async is not Rubric.reset_async

    def _claim(self, episode: Episode) -> None:
        """Let one live episode at a time have a node that keeps its state on itself."""
        if self._has_other_owner(episode):
            gc.collect()  # an episode that nobody holds any more is no obstacle
        if self._has_other_owner(episode):
            raise EpisodeError(
                f"{type(self).__name__} keeps state on itself (it overrides reset), so it can serve one episode at a "
                "time, and one is in progress; keep the state in self.memory, or copy the tree for each episode"
            )
        self._set(_owner=weakref.ref(episode))

    def _has_other_owner(self, episode: Episode) -> bool:
        owner = None if self._owner is None else self._owner()
        return owner is not None and owner is not episode and not owner.over

    def _let_go(self, episode: Episode) -> None:
        if self._owner is not None and self._owner() is episode:
            self._set(_owner=None)

    def _validate_structure(self) -> None:
        """Raise StructureError where children and configuration do not fit; called when the tree is compiled."""


def _is_async_callable(value: Any) -> bool:
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None))  # noqa: B004
