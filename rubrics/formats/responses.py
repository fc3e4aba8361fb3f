"""Items of OpenAI's Responses API as chat messages, in the form that `rubrics.formats.chat` reads.

What a model says at one go, its reasoning, messages and calls, is one assistant's message; the results of calls are
messages of role tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError
from rubrics.formats.recorded import end_of_finish
from rubrics.trajectory import End, Record, Step


def messages_of_items(items: Any, *, place: str = "output") -> list[dict[str, Any]]:
    """Chat messages out of the items of a response, or of its input.

    Args:
        items: text of a user, or items (dicts, or pydantic models of them).
        place: how errors call the list.

    Returns:
        Messages with role and content. Reasoning becomes `reasoning_content`, function and custom tool calls become
        `tool_calls`, a refusal `refusal`; items that chat has no place for (searches, images, calls that the provider
        ran) are kept as they are in the list `items` of the assistant's message.

    Raises:
        FormatError: something is no item, named as `place.index`.
    """
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, Sequence):
        raise FormatError(f"{place}: expected text or a list of items, found {items!r:.80}")
    messages: list[dict[str, Any]] = []
    turn: dict[str, Any] | None = None
    for index, given in enumerate(items):
        item = given.model_dump(exclude_none=True) if hasattr(given, "model_dump") else given
        if not isinstance(item, Mapping) or not isinstance(item.get("type", "message"), str):
            raise FormatError(f"{place}.{index}: expected an item of the Responses API, found {given!r:.80}")
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") != "assistant":
            if not isinstance(item.get("role"), str):
                raise FormatError(f"{place}.{index}: expected a message with a role, found {given!r:.80}")
            messages.append({"role": item["role"], "content": _content(item.get("content"))})
            turn = None
        elif kind.endswith("_output"):
            messages.append(_result(item))
            turn = None
        else:
            if turn is None:
                turn = {"role": "assistant", "content": None}
                messages.append(turn)
            _add(turn, kind, item)
    return messages


def response_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part of a record that has the items of the model's output; None where there is none."""
    for place in (record, record.get("response")):
        for response in (place, place.get("body") if isinstance(place, dict) else None):
            if isinstance(response, dict) and isinstance(response.get("output"), list):
                return response
    return None


def steps_of_response(
    given: Mapping[str, Any], response: Mapping[str, Any], *, done: bool, place: str = ""
) -> tuple[Record, list[Step]]:
    """The observation before the first action, out of a request, and the steps, out of its response."""
    items = given.get("input")
    prompt = messages_of_items([] if items is None else items, place="input")
    instructions = given.get("instructions") or response.get("instructions")
    if isinstance(instructions, str):
        prompt.insert(0, {"role": "system", "content": instructions})
    output = messages_of_items(response.get("output"), place=f"{place}output")
    opening, steps = turns_of_chat(output, done=done, place=f"{place}output")
    return chat_observation([*prompt, *opening]), steps


def end_of_response(response: Mapping[str, Any]) -> End | None:
    """How an episode ended whose last word is this response; None where a call waits for its result."""
    if response.get("incomplete_details") or response.get("status") == "incomplete":
        return "truncated"
    if response.get("error"):
        return "error"
    output = response.get("output")
    last = output[-1] if isinstance(output, list) and output else None
    if isinstance(last, dict) and last.get("type") in ("function_call", "custom_tool_call"):
        return None
    return end_of_finish(response.get("status"))


def _add(turn: dict[str, Any], kind: str, item: Mapping[str, Any]) -> None:
    """Add what a model said to its message."""
    if kind == "message":
        content = item.get("content")
        refusals = [part["refusal"] for part in _parts(content) if part.get("type") == "refusal"]
        if refusals:
            turn["refusal"] = "\n\n".join(refusals)
        text = _content(content)
        if text and turn["content"]:
            text = f"{turn['content']}\n\n{text}"
        turn["content"] = text or turn["content"]
    elif kind == "reasoning":
        parts = [*_parts(item.get("content")), *_parts(item.get("summary"))]
        texts = [turn["reasoning_content"]] if "reasoning_content" in turn else []
        texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
        if texts:
            turn["reasoning_content"] = "\n\n".join(texts)
    elif kind in ("function_call", "custom_tool_call"):
        function = {"name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}
        turn.setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": function})
    else:
        turn.setdefault("items", []).append(dict(item))


def _result(item: Mapping[str, Any]) -> dict[str, Any]:
    output = item.get("output")
    content = _content(output) if isinstance(output, str | list) else json.dumps(output, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}


def _content(content: Any) -> Any:
    """Text where all of it is text; parts as they are where some are images or the like."""
    if not isinstance(content, list):
        return content
    parts = _parts(content)
    if len(parts) == len(content) and all("text" in part or part.get("type") == "refusal" for part in parts):
        return "\n\n".join(part["text"] for part in parts if "text" in part)
    return content


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
