"""Trajectories in Harbor's Agent Trajectory Interchange Format, ATIF 1.0 to 1.8, one JSON document each.

A step of the agent is an action and its observation has the results of its calls, followed by what users and the system
said until its next one; as in `rubrics.formats.chat`. What was measured of a step (metrics, timestamp, model, extra) is
its metadata. Steps that were copied from an earlier trajectory (`is_copied_context`) are part of the observation before
the first action: they were another episode's. Trajectories of sub-agents stay where they are, by reference; those that
are embedded are kept in the metadata under "subagent_trajectories".

Reward and end are not in the file: Harbor has them in the folder of the trial, see `rubrics.formats.harbor`.

Files in the wild are not always ATIF to the letter. What can be understood is read, and each thing that had to be is
listed in the metadata under "repaired": a version without its prefix, other names for the fields of a call or of a
step, a `reward` on a step (which ATIF has no place for), unknown fields, which are kept as the metadata of the step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError, FormatProblem, expect_list, number
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
_SOURCES = {"user": "user", "system": "system", "agent": "assistant"}
_KNOWN = ("step_id", "source", "message", "reasoning_content", "tool_calls", "observation", "is_copied_context")
_MEASURED = ("timestamp", "model_name", "reasoning_effort", "metrics", "llm_call_count", "extra")
_HEAD = ("schema_version", "session_id", "trajectory_id", "agent", "notes", "final_metrics", "extra")
_PARTS = ("steps", "subagent_trajectories", "continued_trajectory_ref")


def _atif(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("steps"), list):
        return False
    if "ATIF" in str(record.get("schema_version")):
        return True
    first = next(iter(record["steps"]), None)
    return isinstance(first, dict) and "source" in first and ("step_id" in first or "message" in first)


@reader("atif", detect=_atif)
def read_atif(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """Harbor's ATIF 1.0-1.8: {schema_version, agent, steps: [{source, message, tool_calls, observation}]}."""
    return source.each(lambda record: trajectory_of_atif(record.value, f"{source.stem}/{record.line}"))


def trajectory_of_atif(data: Any, place: str) -> Trajectory:
    """One document. Its id is `trajectory_id`, else `session_id`, else `place`."""
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
        raise FormatError("expected an object with schema_version, agent and steps")
    repaired = _Repaired()
    head = repaired.head(data)
    said: list[dict[str, Any]] = []
    copied: list[dict[str, Any]] = []
    notes: list[tuple[dict[str, Any], float | None]] = []
    for index, given in enumerate(data["steps"]):
        if not isinstance(given, dict):
            raise FormatError(f"steps.{index}: expected an object, found {given!r:.80}")
        step = repaired.step(given, index)
        messages = _messages(step, f"steps.{index}")
        if step.get("is_copied_context") is True:
            copied += messages
            continue
        said += messages
        if step["source"] == "agent":
            metadata = {name: value for name, value in step.items() if name not in _KNOWN and value is not None}
            notes.append((metadata, number(metadata.pop("reward", None), f"steps.{index}.reward")))
    opening, steps = turns_of_chat(said, done=False, place="steps")
    for turn, (metadata, reward) in zip(steps, notes, strict=True):
        turn.metadata, turn.reward = metadata, reward
    return Trajectory(
        id=str(data.get("trajectory_id") or data.get("session_id") or place),
        initial=chat_observation([*copied, *opening]),
        steps=steps,
        metadata={
            **head,
            "components": {},
            **({"repaired": repaired.notes} if repaired.notes else {}),
        },
    )


