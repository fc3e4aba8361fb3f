"""Episodes that OpenEnv's `collect` recorded: one a line, {episode_id, messages, reward, done, tool_trace, task, …}.

A call of a tool is a step, with the fields that OpenEnv gives it:

    action       {"tool_name", "arguments"}
    observation  {"data", "metadata", "error", "done"}

The reward of a call, which OpenEnv leaves in the metadata or in the data of its result, is the step's reward and is
taken out of the observation. An episode in which no tool was called has the steps of its chat
(`rubrics.formats.chat`). The reward of the episode is that of its last call that has one, also where the episode is not
`done`: nobody knows what it would have been, so it is kept in the metadata only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatProblem, Parsed, expect_list, expect_object, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import Record, Step, Trajectory, wrap


def _openenv(record: Any) -> bool:
    return isinstance(record, dict) and record.keys() >= {"episode_id", "messages", "tool_trace"}


@reader("openenv", detect=_openenv)
def read_openenv(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenEnv's collected episodes: {episode_id, messages, reward, done, tool_trace, task}."""
    return source.each(lambda record: _trajectory(record, source))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = expect_object(record.value, "the record")
    done = data.get("done") is True
    opening, turns = turns_of_chat(data.get("messages"), done=done, place="messages")
    calls = expect_list(data.get("tool_trace"), "tool_trace")
    reward = number(data.get("reward"), "reward")
    task = data.get("task")
    metadata = {
        "group": task.get("id", task.get("task_id")) if isinstance(task, dict) else None,
        "components": numbers(data.get("verify_metrics")),
        "reward": reward,
        "done": data.get("done"),
        **{key: data[key] for key in ("metrics", "verify_metrics", "artifacts", "extra") if data.get(key)},
    }
    if calls:
        metadata["messages"] = data["messages"]
    return Trajectory(
        id=f"{source.stem}/{data['episode_id']}",
        task=wrap(task),
        initial=chat_observation(opening),
        steps=_steps(calls, done) if calls else turns,
        end="terminated" if done else None,
        reward=reward if done else None,
        reduction="last" if done else None,
        metadata=metadata,
    )


def _steps(calls: list[Any], done: bool) -> list[Step]:
    steps = []
    for index, call in enumerate(calls):
        place = f"tool_trace.{index}"
        result = expect_object(call.get("result"), f"{place}.result")
        data, metadata = result.get("data"), expect_object(result.get("metadata"), f"{place}.result.metadata")
        reward = number(metadata.get("reward"), f"{place}.result.metadata.reward")
        if isinstance(data, dict) and "reward" in data:
            if reward is None:
                reward = number(data["reward"], f"{place}.result.data.reward")
            data = _without_reward(data)
        observation = {"data": data, "metadata": _without_reward(metadata), "error": result.get("error")}
        ended = result.get("done") is True or (done and index == len(calls) - 1)
        action = Record(tool_name=call["tool_name"], arguments=call.get("arguments") or {})
        steps.append(Step(action, Record(observation, done=ended), reward))
    return steps


def _without_reward(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "reward"}
