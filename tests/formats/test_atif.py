"""ATIF: every version, what was copied is told but not scored, and what had to be repaired is reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

CALL = {"tool_call_id": "c1", "function_name": "find", "arguments": {"id": "Z9"}}
USER = {"step_id": 1, "source": "user", "message": "Where is my order?"}
AGENT = {
    "step_id": 2,
    "source": "agent",
    "message": "Let me see.",
    "reasoning_content": "look it up",
    "tool_calls": [CALL],
    "observation": {"results": [{"source_call_id": "c1", "content": "sent"}]},
    "metrics": {"prompt_tokens": 5},
}
ANSWER = {"step_id": 3, "source": "agent", "message": "It was sent."}


def document(*steps: Any, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s-1",
        "agent": {"name": "a", "version": "1"},
        "steps": [*steps],
        **more,
    }


def only(path: Path, data: Any) -> Any:
    path.write_text(json.dumps(data, indent=1))
    (item,) = read(path)
    return item


@pytest.mark.parametrize("minor", range(9))
def test_an_agents_step_is_an_action_with_its_results(tmp_path: Path, minor: int) -> None:
    trajectory = only(tmp_path / "t.json", document(USER, AGENT, ANSWER, schema_version=f"ATIF-v1.{minor}"))
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, trajectory.end, trajectory.reward) == ("s-1", None, None)
    assert trajectory.initial.content == "Where is my order?"
    first, second = trajectory.steps
    assert first.action == {
        "content": "Let me see.",
        "tool_calls": [{"id": "c1", "name": "find", "arguments": {"id": "Z9"}}],
        "reasoning_content": "look it up",
    }
    assert first.observation.messages == [{"role": "tool", "tool_call_id": "c1", "content": "sent"}]
    assert first.metadata == {"metrics": {"prompt_tokens": 5}}
    assert second.action == {"content": "It was sent.", "tool_calls": []}
    assert "repaired" not in trajectory.metadata
    assert trajectory.metadata["agent"] == {"name": "a", "version": "1"}


def test_what_was_copied_is_context_and_no_step(tmp_path: Path) -> None:
    copied = [{**USER, "is_copied_context": True}, {**AGENT, "is_copied_context": True}]
    trajectory = only(tmp_path / "t.json", document(*copied, ANSWER, schema_version="ATIF-v1.5"))
    assert [step.action.content for step in trajectory.steps] == ["It was sent."]
    assert [message.role for message in trajectory.initial.messages] == ["user", "assistant", "tool"]


def test_sub_agents_stay_by_reference(tmp_path: Path) -> None:
    reference = [{"trajectory_id": "sub-1"}]
    asked = {**AGENT, "observation": {"results": [{"source_call_id": "c1", "subagent_trajectory_ref": reference}]}}
    sub = document(USER, ANSWER, trajectory_id="sub-1")
    trajectory = only(tmp_path / "t.json", document(USER, asked, subagent_trajectories=[sub], trajectory_id="t-1"))
    assert trajectory.id == "t-1"
    assert trajectory.steps[0].observation.messages[0].subagent_trajectory_ref == reference
    assert trajectory.metadata["subagent_trajectories"] == [sub]


def test_parts_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]
    trajectory = only(tmp_path / "t.json", document({**USER, "message": parts}, {**ANSWER, "step_id": 2}))
    assert trajectory.initial.messages[0].content == parts
    assert trajectory.initial.content == "see"


def test_what_is_not_to_the_letter_is_read_and_reported(tmp_path: Path) -> None:
    wild = {
        "schema_version": "1.4",
        "agent": {"name": "a", "model": "m"},
        "score": 1,
        "steps": [
            {"step_id": 1, "source": "user", "content": "Where?"},
            {
                "source": "assistant",
                "message": None,
                "tool_calls": [
                    {"id": "c1", "name": "find", "arguments": '{"id": "Z9"}'},
                    {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{"}},
                ],
                "observation": [{"source_call_id": "c1", "content": "sent"}, "seen"],
                "reward": 0.5,
                "mood": "good",
            },
        ],
    }
    trajectory = only(tmp_path / "t.json", wild)
    assert trajectory.source["format"] == "atif"
    assert trajectory.metadata["schema_version"] == "ATIF-v1.4"
    assert trajectory.metadata["agent"] == {"name": "a", "model_name": "m"}
    (step,) = trajectory.steps
    assert step.action.tool_calls == [
        {"id": "c1", "name": "find", "arguments": {"id": "Z9"}},
        {"id": "c2", "name": "look", "arguments": "{"},
    ]
    assert [message.content for message in step.observation.messages] == ["sent", "seen"]
    assert (step.reward, step.metadata["mood"]) == (0.5, "good")
    assert trajectory.metadata["repaired"] == [
        "schema_version: '1.4' was read as 'ATIF-v1.4'",
        "agent.model: was read as model_name",
        "agent.version: missing",
        "score: no field of ATIF; kept as metadata",
        "steps.0.content: was read as message",
        "steps.1.source: 'assistant' was read as 'agent'",
        "steps.1.step_id: expected 2, found None",
        "steps.1.message: missing",
        "steps.1.tool_calls.0.id: was read as tool_call_id",
        "steps.1.tool_calls.0.name: was read as function_name",
        "steps.1.tool_calls.0.arguments: their JSON was read",
        "steps.1.tool_calls.1.function: its fields were read as the call's",
        "steps.1.tool_calls.1.id: was read as tool_call_id",
        "steps.1.tool_calls.1.name: was read as function_name",
        "steps.1.tool_calls.1.arguments: their JSON was read",
        "steps.1.observation: expected an object with results",
        "steps.1.reward: no field of ATIF; read as the reward of the step",
        "steps.1.mood: no field of ATIF; kept as metadata of the step",
    ]


def test_it_may_have_an_id_as_our_own_format_has(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "t.json", {"id": "x", **document(USER, ANSWER)})
    assert trajectory.source["format"] == "atif"


def test_a_version_to_come_is_read_and_reported(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "t.json", document(USER, AGENT, schema_version="ATIF-v1.9"))
    assert trajectory.metadata["repaired"] == ["schema_version: 'ATIF-v1.9' is none of ATIF-v1.0 to ATIF-v1.8"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (document("hi"), "steps.0: expected an object, found 'hi'"),
        (document({"step_id": 1, "source": "tool", "message": ""}), "steps.0.source: expected user, system or agent"),
        (document({**AGENT, "tool_calls": [{"id": "c"}]}), "steps.0.tool_calls.0.function_name: missing"),
        (document({**AGENT, "observation": {"results": "x"}}), "steps.0.observation.results: expected a list"),
        (document(**{"steps": None}), "expected an object with schema_version, agent and steps"),
    ],
)
def test_what_cannot_be_understood_is_a_problem(tmp_path: Path, data: Any, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps(document(USER, AGENT))}\n{json.dumps(data)}\n")
    good, problem = read(path)
    assert isinstance(good, Trajectory)
    assert isinstance(problem, FormatProblem)
    assert str(problem).startswith(f"{path}:2: {message}")


def test_a_trajectory_without_steps_is_one(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "t.json", document())
    assert (trajectory.steps, trajectory.initial.messages) == ([], [])


def test_the_real_file(shared_data: Path) -> None:
    (trajectory,) = read(shared_data / "trajectories/atif/rfc_example_v1.4.json")
    assert isinstance(trajectory, Trajectory)
    assert trajectory.id == "025B810F-B3A2-4C67-93C0-FE7A142A947A"
    assert "repaired" not in trajectory.metadata
    first, second = trajectory.steps
    assert [call.name for call in first.action.tool_calls] == ["financial_search", "financial_search"]
    assert len(first.observation.messages) == 2
    assert second.action.content.startswith("As of October 11, 2025")
    assert (trajectory.end, trajectory.reward) == (None, None)
