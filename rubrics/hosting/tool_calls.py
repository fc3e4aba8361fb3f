"""Tool calls as actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """An action: the call of a tool.

    Attributes:
        name: of the tool.
        input: its arguments as they were sent, before defaults are filled in.
    """

    name: str
    input: dict[str, Any] = field(default_factory=dict)
