"""Trajectories of SWE-agent, one a file: {environment, trajectory, history, info}.

A turn of the agent is a step, with the fields that SWE-agent gives it:

    action       {"action": the command, "thought", "response"}
    observation  {"observation": its output, "done": bool}, on the last also "submission", the patch

What the environment was in and how long a command took is in the step's metadata; `query`, a copy of the history at
each step, is left out. `initial` is the chat before the first action, demonstrations included. The reward is not in the
file: it is in the report of whoever ran the tests. How the run ended is told by `info.exit_status`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from rubrics.formats.chat import chat_observation
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object, parse
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Record, Step, Trajectory, wrap


def _swe_agent(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("trajectory"), list)
        and isinstance(record.get("info"), dict)
        and ("history" in record or "environment" in record)
    )


@reader("swe-agent", detect=_swe_agent)
def read_swe_agent(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """SWE-agent's .traj: {environment, trajectory, history, info}."""
    return source.each(lambda record: _trajectory(record, source))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = expect_object(record.value, "the record")
    if "trajectory" not in data:
        raise FormatError("trajectory: missing")
    info = expect_object(data.get("info"), "info")
    end = _end(info.get("exit_status"))
    steps = [
        _step(turn, f"trajectory.{index}") for index, turn in enumerate(expect_list(data["trajectory"], "trajectory"))
    ]
    if steps:
        last = dict(steps[-1].observation)
        if info.get("submission") is not None:
            last["submission"] = info["submission"]
        steps[-1].observation = Record(last, done=end == "terminated")
    problem = _problem_statement(data)
    instance = str(problem.get("id") or source.stem)
    opening = takewhile(_before_acting, expect_list(data.get("history"), "history"))
    return Trajectory(
        id=source.stem,
        task=wrap(problem) or None,
        initial=chat_observation([{"role": message["role"], "content": message["content"]} for message in opening]),
        steps=steps,
        end=end,
        metadata={
            "group": instance,
            "components": {},
            **({"environment": data["environment"]} if data.get("environment") else {}),
            **info,
        },
    )


def _step(turn: dict[str, Any], place: str) -> Step:
    if not isinstance(turn, dict) or "action" not in turn:
        raise FormatError(f"{place}: expected a turn with action and observation, found {turn!r:.60}")
    said: dict[str, Any] = {name: turn[name] for name in ("action", "thought", "response") if name in turn}
    told = ("state", "execution_time", "extra_info")
    return Step(
        Record(said),
        Record(observation=turn.get("observation"), done=False),
        metadata={name: turn[name] for name in told if turn.get(name)},
    )


def _before_acting(message: dict[str, Any]) -> bool:
    return message.get("role") != "assistant" or bool(message.get("is_demo"))


def _problem_statement(data: dict[str, Any]) -> dict[str, Any]:
    config = data.get("replay_config")
    if isinstance(config, str):
        config = parse(config.encode(), 1).value
    problem = config.get("problem_statement") if isinstance(config, dict) else None
    return problem if isinstance(problem, dict) else {}


_CUT_OFF = ("exit_cost", "exit_context", "exit_format", "exit_total_execution_time", "exit_command_timeout")
_FAILED = ("exit_error", "exit_environment_error", "exit_api", "early_exit")
_LEFT = ("submitted", "exit_command", "exit_forfeit")


def _end(status: Any) -> End | None:
    """What was submitted because a limit was reached, `submitted (exit_cost)`, ended by that limit."""
    if not isinstance(status, str):
        return None
    reason = status.removeprefix("submitted (").removesuffix(")")
    ends: tuple[tuple[tuple[str, ...], End], ...] = (
        (_CUT_OFF, "truncated"),
        (_FAILED, "error"),
        (_LEFT, "terminated"),
    )
    return next((end for statuses, end in ends if reason in statuses), None)
