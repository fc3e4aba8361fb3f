"""What hosts of environments have in common: a session of a tree on the server, and an agent that plays its tasks.

On the server, `hosted` runs the episodes of one environment, `report` says what a tree made of a step, `wrapping`
surrounds the methods that authors write, and `tool_environment` makes steps of tool calls. On the driver's side,
`collecting` plays tasks and records them. The hosts themselves are in `rubrics.integrations`.
"""

from rubrics.hosting.collecting import Collected, Play, collect
from rubrics.hosting.tool_calls import ToolCall

__all__ = ["Collected", "Play", "ToolCall", "collect"]
