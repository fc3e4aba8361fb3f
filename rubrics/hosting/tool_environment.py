"""Environments whose steps are tool calls: what OpenReward and the Open Reward Standard have in common.

A call of a tool is a step: its input is the action, a `ToolCall`, its `ToolOutput` the observation, and `finished` ends
the episode. The host's own file says where in a call the tool is run; here it is run, and then scored.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from os import PathLike
from typing import Any, ClassVar, Literal

from rubrics.engine.loop import in_thread
from rubrics.episode import Episode
from rubrics.hosting.hosted import HostedSession, SessionOf, prepare
from rubrics.hosting.tool_calls import ToolCall
from rubrics.hosting.wrapping import outermost, written
from rubrics.rubric import Rubric
from rubrics.session import Session
from rubrics.trajectory import wrap

_log = logging.getLogger(__name__)


class EpisodeFinished(Exception):
    """A call that came too late: another one has ended the episode. The host says so to the client."""


class ToolEnvironment:
    """A mixin for the `Environment` of a host.

    Attributes:
        rubric: the tree, given in the class body or assigned in `__init__`. On an environment it is the session's own
            view: `env.rubric.get_rubric("tests").last_score`.
        on_error: a call in the middle that is unscored, or whose tree fails: `"null"`: reward None; `"raise"`:
            RubricError. Either way the trajectory holds the step, and the episode goes on.
        on_final_error: the same for the call that finishes; the default is `"raise"`.
        expose: what `ToolOutput.metadata["rubric"]` holds. `"scores"`: status and scores, and of a failure only the
            node and the type of the exception: reasons and messages can quote the gold answer, and the agent may read
            metadata. `"full"`: reasons, messages and the whole Evaluation too. `"none"`: there is no such key.
        record_to: a file on the server to which each episode is appended at its end, as a line of our trajectory JSONL.
            An episode whose session is deleted before is written with the end "abandoned", unless it has no steps.
        snapshot_steps: True for environments that change an output after they returned it: the trajectory then holds
            deep copies.
    """

    rubric: Rubric | Session | None = SessionOf(None)  # type: ignore[assignment]
    on_error: Literal["null", "raise"] = "null"
    on_final_error: Literal["null", "raise"] = "raise"
    expose: Literal["scores", "full", "none"] = "scores"
    record_to: str | PathLike[str] | None = None
    snapshot_steps: bool = False

    task_spec: Any
    get_prompt: Callable[..., Any]
    host_name: ClassVar[str]
    host_bases: ClassVar[tuple[type, ...]] = ()  # classes whose methods no author wrote
    output_type: ClassVar[type]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Set what the host's own `__init__` would, for authors who forget to call it."""
        self = super().__new__(cls)
        self.task_spec = kwargs["task_spec"] if "task_spec" in kwargs else args[0] if args else {}
        self.__dict__["_toolset_instances"] = {}
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        prepare(cls)
        teardown = written(cls, "teardown", cls.host_bases)
        if teardown is not None and not hasattr(teardown, "_rubrics_surrounded"):
            cls.teardown = _closing(teardown)  # type: ignore[method-assign]

    def task_of(self) -> Any:
        """The task of the episode, which rubrics read as `self.task`: the task spec. It stays on the server.

        Called before the first call of a tool; plain or async.
        """
        return self.task_spec

    def teardown(self) -> Any:
        """End an episode that is still running as abandoned."""
        tools_of(self).close()

    def initial_of(self) -> Any:
        """The observation before the first call, which rubrics read as `episode.initial`: the prompt.

        Called once, before the first call of a tool; plain or async. By default `get_prompt` is asked.
        """
        return self.get_prompt()


