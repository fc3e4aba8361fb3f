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

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from rubrics.formats.chat import chat_observation, steps_from_chat
from rubrics.formats.parsing import FormatError
from rubrics.trajectory import End, Trajectory, wrap


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
    opening, steps = steps_from_chat(
        _messages(completion, "assistant", "completion"), done=end == "terminated", place="completion"
    )
    if not steps:
        raise FormatError("completion: there is no assistant's message in it, so no action to score")
    before = [*_messages(prompt, "user", "prompt"), *opening["messages"]]
    return Trajectory(
        id=uuid4().hex if id is None else id,
        task=wrap(task),
        initial=chat_observation(before) if before else None,
        steps=steps,
        end=end,
        metadata=dict(metadata or {}),
    )


def _messages(value: Any, role: str, place: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, Mapping) or not isinstance(value, list | tuple):
        raise FormatError(f"{place}: expected text or a list of chat messages, found {value!r:.80}")
    return [message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message for message in value]
