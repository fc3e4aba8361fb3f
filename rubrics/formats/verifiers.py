"""Results of verifiers 0.4: one episode a line, {id, env, task, traces}, or one trace, {id, task, nodes, rewards, …}.

Each trace, what one agent did, is a trajectory. Its messages are a graph, because a conversation may be branched or
compacted: steps are those of the last branch, from the first message that the model itself wrote, see
`rubrics.formats.chat`. The reward is Σ score·weight, which is not in the file. A reward without a score makes the whole
unknown, and so does a trace that verifiers does not call `ok`; the components are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any

from rubrics.formats.chat import chat_observation, turns_of_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object, number
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory, wrap

LIMITS = frozenset(("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"))
"""The stop conditions by which verifiers says that a run was cut off."""


def _verifiers(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and "task" in record
        and (record.keys() >= {"traces", "env"} or record.keys() >= {"nodes", "rewards"})
    )


@reader("verifiers", detect=_verifiers)
def read_verifiers(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """verifiers 0.4, traces.jsonl: episodes {id, env, task, traces}, or traces."""
    return source.each_of(_trajectories)


def _trajectories(record: Parsed) -> Iterator[Trajectory]:
    data = expect_object(record.value, "the record")
    if "nodes" in data:
        yield _trajectory(data, {}, "")
        return
    traces = expect_list(data.get("traces"), "traces")
    for index, trace in enumerate(traces):
        yield _trajectory(expect_object(trace, f"traces.{index}"), data, f"traces.{index}.")
    if not traces:  # it failed before an agent began
        yield _trajectory({**data, "rewards": {}}, data, "")


def _trajectory(trace: dict[str, Any], episode: dict[str, Any], place: str) -> Trajectory:
    if not isinstance(trace.get("id"), str):
        raise FormatError(f"{place}id: expected a text, found {trace.get('id')!r:.60}")
    nodes = expect_list(trace.get("nodes"), f"{place}nodes")
    path, first = last_branch(nodes, place)
    messages = [chat_message(nodes[index]["message"]) for index in path]
    end = _end(trace)
    opening, steps = turns_of_chat(messages[first:], done=end == "terminated", place=f"{place}nodes")
    before = messages[:first] + opening
    task = expect_object(trace.get("task"), f"{place}task")
    scores, weights = _rewards(trace, place)
    known = [score * weights[name] for name, score in scores.items() if score is not None]
    complete = bool(known) and len(known) == len(scores) and trace.get("ok") is not False
    group = (episode.get("group") or {}).get("id") or task.get("key") or (task.get("data") or {}).get("idx")
    metadata = {
        "group": group,
        "components": scores,
        "weights": weights,
        "ok": trace.get("ok"),
        **{name: trace[name] for name in _TOLD if trace.get(name)},
        **({"episode": episode["id"]} if episode.get("id") else {}),
        **{name: episode[name] for name in ("env", "run") if episode.get(name)},
    }
    return Trajectory(
        id=trace["id"],
        task=wrap(task.get("data")),
        initial=chat_observation(before) if before else None,
        steps=steps,
        end=end,
        reward=fsum(known) if complete else None,
        metadata=metadata,
    )


_TOLD = ("stop_condition", "is_timeout", "errors", "metrics", "info", "agent", "timing", "usage", "extra_usage")


def _rewards(trace: dict[str, Any], place: str) -> tuple[dict[str, float | None], dict[str, float]]:
    scores: dict[str, float | None] = {}
    weights: dict[str, float] = {}
    for name, reward in expect_object(trace.get("rewards"), f"{place}rewards").items():
        given = expect_object(reward, f"{place}rewards.{name}")
        scores[name] = number(given.get("score"), f"{place}rewards.{name}.score")
        weight = number(given.get("weight"), f"{place}rewards.{name}.weight")
        weights[name] = 1.0 if weight is None else weight
    return scores, weights


def _end(trace: Mapping[str, Any]) -> End | None:
    scoring = (trace.get("timing") or {}).get("scoring") or {}
    if trace.get("errors") and not trace.get("ok") and not scoring.get("start"):
        return "error"
    if trace.get("is_completed") is False:
        return None
    answered = [call for call in trace.get("calls") or () if not call.get("error")]
    out_of_tokens = bool(answered) and answered[-1].get("finish_reason") == "length"
    stop = trace.get("stop_condition")
    return "truncated" if stop in LIMITS or stop == "agent_timeout" or out_of_tokens else "terminated"


def last_branch(nodes: Sequence[Mapping[str, Any]], place: str = "") -> tuple[list[int], int]:
    """The nodes of the last branch from its root, and how many of them the model saw before it first said something.

    Raises:
        FormatError: a parent is no node that stands before its child.
    """
    for index, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < index):
            raise FormatError(f"{place}nodes.{index}.parent: expected a node before this one, found {parent!r:.60}")
    path: list[int] = []
    at = len(nodes) - 1 if nodes else None  # whatever stands last has no child
    while at is not None:
        path.append(at)
        at = nodes[at].get("parent")
    path.reverse()
    # A later branch may hold the first reply only as a copy that is not marked as sampled, so it is looked for in all.
    at = next((index for index, node in enumerate(nodes) if node.get("sampled")), None)
    first = 0
    while at is not None and (at := nodes[at].get("parent")) is not None:
        first += 1
    return path, first if any(node.get("sampled") for node in nodes) else len(path)


def chat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of verifiers in OpenAI's form."""
    plain = {key: value for key, value in message.items() if key != "provider_state" and value is not None}
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": ".".join([call["namespace"], call["name"]] if call.get("namespace") else [call["name"]]),
                    "arguments": call["arguments"],
                },
            }
            for call in calls
        ]
    return plain
