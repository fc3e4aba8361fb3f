"""OpenEnv: an environment that is scored by a rubric, without a line of scoring in it.

    class ReviewEnv(RubricEnvironment[Review, Diff, State]):
        rubric = make_rubric()                     # one tree for all sessions

        def reset(self, seed=None, episode_id=None, **kwargs): ...
        def step(self, action, timeout_s=None, **kwargs): ...

`reset` starts an episode of the tree, each `step` is scored once its observation is there. What goes to the agent is a
copy of the observation with `reward`, and `metadata["rubric"]` in plain JSON:

    {"status": "scored", "scores": {"tests": 1.0, "style": None}, "step_rewards": {…at the end…}}

The trajectory keeps the observation as the environment gave it, so that a recording scored offline gets the same
numbers. A step that the tree cannot score has the reward None and a reason in the middle of an episode; on the last
step it raises `RubricError`, because consumers take the last reward that is not None for the reward of the episode.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from os import PathLike
from typing import Any, Generic, Literal, TypeVar

from rubrics.episode import Episode
from rubrics.evaluation import Evaluation
from rubrics.integrations.report import StepReport, append_episode
from rubrics.integrations.wrapping import blocking, named_arguments, outermost, written
from rubrics.rescoring.rows import step_rewards_dict
from rubrics.rubric import Rubric
from rubrics.score import CreditError, EpisodeError, EpisodeOverError, RubricError
from rubrics.session import Session

try:
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.openenv needs OpenEnv 0.10, which does not import here ({error}); "
        "pip install 'rubrics[openenv]'"
    ) from error

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)

_log = logging.getLogger(__name__)
_OPTIONS = {"on_error": ("null", "raise"), "on_final_error": ("null", "raise"), "expose": ("scores", "full", "none")}


class _SessionOf:
    """`rubric`: on the class the tree that all environments share, on an environment its own session of it."""

    def __init__(self, tree: Rubric | None) -> None:
        self.tree = tree

    def __get__(self, environment: Any, owner: type | None = None) -> Rubric | Session | None:
        if environment is None:
            return self.tree
        own: Session | None = environment.__dict__.get("rubric")
        if own is None and self.tree is not None:
            own = environment.__dict__["rubric"] = self.tree.session()
        return own

    def __set__(self, environment: Any, rubric: Rubric | Session | None) -> None:
        if rubric is None:  # Environment.__init__, which was given none
            return
        environment.__dict__["rubric"] = rubric if isinstance(rubric, Session) else _tree(rubric, environment).session()


def _tree(value: object, environment: object) -> Rubric:
    if isinstance(value, Rubric):
        return value
    name = environment.__name__ if isinstance(environment, type) else type(environment).__name__
    raise TypeError(
        f"{name}.rubric must be a tree of this library (an instance of rubrics.Rubric), not {value!r:.80}; "
        "call the function or class that makes it, and import rubrics from `rubrics`"
    )


class RubricEnvironment(Environment[ActT, ObsT, StateT], Generic[ActT, ObsT, StateT]):
    """An OpenEnv environment that a rubric scores. Authors write `reset` and `step`, or their async forms.

    A sync `step` runs in a thread of its session, as OpenEnv does it, and waits there for a tree with async nodes; an
    async one awaits it. Overriding methods may call `super()`: only the outermost call is scored. Calls of
    `_apply_rubric` and `_reset_rubric`, as OpenEnv's own environments make them, may stay and do nothing more.

    Attributes:
        rubric: the tree, given in the class body, assigned in `__init__` or passed to `super().__init__(rubric=…)`. On
            an environment it is the session's own view: `env.rubric.get_rubric("tests").last_score`.
        on_error: a step in the middle that is unscored or fails: `"null"`: reward None; `"raise"`: RubricError. Either
            way the trajectory holds the step, and the episode goes on.
        on_final_error: the same for the last step; the default is `"raise"`.
        expose: what `observation.metadata["rubric"]` holds. `"scores"`: status and scores, and of a failure only the
            node and the type of the exception: reasons and messages can quote the gold answer, and the agent reads
            metadata. `"full"`: reasons, messages and the whole Evaluation too. `"none"`: there is no such key. A
            RubricError goes to the driver and always bears the message.
        record_to: a file to which each episode is appended at its end, as a line of our trajectory JSONL that `rubrics
            rescore` reads; each step's Evaluation is in its `metadata["evaluation"]`. An episode cut off by `close()`
            or a new reset is written with the end "abandoned", unless it has no steps. One that cannot be written is
            logged as an error and keeps its reward.
        snapshot: True for environments that change an observation after they returned it: the trajectory then holds
            deep copies.
    """

    rubric: Rubric | Session | None = _SessionOf(None)  # type: ignore[assignment]
    on_error: Literal["null", "raise"] = "null"
    on_final_error: Literal["null", "raise"] = "raise"
    expose: Literal["scores", "full", "none"] = "scores"
    record_to: str | PathLike[str] | None = None
    snapshot: bool = False

    transform: Any = None  # defaults on the class, for authors who forget super().__init__()
    _began = False
    _busy = False
    _closed = False
    _evaluations: dict[int, Evaluation]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, choices in _OPTIONS.items():
            if getattr(cls, name) not in choices:
                raise ValueError(f"{cls.__name__}.{name} is one of {', '.join(choices)}, not {getattr(cls, name)!r}")
        if "rubric" in cls.__dict__:
            tree = cls.__dict__["rubric"]
            cls.rubric = _SessionOf(None if tree is None else _tree(tree, cls))  # type: ignore[assignment]
        for name, wrap in _WRAPPERS.items():
            function = written(cls, name, _BASES)
            if function is not None and not hasattr(function, "_rubrics_wrapped"):
                if name in ("reset", "step") and inspect.iscoroutinefunction(function):
                    raise TypeError(f"{cls.__name__}.{name} is async, so its name must be {name}_async")
                wrapped = wrap(function)
                wrapped._rubrics_wrapped = True  # type: ignore[attr-defined]
                setattr(cls, name, wrapped)
        for name in ("reset", "step"):
            if written(cls, name, _BASES) is None and written(cls, f"{name}_async", _BASES) is not None:
                setattr(cls, name, blocking(f"{name}_async"))

    def task_of(self, **reset_arguments: Any) -> Any:
        """The task of the episode that begins, which rubrics read as `self.task`. Called after the environment's reset.

        Args:
            reset_arguments: what reset was called with, by name; OpenEnv drops what its signature does not take.

        Returns:
            The argument `task`, or None. Override it where the environment chooses the task itself.
        """
        return reset_arguments.get("task")

    def _apply_rubric(self, action: ActT, observation: ObsT) -> None:
        """Nothing: the step is scored when it returns."""

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> None:
        """Nothing: the step is scored when it returns."""

    def close(self) -> None:
        """End an episode that is still running as abandoned."""
        self._shut()
        super().close()

    # -- the episode --------------------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session:
        session = self.rubric
        if isinstance(session, Session):
            return session
        name = type(self).__name__
        if session is None:
            raise RubricError(f"{name} has no rubric: give it one in the class body, `rubric = make_rubric()`")
        raise RubricError(f"{name}.rubric was replaced after the class was made; assign it to the environment instead")

    @property
    def _unfinished(self) -> Episode | None:
        episode = self._session.episode_now if self._began else None
        return None if episode is None or episode.over else episode

    def _abandon(self) -> None:
        if (episode := self._unfinished) is not None:
            episode.end("abandoned")
            self._write(episode)

    async def _abandon_async(self) -> None:
        if (episode := self._unfinished) is not None:
            await episode.aend("abandoned")
            await asyncio.to_thread(self._write, episode)

    def _shut(self) -> None:
        self._closed = True
        if not self._busy:  # else the step that is being scored, which may wait for this very thread, does it
            self._abandon()

    def _beginning(self, arguments: dict[str, Any], observation: ObsT) -> dict[str, Any]:
        """The arguments of the episode that begins with this observation."""
        self._evaluations = {}
        self._began, self._closed = True, False
        name = arguments.get("episode_id") or getattr(self.state, "episode_id", None)
        return {
            "task": self.task_of(**arguments),
            "initial": observation,
            "id": None if name is None else str(name),
            "snapshot": self.snapshot,
        }

    def _running(self) -> Episode:
        """The episode that the next step belongs to."""
        session = self._session
        if not self._began:
            if session.rubric._compiled().stateful:
                raise EpisodeError(
                    f"{type(self).__name__}.step before reset: its rubric judges whole episodes. Over HTTP each "
                    "request gets a new environment; use a WebSocket client (EnvClient, GenericEnvClient)"
                )
            session.reset(snapshot=self.snapshot)
            self._evaluations = {}
            self._began = True
        episode = session.episode_now
        if episode.over:
            raise EpisodeOverError(f"the episode is over ({episode.status} after {episode.steps} steps): reset first")
        return episode

    def _observed(self, episode: Episode, steps: int, observation: Any) -> None:
        """Check what the environment's step did, before it is scored."""
        if not isinstance(observation, Observation):
            raise TypeError(f"{type(self).__name__}.step must return an Observation, not {observation!r:.80}")
        if episode.steps != steps or self._session.episode_now is not episode:
            raise EpisodeError(
                f"the episode went on while {type(self).__name__}.step ran: do not call the rubric in it, take one "
                "step at a time, and move parts of it to threads with asyncio.to_thread, which keeps the context"
            )

    # -- one step's answer --------------------------------------------------------------------------------------------

    def _reported(self, episode: Episode, verdict: Evaluation | BaseException) -> StepReport:
        report = StepReport(verdict)
        if episode.over and report.reward is not None:
            try:
                episode.rewards()
            except CreditError as error:
                report = StepReport(error, report.evaluation)
        if report.evaluation is not None and self.record_to is not None:
            self._evaluations[episode.steps - 1] = report.evaluation
        if report.reward is None:
            level = logging.INFO if report.error is None else logging.WARNING
            name = type(self).__name__
            _log.log(level, "%s, step %d: %s", name, episode.steps, report.message, exc_info=report.error)
        return report

    def _answer(self, episode: Episode, report: StepReport, observation: Any) -> Any:
        """The observation for the agent.

        Raises:
            RubricError: there is no reward, and `on_error` or `on_final_error` says so.
        """
        rule = self.on_final_error if episode.over else self.on_error
        if report.reward is None and rule == "raise":
            raise RubricError(report.message) from report.error
        update: dict[str, Any] = {"reward": report.reward}
        if self.expose != "none":
            data = report.to_dict(full=self.expose == "full")
            if episode.over and not isinstance(report.error, CreditError):
                data["step_rewards"] = step_rewards_dict(episode.rewards())
            update["metadata"] = {**observation.metadata, "rubric": data}
        return observation.model_copy(update=update)

    def _write(self, episode: Episode) -> None:
        """Record an episode that is over."""
        if self.record_to is None or not episode.steps:
            return
        source = {"host": "openenv", "environment": type(self).__name__}
        try:
            append_episode(self.record_to, episode, self._evaluations, source)
        except Exception:
            _log.exception("the episode %r could not be recorded in %s", episode.id, self.record_to)


