"""eval-protocol: the last snapshot of an environment is the episode, and what was paid is no part of a message."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory


def turn(number: int, reward: float, terminated: bool, key: str = "metadata") -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "move", "arguments": '{"to": "R"}'}}
    note = {"reward": reward, "terminated": terminated, "info": {}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"at {number}", key: note},
    ]


def snapshot(env: int, step: int, *turns: list[dict[str, Any]]) -> dict[str, Any]:
    start = [{"role": "user", "content": "Go."}]
    return {"env_index": env, "step": step, "messages": start + [message for turn in turns for message in turn]}


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


A, B, C = turn(0, 0.0, False), turn(1, 0.5, False, "control_plane_step"), turn(2, 0.5, True)


def test_the_last_snapshot_is_the_episode(tmp_path: Path) -> None:
    path = write(
        tmp_path / "lake.jsonl",
        snapshot(0, 0, A),
        snapshot(1, 0, A),
        snapshot(0, 1, A, B),
        "torn",
        snapshot(0, 2, A, B, C),
        snapshot(1, 1, A, B),
    )
    problem, won, unfinished = read(path)
    assert isinstance(problem, FormatProblem)
    assert isinstance(won, Trajectory)
    assert isinstance(unfinished, Trajectory)
    assert (won.id, won.end, won.reward, won.reduction) == ("lake/0", "terminated", 1.0, "sum")
    assert [step.reward for step in won.steps] == [0.0, 0.5, 0.5]
    assert won.source is not None
    assert won.source["line"] == 5
    assert won.steps[-1].observation.done is True
    assert (unfinished.end, unfinished.reward, unfinished.metadata["paid"]) == (None, None, 0.5)
    assert [step.reward for step in unfinished.steps] == [0.0, 0.5]
    assert won.metadata["group"] == 0


def test_what_was_paid_is_not_for_rubrics(tmp_path: Path) -> None:
    (trajectory,) = read(write(tmp_path / "lake.jsonl", snapshot(0, 2, A, B, C)))
    assert isinstance(trajectory, Trajectory)
    for step in trajectory.steps:
        assert step.action.keys() == {"content", "tool_calls"}
        assert all(message.keys() == {"role", "tool_call_id", "content"} for message in step.observation.messages)
    assert trajectory.steps[2].metadata == {"control_plane": [{"reward": 0.5, "terminated": True, "info": {}}]}


def test_the_next_recording_in_a_file_is_another_episode(tmp_path: Path) -> None:
    path = write(tmp_path / "lake.jsonl", snapshot(0, 0, A), snapshot(0, 1, A, C), snapshot(0, 0, A))
    assert [(item.id, len(item.steps)) for item in read(path) if isinstance(item, Trajectory)] == [
        ("lake/0", 2),
        ("lake/0#2", 1),
    ]


def row(**more: Any) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": "6 × 7?"}, {"role": "assistant", "content": "42", "weight": None}],
        "ground_truth": "42",
        "input_metadata": {"row_id": "r-1", "dataset_info": {"level": 3}},
        "execution_metadata": {"rollout_id": "run-1", "finish_reason": "stop"},
        "rollout_status": {"code": 100, "message": "Rollout finished", "details": []},
        "evaluation_result": {
            "score": 0.5,
            "is_score_valid": True,
            "metrics": {"style": {"score": 1, "reason": ""}, "judge": {"score": 0, "is_score_valid": False}},
        },
        **more,
    }


def test_a_row_is_an_episode(tmp_path: Path) -> None:
    (trajectory,) = read(write(tmp_path / "rows.jsonl", row()))
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, trajectory.reward, trajectory.end) == ("run-1", 0.5, "terminated")
    assert trajectory.task == {"row_id": "r-1", "ground_truth": "42", "level": 3}
    assert trajectory.metadata["components"] == {"style": 1.0, "judge": None}
    assert trajectory.metadata["group"] == "r-1"
    assert trajectory.steps[0].action == {"content": "42", "tool_calls": []}


def status(code: int, reason: str | None = None) -> dict[str, Any]:
    details = [{"reason": "TERMINATION_REASON", "metadata": {"termination_reason": reason}}] if reason else []
    return {"code": code, "message": "", "details": details}


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"rollout_status": status(100, "control_plane_signal")}, "terminated"),
        ({"rollout_status": status(100, "max_steps")}, "truncated"),
        ({"rollout_status": status(100, "non_skippable_error")}, "error"),
        ({"rollout_status": status(13)}, "error"),
        ({"rollout_status": status(1)}, "abandoned"),
        ({"rollout_status": status(101), "evaluation_result": None}, None),
        ({"rollout_status": status(101)}, "terminated"),
        ({"execution_metadata": {"finish_reason": "length"}}, "truncated"),
    ],
)
def test_the_status_of_the_rollout_is_the_end(tmp_path: Path, more: dict[str, Any], end: str | None) -> None:
    (trajectory,) = read(write(tmp_path / "rows.jsonl", row(**more)))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.end == end


def test_a_score_that_is_not_valid_is_none(tmp_path: Path) -> None:
    (trajectory,) = read(write(tmp_path / "rows.jsonl", row(evaluation_result={"score": 0, "is_score_valid": False})))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.reward is None


def test_the_real_file(shared_data: Path) -> None:
    items = list(read(shared_data / "trajectories/eval_protocol/frozen_lake_multi_env_trajectory.jsonl"))
    trajectories = [item for item in items if isinstance(item, Trajectory)]
    assert len(items) == len(trajectories) == 3
    assert [trajectory.reward for trajectory in trajectories] == [0.0, 1.0, 0.0]
    assert [trajectory.end for trajectory in trajectories] == ["terminated"] * 3
    assert [len(trajectory.steps) for trajectory in trajectories] == [3, 4, 3]
