"""Spans of OpenTelemetry with the conventions for generative AI: one a line as exporters print them, or OTLP's JSON.

An episode is what one agent did in one trace: its `chat` spans, in the order of time, from the outermost `invoke_agent`
span downwards. What its sub-agents said is no action of its own. Each output (`gen_ai.output.messages`) is an action;
the messages that the next input adds behind the last assistant's message, or the results of `execute_tool` spans, are
the observation, see `rubrics.formats.chat`.

Scores are `gen_ai.evaluation.result` events: one is the reward, several are components of a reward that is not in the
file. The end is told by the status of the agent's span, which is written when the agent has returned. Spans come in the
order in which they ended, so a file is held in memory before the first trajectory is handed out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rubrics.formats.chat import steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, number
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Trajectory


def _otel(record: Any) -> bool:
    return any(True for _ in _raw_spans(record))


@reader("otel", detect=_otel)
def read_otel(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenTelemetry spans with the conventions for generative AI, as printed or as OTLP's JSON."""
    traces: dict[str, _Trace] = {}

    def collect(record: Parsed) -> tuple[Trajectory, ...]:
        span = _span(record.value)
        trace = traces.setdefault(span.trace, _Trace(span.trace, record.line))
        trace.spans[span.id] = span
        trace.not_finite += [f"{span.id}.{place}" for place in record.not_finite]
        return ()

    try:
        yield from source.each_of(collect, _spans(source))
    except FormatError as error:  # the rest of the file is lost, what was collected is not
        yield source.problem(error.line, str(error))
    known = [trace for trace in traces.values() if any(span.generative for span in trace.spans.values())]
    if traces and not known:
        yield source.problem(None, "there are spans, but none with the attributes of generative AI (gen_ai.…)")
    for trace in known:
        yield from source.converted(Parsed(trace.line, trace, trace.not_finite), _trajectories)


def _spans(source: Source) -> Iterator[Parsed | FormatProblem]:
    for record in source.records():
        if isinstance(record, FormatProblem):
            yield record
            continue
        if not _otel(record.value) and not (isinstance(record.value, dict) and "resourceSpans" in record.value):
            yield source.problem(
                record.line, f"expected a span with the ids of itself and its trace, found {record.value!r:.60}"
            )
        for prefix, span in _raw_spans(record.value):
            places = [place.removeprefix(prefix) for place in record.not_finite if place.startswith(prefix)]
            yield Parsed(record.line, span, places)


def _raw_spans(record: Any) -> Iterator[tuple[str, Any]]:
    """The spans in a record, each with what places within it begin with."""
    if not isinstance(record, dict):
        return
    if not isinstance(record.get("resourceSpans"), list):
        context = record.get("context")
        if record.keys() >= {"traceId", "spanId"} or (isinstance(context, dict) and "trace_id" in context):
            yield "", record
        return
    for i, resource in enumerate(record["resourceSpans"]):
        for j, scope in enumerate(_list_in(resource, "scopeSpans")):
            for k, span in enumerate(_list_in(scope, "spans")):
                yield f"resourceSpans.{i}.scopeSpans.{j}.spans.{k}.", span


