"""Sessions of OpenReward and of the Open Reward Standard, as their clients have them, to be played by `collect`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rubrics.hosting.collecting import Play, PlayTask
from rubrics.hosting.tool_calls import ToolCall
from rubrics.hosting.tool_environment import prompt_observation
from rubrics.score import RubricError
from rubrics.trajectory import Reduction, jsonable, plain_object


class ToolPlay(Play):
    """An episode of tool calls: an agent written for the client's session takes it for one, and its calls are kept."""

    async def get_prompt(self) -> Any:
        """The prompt's blocks, as the session gives them; asked for once."""
        return self._prompt

    def __init__(self, session: Any, task: Any, prompt: Any, reduction: Reduction | None) -> None:
        super().__init__(session, task, prompt_observation(prompt), reduction)
        self._prompt = prompt

    async def call_tool(self, tool_name: str, input: Mapping[str, Any] | None = None) -> Any:
        """Call a tool, as the session does; the call is a step.

        A call that the environment refuses (arguments that do not fit, an unknown name) raises, and is none.
        """
        arguments = dict(input or {})
        before = len(self.steps)
        output = await self.session.call_tool(tool_name, arguments)
        seen = {
            "blocks": [jsonable(block, plain_object) for block in output.blocks],
            "metadata": {key: value for key, value in (output.metadata or {}).items() if key != "rubric"} or None,
            "reward": None,
            "finished": output.finished,
        }
        report = (output.metadata or {}).get("rubric")
        if isinstance(report, dict):
            seen["reward"] = report.get("own_reward")
        self.record(ToolCall(tool_name, arguments), seen, output.reward, report, overlaps=len(self.steps) - before)
        return output

    async def call_terminal_tool(self, message: str = "") -> Any:
        """Hand the agent's last message to the environment's terminal tool, as the session does."""
        asked = getattr(self.session, "terminal_tool", None)  # sessions of ORS have none
        terminal = None if asked is None else await asked()
        if terminal is None:
            raise RubricError("the environment has no terminal tool")
        return await self.call_tool(terminal.name, {} if terminal.arg is None else {terminal.arg: message})


@dataclass(slots=True)
class ToolTasks:
    """Tasks of an environment that a client knows; see `tasks` in the host's module."""

    environment: Any
    host: str
    load: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    reduction: Reduction | None = None

    @property
    def name(self) -> str:
        """Of the environment."""
        return str(getattr(self.environment, "variant", None) or getattr(self.environment, "name", None) or self.host)

    async def tasks(self) -> AsyncIterator[PlayTask]:
        """The tasks, asked for when they are needed."""
        for task in await self.load():
            yield PlayTask(jsonable(task.task_spec, plain_object), self._opening(task))

    def _opening(self, task: Any) -> Callable[[], AbstractAsyncContextManager[Play]]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Play]:
            async with self.environment.session(task=task, **self.options) as session:
                yield ToolPlay(session, task.task_spec, await session.get_prompt(), self.reduction)

        return opened


def tasks(
    environment: Any,
    split: str | None = None,
    start: int | None = None,
    stop: int | None = None,
    *,
    tasks: Iterable[Any] | None = None,
    reduction: Reduction | None = None,
    **session: Any,
) -> ToolTasks:
    """Tasks for `collect` to play.

    Args:
        environment: of an async client of either package: `AsyncOpenReward().environments.get(name, base_url=…)`, or
            `AsyncORS(base_url=…).environment(name)`.
        split, start, stop: whose tasks, as in `get_task_range`: negative indices count from the end.
        tasks: the client's own task objects, in place of a split.
        reduction: how rewards of calls make the episode's, where the environment does not say it (`expose = "none"`,
            or no rubric of ours): "sum" or "last".
        session: further arguments of `environment.session`, such as `secrets` and `toolset`.
    """
    if (tasks is None) == (split is None):
        raise ValueError("give either a split or tasks")
    given = None if tasks is None else list(tasks)

    async def load() -> Any:
        if given is not None:
            return given
        try:
            return await environment.get_task_range(split, start, stop)
        except KeyError:  # OpenReward's client with a server of ors-sdk
            return (await environment.list_tasks(split))[start:stop]

    host = type(environment).__module__.partition(".")[0]
    return ToolTasks(environment, host, load, session, reduction)
