"""Results of tau2-bench: {info, tasks, simulations}, or one simulation a record.

An assistant's message is an action, as in `rubrics.formats.chat`; the user simulator's calls of tools stay with the
user's messages. Full-duplex simulations have ticks instead of messages: what the agent says at one go, until somebody
answers, is one action (of speech, the script).

    reward       `reward_info.reward`; null is unscored
    components   `reward_info.reward_breakdown`, else the checks that it has
    end          `termination_reason`: user_stop, agent_stop (terminated); max_steps, too_many_errors, timeout
                 (truncated); those that end in _error (error); another one is kept, but ends nothing
    group        `task_id`; `trial`
    task         the entry of `tasks` with that id

The results are one JSON document, so a whole file is in memory while it is read; simulations that come one a line are
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rubrics.formats.chat import is_message, steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory, wrap

_ENDS: dict[str, End] = {
    **dict.fromkeys(("user_stop", "agent_stop"), "terminated"),
    **dict.fromkeys(("max_steps", "too_many_errors", "timeout"), "truncated"),
}
_SAID = ("role", "content", "tool_calls", "tool_call_id", "name", "requestor", "error", "is_audio", "audio_path")
_CHECKS = {
    "db_check": "db_reward",
    "env_assertions": "reward",
    "action_checks": "action_reward",
    "nl_assertions": "met",
}


def _tau2(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("simulations"), list) or record.keys() >= {"task_id", "termination_reason"}


@reader("tau2", detect=_tau2)
def read_tau2(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """tau2-bench results: {info, tasks, simulations: [{id, task_id, trial, messages, reward_info}]}."""
    tasks: dict[str, Any] = {}
    return source.each(lambda record: _trajectory(record, source, tasks), _simulations(source, tasks))


def _simulations(source: Source, tasks: dict[str, Any]) -> Iterator[Parsed | FormatProblem]:
    """The simulations as records; what there is of tasks goes into `tasks`, by id."""
    for record in source.records():
        data = record.value if isinstance(record, Parsed) else None
        if isinstance(record, FormatProblem) or not isinstance(data, dict) or "simulations" not in data:
            yield record
            continue
        try:
            simulations = expect_list(data["simulations"], "simulations")
            given = expect_list(data.get("tasks"), "tasks")
        except FormatError as error:
            yield source.problem(record.line, str(error))
            continue
        tasks.update((str(task.get("id")), task) for task in given if isinstance(task, dict))
        for index, simulation in enumerate(simulations):
            start = f"simulations.{index}."
            places = [place.removeprefix(start) for place in record.not_finite if place.startswith(start)]
            yield Parsed(record.line, simulation, places)


def _trajectory(record: Parsed, source: Source, tasks: Mapping[str, Any]) -> Trajectory:
    data = record.value
    if not isinstance(data, dict) or "task_id" not in data:
        raise FormatError("expected a simulation: an object with id, task_id and messages")
    reason = str(data.get("termination_reason"))
    end: End | None = "error" if reason.endswith("_error") else _ENDS.get(reason)
    messages = expect_list(data.get("messages"), "messages") or _messages_of_ticks(data.get("ticks"))
    chat = [said for message in messages for said in _flat(message)]
    initial, steps = steps_from_chat([_said(message) for message in chat], done=end == "terminated")
    spoken = (message for message in chat if message["role"] == "assistant")
    for step, message in zip(steps, spoken, strict=True):
        step.metadata = {key: value for key, value in message.items() if key not in _SAID and value is not None}
    judged = expect_object(data.get("reward_info"), "reward_info")
    reward = number(judged.get("reward"), "reward_info.reward")
    if end == "terminated" and steps:
        steps[-1].reward = reward
    metadata = {name: value for name, value in data.items() if name not in ("messages", "ticks")}
    return Trajectory(
        id=str(data.get("id") or f"{source.stem}/{data['task_id']}/{data.get('trial')}"),
        task=wrap(tasks.get(str(data["task_id"]))),
        initial=initial,
        steps=steps,
        end=end,
        reward=reward,
        reduction="last" if end == "terminated" and reward is not None else None,
        metadata={**metadata, "group": data["task_id"], "components": _components(judged)},
    )


def _components(judged: Mapping[str, Any]) -> dict[str, float | None]:
    if breakdown := numbers(judged.get("reward_breakdown")):
        return breakdown
    found = {}
    for name, field in _CHECKS.items():
        checks = judged.get(name) or ()
        for index, check in enumerate([checks] if isinstance(checks, dict) else checks):
            found[name if isinstance(checks, dict) else f"{name}.{index}"] = check.get(field)
    return numbers(found)


def _flat(message: Any) -> list[Any]:
    """The results of several calls may stand in one message."""
    several = message.get("tool_messages") if isinstance(message, dict) else None
    return several if isinstance(several, list) else [message]


def _said(message: Any) -> Any:
    """A message in the form of OpenAI's, without what was measured of it, and without the nulls of its class."""
    if not is_message(message):
        return message
    said = {key: value for key, value in message.items() if key in _SAID and (value is not None or key == "content")}
    if message["role"] == "tool":
        return {**said, "tool_call_id": message.get("id", message.get("tool_call_id"))}
    if isinstance(calls := said.get("tool_calls"), list):
        said["tool_calls"] = [_call(call) for call in calls]
    return said


def _call(call: Any) -> Any:
    return {"id": call.get("id"), "function": call} if isinstance(call, dict) and "name" in call else call


def _messages_of_ticks(ticks: Any) -> list[Any]:
    """The turns of a conversation in which both sides talk at once."""
    messages: list[Any] = []
    for index, given in enumerate(expect_list(ticks, "ticks")):
        tick = expect_object(given, f"ticks.{index}")
        messages += tick.get("user_tool_results") or ()
        _say(messages, "user", tick.get("user_chunk"), ())
        _say(messages, "assistant", tick.get("agent_chunk"), tick.get("agent_tool_calls") or ())
        messages += tick.get("agent_tool_results") or ()
    return messages


def _say(messages: list[Any], role: str, chunk: Any, calls: Any) -> None:
    """Adds a piece of speech or text to the turn of its speaker, or as a new turn, if there is anything in it."""
    chunk = expect_object(chunk, f"ticks: {role}")
    text = chunk.get("audio_script_gold") if chunk.get("is_audio") else chunk.get("content")
    if not text and not calls:
        return
    if not messages or messages[-1].get("role") != role:
        messages.append({"role": role, "content": ""})
    turn = messages[-1]
    turn["content"] += text or ""
    if calls:
        turn["tool_calls"] = [*turn.get("tool_calls", ()), *calls]
