"""tau2-bench: simulations out of one document, messages or ticks, and null that is no zero."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

CALL = {"id": "c1", "name": "find", "arguments": {"id": "Z9"}, "requestor": "assistant"}
CHAT = [
    {"role": "assistant", "content": "Hi!", "tool_calls": None, "turn_idx": 0, "audio_path": None, "cost": 0.25},
    {"role": "user", "content": "Where is it?", "tool_calls": None, "turn_idx": 1},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "raw_data": {"id": "x"}},
    {"role": "tool", "tool_messages": [{"id": "c1", "role": "tool", "content": "sent", "error": False}]},
    {"role": "assistant", "content": "It was sent."},
    {"role": "user", "content": None, "tool_calls": [{**CALL, "id": "u1", "requestor": "user"}]},
    {"role": "tool", "id": "u1", "content": "ok", "requestor": "user"},
]
JUDGED = {"reward": 1.0, "reward_breakdown": {"DB": 1.0, "COMMUNICATE": None}, "db_check": {"db_reward": 1.0}}


def simulation(**more: Any) -> dict[str, Any]:
    return {
        "id": "sim-1",
        "task_id": "3",
        "trial": 1,
        "termination_reason": "user_stop",
        "reward_info": JUDGED,
        "messages": CHAT,
        **more,
    }


def results(*simulations: Any) -> dict[str, Any]:
    return {"info": {"seed": 1}, "tasks": [{"id": "3", "ticket": "Ask."}], "simulations": [*simulations]}


def only(path: Path, data: Any) -> Any:
    path.write_text(json.dumps(data, indent=1))
    (item,) = read(path)
    return item


def test_a_simulation_is_an_episode(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "air.json", results(simulation()))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.source is not None
    assert trajectory.source["format"] == "tau2"
    assert (trajectory.id, trajectory.reward, trajectory.end, trajectory.reduction) == (
        "sim-1",
        1.0,
        "terminated",
        "last",
    )
    assert trajectory.task == {"id": "3", "ticket": "Ask."}
    assert (trajectory.metadata["group"], trajectory.metadata["trial"]) == ("3", 1)
    assert trajectory.metadata["components"] == {"DB": 1.0, "COMMUNICATE": None}
    greeting, asking, answer = trajectory.steps
    assert greeting.action == {"content": "Hi!", "tool_calls": []}
    assert greeting.metadata == {"turn_idx": 0, "cost": 0.25}
    assert asking.action.tool_calls == [{"id": "c1", "name": "find", "arguments": {"id": "Z9"}}]
    assert asking.observation.messages == [
        {"role": "tool", "content": "sent", "error": False, "tool_call_id": "c1"},
    ]
    assert [message.role for message in answer.observation.messages] == ["user", "tool"]
    assert answer.observation.done is True


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("agent_stop", "terminated"),
        ("max_steps", "truncated"),
        ("too_many_errors", "truncated"),
        ("infrastructure_error", "error"),
        ("something_new", None),
        (None, None),
    ],
)
def test_the_reason_is_the_end(tmp_path: Path, reason: str | None, end: str | None) -> None:
    trajectory = only(tmp_path / "air.json", results(simulation(termination_reason=reason)))
    assert trajectory.end == end
    assert trajectory.metadata["termination_reason"] == reason


def test_null_is_unscored_and_a_nan_too(tmp_path: Path) -> None:
    path = tmp_path / "air.json"
    nan = simulation(id="sim-2", reward_info={"reward": float("nan")})
    path.write_text(json.dumps(results(simulation(reward_info=None), nan)))
    first, second = read(path)
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert (first.reward, first.metadata["components"]) == (None, {})
    assert second.reward is None
    assert second.metadata["not_finite"] == ["reward_info.reward"]
    assert "not_finite" not in first.metadata


def test_checks_are_components_where_there_is_no_breakdown(tmp_path: Path) -> None:
    judged = {"reward": 0.0, "db_check": {"db_reward": 0.0}, "nl_assertions": [{"met": True}, {"met": False}]}
    trajectory = only(tmp_path / "air.json", results(simulation(reward_info=judged)))
    assert trajectory.metadata["components"] == {"db_check": 0.0, "nl_assertions.0": 1.0, "nl_assertions.1": 0.0}


def test_ticks_are_turns_of_two_that_talk_at_once(tmp_path: Path) -> None:
    def says(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": "UklGRg==", "is_audio": True, "audio_script_gold": text}

    ticks = [
        {"tick_id": 0, "agent_chunk": says("assistant", "Hel"), "user_chunk": None},
        {"tick_id": 1, "agent_chunk": says("assistant", "lo."), "user_chunk": says("user", "")},
        {"tick_id": 2, "agent_chunk": None, "user_chunk": says("user", "Where")},
        {"tick_id": 3, "agent_chunk": None, "user_chunk": says("user", " is it?")},
        {"tick_id": 4, "agent_chunk": None, "agent_tool_calls": [CALL]},
        {"tick_id": 5, "agent_tool_results": [{"id": "c1", "role": "tool", "content": "sent"}]},
        {"tick_id": 6, "agent_chunk": says("assistant", "Sent.")},
    ]
    trajectory = only(tmp_path / "voice.json", results(simulation(messages=None, ticks=ticks)))
    assert [step.action.content for step in trajectory.steps] == ["Hello.", "", "Sent."]
    assert trajectory.steps[0].observation.content == "Where is it?"
    assert trajectory.steps[1].action.tool_calls[0].name == "find"
    assert trajectory.steps[1].observation.content == "sent"


def test_simulations_may_be_records_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "air.jsonl"
    bad = simulation(id="sim-2", messages=[{"content": "?"}])
    path.write_text("\n".join(map(json.dumps, (simulation(), bad, simulation(id=None)))))
    first, problem, last = read(path)
    assert isinstance(first, Trajectory)
    assert isinstance(last, Trajectory)
    assert last.id == "air/3/1"
    assert isinstance(problem, FormatProblem)
    assert str(problem).startswith(f"{path}:2: messages.0: expected a message with a role")


def test_results_without_simulations_hold_no_episodes(tmp_path: Path) -> None:
    path = tmp_path / "air.json"
    path.write_text(json.dumps(results()))
    assert list(read(path)) == []
