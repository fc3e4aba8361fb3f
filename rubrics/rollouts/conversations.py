"""What trainers and evaluators have, a prompt and a completion, as a trajectory.

Trees see the steps that readers of chat logs make (`rubrics.formats.chat`), so that a completion scored in a trainer
and its log scored offline get the same reward:

    action       the assistant's message: {"content", "tool_calls": [{"id", "name", "arguments": {…}}, …], …}
    observation  the messages up to the next one: {"messages": [{"role", "content", …}, …], "content": their text,
                 "done": True on the last}

A completion that is plain text is one assistant's message. The prompt is the episode's `initial`, an observation too;
assistant's messages in it are examples, not actions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import urandom
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError
from rubrics.trajectory import End, Trajectory, jsonable, plain_object, wrap


def trajectory_of(
    prompt: Any,
    completion: Any,
    *,
    task: Any = None,
    end: End = "terminated",
    id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Trajectory:
    """The trajectory of one rollout.

    Args:
        prompt: text, or a list of chat messages in OpenAI's form (dicts, or pydantic models of them); None for none.
        completion: the same, of what the policy said and what tools and users answered.
        task: what rubrics read as `self.task`, such as a row of the dataset.
        end: how the rollout ended; `"truncated"` where it was cut off.
        id: a name; random by default.
        metadata: kept with the trajectory.

    Raises:
        FormatError: something is no chat message, named as `completion.index`, or no message is an assistant's.
    """
    opening, steps = turns_of_chat(
        _messages(completion, "assistant", "completion"), done=end == "terminated", place="completion"
    )
    if not steps:
        raise FormatError("completion: there is no assistant's message in it, so no action to score")
    before = [*_messages(prompt, "user", "prompt"), *opening]
    return Trajectory(
        id=urandom(16).hex() if id is None else id,
        task=wrap(task),
        initial=chat_observation(before) if before else None,
        steps=steps,
        end=end,
        metadata=dict(metadata) if metadata else {},
    )


def trajectory_of_output(inputs: Any, output: Any, *, task: Any = None, id: str | None = None) -> Trajectory:
    """The trajectory of one case of an evaluator, whose inputs and output may be anything.

    Text, a list of chat messages, `{"messages": […]}` and a chat completion, `{"choices": [{"message": …}, …]}`, are
    the conversation that they are; an output that repeats the messages of the inputs is read from there on. Anything
    else becomes one message: its JSON as `content`, and as the action's `output` the thing itself.
    """
    prompt, completion = _conversation(inputs), _conversation(output)
    if completion is None:
        completion = [{"role": "assistant", "content": _json(output), "output": output}]
    elif prompt and isinstance(prompt, list) and completion[: len(prompt)] == prompt:
        completion = completion[len(prompt) :]
    if prompt is None and inputs is not None:
        prompt = _json(inputs)
    return trajectory_of(prompt, completion, task=task, id=id)


def _conversation(value: Any) -> Any:
    """Text or chat messages, or None for what is neither."""
    if isinstance(value, Mapping):
        choices = value.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        value = [first.get("message")] if isinstance(first, Mapping) else value.get("messages")
    if isinstance(value, str) or (isinstance(value, list) and value and all(map(_is_message, value))):
        return value
    return None


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def _json(value: Any) -> str:
    return json.dumps(jsonable(value, plain_object), ensure_ascii=False)


def _messages(value: Any, role: str, place: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if type(value) is not list and (isinstance(value, Mapping) or not isinstance(value, list | tuple)):
        raise FormatError(f"{place}: expected text or a list of chat messages, found {value!r:.80}")
    return [message if type(message) is dict else _plain(message) for message in value]


def _plain(message: Any) -> Any:
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
