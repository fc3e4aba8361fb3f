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

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from os import PathLike
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakSet

from rubrics.episode import Episode
from rubrics.hosting.collecting import Play, PlayTask, collect
from rubrics.hosting.hosted import HostedSession, SessionOf, prepare
from rubrics.hosting.report import StepReport
from rubrics.hosting.wrapping import blocking, named_arguments, outermost, written
from rubrics.rubric import Rubric
from rubrics.score import EpisodeError
from rubrics.session import Session
from rubrics.trajectory import Reduction, jsonable, plain_object

try:
    from openenv.core.client_types import StepResult
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.openenv needs OpenEnv 0.10, which does not import here ({error}); "
        "pip install 'rubrics[openenv]'"
    ) from error

__all__ = ["EnvPlay", "ResetTasks", "RubricEnvironment", "collect", "tasks"]

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)


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
        snapshot_steps: True for environments that change an observation after they returned it: the trajectory then
            holds deep copies.
    """

    rubric: Rubric | Session | None = SessionOf(None)  # type: ignore[assignment]
    on_error: Literal["null", "raise"] = "null"
    on_final_error: Literal["null", "raise"] = "raise"
    expose: Literal["scores", "full", "none"] = "scores"
    record_to: str | PathLike[str] | None = None
    snapshot_steps: bool = False
    transform: Any = None  # for authors who forget super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        prepare(cls)
        for name, surround in _SURROUND.items():
            method = written(cls, name, _BASES)
            if method is not None and method not in _surrounded:
                if name in ("reset", "step") and inspect.iscoroutinefunction(method):
                    raise TypeError(f"{cls.__name__}.{name} is async, so its name must be {name}_async")
                method = surround(method)
                _surrounded.add(method)
                setattr(cls, name, method)
        for name in ("reset", "step"):
            if written(cls, name, _BASES) is None and written(cls, f"{name}_async", _BASES) is not None:
                method = blocking(f"{name}_async")
                _surrounded.add(method)  # by the method that it calls
                setattr(cls, name, method)

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
        _hosted(self).close()
        super().close()


_Env = RubricEnvironment[Any, Any, Any]


def _hosted(environment: _Env) -> HostedSession:
    """All that we keep of an environment, under one name that no author would choose."""
    hosted: HostedSession | None = environment.__dict__.get("_rubrics_hosted")
    if hosted is None:
        hosted = environment.__dict__["_rubrics_hosted"] = HostedSession(environment, "openenv")
    return hosted


def _beginning(environment: _Env, arguments: dict[str, Any], observation: Any) -> dict[str, Any]:
    """The arguments of the episode that begins with this observation."""
    name = arguments.get("episode_id") or getattr(environment.state, "episode_id", None)
    task = environment.task_of(**arguments)
    return {"task": task, "initial": observation, "id": None if name is None else str(name)}


def _check(environment: _Env, episode: Episode, steps: int, observation: Any) -> None:
    """Check what the environment's step did, before it is scored."""
    who = f"{type(environment).__name__}.step"
    if not isinstance(observation, Observation):
        raise TypeError(f"{who} must return an Observation, not {observation!r:.80}")
    if episode.steps != steps or _hosted(environment).session.episode_now is not episode:
        raise EpisodeError(
            f"the episode went on while {who} ran: do not call the rubric in it, take one step at a time, and move "
            "parts of it to threads with asyncio.to_thread, which keeps the context"
        )


def _answer(environment: _Env, report: StepReport, observation: Any) -> Any:
    """The observation for the agent."""
    update: dict[str, Any] = {"reward": report.reward}
    exposed = _hosted(environment).exposed(report)
    if exposed is not None:
        if observation.reward is not None:
            exposed["own_reward"] = observation.reward
        update["metadata"] = {**observation.metadata, "rubric": exposed}
    return observation.model_copy(update=update)


# -- what becomes of the methods that authors write -------------------------------------------------------------------


