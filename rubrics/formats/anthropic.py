"""Conversations in the form of Anthropic's Messages API: `{"system", "messages": […], "stop_reason"}`.

They become messages of chat, so the steps are those of `rubrics.formats.chat`. What an assistant's blocks hold is its
text as `content`, its `tool_use` as tool calls (whose arguments are objects already), its thinking as
`reasoning_content`; the results of tools, which stand in turns of the user, become messages of role tool. Blocks that
are none of these, such as images and searches that ran on the server, stay as they are.

A record may also be a request with its `response`, or a response alone. The last `stop_reason` says how it ended:
end_turn, stop_sequence, refusal (terminated), max_tokens (truncated); at tool_use and pause_turn it goes on, so the
episode is unfinished. Reward, group, task and metadata are read as from chats, see `rubrics.formats.openai_chat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rubrics.formats.chat import conversations, is_message, steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object
from rubrics.formats.recorded import labelled, labelled_end
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
_READ = ("messages", "system", "request", "response", "content", "role", "type")


def _anthropic(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    if record.get("type") == "message" and record.get("role") == "assistant" and "stop_reason" in record:
        return True
    request = record.get("request")
    messages = record.get("messages", request.get("messages") if isinstance(request, dict) else None)
    said = messages if isinstance(messages, list) else [record] if is_message(record) else []
    if not any(map(is_message, said)):
        return False
    response = record.get("response")
    claims = (record, response if isinstance(response, dict) else {}, request if isinstance(request, dict) else {})
    return any("stop_reason" in part or "system" in part for part in claims) or any(
        isinstance(block, dict) and block.get("type") in _BLOCKS
        for message in said
        if is_message(message) and isinstance(message.get("content"), list)
        for block in message["content"]
    )


@reader("anthropic", detect=_anthropic)
def read_anthropic(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """Anthropic messages: {system, messages: [{role, content: [blocks]}], stop_reason}."""
    return source.each(lambda record: _trajectory(record, source), conversations(source.records()))


def messages_of_anthropic(system: Any, messages: Any, *, place: str = "messages") -> list[dict[str, Any]]:
    """Chat messages out of those of Anthropic; `system` is text, blocks or None.

    Raises FormatError, naming the message as `place.index`, for what is no message.
    """
    if not isinstance(messages, list):
        raise FormatError(f"{place}: expected a list of messages, found {messages!r:.80}")
    chat: list[dict[str, Any]] = []
    if system:
        chat.append({"role": "system", "content": _content(_blocks(system, "system"))})
    for index, message in enumerate(messages):
        if not is_message(message):
            raise FormatError(f"{place}.{index}: expected a message with a role, found {message!r:.80}")
        try:
            chat += _messages(message, f"{place}.{index}.content")
        except KeyError as error:
            raise FormatError(f"{place}.{index}.content: a block has no {error}") from error
    return chat


def _messages(message: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """One message, and before it, one of role tool for each result that it brings."""
    said: dict[str, Any] = {"role": message["role"], "content": None}
    thoughts: list[str] = []
    rest: list[Any] = []
    for block in _blocks(message.get("content"), place):
        kind = block.get("type")
        if kind == "tool_result":
            result = {"role": "tool", "tool_call_id": block["tool_use_id"]}
            failed = {"is_error": True} if block.get("is_error") is True else {}
            yield {**result, "content": _content(_blocks(block.get("content"), place)), **failed}
        elif kind == "tool_use":
            function = {"name": block["name"], "arguments": block["input"]}
            said.setdefault("tool_calls", []).append({"id": block["id"], "function": function})
        elif kind == "thinking":
            thoughts.append(block["thinking"])
        elif kind == "redacted_thinking":
            said.setdefault("redacted_thinking", []).append(block["data"])
        else:
            rest.append(block)
    if thoughts:
        said["reasoning_content"] = "\n\n".join(thoughts)
    if rest:
        said["content"] = _content(rest)
    if rest or len(said) > 2 or message["role"] == "assistant":
        yield said


def _blocks(content: Any, place: str) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = expect_list(content, place)
    return [expect_object(block, f"{place}.{index}") for index, block in enumerate(blocks)]


def _content(blocks: list[Any]) -> Any:
    """Text where all blocks are text, else the blocks."""
    if all(block.get("type") == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return blocks


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = record.value
    if not isinstance(data, dict):
        raise FormatError("expected an object with messages")
    request = data["request"] if isinstance(data.get("request"), dict) else data
    response = data["response"] if isinstance(data.get("response"), dict) else data
    messages = expect_list(request.get("messages"), "messages")
    if is_message(response):
        messages = [*messages, response]
    elif "messages" not in request:
        raise FormatError("expected an object with messages, or a message of an assistant")
    stop = response.get("stop_reason")
    end = labelled_end(data, stop)
    chat = messages_of_anthropic(request.get("system"), messages)
    initial, steps = steps_from_chat(chat, done=end == "terminated")
    return labelled(
        data,
        source,
        record.line,
        id=response.get("id"),
        initial=initial,
        steps=steps,
        end=end,
        read=_READ,
        about={"stop_reason": stop},
    )