# -- what becomes of the methods that authors write -------------------------------------------------------------------


def _reset(reset: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(reset)

    @functools.wraps(reset)
    def started(self: RubricEnvironment[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return reset(self, *args, **kwargs)
            self._abandon()
            observation = reset(self, *args, **kwargs)
            arguments = named_arguments(signature, self, *args, **kwargs)
            self._session.reset(**self._beginning(arguments, observation))
            return observation

    return started


def _reset_async(reset: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(reset)

    @functools.wraps(reset)
    async def started(self: RubricEnvironment[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return await reset(self, *args, **kwargs)
            await self._abandon_async()
            observation = await reset(self, *args, **kwargs)
            await self._session.reset_async(
                **self._beginning(named_arguments(signature, self, *args, **kwargs), observation)
            )
            return observation

    return started


def _step(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def scored(self: RubricEnvironment[Any, Any, Any], action: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return step(self, action, *args, **kwargs)
            episode = self._running()
            steps = episode.steps
            observation = step(self, action, *args, **kwargs)
            self._observed(episode, steps, observation)
            verdict: Evaluation | BaseException
            self._busy = True
            try:
                verdict = self._session.evaluate_sync(action, observation)
            except BaseException as error:  # the environment has moved on, so the episode must
                episode.step_unscored(action, observation)
                verdict = error
            finally:
                self._busy = False
            report = self._reported(episode, verdict)
            if episode.over:
                self._write(episode)
            elif self._closed:
                self._abandon()
            if isinstance(verdict, BaseException) and not isinstance(verdict, Exception):
                raise verdict
            return self._answer(episode, report, observation)

    return scored


def _step_async(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    async def scored(self: RubricEnvironment[Any, Any, Any], action: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return await step(self, action, *args, **kwargs)
            episode = self._running()
            steps = episode.steps
            observation = await step(self, action, *args, **kwargs)
            self._observed(episode, steps, observation)
            verdict: Evaluation | BaseException
            self._busy = True
            try:
                verdict = await self._session.evaluate(action, observation)
            except BaseException as error:  # the environment has moved on, so the episode must
                await episode.astep_unscored(action, observation)
                verdict = error
            finally:
                self._busy = False
            report = self._reported(episode, verdict)
            if episode.over:
                await asyncio.to_thread(self._write, episode)
            elif self._closed:
                await self._abandon_async()
            if isinstance(verdict, BaseException) and not isinstance(verdict, Exception):
                raise verdict
            return self._answer(episode, report, observation)

    return scored


def _close(close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(close)
    def closed(self: RubricEnvironment[Any, Any, Any]) -> Any:
        self._shut()
        return close(self)

    return closed


_BASES: tuple[type, ...] = (RubricEnvironment, *Environment.__mro__)
_WRAPPERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "reset": _reset,
    "reset_async": _reset_async,
    "step": _step,
    "step_async": _step_async,
    "close": _close,
}
