"""Anthropic messages: results of tools stand in turns of the user, and arguments are objects."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

LOST = {"type": "text", "text": "lost"}
CHAT = [
    {"role": "user", "content": "Where are my orders?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "look them up", "signature": "s"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "find", "input": {"id": "Z9"}},
            {"type": "tool_use", "id": "t2", "name": "find", "input": {"id": "Y8"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "sent"},
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "content": [{"type": "text", "text": "lost"}],
                "is_error": True,
            },
            {"type": "text", "text": "Go on."},
        ],
    },
    {"role": "assistant", "content": "One was sent."},
]


def only(path: Path, record: Any) -> Any:
    path.write_text(json.dumps(record, indent=1))
    (item,) = read(path)
    return item


def test_blocks_are_actions_and_observations(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "c.json", {"system": "Be kind.", "messages": CHAT, "stop_reason": "end_turn"})
    assert isinstance(trajectory, Trajectory)
    assert trajectory.source is not None
    assert trajectory.source["format"] == "anthropic"
    assert trajectory.initial.messages[0] == {"role": "system", "content": "Be kind."}
    first, second = trajectory.steps
    assert first.action == {
        "content": "Let me see.",
        "tool_calls": [
            {"id": "t1", "name": "find", "arguments": {"id": "Z9"}},
            {"id": "t2", "name": "find", "arguments": {"id": "Y8"}},
        ],
        "reasoning_content": "look them up",
    }
    assert first.observation.messages == [
        {"role": "tool", "tool_call_id": "t1", "content": "sent"},
        {"role": "tool", "tool_call_id": "t2", "content": "lost", "is_error": True},
        {"role": "user", "content": "Go on."},
    ]
    assert first.observation.content == "sent\n\nlost\n\nGo on."
    assert (second.action.content, second.observation.done, trajectory.end) == ("One was sent.", True, "terminated")


@pytest.mark.parametrize(
    ("stop", "end"),
    [
        ("end_turn", "terminated"),
        ("stop_sequence", "terminated"),
        ("refusal", "terminated"),
        ("max_tokens", "truncated"),
        ("tool_use", None),
        ("pause_turn", None),
        (None, None),
    ],
)
def test_the_stop_reason_is_the_end(tmp_path: Path, stop: str | None, end: str | None) -> None:
    assert only(tmp_path / "c.json", {"messages": CHAT, "stop_reason": stop}).end == end


@pytest.mark.parametrize("form", ["request and response", "response alone", "messages"])
def test_a_record_may_be_a_call_of_the_api(tmp_path: Path, form: str) -> None:
    response = {"id": "msg_1", "type": "message", "stop_reason": "end_turn", **CHAT[-1]}
    record: Any = {"request": {"system": [{"type": "text", "text": "S"}], "messages": CHAT[:-1]}, "response": response}
    trajectory = only(
        tmp_path / "c.json", {"request and response": record, "response alone": response, "messages": CHAT}[form]
    )
    assert [step.action.content for step in trajectory.steps][-1] == "One was sent."
    assert len(trajectory.steps) == (1 if form == "response alone" else 2)
    assert trajectory.end == (None if form == "messages" else "terminated")


def test_blocks_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "…"}}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    messages = [
        {"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]},
        {"role": "assistant", "content": [search, {"type": "text", "text": "A cat."}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
    ]
    trajectory = only(tmp_path / "c.json", {"messages": messages, "reward": 0.5, "task_id": "t"})
    assert trajectory.initial.messages[0].content[0] == image
    assert trajectory.steps[0].action.content == [search, {"type": "text", "text": "A cat."}]
    assert trajectory.steps[1].action == {"content": None, "tool_calls": [], "redacted_thinking": ["x"]}
    assert (trajectory.reward, trajectory.metadata["group"]) == (0.5, "t")


def test_a_bad_block_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    bad = [{"role": "assistant", "content": [{"type": "tool_use", "name": "x"}]}]
    path.write_text("\n".join(json.dumps({"messages": m, "system": ""}) for m in (CHAT, bad, CHAT)))
    first, problem, last = read(path)
    assert isinstance(first, Trajectory)
    assert isinstance(last, Trajectory)
    assert isinstance(problem, FormatProblem)
    assert problem.message == "messages.0.content: a block has no 'input'"


def test_the_real_file(shared_data: Path) -> None:
    (trajectory,) = read(shared_data / "trajectories/anthropic/test_anthropic_tool_output.json")
    assert isinstance(trajectory, Trajectory)
    assert trajectory.source is not None
    assert trajectory.source["format"] == "anthropic"
    first, second = trajectory.steps
    assert (first.action.tool_calls[0].name, first.action.tool_calls[0].arguments) == ("get_user_country", {})
    assert first.observation.content == "Mexico"
    assert second.action.tool_calls[0].arguments == {"city": "Mexico City", "country": "Mexico"}
    assert (trajectory.end, trajectory.reward) == (None, None)