def joined(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Documents of which each goes on in the next, as one; what a later one copied of those before is left out."""
    first, *rest = documents
    steps = list(first["steps"])
    for document in rest:
        new = (step for step in document["steps"] if step.get("is_copied_context") is not True)
        steps += [{**step, "step_id": number} for number, step in enumerate(new, len(steps) + 1)]
    return {**first, "steps": steps, "continued_trajectory_ref": documents[-1].get("continued_trajectory_ref")}


def _messages(step: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": _SOURCES[step["source"]], "content": step["message"]}
    if reasoning := step.get("reasoning_content"):
        message["reasoning_content"] = reasoning
    if calls := step.get("tool_calls"):
        message["tool_calls"] = [
            {"id": call["tool_call_id"], "function": {"name": call["function_name"], "arguments": call["arguments"]}}
            for call in calls
        ]
    results = (step.get("observation") or {}).get("results") or []
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise FormatError(f"{place}.observation.results: expected a list of objects")
    return [message, *map(_result, results)]


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: result[name] for name in ("subagent_trajectory_ref", "extra") if result.get(name)}
    return {"role": "tool", "tool_call_id": result.get("source_call_id"), "content": result.get("content"), **rest}


class _Repaired:
    """Brings a document to the letter of ATIF, and keeps a note of everything that was not."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def head(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """All of a document but its steps."""
        head = {name: value for name, value in data.items() if name != "steps"}
        head["schema_version"] = self._version(data.get("schema_version"))
        if isinstance(agent := data.get("agent"), dict):
            head["agent"] = dict(agent)
            self._rename(head["agent"], "agent", model_name=("model",))
        for name in ("name", "version"):
            if not isinstance(agent, dict) or name not in agent:
                self.notes.append(f"agent.{name}: missing")
        unknown = [name for name in data if name not in _HEAD and name not in _PARTS]
        self.notes += [f"{name}: no field of ATIF; kept as metadata" for name in unknown]
        return head

    def _version(self, given: Any) -> Any:
        if given in VERSIONS:
            return given
        version = f"ATIF-v{str(given).removeprefix('ATIF-').removeprefix('v')}"
        if version in VERSIONS:
            self.notes.append(f"schema_version: {given!r} was read as {version!r}")
            return version
        self.notes.append(f"schema_version: {given!r} is none of {VERSIONS[0]} to {VERSIONS[-1]}")
        return given

    def step(self, given: Mapping[str, Any], index: int) -> dict[str, Any]:
        place = f"steps.{index}"
        step = dict(given)
        self._rename(step, place, source=("role",), message=("content",))
        if step.get("source") in ("assistant", "model"):
            self.notes.append(f"{place}.source: {step['source']!r} was read as 'agent'")
            step["source"] = "agent"
        if str(step.get("source")) not in _SOURCES:
            raise FormatError(f"{place}.source: expected user, system or agent, found {step.get('source')!r:.80}")
        if step.get("step_id") != index + 1:
            self.notes.append(f"{place}.step_id: expected {index + 1}, found {step.get('step_id')!r}")
        if step.get("message") is None:
            self.notes.append(f"{place}.message: missing")
            step["message"] = ""
        if calls := expect_list(step.get("tool_calls"), f"{place}.tool_calls"):
            step["tool_calls"] = [self._call(call, f"{place}.tool_calls.{n}") for n, call in enumerate(calls)]
        self._observation(step, place)
        for name in step:
            if name not in _KNOWN and name not in _MEASURED:
                use = "read as the reward" if name == "reward" else "kept as metadata"
                self.notes.append(f"{place}.{name}: no field of ATIF; {use} of the step")
        return step

    def _call(self, given: Any, place: str) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise FormatError(f"{place}: expected a call, found {given!r:.80}")
        call = dict(given)
        if isinstance(function := call.pop("function", None), dict):  # as OpenAI has it
            call = {**call, **function}
            self.notes.append(f"{place}.function: its fields were read as the call's")
        self._rename(call, place, tool_call_id=("id", "call_id"), function_name=("name",), arguments=("input", "args"))
        if not isinstance(call.get("function_name"), str):
            raise FormatError(f"{place}.function_name: missing")
        if "tool_call_id" not in call:
            self.notes.append(f"{place}.tool_call_id: missing")
        if isinstance(arguments := call.get("arguments"), str):
            self.notes.append(f"{place}.arguments: their JSON was read")
            try:
                call["arguments"] = json.loads(arguments)
            except (ValueError, RecursionError):
                call["arguments"] = arguments
        return {"tool_call_id": None, "arguments": {}, **call}

    def _observation(self, step: dict[str, Any], place: str) -> None:
        given = step.get("observation")
        if given is None or (isinstance(given, dict) and "results" in given):
            return
        self.notes.append(f"{place}.observation: expected an object with results")
        results = given if isinstance(given, list) else [given]
        step["observation"] = {
            "results": [each if isinstance(each, dict) and "content" in each else {"content": each} for each in results]
        }

    def _rename(self, values: dict[str, Any], place: str, **others: tuple[str, ...]) -> None:
        for name, wrong in others.items():
            for other in wrong:
                if name not in values and other in values:
                    values[name] = values.pop(other)
                    self.notes.append(f"{place}.{other}: was read as {name}")
