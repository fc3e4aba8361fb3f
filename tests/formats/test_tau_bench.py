"""tau-bench results: steps out of a chat, and an end that is told by who computed the reward."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "Z9", "n": 2}'}}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is my order?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "name": "find", "content": '{"state": "sent"}'},
    {"role": "assistant", "content": "It was sent."},
    {"role": "user", "content": "Thanks! ###STOP###"},
]
JUDGED = {"reward": 1.0, "info": {"r_actions": 1.0, "gt_data_hash": "6f"}, "actions": []}


def result(**more: Any) -> dict[str, Any]:
    info = {"task": {"instruction": "Ask."}, "reward_info": JUDGED, "user_cost": 0.1}
    return {"task_id": 3, "trial": 1, "reward": 1.0, "info": info, "traj": CHAT, **more}


def only(path: Path, data: Any) -> Any:
    path.write_text(json.dumps(data, indent=1))
    (item,) = read(path)
    return item


def test_an_assistant_message_is_an_action_and_what_follows_its_observation(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "retail.json", [result()])
    assert isinstance(trajectory, Trajectory)
    assert trajectory.id == "retail/3/1"
    assert trajectory.task.instruction == "Ask."
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    first, second = trajectory.steps
    assert first.action.content is None
    assert first.action.tool_calls[0].name == "find"
    assert first.action.tool_calls[0].arguments == {"id": "Z9", "n": 2}
    assert first.observation.content == '{"state": "sent"}'
    assert second.action == {"content": "It was sent.", "tool_calls": []}
    assert second.observation.messages[0].role == "user"
    assert trajectory.source is not None
    assert trajectory.source["line"] == 2


def test_who_was_judged_has_ended(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "retail.json", [result()])
    assert trajectory.end == "terminated"
    assert (trajectory.reward, trajectory.reduction) == (1.0, "last")
    assert [step.reward for step in trajectory.steps] == [None, 1.0]
    assert [step.observation.done for step in trajectory.steps] == [False, True]
    assert trajectory.metadata["components"] == {"r_actions": 1.0}
    assert trajectory.metadata["reward_info"] == JUDGED
    assert (trajectory.metadata["group"], trajectory.metadata["trial"]) == (3, 1)


@pytest.mark.parametrize("info", [{"task": {}, "reward_info": None}, {}])
def test_who_was_not_judged_is_unfinished_and_not_a_failure(tmp_path: Path, info: dict[str, Any]) -> None:
    trajectory = only(tmp_path / "retail.json", [result(reward=0.0, info=info)])
    assert trajectory.end is None
    assert trajectory.reward is None
    assert trajectory.metadata["reward"] == 0.0
    assert not any(step.observation.done for step in trajectory.steps)


def test_a_run_that_failed_ended_in_an_error(tmp_path: Path) -> None:
    info = {"error": "Timeout", "traceback": "…"}
    trajectory = only(tmp_path / "retail.json", [result(reward=0.0, info=info, traj=[])])
    assert trajectory.end == "error"
    assert trajectory.reward is None
    assert trajectory.steps == []
    assert trajectory.metadata["error"] == "Timeout"


def test_odd_messages_are_read_as_they_are(tmp_path: Path) -> None:
    chat = [
        {"role": "assistant", "content": "Hello", "refusal": None},
        {"role": "assistant", "content": [{"type": "text", "text": "again"}]},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url"}]},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": ""}},
        {"role": "assistant", "tool_calls": [{"function": {"name": "cut", "arguments": '{"a": '}}]},
    ]
    trajectory = only(tmp_path / "retail.json", [result(traj=chat)])
    assert trajectory.initial.messages == []
    hello, again, old, cut = trajectory.steps
    assert hello.action == {"content": "Hello", "tool_calls": [], "refusal": None}
    assert hello.observation.messages == []
    assert again.observation.content == "one\n\ntwo"
    assert old.action.tool_calls == [{"id": None, "name": "old", "arguments": {}}]
    assert cut.action.tool_calls[0].arguments == '{"a": '
    assert cut.observation.done is True


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (result(traj=None), "traj: expected a list of chat messages, found null"),
        (result(traj=["hi"]), "traj.0: expected a message with a role, found 'hi'"),
        (result(traj=[{"role": "assistant", "tool_calls": "x"}]), "traj.0.tool_calls: expected a list, found 'x'"),
        (
            result(traj=[{"role": "assistant", "tool_calls": [{}]}]),
            "traj.0.tool_calls.0: expected a function with a name",
        ),
        (result(reward="1.0"), "reward: expected a number, found '1.0'"),
        (result(reward=10**400), "reward: the number is too large, 1000"),
        (result(info="x"), "info: expected an object, found 'x'"),
        ({"id": "a"}, "expected an object with task_id, reward, info and traj"),
        (3, "expected an object with task_id, reward, info and traj"),
    ],
)
def test_a_bad_record_is_named_and_the_others_are_read(tmp_path: Path, record: Any, message: str) -> None:
    path = tmp_path / "retail.json"
    path.write_text(json.dumps([result(), record, result(trial=2)]))
    first, problem, last = read(path)
    assert isinstance(first, Trajectory)
    assert isinstance(last, Trajectory)
    assert isinstance(problem, FormatProblem)
    assert str(problem).startswith(f"{path}:1: {message}")


def test_it_may_come_as_lines_and_without_trials(tmp_path: Path) -> None:
    path = tmp_path / "retail.jsonl"
    record = result()
    del record["trial"]
    path.write_text(json.dumps(record) + "\n" + json.dumps({**record, "task_id": 4}) + "\n")
    assert [item.id for item in read(path) if isinstance(item, Trajectory)] == ["retail/3", "retail/4"]


def test_an_empty_array_holds_no_trajectories(tmp_path: Path) -> None:
    path = tmp_path / "retail.json"
    path.write_text("[ ]\n")
    assert list(read(path, format="tau-bench")) == []


def test_a_nan_reward_is_none(tmp_path: Path) -> None:
    path = tmp_path / "retail.json"
    path.write_text(json.dumps([result(reward=float("nan"))]))
    (trajectory,) = read(path)
    assert isinstance(trajectory, Trajectory)
    assert trajectory.reward is None
    assert trajectory.metadata["not_finite"] == ["reward"]


def test_the_real_file(shared_data: Path) -> None:
    items = list(read(shared_data / "trajectories/tau_bench/gpt-4o-airline.first12.json"))
    trajectories = [item for item in items if isinstance(item, Trajectory)]
    assert len(trajectories) == len(items) == 12
    assert [trajectory.reward for trajectory in trajectories].count(1.0) == 6
    assert [trajectory.reward for trajectory in trajectories].count(0.0) == 6
    assert {trajectory.end for trajectory in trajectories} == {"terminated"}
    assert sum(len(trajectory.steps) for trajectory in trajectories) == 157
    for trajectory in trajectories:
        assert trajectory.steps[-1].observation.done is True
        assert trajectory.task.instruction
        for step in trajectory.steps:
            assert step.action.content or step.action.tool_calls
            assert all(isinstance(call.arguments, dict) for call in step.action.tool_calls)
