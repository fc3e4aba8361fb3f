"""Steps out of a chat log in the form of OpenAI's Chat Completions.

An assistant's message is an action, and the messages up to the next one (of users and tools) are its observation:

    action       {"content": str | parts | None, "tool_calls": [{"id", "name", "arguments": {…}}, …]}
    observation  {"messages": [{"role", "content", …}, …], "content": their text, "done": bool}

`arguments` are parsed out of their JSON string, and stay that string where it is no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed
from rubrics.trajectory import Record, Step, record_of, wrap


def steps_from_chat(messages: Any, *, done: bool, place: str = "messages") -> tuple[Record, list[Step]]:
    """The observation before the first action, and the steps; `done` is whether the last observation ended the episode.

    Raises FormatError, naming the message as `place.index`, where the list is not a chat.
    """
    opening, steps = turns_of_chat(messages, done=done, place=place)
    return chat_observation(opening), steps


def turns_of_chat(messages: Any, *, done: bool, place: str) -> tuple[list[dict[str, Any]], list[Step]]:
    """Like `steps_from_chat`, with the messages themselves before the first action."""
    if not isinstance(messages, list):
        raise FormatError(f"{place}: expected a list of chat messages, found {_short(messages)}")
    opening: list[dict[str, Any]] = []
    turns: list[tuple[Record, list[dict[str, Any]]]] = []
    replies = opening
    for index, message in enumerate(messages):
        if not is_message(message):
            raise FormatError(f"{place}.{index}: expected a message with a role, found {_short(message)}")
        if message["role"] == "assistant":
            replies = []
            turns.append((_action(message, place, index), replies))
        else:
            replies.append(message)
    steps: list[Step] = []
    for action, replies in turns:
        last = len(steps) == len(turns) - 1
        steps.append(Step(action, chat_observation(replies, done=done and last)))
    return opening, steps


def is_message(value: Any) -> bool:
    """Whether this is a message of a chat: an object with a role."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def conversations(records: Iterable[Parsed | FormatProblem]) -> Iterator[Parsed | FormatProblem]:
    """The records of a file; where they are messages, one record with all of them as its `messages`."""
    said: list[Any] = []
    not_finite: list[str] = []
    line = 0
    for record in records:
        if isinstance(record, Parsed) and _is_bare(record.value):
            line = line or record.line
            not_finite += [f"messages.{len(said)}.{place}" for place in record.not_finite]
            said.append(record.value)
        else:
            yield record
    if said:
        yield Parsed(line, {"messages": said}, not_finite)


def _is_bare(record: Any) -> bool:
    """Whether a record is a message, and not a conversation or an answer of Anthropic's API, which have roles too."""
    return is_message(record) and "messages" not in record and record.get("type") != "message"


def chat_observation(messages: Sequence[Mapping[str, Any]], *, done: bool = False) -> Record:
    """Messages that the agent is answered with, or asked with, as an observation."""
    if not messages:
        return _ENDED if done else _SILENT
    return record_of({"messages": wrap(messages), "content": _text(messages), "done": done})


_SILENT, _ENDED = (Record(messages=[], content="", done=done) for done in (False, True))


def _action(message: Mapping[str, Any], place: str, index: int) -> Record:
    asked = message.get("tool_calls") or message.get("function_call")
    action = {
        "content": wrap(message.get("content")),
        "tool_calls": wrap(_tool_calls(message, place, index)) if asked else [],
    }
    for key, value in message.items():
        if key not in _READ:
            action[key] = wrap(value)
    return record_of(action)


def _tool_calls(message: Mapping[str, Any], place: str, index: int) -> list[dict[str, Any]]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise FormatError(f"{place}.{index}.tool_calls: expected a list, found {_short(calls)}")
    functions = [(call.get("id"), call.get("function")) if isinstance(call, dict) else (None, call) for call in calls]
    if message.get("function_call"):  # the form before tool calls
        functions.append((None, message["function_call"]))
    tool_calls = []
    for number, (call_id, function) in enumerate(functions):
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            where = f"{place}.{index}.tool_calls.{number}"
            raise FormatError(f"{where}: expected a function with a name, found {_short(function)}")
        tool_calls.append({"id": call_id, "name": function["name"], "arguments": _arguments(function.get("arguments"))})
    return tool_calls


def message_of(action: Mapping[str, Any], *, parsed: bool = False) -> dict[str, Any]:
    """The assistant's message that an action was read from, the inverse of what `steps_from_chat` does.

    `parsed` leaves the arguments of tool calls as they are in the action, instead of their JSON.
    """
    message = {"role": "assistant", "content": None, **dict(action)}
    if calls := message.pop("tool_calls", None):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": call["arguments"] if parsed else _arguments_text(call["arguments"]),
                },
            }
            for call in calls
        ]
    return message


def _arguments_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


_READ = ("role", "content", "tool_calls", "function_call")


def _arguments(value: Any) -> Any:
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        return json.loads(value) if value.strip() else {}
    except (ValueError, RecursionError):
        return value


def _text(messages: Sequence[Mapping[str, Any]]) -> str:
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
            continue
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                texts.append(text)
    return "\n\n".join(texts)


def _short(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
