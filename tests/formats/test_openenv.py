"""Episodes that OpenEnv collected: calls of tools as steps, rewards out of sight of rubrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

CHAT = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "It is"},
    {"role": "user", "content": "?"},
    {"role": "assistant", "content": "4"},
]
NOTE = {"tool_name": "note", "arguments": {"x": 1}, "result": {"data": {"reward": 0.2, "n": 1}, "done": False}}
SUBMIT = {
    "tool_name": "submit",
    "arguments": {"answer": "4"},
    "result": {"data": "ok", "done": True, "metadata": {"reward": 1.0, "seen": 2}, "error": None},
}


def episode(**more: Any) -> dict[str, Any]:
    return {
        "episode_id": "ep-0",
        "messages": CHAT,
        "reward": 1.0,
        "done": True,
        "tool_trace": [NOTE, SUBMIT],
        "metrics": {"turns": 1},
        "verify_metrics": {"exact": 1, "style": None, "said": "x"},
        "artifacts": {},
        "task": {"id": "t0"},
        "extra": {},
        **more,
    }


def only(folder: Path, data: Any) -> Any:
    path = folder / "results.jsonl"
    path.write_text(json.dumps(data) + "\n")
    (item,) = read(path)
    return item


def test_a_call_of_a_tool_is_a_step_and_its_reward_is_no_part_of_what_is_seen(tmp_path: Path) -> None:
    trajectory = only(tmp_path, episode())
    note, submit = trajectory.steps
    assert note.action == {"tool_name": "note", "arguments": {"x": 1}}
    assert note.observation == {"data": {"n": 1}, "metadata": {}, "error": None, "done": False}
    assert submit.observation == {"data": "ok", "metadata": {"seen": 2}, "error": None, "done": True}
    assert [step.reward for step in trajectory.steps] == [0.2, 1.0]
    assert (trajectory.id, trajectory.end, trajectory.reward, trajectory.reduction) == (
        "results/ep-0",
        "terminated",
        1.0,
        "last",
    )
    assert trajectory.initial.content == "2+2?"
    assert trajectory.task == {"id": "t0"}
    assert trajectory.metadata["group"] == "t0"
    assert trajectory.metadata["components"] == {"exact": 1.0, "style": None}
    assert trajectory.metadata["messages"] == CHAT
    assert trajectory.metadata["metrics"] == {"turns": 1}


def test_without_tools_the_chat_is_the_steps(tmp_path: Path) -> None:
    trajectory = only(tmp_path, episode(tool_trace=[], task="add"))
    assert [step.action.content for step in trajectory.steps] == ["It is", "4"]
    assert [step.observation.done for step in trajectory.steps] == [False, True]
    assert "messages" not in trajectory.metadata
    assert (trajectory.task, trajectory.metadata["group"]) == ("add", None)


def test_what_is_not_done_is_unfinished_and_has_no_reward(tmp_path: Path) -> None:
    trajectory = only(tmp_path, episode(done=False, reward=0.0, tool_trace=[NOTE]))
    assert (trajectory.end, trajectory.reward, trajectory.metadata["reward"]) == (None, None, 0.0)
    assert trajectory.steps[0].reward == 0.2
    assert trajectory.steps[0].observation.done is False


def test_verify_may_end_an_episode_behind_its_last_call(tmp_path: Path) -> None:
    trajectory = only(tmp_path, episode(tool_trace=[NOTE]))
    assert trajectory.steps[-1].observation.done is True


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (episode(reward="1"), "reward: expected a number, found '1'"),
        (episode(tool_trace={}), "tool_trace: expected a list, found {}"),
        (
            episode(tool_trace=[{**NOTE, "result": 3}]),
            "tool_trace.0.result: expected an object, found 3",
        ),
        (
            episode(tool_trace=[{**NOTE, "result": {"data": {"reward": "x"}}}]),
            "tool_trace.0.result.data.reward: expected a number, found 'x'",
        ),
        (episode(tool_trace=["x"]), "not the shape of a record of this format: AttributeError"),
        (episode(messages=3), "messages: expected a list of chat messages, found 3"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, record: Any, message: str) -> None:
    problem = only(tmp_path, record)
    assert isinstance(problem, FormatProblem)
    assert problem.message.startswith(message)


def test_the_real_file(shared_data: Path) -> None:
    first, second = read(shared_data / "trajectories/openenv_collect")
    assert isinstance(first, Trajectory) and isinstance(second, Trajectory)
    assert (first.reward, second.reward) == (1.0, 0.0)
    assert first.end == second.end == "terminated"
    assert [step.reward for step in first.steps] == [0.2, 1.0]
    assert first.metadata["group"] == second.metadata["group"] == "t0"
