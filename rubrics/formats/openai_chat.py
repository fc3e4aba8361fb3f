"""Chats in the form of OpenAI's Chat Completions: `{"messages": […]}`, one record a conversation.

The steps are those of `rubrics.formats.chat`. Everything else is what people put beside the messages:

    reward      `reward`, else `score`; `components`: their parts by name
    end         `end` ("terminated", "truncated", "error", "abandoned"), else a boolean `terminated`, `finished`,
                `truncated` or `done`; else the `finish_reason` of `choices`, or one beside the messages
    task        `task` if it is an object, else columns such as question, answer, ground_truth
    id, group   `id` (or `custom_id`); `group`, `group_id`, `task_id` or `instance_id`; `trial`
    metadata    all other columns, which no rubric sees

`choices`, of the answer to the messages, are the last message; of several only the first is read. A file whose records
are the messages themselves is one conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rubrics.formats.chat import conversations, is_message, steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_object
from rubrics.formats.recorded import labelled, labelled_end
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

_READ = ("messages", "choices")


def _chat(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    messages = record.get("messages")
    return (isinstance(messages, list) and any(map(is_message, messages))) or (
        is_message(record) and ("content" in record or "tool_calls" in record)
    )


@reader("openai-chat", detect=_chat)
def read_openai_chat(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenAI chat: {messages: [{role, content, tool_calls}], …}, or the messages of one conversation."""
    return source.each(lambda record: _trajectory(record, source), conversations(source.records()))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = record.value
    if not isinstance(data, dict) or "messages" not in data:
        raise FormatError("expected an object with messages")
    messages, finish = data["messages"], data.get("finish_reason")
    if isinstance(choices := data.get("choices"), list) and choices and isinstance(messages, list):
        choice = expect_object(choices[0], "choices.0")
        messages, finish = [*messages, choice.get("message")], choice.get("finish_reason")
    end = labelled_end(data, finish)
    initial, steps = steps_from_chat(messages, done=end == "terminated")
    return labelled(data, source, record.line, initial=initial, steps=steps, end=end, read=_READ)