class HostedTools:
    """The episode of one tool environment, which begins with its first call."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.hosted = HostedSession(environment, environment.host_name, threads=True)
        self._episode: Episode | None = None
        self._beginning = asyncio.Lock()
        self._scoring = asyncio.Lock()
        self._closed_meanwhile = False

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self._episode is not None and self._episode.over

    async def begun(self) -> Episode:
        """The episode; it begins where it has not."""
        async with self._beginning:
            if self._episode is None:
                environment = self.environment
                task = wrap(await anywhere(environment.task_of))
                await self.hosted.begin_async(task=task, initial=await self._initial())
                self._episode = self.hosted.session.episode_now
                if self._closed_meanwhile:
                    await in_thread(self.hosted.close)
            return self._episode

    def close(self) -> None:
        """End an episode that is still running as abandoned; one that is just beginning, once it has."""
        self._closed_meanwhile = self._beginning.locked()
        self.hosted.close()

    async def _initial(self) -> Any:
        try:
            blocks = await anywhere(self.environment.initial_of)
        except Exception:  # a prompt that cannot be had must not cost the agent its call
            _log.exception("%s.initial_of failed: the episode has no initial", type(self.environment).__name__)
            return None
        return prompt_observation(blocks)

    def running(self, name: str, input: Mapping[str, Any], tool: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """A tool in the form that the host calls: it is run, off the event loop where it is plain, and scored."""
        call = ToolCall(name, wrap(dict(input)))

        @functools.wraps(tool)
        async def run(*args: Any) -> Any:
            episode = await self.begun()
            if episode.over:
                raise EpisodeFinished
            output = await anywhere(tool, *args)
            if not isinstance(output, self.environment.output_type):
                return output  # the host says what is wrong with it
            async with self._scoring:
                if episode.over:
                    raise EpisodeFinished
                return await self._answer(episode, call, output, _is_concurrent(tool))

        return run

    async def _answer(self, episode: Episode, call: ToolCall, output: Any, concurrent: bool) -> Any:
        hosted = self.hosted
        if concurrent and not output.finished:
            reward, exposed = None, await hosted.unpaid_async(episode, call, output)
        else:
            report = await hosted.score_async(episode, call, output)
            reward, exposed = report.reward, hosted.exposed(report)
        update: dict[str, Any] = {"reward": reward}
        if exposed is not None:
            exposed["step"] = episode.steps - 1
            if output.reward is not None:
                exposed["own_reward"] = output.reward
            update["metadata"] = {**(output.metadata or {}), "rubric": exposed}
        return output.model_copy(update=update)


def tools_of(environment: Any) -> HostedTools:
    """All that we keep of an environment, under one name that no author would choose."""
    hosted: HostedTools | None = environment.__dict__.get("_rubrics_hosted")
    return hosted or environment.__dict__.setdefault("_rubrics_hosted", HostedTools(environment))


def prompt_observation(blocks: Any) -> Any:
    """A prompt as the observation before the first action: `{"blocks": [{"type", "text", …}, …]}`."""
    if isinstance(blocks, list | tuple):
        return wrap({"blocks": [_plain_block(block) for block in blocks]})
    return blocks


def _plain_block(block: Any) -> Any:
    if hasattr(block, "model_dump"):
        return block.model_dump()
    return dict(vars(block)) if hasattr(block, "__dict__") else block


def _is_concurrent(tool: Any) -> bool:
    """Whether the host runs a tool beside others; it does not where the tool is to have the session for itself."""
    return getattr(tool, "_env_tool_concurrent", False) and not getattr(tool, "_env_tool_exclusive", False)


async def anywhere(function: Callable[..., Any], *args: Any) -> Any:
    """Call what an author wrote: async code here, plain code in a worker thread; what that hands back is awaited."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    value = await in_thread(function, *args)
    return await value if inspect.isawaitable(value) else value


def _closing(teardown: Callable[..., Any]) -> Callable[..., Any]:
    """A teardown that ends an episode which is still running as abandoned."""
    if inspect.iscoroutinefunction(teardown):

        @functools.wraps(teardown)
        async def closed_async(self: Any) -> Any:
            with outermost(self) as first:
                if first:
                    await in_thread(tools_of(self).close)
                return await teardown(self)

        surrounded: Callable[..., Any] = closed_async
    else:

        @functools.wraps(teardown)
        def closed(self: Any) -> Any:
            with outermost(self) as first:
                if first:
                    tools_of(self).close()
                return teardown(self)

        surrounded = closed
    surrounded._rubrics_surrounded = True  # type: ignore[attr-defined]
    return surrounded
