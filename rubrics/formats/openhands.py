"""Runs of OpenHands: outputs of benchmarks and of the issue resolver, one a line, and single trajectories.

    {"instance_id", "instruction", "history": [event, …], "test_result", "metrics", "error", …}
    {"issue", "instruction", "history": [event, …], "git_patch", "success", "comment_success", "error", …}
    [event, …]                                                    a file that is one trajectory

An event is an action, {"source", "action", "args", …}, or an observation, {"observation", "content", "extras", …}. Old
files have the arguments beside `action`, or hold pairs [action, observation]; those of the agent SDK (OpenHands 1) have
`kind` and `tool_name`. All of them become

    action       {"action": "run", "args": {"command": "ls", …}, "thought": text}
    observation  {"observations": [{"observation": "run", "content": text, "extras": {…}}, …], "content": their text,
                  "done": bool}

What the agent does is a step; an observation belongs to the action that caused it, where it says so, else to the one
before it. What users say to the agent is an observation too. The reward is the resolver's `success`, or `resolved` in a
benchmark's report; most outputs have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Record, Step, Trajectory, wrap


def _openhands(record: Any) -> bool:
    if _is_event(record) and record.get("source") in ("agent", "user", "environment"):
        return True  # others may have actions and observations too
    return (
        isinstance(record, dict)
        and isinstance(record.get("history"), list)
        and bool(record.keys() & {"instance_id", "issue"})
        and all(
            _is_event(part) for item in record["history"][:1] for part in (item if isinstance(item, list) else [item])
        )
    )


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("kind"), str) and value["kind"].endswith("Event"):
        return "source" in value
    return isinstance(value.get("action" if "action" in value else "observation"), str)


@reader("openhands", detect=_openhands)
def read_openhands(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenHands: output.jsonl of benchmarks and of the resolver, or one trajectory as a list of events."""

    def convert(record: Parsed) -> list[Trajectory]:
        return [_trajectory(record, source)]

    events: list[Any] = []
    not_finite: list[str] = []
    line = 1
    cut: FormatError | None = None
    try:
        for record in source.records():
            if isinstance(record, FormatProblem):
                yield record
            elif _is_event(record.value):
                line = line if events else record.line
                not_finite += [f"{len(events)}.{place}" for place in record.not_finite]
                events.append(record.value)
            else:
                yield from source.converted(record, convert)
    except FormatError as error:  # the rest of the file is lost, not what stands before
        cut = error
    if events:
        yield from source.converted(Parsed(line, {"history": events}, not_finite), convert)
    if cut is not None:
        raise cut


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = expect_object(record.value, "the record")
    if "history" not in data:
        raise FormatError("history: missing")
    run = _run(expect_list(data["history"], "history"))
    end = _end(data, run)
    if run.steps and end == "terminated":
        run.steps[-1].done = True
    issue = data.get("issue") if isinstance(data.get("issue"), dict) else {}
    instance = data.get("instance_id")
    if instance is None and issue:
        instance = f"{issue.get('owner')}/{issue.get('repo')}#{issue.get('number')}"
    told = {name: value for name, value in data.items() if name not in (*_TASK, "history")}
    return Trajectory(
        id=source.stem if instance is None else f"{source.stem}/{instance}",
        task=wrap({name: data[name] for name in _TASK if data.get(name) is not None}) or None,
        initial=_observation(run.opening, done=False),
        steps=[
            Step(step.action, _observation(step.observations, step.done), metadata=step.metadata) for step in run.steps
        ],
        end=end,
        reward=None if end == "error" else _reward(data),
        metadata={
            "group": instance,
            "components": {
                f"comment_{number}": float(value)
                for number, value in enumerate(expect_list(data.get("comment_success"), "comment_success"))
            },
            **told,
        },
    )


_TASK = ("instance_id", "instruction", "instance", "issue", "issue_type", "base_commit")


def _reward(data: dict[str, Any]) -> float | None:
    result = data.get("test_result")
    report = result.get("report") if isinstance(result, dict) else None
    for value in (data.get("success"), report.get("resolved") if isinstance(report, dict) else None):
        if isinstance(value, bool):
            return float(value)
    return None


# --- events as steps -------------------------------------------------------------------------------------------------


@dataclass
class _Turn:
    action: Record
    metadata: dict[str, Any]
    observations: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False


@dataclass
class _Run:
    opening: list[dict[str, Any]] = field(default_factory=list)
    steps: list[_Turn] = field(default_factory=list)
    state: str | None = None  # of the agent, the last that an event tells


