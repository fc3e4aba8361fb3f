"""Spans with the conventions for generative AI: an agent's chat put together, results of tools, evaluations."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

TRACE = "0x" + "8" * 32


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


CALL = {"type": "tool_call", "id": "c1", "name": "calc", "arguments": {"x": "2+2"}}
ASK = [text("system", "Use tools."), text("user", "2+2?")]
SAID = [{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, CALL], "finish_reason": "tool_call"}]
TOLD = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]}]
ANSWER = [{**text("assistant", "4"), "finish_reason": "stop"}]


def span(id: str, operation: str, start: int, parent: str | None = "agent", **more: Any) -> dict[str, Any]:
    attributes = {f"gen_ai.{name}": value for name, value in more.pop("attributes", {}).items()}
    return {
        "name": operation,
        "context": {"trace_id": TRACE, "span_id": f"0x{id}", "trace_state": "[]"},
        "parent_id": None if parent is None else f"0x{parent}",
        "start_time": f"2026-11-30T14:05:{start:02}Z",
        "end_time": f"2026-11-30T14:05:{start + 1:02}Z",
        "status": {"status_code": "UNSET"},
        "attributes": {"gen_ai.operation.name": operation, **attributes},
        "events": [],
        **more,
    }


def chat(id: str, start: int, given: Any, said: Any, **more: Any) -> dict[str, Any]:
    attributes = {"input.messages": json.dumps(given), "output.messages": json.dumps(said)}
    return span(id, "chat", start, attributes=attributes | more.pop("attributes", {}), **more)


def evaluation(name: str, value: float | None) -> dict[str, Any]:
    told = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.label": "pass"}
    if value is not None:
        told["gen_ai.evaluation.score.value"] = value
    return {"name": "gen_ai.evaluation.result", "attributes": told}


FIRST = chat("1", 1, ASK, SAID)
TOOL = span("2", "execute_tool", 2, attributes={"tool.call.id": "c1", "tool.call.result": "4"})
SECOND = chat("3", 3, [*ASK[1:], *SAID, *TOLD], ANSWER, events=[evaluation("exact", 1.0)])
AGENT = span("agent", "invoke_agent", 0, None, attributes={"agent.name": "quiz", "conversation.id": "c-1"})
SPANS = [FIRST, TOOL, SECOND, AGENT]


def written(folder: Path, spans: list[Any]) -> Path:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in spans))
    return path


def only(folder: Path, spans: list[Any]) -> Any:
    (item,) = read(written(folder, spans))
    return item


def test_the_chats_of_an_agent_are_its_steps(tmp_path: Path) -> None:
    trajectory = only(tmp_path, [SECOND, AGENT, TOOL, FIRST])
    first, second = trajectory.steps
    assert first.action == {
        "content": None,
        "tool_calls": [{"id": "c1", "name": "calc", "arguments": {"x": "2+2"}}],
        "reasoning_content": "hm",
    }
    assert first.observation.messages == [{"role": "tool", "tool_call_id": "c1", "content": "4"}]
    assert second.action == {"content": "4", "tool_calls": []}
    assert second.observation.done is True
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    assert (trajectory.id, trajectory.end, trajectory.reward) == ("8" * 32, "terminated", 1.0)
    assert trajectory.metadata["components"] == {"exact": 1.0}
    assert trajectory.metadata["conversation.id"] == "c-1"


def otlp(item: dict[str, Any]) -> dict[str, Any]:
    def value(plain: Any) -> dict[str, Any]:
        if isinstance(plain, list):
            return {"arrayValue": {"values": [value(part) for part in plain]}}
        if isinstance(plain, dict):
            return {"kvlistValue": {"values": [{"key": key, "value": value(part)} for key, part in plain.items()]}}
        if isinstance(plain, str):
            return {"stringValue": plain}
        return {"intValue": str(plain)} if isinstance(plain, int) else {"doubleValue": plain}

    def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"key": key, "value": value(part)} for key, part in plain.items()]

    start = int(item["start_time"][-3:-1]) * 10**9
    return {
        "traceId": item["context"]["trace_id"][2:],
        "spanId": item["context"]["span_id"][2:],
        **({"parentSpanId": item["parent_id"][2:]} if item["parent_id"] else {}),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1),
        "status": {},
        "attributes": attributes(item["attributes"]),
        "events": [{**event, "attributes": attributes(event["attributes"])} for event in item["events"]],
    }


def test_the_same_as_otlp(tmp_path: Path) -> None:
    plain = only(tmp_path, SPANS)
    path = tmp_path / "otlp.json"
    path.write_text(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [otlp(item) for item in SPANS]}]}]}, indent=1)
    )
    (same,) = read(path)
    assert isinstance(same, Trajectory)
    assert (same.id, same.steps, same.initial, same.end, same.reward) == (
        plain.id,
        plain.steps,
        plain.initial,
        plain.end,
        plain.reward,
    )


def test_messages_may_be_structured_and_stand_in_an_event(tmp_path: Path) -> None:
    details = {
        "gen_ai.input.messages": ASK,
        "gen_ai.output.messages": ANSWER,
        "gen_ai.system_instructions": [{"type": "text", "content": "S"}],
    }
    bare = span("1", "chat", 1, events=[{"name": "gen_ai.client.inference.operation.details", "attributes": details}])
    trajectory = only(tmp_path, [bare, AGENT])
    assert [message.content for message in trajectory.initial.messages] == ["S", "Use tools.", "2+2?"]
    assert [step.action.content for step in trajectory.steps] == ["4"]


def test_results_of_tools_come_from_their_spans_where_no_input_repeats_them(tmp_path: Path) -> None:
    trajectory = only(tmp_path, [FIRST, TOOL, AGENT])
    assert trajectory.steps[-1].observation.content == "4"
    assert trajectory.steps[-1].observation.done is True
    only_new = chat("3", 3, [text("user", "and?")], ANSWER)
    trajectory = only(tmp_path, [FIRST, TOOL, only_new, AGENT])
    assert [message.content for message in trajectory.steps[0].observation.messages] == ["4", "and?"]


def test_what_sub_agents_say_is_no_action_of_the_agent(tmp_path: Path) -> None:
    helper = span("sub", "invoke_agent", 2)
    inner = chat(
        "9", 2, [text("user", "inner")], [text("assistant", "inner")], parent="sub", events=[evaluation("in", 0.0)]
    )
    trajectory = only(tmp_path, [FIRST, inner, helper, TOOL, SECOND, AGENT])
    assert [step.action.content for step in trajectory.steps] == [None, "4"]
    assert (trajectory.reward, trajectory.metadata["components"]) == (None, {"in": 0.0, "exact": 1.0})


def test_several_agents_of_a_trace_are_several_episodes(tmp_path: Path) -> None:
    other = span("other", "invoke_agent", 5, None)
    said = chat("7", 6, [text("user", "hi")], [text("assistant", "ho")], parent="other")
    path = written(tmp_path, [*SPANS, said, other])
    first, second = read(path)
    assert isinstance(first, Trajectory) and isinstance(second, Trajectory)
    assert (first.id, second.id) == (f"{'8' * 32}/agent", f"{'8' * 32}/other")
    assert (first.reward, second.reward) == (1.0, None)
    assert [step.action.content for step in second.steps] == ["ho"]


@pytest.mark.parametrize(
    ("spans", "end"),
    [
        (SPANS, "terminated"),
        (SPANS[:3], None),  # the agent's span is written when it returns
        ([*SPANS[:3], {**AGENT, "status": {"status_code": "ERROR"}}], "error"),
        ([chat("3", 3, ASK, [{**ANSWER[0], "finish_reason": "length"}]), AGENT], "truncated"),
    ],
)
def test_how_it_ended(tmp_path: Path, spans: list[Any], end: str | None) -> None:
    trajectory = only(tmp_path, spans)
    assert trajectory.end == end
    assert trajectory.steps[-1].observation.done is (end == "terminated")


@pytest.mark.parametrize(
    ("scores", "reward", "components"),
    [
        ([], None, {}),
        ([("exact", None)], None, {"exact": None}),
        ([("exact", 0.0)], 0.0, {"exact": 0.0}),
        ([("exact", 0.0), ("style", 1.0)], None, {"exact": 0.0, "style": 1.0}),
        ([("exact", 0.0), ("exact", 1.0)], None, {"exact": 0.0, "exact#2": 1.0}),
        ([("exact", float("nan"))], None, {"exact": None}),
    ],
)
def test_one_evaluation_is_the_reward_and_several_are_its_parts(
    tmp_path: Path, scores: list[Any], reward: float | None, components: dict[str, float | None]
) -> None:
    judged = {**AGENT, "events": [evaluation(name, value) for name, value in scores]}
    trajectory = only(tmp_path, [FIRST, {**SECOND, "events": []}, judged])
    assert (trajectory.reward, trajectory.metadata["components"]) == (reward, components)


def test_what_is_no_text_stays_as_it_is(tmp_path: Path) -> None:
    blob = {"type": "blob", "mime_type": "image/png", "content": "iVBO"}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What is it?"}, blob]}]
    trajectory = only(tmp_path, [chat("1", 1, asked, ANSWER), AGENT])
    assert trajectory.initial.messages[0].content == [{"type": "text", "text": "What is it?"}, blob]


def test_a_chat_that_failed_is_no_action(tmp_path: Path) -> None:
    failed = span("2", "chat", 2, status={"status_code": "ERROR"})
    assert len(only(tmp_path, [FIRST, failed, SECOND, AGENT]).steps) == 2


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([span("1", "chat", 1), AGENT], "span 1: no gen_ai.output.messages; what a model said is recorded only where"),
        ([AGENT], f"trace {'8' * 32}: an agent without chat spans, so there are no actions"),
        (
            [span("1", "chat", 1, attributes={"output.messages": "{"}), AGENT],
            "span 1: gen_ai.output.messages: not JSON: ",
        ),
        (
            [span("1", "chat", 1, attributes={"output.messages": 3}), AGENT],
            "span 1: gen_ai.output.messages: expected a list, found 3",
        ),
    ],
)
def test_what_cannot_be_put_together_is_named(tmp_path: Path, spans: list[Any], message: str) -> None:
    problem = only(tmp_path, spans)
    assert isinstance(problem, FormatProblem)
    assert problem.message.startswith(message)


def test_a_bad_span_is_named_and_other_spans_are_none_of_ours(tmp_path: Path) -> None:
    web = {
        **span("w", "GET", 1, None),
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "attributes": {"http.method": "GET"},
    }
    nameless = {**FIRST, "context": {"trace_id": TRACE}}
    other, problem, trajectory = read(written(tmp_path, [{"traceId": "x"}, *SPANS[:2], nameless, web, *SPANS[2:]]))
    assert str(other).endswith(":1: expected a span with the ids of itself and its trace, found {'traceId': 'x'}")
    assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
    assert (problem.line, problem.message[:40]) == (4, "a span without ids of itself and its tra")
    assert len(trajectory.steps) == 2


def test_spans_of_other_things_may_stand_first_but_not_alone(tmp_path: Path) -> None:
    web = [{**span(f"w{number}", "GET", 1, None), "attributes": {"http.method": "GET"}} for number in range(5)]
    assert len(only(tmp_path, [*web, *SPANS]).steps) == 2
    problem = only(tmp_path, web)
    assert isinstance(problem, FormatProblem)
    assert problem.message == "there are spans, but none with the attributes of generative AI (gen_ai.…)"


def test_a_bad_span_of_a_batch_hides_no_other(tmp_path: Path) -> None:
    spans = [otlp(item) for item in SPANS]
    judged = {**spans[3], "events": [{"name": "gen_ai.evaluation.result", "attributes": [{"key": "x"}, 3]}]}
    path = tmp_path / "otlp.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [*spans[:3], judged, spans[3], 3]}]}]}))
    *problems, trajectory = read(path)
    assert isinstance(trajectory, Trajectory)
    assert (len(problems), trajectory.end, len(trajectory.steps)) == (2, "terminated", 2)


def test_a_nan_is_named_by_its_span(tmp_path: Path) -> None:
    trajectory = only(tmp_path, [FIRST, {**SECOND, "events": [evaluation("exact", float("nan"))]}, AGENT])
    assert trajectory.metadata["not_finite"] == ["3.events.0.attributes.gen_ai.evaluation.score.value"]


def test_the_real_file(shared_data: Path) -> None:
    (trajectory,) = read(shared_data / "trajectories/otel")
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.end, trajectory.reward, len(trajectory.steps)) == ("terminated", 1.0, 2)
    assert trajectory.steps[0].observation.content == "4"
    assert trajectory.metadata["components"] == {"exact": 1.0}
