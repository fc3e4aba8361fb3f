"""The Open Reward Standard, by its `ors-sdk`: an environment that is scored by a rubric.

As `rubrics.integrations.openreward`, whose docstring tells the story. The differences are those of the host: there are
no groups, and no tools that a session brings along. A call after the end is refused here, since the host itself would
run it, and pay it, again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from rubrics.hosting.collecting import collect
from rubrics.hosting.tool_calls import ToolCall
from rubrics.hosting.tool_environment import EpisodeFinished, ToolEnvironment, tools_of
from rubrics.hosting.tool_sessions import ToolTasks, tasks

try:
    from ors import Environment, ToolOutput
    from ors.environment import _introspect_tool
    from ors.types import RunToolError, RunToolOutput, RunToolSuccess
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.ors needs ors-sdk 0.1, which does not import here ({error}); pip install 'rubrics[ors]'"
    ) from error

__all__ = ["RubricEnvironment", "ToolCall", "ToolTasks", "collect", "tasks"]

_log = logging.getLogger(__name__)


class RubricEnvironment(ToolEnvironment, Environment):
    """An environment of the Open Reward Standard that a rubric scores. Authors write tools that return a `ToolOutput`.

    Own tools and toolsets, async, or plain (then they run in a thread). A reward that a tool sets itself is there for
    leaves to read, and the tree's takes its place; the tool's own is in `metadata["rubric"]["own_reward"]`.
    """

    host_name = "ors"
    output_type = ToolOutput

    async def _call_tool(self, name: str, input: Any) -> RunToolOutput:
        tools = tools_of(self)
        if tools.over:
            return _finished(name)
        tool = self._tool(name)
        if tool is None:
            return await super()._call_tool(name, input)  # which says what is wrong with the name
        _, hints, parameters = _introspect_tool(tool)
        try:
            model: type[BaseModel] | None = hints[parameters[0].name] if parameters else None
            arguments = [] if model is None else [model(**input)]
        except ValidationError as invalid:
            return RunToolOutput(RunToolError(error=f"Tool input validation error: {invalid.errors()}"))
        try:
            output = await tools.running(name, input, tool)(*arguments)
        except EpisodeFinished:
            return _finished(name)
        if not isinstance(output, ToolOutput):
            raise TypeError(f"{name!r} returned {type(output).__name__}; expected ToolOutput")
        return RunToolOutput(RunToolSuccess(output=output))

    def _tool(self, name: str) -> Callable[..., Any] | None:
        """The tool of this name, of the environment or of a toolset; None where there is none, or both have one."""
        own = [tool for owner in [self] if self._is_tool(tool := getattr(owner, name, _no_tool))]
        lent = [tool for owner in self._toolsets() if self._is_tool(tool := getattr(owner, name, _no_tool))]
        tools = own + lent[:1]
        return tools[0] if len(tools) == 1 else None

    def _toolsets(self) -> Iterator[Any]:
        """The environment's toolsets, made as the host makes them: with the environment, or with nothing."""
        for toolset in self.toolsets:
            if toolset not in self._toolset_instances:
                try:
                    self._toolset_instances[toolset] = toolset(self)
                except TypeError:
                    try:
                        self._toolset_instances[toolset] = toolset()
                    except Exception:  # as the host does, which goes on without it
                        _log.exception("the toolset %s cannot be made", toolset.__name__)
                        continue
            yield self._toolset_instances[toolset]


RubricEnvironment.host_bases = (*RubricEnvironment.__mro__,)


def _no_tool() -> None:
    """In the place of a tool that an owner does not have."""


def _finished(name: str) -> RunToolOutput:
    return RunToolOutput(
        RunToolError(
            error=f"{name!r} was not run: the episode has finished (a tool returned finished=True), so no further tool "
            "calls are accepted."
        )
    )
