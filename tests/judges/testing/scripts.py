"""Models that are scripts, and golden sets without a file."""

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from judges import ChatError, ChatReply, ChatRequest
from judges.testing.golden import GoldenRow, GoldenSet

INSTALLED = any(each.name == "judges" for each in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "judges.testing.plugin")
"""What pytest must be told so that it knows judge tests; it would not take the plugin twice."""


class Script:
    """A model that answers by what the last message holds; a failure is raised."""

    endpoint = "a script"
    local = True

    def __init__(self, rule: Callable[[str], Any]) -> None:
        self.rule = rule
        self.requests: list[ChatRequest] = []

    async def send(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        said = self.rule(request.messages[1]["content"])
        if isinstance(said, ChatError):
            raise said
        return said if isinstance(said, ChatReply) else ChatReply(json.dumps(said), "stop")


def golden(*rows: dict[str, Any]) -> GoldenSet:
    return GoldenSet(tuple(GoldenRow.model_validate({"id": f"r{i}", **row}) for i, row in enumerate(rows)))
