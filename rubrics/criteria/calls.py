"""The tool calls of an action, in the shapes that hosts, providers and readers give."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_ARGUMENTS = ("input", "arguments", "args")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.

    Attributes:
        step: the index of the step that made it.
        name: of the tool.
        arguments: what it was given; a text where that is no JSON object.
    """

    step: int
    name: str
    arguments: Any

    @property
    def key(self) -> str:
        """Equal for identical calls."""
        try:
            return json.dumps([self.name, self.arguments], sort_keys=True, default=str)
        except TypeError:  # keys that JSON does not know
            return repr((self.name, self.arguments))


def calls_of(action: Any, step: int = 0) -> list[Call]:
    """The tool calls of an action.

    An action may be a chat message with `tool_calls` (each with a `name`, or as OpenAI sends them, with a `function`),
    or with blocks of `type: tool_use` in its `content`, as Anthropic sends them; a call itself, with `name` or
    `tool_name`, and `input`, `arguments` or `args`; or a list of these.
    """
    if isinstance(action, list):
        return [call for each in action for call in calls_of(each, step)]
    listed = field_of(action, "tool_calls")
    if _is_list(listed) and listed:
        return [call for each in listed for call in _call(each, step, surely=True)]
    content = field_of(action, "content")
    if _is_list(content):  # where a message has both, they are the same calls
        blocks = [block for block in content if field_of(block, "type") == "tool_use"]
        return [call for block in blocks for call in _call(block, step, surely=True)]
    return _call(action, step, surely=False)


def _call(value: Any, step: int, surely: bool) -> list[Call]:
    inner = field_of(value, "function")
    value = value if inner is None or isinstance(inner, str) else inner
    name = next((found for key in ("name", "tool_name") if isinstance(found := field_of(value, key), str)), None)
    arguments = next((found for key in _ARGUMENTS if (found := field_of(value, key)) is not None), None)
    if name is None or (arguments is None and not surely and not _has(value, "tool_name", *_ARGUMENTS)):
        return []
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # it stays a text
            arguments = json.loads(arguments)
    return [Call(step, name, {} if arguments is None else arguments)]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _has(value: Any, *names: str) -> bool:
    return any(name in value if isinstance(value, Mapping) else hasattr(value, name) for name in names)


def field_of(value: Any, name: str) -> Any:
    """A key of a mapping or an attribute of an object; None where there is none."""
    if isinstance(value, Mapping):
        return value[name] if name in value else None  # noqa: SIM401 - a record may have a key "get"
    return getattr(value, name, None)
