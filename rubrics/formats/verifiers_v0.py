"""Results of verifiers before 0.4: one rollout a line, {example_id, prompt, completion, answer, reward, …}.

Prompt and completion are text or chat, see `rubrics.formats.chat`; the calls of tools are flat, and in files each is
JSON text. The reward is one of the whole rollout, `metrics` are its components. verifiers gives a rollout that failed,
or was not completed, 0.0 like one that was judged to be worth nothing: such a reward stays in the metadata only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_object, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory, wrap

NO_REWARD = "NoRewardError"
"""The error by which `rubrics.integrations.verifiers_v0` marks a rollout that went well but has no reward."""

ROW = ("prompt", "example_id", "answer", "info", "task")
"""What the dataset said of a rollout; all but the prompt is the trajectory's task."""


def _verifiers_v0(record: Any) -> bool:
    return isinstance(record, dict) and record.keys() >= {"example_id", "prompt", "completion"}


@reader("verifiers-v0", detect=_verifiers_v0)
def read_verifiers_v0(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """verifiers before 0.4, results.jsonl: {example_id, prompt, completion, reward, metrics}."""
    return source.each(lambda record: _trajectory(record, source))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = expect_object(record.value, "the record")
    if data.get("example_id") is None:
        raise FormatError("example_id: missing")
    end = _end(data)
    before, _ = _turns(data.get("prompt"), "user", "prompt")
    opening, steps = _turns(data.get("completion"), "assistant", "completion", done=end == "terminated")
    before += opening
    reward = number(data.get("reward"), "reward")
    judged = end != "error" and data.get("is_completed") is not False
    metadata = {
        "group": data["example_id"],
        "components": numbers(data.get("metrics")),
        "reward": reward,
        **{name: data[name] for name in _TOLD if data.get(name) is not None},
    }
    return Trajectory(
        id=data.get("trajectory_id") or f"{source.stem}/{data['example_id']}",
        task=wrap({name: data[name] for name in ROW if name in data and name != "prompt"}),
        initial=chat_observation(before) if before else None,
        steps=steps,
        end=end,
        reward=reward if judged else None,
        metadata=metadata,
    )


_TOLD = ("error", "stop_condition", "is_completed", "is_truncated", "timing", "token_usage")


def _end(data: dict[str, Any]) -> End | None:
    if failed(data.get("error")):
        return "error"
    if data.get("is_truncated") or data.get("stop_condition") == "timeout_reached":
        return "truncated"
    return "terminated" if data.get("is_completed") else None


def failed(error: Any) -> bool:
    """Whether the error of a rollout, an exception or what is saved of it, is not just one of our scoring."""
    if error is None:
        return False
    kind = error.get("error") if isinstance(error, Mapping) else type(error).__name__
    return bool(kind != NO_REWARD)


def _turns(value: Any, role: str, place: str, done: bool = False) -> tuple[list[dict[str, Any]], list[Any]]:
    if value is None:
        return [], []
    if isinstance(value, str):
        value = [{"role": role, "content": value}]
    if not isinstance(value, list):
        raise FormatError(f"{place}: expected text or a list of chat messages, found {value!r:.60}")
    if place == "prompt":  # assistant's messages in it are examples, no actions
        return [chat_message(message) for message in value], []
    return turns_of_chat([chat_message(message) for message in value], done=done, place=place)


def chat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of verifiers in OpenAI's form.

    Raises:
        FormatError: it is no message, or a call of a tool in it is not readable.
    """
    if not isinstance(message, Mapping):
        raise FormatError(f"expected a message with a role, found {message!r:.60}")
    plain = dict(message)
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [_call(call) for call in calls]
    return plain


def _call(call: Any) -> dict[str, Any]:
    if isinstance(call, str):
        try:
            call = json.loads(call)
        except ValueError as error:
            raise FormatError(f"tool_calls: not JSON: {error}") from None
    if "function" in call:
        return dict(call)
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call["name"], "arguments": call["arguments"]},
    }