def _list_in(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


@dataclass
class _Span:
    trace: str
    id: str
    parent: str | None
    start: Any
    ended: bool
    failed: bool
    attributes: dict[str, Any]
    evaluations: list[dict[str, Any]]

    @property
    def generative(self) -> bool:
        return any(name.startswith("gen_ai.") for name in self.attributes)

    @property
    def operation(self) -> Any:
        return self.attributes.get("gen_ai.operation.name")


@dataclass
class _Trace:
    id: str
    line: int
    spans: dict[str, _Span] = field(default_factory=dict)
    not_finite: list[str] = field(default_factory=list)


_MODEL = ("chat", "generate_content", "text_completion")


def _span(span: dict[str, Any]) -> _Span:
    """A span as Python's exporter prints it, or as OTLP has it."""
    context = span.get("context") or {}
    attributes = _attributes(span.get("attributes"))
    evaluations = []
    for event in span.get("events") or ():
        told = _attributes(event.get("attributes"))
        if event.get("name") == "gen_ai.evaluation.result":
            evaluations.append(told)
        elif event.get("name") == "gen_ai.client.inference.operation.details":
            attributes = told | attributes
    status = span.get("status") or {}
    return _Span(
        trace=_hex(context.get("trace_id", span.get("traceId"))),
        id=_hex(context.get("span_id", span.get("spanId"))),
        parent=_hex(parent) if (parent := span.get("parent_id", span.get("parentSpanId"))) else None,
        start=span.get("start_time") or int(span.get("startTimeUnixNano", 0)),
        ended=bool(span.get("end_time") or span.get("endTimeUnixNano")),
        failed=status.get("status_code", status.get("code")) in ("ERROR", "STATUS_CODE_ERROR", 2),
        attributes=attributes,
        evaluations=evaluations,
    )


def _hex(id: Any) -> str:
    if not isinstance(id, str):
        raise FormatError(f"a span without ids of itself and its trace: expected a text, found {id!r:.60}")
    return id.removeprefix("0x")


def _attributes(values: Any) -> dict[str, Any]:
    if isinstance(values, list):  # OTLP: [{"key": …, "value": {"stringValue": …}}, …]
        return {item["key"]: _any_value(item.get("value")) for item in values}
    return values if isinstance(values, dict) else {}


def _any_value(value: Any) -> Any:
    kind = next(iter(value)) if isinstance(value, dict) and value else ""
    plain: Any = value[kind] if kind else None
    if kind == "intValue":
        return int(plain)
    if kind == "arrayValue":
        return [_any_value(item) for item in plain.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(plain.get("values") or [])
    return plain


def _agents(spans: dict[str, _Span]) -> list[tuple[_Span | None, list[_Span]]]:
    """The outermost agents of a trace, each with the spans that are its own; None has the spans of no agent."""
    own: dict[str | None, list[_Span]] = {}
    for span in sorted(spans.values(), key=lambda span: (isinstance(span.start, int), span.start)):
        above = [at for at in _upwards(span, spans) if at.operation == "invoke_agent"]
        if len(above) <= 1:
            own.setdefault(above[0].id if above else None, []).append(span)
    return [(None if id is None else spans[id], members) for id, members in own.items()]


def _upwards(span: _Span, spans: dict[str, _Span]) -> Iterator[_Span]:
    seen = set()
    at: _Span | None = span
    while at is not None and at.id not in seen:
        yield at
        seen.add(at.id)
        at = spans.get(at.parent) if at.parent is not None else None


# --- spans as a chat -------------------------------------------------------------------------------------------------


def _trajectories(record: Parsed) -> Iterator[Trajectory]:
    trace: _Trace = record.value
    agents = [(agent, own) for agent, own in _agents(trace.spans) if any(span.operation in _MODEL for span in own)]
    if not agents and any(span.operation == "invoke_agent" for span in trace.spans.values()):
        raise FormatError(f"trace {trace.id}: an agent without chat spans, so there are no actions")
    for agent, own in agents:
        yield _trajectory(trace, agent, own, alone=len(agents) == 1)


def _trajectory(trace: _Trace, agent: _Span | None, own: list[_Span], alone: bool) -> Trajectory:
    messages, reason = _chat(own)
    end: End | None = None
    if agent is not None:
        end = "error" if agent.failed else "truncated" if reason == "length" else "terminated" if agent.ended else None
    initial, steps = steps_from_chat(messages, done=end == "terminated")
    told = agent.attributes if agent is not None else {}
    evaluations = [evaluation for span in (trace.spans.values() if alone else own) for evaluation in span.evaluations]
    components = _components(evaluations)
    return Trajectory(
        id=trace.id if alone or agent is None else f"{trace.id}/{agent.id}",
        initial=initial,
        steps=steps,
        end=end,
        reward=next(iter(components.values())) if len(components) == 1 else None,
        metadata={
            "group": None,
            "components": components,
            **({"evaluations": evaluations} if evaluations else {}),
            **{name: told[f"gen_ai.{name}"] for name in _TOLD if f"gen_ai.{name}" in told},
        },
    )


def _components(evaluations: list[dict[str, Any]]) -> dict[str, float | None]:
    components: dict[str, float | None] = {}
    for evaluation in evaluations:
        name = str(evaluation.get("gen_ai.evaluation.name"))
        count = sum(known == name or known.startswith(f"{name}#") for known in components)
        value = number(evaluation.get("gen_ai.evaluation.score.value"), f"gen_ai.evaluation.score.value of {name}")
        components[f"{name}#{count + 1}" if count else name] = value
    return components


_TOLD = ("agent.name", "agent.id", "conversation.id")


def _chat(spans: list[_Span]) -> tuple[list[dict[str, Any]], Any]:
    """The messages of an agent, and why the model stopped the last time."""
    results = {
        span.attributes.get("gen_ai.tool.call.id"): span.attributes.get("gen_ai.tool.call.result")
        for span in spans
        if span.operation == "execute_tool" and "gen_ai.tool.call.result" in span.attributes
    }
    messages: list[dict[str, Any]] = []
    reason: Any = None
    asked: list[Any] | None = None  # ids of the calls that were not answered yet; None before the first action
    for span in (span for span in spans if span.operation in _MODEL):
        given = [message for item in _list(span, "gen_ai.input.messages") for message in _plain(item)]
        outputs = _list(span, "gen_ai.output.messages")
        if not outputs and not span.failed:
            raise FormatError(
                f"span {span.id}: no gen_ai.output.messages; what a model said is recorded only where the "
                "instrumentation is told to capture the content of messages"
            )
        if asked is None:
            if system := _list(span, "gen_ai.system_instructions"):
                messages += _plain({"role": "system", "parts": system})
            messages += given
        else:
            last = max((i for i, message in enumerate(given) if message["role"] == "assistant"), default=-1)
            messages += _answers(asked, given[last + 1 :], results)
        said = [message for item in outputs for message in _plain(item)]
        messages += said
        asked = [call["id"] for message in said for call in message.get("tool_calls") or ()]
        reason = outputs[-1].get("finish_reason") if outputs else reason
    return messages + _answers(asked or [], [], results), reason


def _answers(asked: list[Any], given: list[dict[str, Any]], results: dict[Any, Any]) -> list[dict[str, Any]]:
    """What the model is answered with; results of tools that no input repeats are taken from the tools' own spans."""
    told = {message.get("tool_call_id") for message in given}
    missing = [id for id in asked if id in results and id not in told]
    return [*({"role": "tool", "tool_call_id": id, "content": _content(results[id])} for id in missing), *given]


def _list(span: _Span, name: str) -> list[Any]:
    value = span.attributes.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise FormatError(f"span {span.id}: {name}: not JSON: {error}") from None
    return expect_list(value, f"span {span.id}: {name}")


def _plain(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message in the form of OpenAI's chat: responses of tools are messages of their own."""
    parts = message.get("parts") or []
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        yield {
            "role": "tool",
            "tool_call_id": part.get("id"),
            "content": _content(part["response"] if "response" in part else part.get("result")),
        }
    calls = [part for part in parts if part.get("type") == "tool_call"]
    thought = [part["content"] for part in parts if part.get("type") == "reasoning"]
    rest = [part for part in parts if part.get("type") not in ("tool_call", "tool_call_response", "reasoning")]
    if results and not (rest or calls or thought):
        return
    texts = [part["content"] for part in rest if part.get("type") == "text"]
    plain: dict[str, Any] = {"role": message["role"], "content": "\n\n".join(texts) if texts else None}
    if len(texts) < len(rest):
        plain["content"] = [{"type": "text", "text": p["content"]} if p.get("type") == "text" else p for p in rest]
    if calls:
        plain["tool_calls"] = [
            {"id": call.get("id"), "function": {"name": call["name"], "arguments": call.get("arguments")}}
            for call in calls
        ]
    if thought:
        plain["reasoning_content"] = "\n\n".join(thought)
    yield plain


def _content(value: Any) -> Any:
    return value if isinstance(value, str | list) or value is None else json.dumps(value, ensure_ascii=False)