def _run(history: Sequence[Any]) -> _Run:
    run = _Run()
    by_id: dict[Any, _Turn] = {}
    events = [part for item in history for part in (item if isinstance(item, list) else [item])]
    for index, given in enumerate(events):
        if not isinstance(given, dict):
            raise FormatError(f"history.{index}: expected an event, found {given!r:.60}")
        event = _from_sdk(given) if "kind" in given else given
        state = (event.get("extras") or {}).get("agent_state")
        run.state = state if isinstance(state, str) else run.state
        if isinstance(event.get("action"), str) and _of_the_agent(event, index):
            turn = _Turn(_action(event), _told(event))
            run.steps.append(turn)
            by_id[event.get("id")] = turn
            continue
        caused = by_id.get(event.get("cause")) if event.get("cause") is not None else None
        turn_or_none = caused or (run.steps[-1] if run.steps else None)
        (turn_or_none.observations if turn_or_none else run.opening).append(_seen(event))
    return run


def _of_the_agent(event: dict[str, Any], index: int) -> bool:
    """Old events do not say whose they are: there the first message is the user's instruction."""
    if "source" in event:
        return bool(event["source"] == "agent") and event["action"] not in ("system", "recall")
    return not (index == 0 and event["action"] == "message")


_EVENT = ("id", "timestamp", "source", "cause", "message", "action", "args", "thought", "timeout", "tool_call_metadata")


def _action(event: dict[str, Any]) -> Record:
    args = _arguments(event)
    thought = args.pop("thought", None) or event.get("thought") or ""
    return Record(action=event["action"], args=args, thought=thought)


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    if isinstance(event.get("args"), dict):
        return dict(event["args"])
    return {name: value for name, value in event.items() if name not in _EVENT}


def _told(event: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {name: event[name] for name in ("id", "timestamp") if name in event}
    call = event.get("tool_call_metadata")
    if isinstance(call, dict):  # with a copy of the model's whole response
        told |= {name: call[name] for name in ("tool_call_id", "function_name") if name in call}
    return told


def _seen(event: dict[str, Any]) -> dict[str, Any]:
    if isinstance(event.get("action"), str):  # of a user, or of the system
        args = _arguments(event)
        content = args.pop("content", event.get("message", ""))
        return {"observation": event["action"], "content": content, "extras": args}
    if isinstance(event.get("extras"), dict):
        extras = event["extras"]
    else:
        extras = {name: value for name, value in event.items() if name not in (*_EVENT, "observation", "content")}
    return {"observation": event.get("observation"), "content": event.get("content", ""), "extras": extras}


def _observation(observations: list[dict[str, Any]], done: bool) -> Record:
    texts = [seen["content"] for seen in observations if isinstance(seen["content"], str)]
    return Record(observations=observations, content="\n\n".join(texts), done=done)


def _from_sdk(event: dict[str, Any]) -> dict[str, Any]:
    """An event of the agent SDK in the words of the older ones."""
    kind = event["kind"]
    plain: dict[str, Any] = {name: event[name] for name in ("id", "timestamp", "source") if name in event}
    if kind == "ActionEvent":
        args = {name: value for name, value in (event.get("action") or {}).items() if name != "kind"}
        call = {"tool_call_id": event.get("tool_call_id"), "function_name": event.get("tool_name")}
        thought = {"thought": _text(event.get("thought")) or event.get("reasoning_content")}
        return {**plain, "action": event["tool_name"], "args": args | thought, "tool_call_metadata": call}
    if kind == "MessageEvent":
        content = _text((event.get("llm_message") or {}).get("content"))
        return {**plain, "action": "message", "args": {"content": content}}
    if kind == "SystemPromptEvent":
        return {**plain, "action": "system", "args": {"content": _text([event.get("system_prompt")])}}
    result = event.get("observation")
    extras = {name: value for name, value in event.items() if name not in ("kind", "observation", *_EVENT)}
    if event.get("key") == "execution_status":
        extras["agent_state"] = event.get("value")
    if isinstance(result, dict):
        extras |= {name: value for name, value in result.items() if name not in ("kind", "content")}
    content = _text(result.get("content")) if isinstance(result, dict) else event.get("error", "")
    plain["cause"] = event.get("action_id")
    return {**plain, "observation": event.get("tool_name") or kind, "content": content, "extras": extras}


def _text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "\n\n".join(
        part["text"] for part in parts or () if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


# --- the end ---------------------------------------------------------------------------------------------------------

_ENDS: dict[str, End] = {
    "finished": "terminated",
    "rejected": "terminated",
    "error": "error",
    "stuck": "error",
    "stopped": "abandoned",
    "paused": "abandoned",
}


def _end(data: dict[str, Any], run: _Run) -> End | None:
    """OpenHands tells of a limit as of an error, in words."""
    if error := data.get("error"):
        told = str(error).lower()
        return "truncated" if "maximum iteration" in told or "maximum budget" in told else "error"
    if run.steps and run.steps[-1].action["action"] in ("finish", "reject"):
        return "terminated"
    return _ENDS.get(run.state.lower()) if run.state else None
