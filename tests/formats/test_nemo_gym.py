"""NeMo-Gym: rollouts with their groups; what the dataset said is the task, and what a verifier said is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}


def rollout(**more: Any) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "6 × 7?"}], "instructions": "Count."},
        "response": {"output": [ANSWER], "status": "completed"},
        "reward": 1.0,
        "expected_answer": "42",
        "extracted_answer": "42",
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
        **more,
    }


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def only(path: Path, row: Any) -> Any:
    (item,) = read(write(path, row))
    return item


def test_a_rollout_is_an_episode(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "runs.jsonl", rollout(reward=-1, reward_components={"a": 1, "b": None}))
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, trajectory.reward, trajectory.end) == ("runs/3/1", -1.0, "terminated")
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    assert [step.action.content for step in trajectory.steps] == ["42"]
    assert trajectory.task == {"expected_answer": "42"}
    assert (trajectory.metadata["group"], trajectory.metadata["trial"]) == (3, 1)
    assert trajectory.metadata["components"] == {"a": 1.0, "b": None}


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"terminated": True, "truncated": False}, "terminated"),
        ({"terminated": False, "truncated": True}, "truncated"),
        ({"terminated": False, "truncated": False}, None),
        ({"response": {"output": [ANSWER]}}, "terminated"),
        ({"response": {"output": [ANSWER], "status": "incomplete"}}, "truncated"),
    ],
)
def test_flags_say_more_than_the_status(tmp_path: Path, more: dict[str, Any], end: str | None) -> None:
    assert only(tmp_path / "runs.jsonl", rollout(**more)).end == end


def test_the_file_of_inputs_says_what_the_dataset_is(tmp_path: Path) -> None:
    inputs = {"responses_create_params": {}, "expected_answer": "42", "city": "Bonn", "_ng_task_index": 3}
    write(tmp_path / "runs_materialized_inputs.jsonl", inputs)
    write(tmp_path / "runs.jsonl", rollout(city="Bonn"))
    (trajectory,) = read(tmp_path)
    assert isinstance(trajectory, Trajectory)
    assert trajectory.task == {"city": "Bonn", "expected_answer": "42"}


def test_failed_attempts_are_errors_and_have_no_reward(tmp_path: Path) -> None:
    failed = rollout(reward=0.0, _ng_failure_class="timeout")
    trajectory = only(tmp_path / "runs_failures.jsonl", failed)
    assert (trajectory.end, trajectory.reward, trajectory.metadata["reward"]) == ("error", None, 0.0)
    assert len(trajectory.steps) == 1
    bare = {"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_failure_class": "oom"}
    trajectory = only(tmp_path / "runs_failures.jsonl", bare)
    assert (trajectory.end, trajectory.steps) == ("error", [])


def test_a_bad_rollout_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", rollout(), rollout(response=None), rollout(reward="1"), rollout())
    good, *problems, last = read(path)
    assert isinstance(good, Trajectory)
    assert isinstance(last, Trajectory)
    assert [str(problem) for problem in problems] == [
        f"{path}:2: responses_create_params, response: expected objects; this is no rollout",
        f"{path}:3: reward: expected a number, found '1'",
    ]
    assert last.id == "runs/3/1#2"
    assert all(isinstance(problem, FormatProblem) for problem in problems)


def test_the_real_files(shared_data: Path) -> None:
    folder = shared_data / "trajectories/nemo_gym"
    items = list(read(folder))
    trajectories = [item for item in items if isinstance(item, Trajectory)]
    assert len(items) == len(trajectories) == 10
    assert {trajectory.end for trajectory in trajectories} == {"terminated"}
    assert [trajectory.reward for trajectory in trajectories] == [-1, 1, -1, 1, 1, 0, 1, 1, 1, 1]
    assert [len(trajectory.steps) for trajectory in trajectories] == [2, 1, 1, 2, 1, 2, 2, 3, 3, 3]
    assert [trajectory.metadata.get("group") for trajectory in trajectories[:5]] == [0] * 5
    assert [trajectory.metadata["trial"] for trajectory in trajectories[:5]] == [0, 1, 2, 3, 4]
    for trajectory in trajectories:
        assert trajectory.initial.messages[-1].role == "user"
        assert trajectory.steps[-1].observation.done is True
