"""Rollouts as OpenReward uploads them: events, one a line or as {"events": […]}.

    {"eventType": "rollout", "eventId", "runName", "environment", "task_spec", …}
    {"eventType": "message", "rolloutEventId", "index", "type", "content", "reward", "isFinished", …}
    {"eventType": "rollout_update", "eventId", "rollout_info": {"task_index", …}}

The events of several rollouts may be mixed. Nothing says which is the last one of a rollout, so a file is held in
memory before the first trajectory is handed out. Messages are put into the order of their `index`.

What a model says between two answers, reasoning, text and calls, is one action, see `rubrics.formats.chat`. The reward
of a step is the last one recorded in it, and that of the rollout the last of all, which is how OpenReward's consumers
read it: OpenReward's own loggers write the reward of a message on each of its blocks, so a sum would count it several
times. Components are the scores that a `RubricEnvironment` put into the metadata of the last event that has some; what
events have as metadata is in that of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rubrics.formats.chat import steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_object, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import Record, Trajectory, wrap


def _openreward(record: Any) -> bool:
    if isinstance(record, dict) and isinstance(record.get("events"), list):
        record = next(iter(record["events"]), None)
    return isinstance(record, dict) and record.get("eventType") in ("rollout", "message", "rollout_update")


@reader("openreward", detect=_openreward)
def read_openreward(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenReward's rollout events: rollout, message and rollout_update."""
    rollouts: dict[str, _Rollout] = {}

    def collect(event: Parsed) -> tuple[Trajectory, ...]:
        _collect(event, rollouts)
        return ()

    try:
        for record in source.records():
            if isinstance(record, FormatProblem):
                yield record
                continue
            for event in _events(record):
                yield from source.converted(event, collect)
    except FormatError as error:  # the rest of the file is lost, what was collected is not
        yield source.problem(error.line, str(error))
    for rollout in rollouts.values():
        yield from source.converted(Parsed(rollout.line, rollout, rollout.not_finite), _trajectories)


def _events(record: Parsed) -> Iterator[Parsed]:
    if not isinstance(record.value, dict) or not isinstance(record.value.get("events"), list):
        yield record
        return
    for index, event in enumerate(record.value["events"]):
        prefix = f"events.{index}."
        places = [place.removeprefix(prefix) for place in record.not_finite if place.startswith(prefix)]
        yield Parsed(record.line, event, places)


@dataclass
class _Rollout:
    id: str
    line: int
    start: dict[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    messages: dict[Any, dict[str, Any]] = field(default_factory=dict)  # by the id of the event: an upload is repeated
    not_finite: list[str] = field(default_factory=list)


def _collect(record: Parsed, rollouts: dict[str, _Rollout]) -> None:
    event = record.value
    kind = event.get("eventType") if isinstance(event, dict) else None
    id = event.get("rolloutEventId" if kind == "message" else "eventId") if kind else None
    if kind not in ("rollout", "message", "rollout_update") or not isinstance(id, str):
        raise FormatError(f"expected a rollout, message or rollout_update event with its id, found {event!r:.80}")
    rollout = rollouts.setdefault(id, _Rollout(id, record.line))
    if kind == "rollout":
        rollout.start = event
    elif kind == "rollout_update":
        rollout.info |= event.get("rollout_info") or {}
    elif rollout.messages.setdefault(event.get("eventId") or len(rollout.messages), event) is event:
        rollout.not_finite += [f"messages.{event.get('index')}.{place}" for place in record.not_finite]


def _trajectories(record: Parsed) -> Iterator[Trajectory]:
    rollout: _Rollout = record.value
    start, info = rollout.start, (rollout.start.get("rollout_info") or {}) | rollout.info
    events = sorted(rollout.messages.values(), key=lambda event: event.get("index") or 0)
    messages, (before, *turns) = _chat(events)
    initial, steps = steps_from_chat(messages, done=False)
    for step, turn in zip(steps, turns, strict=True):
        step.reward = turn.reward
        step.metadata = {"events": turn.told} if turn.told else {}
        if turn.finished:
            step.observation = Record(step.observation, done=True)
    ended = any(turn.finished for turn in (before, *turns))
    known = [turn.reward for turn in (before, *turns) if turn.reward is not None]
    scores = [told["rubric"].get("scores") for turn in turns for told in turn.told if "rubric" in told]
    spec = start.get("task_spec")
    group = info.get("task_index")
    if group is None and isinstance(spec, dict):
        group = spec.get("id")
    names = ("runName", "rolloutName", "environment", "variant", "split", "step", "run_info", "metadata")
    yield Trajectory(
        id=rollout.id,
        task=wrap(spec),
        initial=initial,
        steps=steps,
        end="terminated" if ended else None,
        reward=known[-1] if known else None,
        reduction="last" if known else None,
        metadata={
            "group": group,
            "components": numbers(scores[-1]) if scores else {},
            **{name: start[name] for name in names if start.get(name) is not None},
            **({"rollout_info": info} if info else {}),
        },
    )


@dataclass
class _Turn:
    """What was paid and told in an action and its answers."""

    reward: float | None = None
    finished: bool = False
    told: list[dict[str, Any]] = field(default_factory=list)


def _chat(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[_Turn]]:
    """The events as chat, and the turns in it; the first stands for what comes before the first action."""
    messages: list[dict[str, Any]] = []
    turns = [_Turn()]
    said: dict[str, Any] | None = None
    for event in events:
        place = f"messages.{event.get('index')}"
        kind = event.get("type")
        if kind in ("assistant_message", "reasoning", "tool_call"):
            if said is None:
                said = {"role": "assistant", "content": None}
                messages.append(said)
                turns.append(_Turn())
            _say(said, kind, event)
        elif kind in ("tool_result", "user_message", "system_message"):
            said = None
            message: dict[str, Any] = {"role": _ROLES[kind], "content": event.get("content")}
            if kind == "tool_result":
                message["tool_call_id"] = event.get("callId")
            messages.append(message | _reference(event))
        else:
            raise FormatError(f"{place}.type: no such type of message: {kind!r:.60}")
        turn = turns[-1]
        reward = number(event.get("reward"), f"{place}.reward")
        turn.reward = turn.reward if reward is None else reward
        turn.finished = turn.finished or event.get("isFinished") is True
        if told := expect_object(event.get("metadata"), f"{place}.metadata"):
            turn.told.append(told)
    return messages, turns


_ROLES = {"tool_result": "tool", "user_message": "user", "system_message": "system"}


def _say(said: dict[str, Any], kind: str, event: dict[str, Any]) -> None:
    content = event.get("content")
    if kind == "tool_call":
        function = {"name": event.get("name"), "arguments": content}
        said.setdefault("tool_calls", []).append({"id": event.get("callId"), "function": function})
        return
    key = "content" if kind == "assistant_message" else "reasoning_content"
    texts = [text for text in (said.get(key), content or event.get("summary")) if text]
    said[key] = "\n\n".join(texts) if texts else None
    said.update(_reference(event))


def _reference(event: dict[str, Any]) -> dict[str, Any]:
    """Where OpenReward put what was too large for the event."""
    return {"content_reference": event["contentReference"]} if event.get("contentReference") else {}
