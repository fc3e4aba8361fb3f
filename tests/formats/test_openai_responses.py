"""OpenAI Responses: items become messages, and the status tells how it ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

CALL = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"id": "Z9"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sent"}
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It was sent."}]}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "look it up"}]}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": "completed", "output": list(output), **more}


def only(path: Path, record: Any) -> Any:
    path.write_text(json.dumps(record, indent=1))
    (item,) = read(path)
    return item


def test_a_response_is_an_episode(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "r.json", response(THOUGHT, CALL, RESULT, ANSWER, instructions="Be kind.", model="m"))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.source is not None
    assert trajectory.source["format"] == "openai-responses"
    assert (trajectory.id, trajectory.end, trajectory.metadata["model"]) == ("resp_1", "terminated", "m")
    assert trajectory.initial.messages == [{"role": "system", "content": "Be kind."}]
    first, second = trajectory.steps
    assert first.action.reasoning_content == "look it up"
    assert first.action.tool_calls == [{"id": "c1", "name": "find", "arguments": {"id": "Z9"}}]
    assert first.observation.messages == [{"role": "tool", "tool_call_id": "c1", "content": "sent"}]
    assert (second.action.content, second.observation.done) == ("It was sent.", True)


@pytest.mark.parametrize("form", ["one object", "request and response", "batch"])
def test_the_request_is_what_the_agent_was_asked(tmp_path: Path, form: str) -> None:
    given = [{"role": "user", "content": "Q"}, ANSWER, {"role": "user", "content": "Where?"}]
    record: dict[str, Any] = {"input": given, "output": [ANSWER], "reward": 0.5, "group": "g"}
    if form == "request and response":
        record = {"request": {"input": given}, "response": response(ANSWER), "reward": 0.5, "group": "g"}
    elif form == "batch":
        record = {
            "custom_id": "row-1",
            "request": {"method": "POST", "body": {"input": given}},
            "response": {"status_code": 200, "body": response(ANSWER)},
            "reward": 0.5,
            "group": "g",
        }
    trajectory = only(tmp_path / "r.json", record)
    assert [message.role for message in trajectory.initial.messages] == ["user", "assistant", "user"]
    assert [step.action.content for step in trajectory.steps] == ["It was sent."]
    assert (trajectory.reward, trajectory.metadata["group"]) == (0.5, "g")
    assert trajectory.id == {"one object": "r/1", "request and response": "resp_1", "batch": "row-1"}[form]


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"status": "completed"}, "terminated"),
        ({"status": "incomplete"}, "truncated"),
        ({"status": None, "incomplete_details": {"reason": "max_output_tokens"}}, "truncated"),
        ({"status": "failed"}, "error"),
        ({"status": "completed", "error": {"code": "server_error"}}, "error"),
        ({"status": "cancelled"}, "abandoned"),
        ({"status": "in_progress"}, None),
        ({"status": None}, None),
    ],
)
def test_the_status_is_the_end(tmp_path: Path, more: dict[str, Any], end: str | None) -> None:
    trajectory = only(tmp_path / "r.json", response(ANSWER, **more))
    assert trajectory.end == end
    assert trajectory.steps[-1].observation.done is (end == "terminated")


def test_a_call_that_nobody_answered_ends_nothing(tmp_path: Path) -> None:
    assert only(tmp_path / "r.json", response(CALL)).end is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (response("hi"), "output.0: expected an item of the Responses API"),
        ({"id": "x"}, "expected an object with the output of a response"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, record: Any, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{json.dumps(response(ANSWER))}\n{json.dumps(record)}\n")
    good, problem = read(path)
    assert isinstance(good, Trajectory)
    assert isinstance(problem, FormatProblem)
    assert str(problem).startswith(f"{path}:2: {message}")