def _reset(reset: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(reset)

    @functools.wraps(reset)
    def started(self: _Env, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return reset(self, *args, **kwargs)
            hosted = _hosted(self)
            hosted.abandon()
            observation = reset(self, *args, **kwargs)
            hosted.begin(**_beginning(self, named_arguments(signature, self, *args, **kwargs), observation))
            return observation

    return started


def _reset_async(reset: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(reset)

    @functools.wraps(reset)
    async def started(self: _Env, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return await reset(self, *args, **kwargs)
            hosted = _hosted(self)
            await hosted.abandon_async()
            observation = await reset(self, *args, **kwargs)
            arguments = named_arguments(signature, self, *args, **kwargs)
            await hosted.begin_async(**_beginning(self, arguments, observation))
            return observation

    return started


def _step(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def scored(self: _Env, action: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return step(self, action, *args, **kwargs)
            episode = _hosted(self).running()
            steps = episode.steps
            observation = step(self, action, *args, **kwargs)
            _check(self, episode, steps, observation)
            return _answer(self, _hosted(self).score(episode, action, observation), observation)

    return scored


def _step_async(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    async def scored(self: _Env, action: Any, *args: Any, **kwargs: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return await step(self, action, *args, **kwargs)
            episode = _hosted(self).running()
            steps = episode.steps
            observation = await step(self, action, *args, **kwargs)
            _check(self, episode, steps, observation)
            return _answer(self, await _hosted(self).score_async(episode, action, observation), observation)

    return scored


def _close(close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(close)
    def closed(self: _Env) -> Any:
        _hosted(self).close()
        return close(self)

    return closed


_BASES: tuple[type, ...] = (RubricEnvironment, *Environment.__mro__)
_SURROUND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "reset": _reset,
    "reset_async": _reset_async,
    "step": _step,
    "step_async": _step_async,
    "close": _close,
}
_surrounded: WeakSet[Callable[..., Any]] = WeakSet()


# -- the driver's side ------------------------------------------------------------------------------------------------


class EnvPlay(Play):
    """An episode of a client, for `collect`: an agent calls `step`, as it would the client's own."""

    async def step(self, action: Any, **kwargs: Any) -> StepResult[Any]:
        """Take a step, as the client does, and keep it."""
        result = await self.session.step(action, **kwargs)
        report = _metadata(result).get("rubric")
        self.record(action, _seen(result), result.reward, report)
        return result


class ResetTasks:
    """What `tasks` returns."""

    host = "openenv"

    def __init__(
        self,
        client: Callable[[], Any],
        resets: Iterable[Mapping[str, Any]],
        name: str,
        task_of: Callable[[Mapping[str, Any]], Any],
        reduction: Reduction | None,
    ) -> None:
        self.client, self.name, self.task_of, self.reduction = client, name, task_of, reduction
        self.resets = [dict(reset) for reset in resets]

    async def tasks(self) -> AsyncIterator[PlayTask]:
        """One for each reset."""
        for reset in self.resets:
            yield PlayTask(jsonable(reset, plain_object), self._opening(reset))

    def _opening(self, reset: dict[str, Any]) -> Callable[[], AbstractAsyncContextManager[Play]]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Play]:
            async with self.client() as client:
                first = await client.reset(**reset)
                yield EnvPlay(client, self.task_of(reset), _seen(first), self.reduction)

        return opened


def tasks(
    client: Callable[[], Any],
    resets: Iterable[Mapping[str, Any]],
    *,
    name: str = "openenv",
    task_of: Callable[[Mapping[str, Any]], Any] = lambda reset: reset.get("task"),
    reduction: Reduction | None = None,
) -> ResetTasks:
    """Tasks for `collect` to play: what an environment is reset with.

    Args:
        client: makes a client, `lambda: GenericEnvClient(base_url=…)`; each episode has a connection of its own, so the
            server must allow as many sessions as `collect` has episodes in progress.
        resets: the arguments of each reset.
        name: of the environment, for the ids of its episodes.
        task_of: what rubrics are to read as `self.task` offline, out of the arguments of a reset; the same as the
            environment's `task_of`.
        reduction: how rewards of steps make the episode's, where the environment does not say it (`expose = "none"`,
            or no rubric of ours): "sum" or "last".
    """
    return ResetTasks(client, resets, name, task_of, reduction)


def _metadata(result: Any) -> dict[str, Any]:
    observation = result.observation
    own = observation.get("metadata") if isinstance(observation, Mapping) else getattr(observation, "metadata", None)
    return {**(own or {}), **(result.metadata or {})}


def _seen(result: Any) -> dict[str, Any]:
    """The observation as the environment gave it to its rubric, before the reward was put in."""
    metadata = _metadata(result)
    report = metadata.pop("rubric", None)
    own = report.get("own_reward") if isinstance(report, Mapping) else None
    return {**jsonable(result.observation, plain_object), "metadata": metadata, "reward": own, "done": result.done}
