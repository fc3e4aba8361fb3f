"""Results of tau-bench: a JSON array (or one record a line) of {task_id, trial, reward, info, traj}.

`traj` is the chat, see `rubrics.formats.chat`; `info.task` is the task. How an episode ended is not in the file, but it
can be told: the environment computes `info.reward_info` when, and only when, it says that the episode is over. With it
the episode is terminated, and the last observation carries the `done` that the environment returned. Without it nobody
judged the run, because it ran out of steps or failed (`info.error`): the 0.0 that tau-bench writes then is no reward,
and stays in the metadata only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rubrics.formats.chat import steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_object, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory, wrap


def _tau_bench(record: Any) -> bool:
    return isinstance(record, dict) and record.keys() >= {"task_id", "traj", "info"}


@reader("tau-bench", detect=_tau_bench)
def read_tau_bench(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """tau-bench results: an array of {task_id, trial, reward, info, traj}."""
    return source.each(lambda record: _trajectory(record, source))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = record.value
    if not isinstance(data, dict) or "task_id" not in data:
        raise FormatError("expected an object with task_id, reward, info and traj")
    info = expect_object(data.get("info"), "info")
    judged = info.get("reward_info") or None
    initial, steps = steps_from_chat(data.get("traj"), done=judged is not None, place="traj")
    reward = number(data.get("reward"), "reward")
    end: End | None = "terminated" if judged else "error" if info.get("error") else None
    if judged and steps:
        steps[-1].reward = reward
    # The parts of the reward: whether the database, and what was said, came out as they should.
    parts = judged.get("info") if isinstance(judged, dict) else None
    metadata = {"task_id": data["task_id"], "group": data["task_id"], "trial": data.get("trial"), "reward": reward}
    metadata |= {key: value for key, value in info.items() if key != "task"}
    return Trajectory(
        id=f"{source.stem}/{data['task_id']}" + (f"/{data['trial']}" if data.get("trial") is not None else ""),
        task=wrap(info.get("task")),
        initial=initial,
        steps=steps,
        end=end,
        reward=reward if judged else None,
        reduction="last" if judged else None,
        metadata={**metadata, "components": numbers(parts)},
    )
