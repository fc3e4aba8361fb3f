"""Runs of OpenHands: flat events, pairs, the agent SDK; benchmarks, the resolver, single trajectories."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

ASKED = {"id": 0, "source": "user", "message": "Add it.", "action": "message", "args": {"content": "Add it."}}
RAN = {
    "id": 3,
    "timestamp": "2025-01-27T22:45:13",
    "source": "agent",
    "message": "Running",
    "action": "run",
    "args": {"command": "ls", "thought": "I look."},
    "tool_call_metadata": {"function_name": "bash", "tool_call_id": "c1", "model_response": {"model": "m"}},
}
SEEN = {"id": 4, "source": "agent", "cause": 3, "observation": "run", "content": "x\r\n", "extras": {"exit_code": 0}}
FINISHED = {"id": 5, "source": "agent", "action": "finish", "args": {"outputs": {}, "thought": "Done."}}
NEW = [ASKED, RAN, SEEN, FINISHED]

OLD = [
    {"content": "Add it.", "images_urls": None, "wait_for_response": False, "action": "message"},
    {"command": "ls", "thought": "I look.", "action": "run"},
    {"content": "x\r\n", "exit_code": 0, "observation": "run"},
    {"outputs": {}, "thought": "Done.", "action": "finish"},
]
NOTHING = {"content": "", "observation": "null", "extras": {}}
PAIRS = [[OLD[0], NOTHING], [OLD[1], OLD[2]], [OLD[3], NOTHING]]

SDK = [
    {"id": "a", "source": "agent", "kind": "SystemPromptEvent", "system_prompt": {"type": "text", "text": "Be good."}},
    {"id": "b", "source": "user", "kind": "MessageEvent", "llm_message": {"content": [{"text": "Add it."}]}},
    {
        "id": "c",
        "source": "agent",
        "kind": "ActionEvent",
        "thought": [{"type": "text", "text": "I look."}],
        "action": {"kind": "ExecuteBashAction", "command": "ls"},
        "tool_name": "run",
        "tool_call_id": "c1",
    },
    {
        "id": "d",
        "source": "environment",
        "kind": "ObservationEvent",
        "action_id": "c",
        "tool_name": "run",
        "observation": {"kind": "ExecuteBashObservation", "content": [{"text": "x\r\n"}], "exit_code": 0},
    },
    {
        "id": "e",
        "source": "agent",
        "kind": "ActionEvent",
        "thought": [],
        "action": {"message": "."},
        "tool_name": "finish",
    },
    {
        "id": "f",
        "source": "environment",
        "kind": "ConversationStateUpdateEvent",
        "key": "execution_status",
        "value": "finished",
    },
]


def output(history: Any = NEW, **more: Any) -> dict[str, Any]:
    return {"instance_id": "django-1", "instruction": "Add it.", "history": history, "error": None, **more}


def only(path: Path, data: Any) -> Any:
    path.write_text(json.dumps(data) + "\n")
    (item,) = read(path)
    return item


@pytest.mark.parametrize("history", [NEW, OLD, PAIRS, SDK])
def test_old_and_new_events_have_the_same_shape(tmp_path: Path, history: Any) -> None:
    trajectory = only(tmp_path / "output.jsonl", output(history))
    look, finish = trajectory.steps
    assert look.action == {"action": "run", "args": {"command": "ls"}, "thought": "I look."}
    (seen,) = look.observation.observations
    assert (seen.observation, seen.content, seen.extras.exit_code) == ("run", "x\r\n", 0)
    assert (look.observation.content, look.observation.done) == ("x\r\n", False)
    assert (finish.action.action, finish.observation.done) == ("finish", True)
    assert "Add it." in [asked.content for asked in trajectory.initial.observations]
    assert (trajectory.id, trajectory.end, trajectory.reward) == ("output/django-1", "terminated", None)
    assert trajectory.metadata["group"] == "django-1"
    assert trajectory.task == {"instance_id": "django-1", "instruction": "Add it."}


def test_what_the_model_s_response_was_is_left_out(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "output.jsonl", output())
    assert trajectory.steps[0].metadata == {
        "id": 3,
        "timestamp": "2025-01-27T22:45:13",
        "tool_call_id": "c1",
        "function_name": "bash",
    }


def test_a_file_of_events_is_one_trajectory(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "traj.json", NEW)
    assert (trajectory.id, trajectory.end, len(trajectory.steps)) == ("traj", "terminated", 2)
    lines = tmp_path / "traj.jsonl"
    lines.write_text("".join(json.dumps(event) + "\n" for event in NEW))
    (same,) = read(lines)
    assert isinstance(same, Trajectory)
    assert same.steps == trajectory.steps


def test_actions_and_observations_of_others_are_not_taken_for_it(tmp_path: Path) -> None:
    for event in ({"action": "left", "observation": "a wall"}, {"source": "game", "action": "left"}):
        problem = only(tmp_path / "moves.jsonl", event)
        assert "unknown format" in str(problem)


def test_an_observation_belongs_to_what_caused_it(tmp_path: Path) -> None:
    other = {**RAN, "id": 10, "args": {"command": "pwd"}}
    history = [ASKED, RAN, other, {**SEEN, "cause": 10, "content": "/"}, SEEN, {**ASKED, "id": 12}, FINISHED]
    trajectory = only(tmp_path / "output.jsonl", output(history))
    assert [step.observation.content for step in trajectory.steps] == ["x\r\n", "/\n\nAdd it.", ""]


STATE = {"id": 9, "source": "environment", "observation": "agent_state_changed", "content": ""}


@pytest.mark.parametrize(
    ("history", "error", "end"),
    [
        (NEW, None, "terminated"),
        (NEW[:3], None, None),
        ([*NEW[:3], {**STATE, "extras": {"agent_state": "error"}}], None, "error"),
        ([*NEW[:3], {**STATE, "extras": {"agent_state": "stopped"}}], None, "abandoned"),
        ([*NEW[:3], {**STATE, "extras": {"agent_state": "awaiting_user_input"}}], None, None),
        (NEW[:3], "RuntimeError: Agent reached maximum iteration in headless mode", "truncated"),
        (NEW[:3], "AgentStuckInLoopError: Agent got stuck in a loop", "error"),
        ([], "RuntimeError: no container", "error"),
    ],
)
def test_how_it_ended(tmp_path: Path, history: Any, error: str | None, end: str | None) -> None:
    trajectory = only(tmp_path / "output.jsonl", output(history, error=error))
    assert trajectory.end == end
    assert [step.observation.done for step in trajectory.steps[-1:]] == [end == "terminated"][: len(trajectory.steps)]


ISSUE = {"owner": "neubig", "repo": "viewer", "number": 5, "title": "Add it"}


@pytest.mark.parametrize(
    ("more", "reward", "components"),
    [
        ({"success": True, "comment_success": None}, 1.0, {}),
        ({"success": False, "comment_success": [True, False]}, 0.0, {"comment_0": 1.0, "comment_1": 0.0}),
        ({"success": False, "error": "no container"}, None, {}),
        ({}, None, {}),
    ],
)
def test_the_resolver_says_whether_it_succeeded(
    tmp_path: Path, more: dict[str, Any], reward: float | None, components: dict[str, float]
) -> None:
    record = {"issue": ISSUE, "instruction": "Add it.", "history": OLD, "git_patch": "diff\r\n", "error": None, **more}
    trajectory = only(tmp_path / "output.jsonl", record)
    assert (trajectory.id, trajectory.metadata["group"]) == ("output/neubig/viewer#5", "neubig/viewer#5")
    assert (trajectory.reward, trajectory.metadata["components"]) == (reward, components)
    assert trajectory.metadata["git_patch"] == "diff\r\n"
    assert "git_patch" not in trajectory.task


def test_a_benchmark_that_was_judged_has_its_report_in_it(tmp_path: Path) -> None:
    for resolved in (True, False):
        result = {"git_patch": "diff", "report": {"resolved": resolved}}
        assert only(tmp_path / "output.jsonl", output(test_result=result)).reward == float(resolved)
    assert only(tmp_path / "output.jsonl", output(test_result={"git_patch": "diff"})).reward is None


def test_a_cut_list_of_events_gives_what_stands_before(tmp_path: Path) -> None:
    path = tmp_path / "traj.json"
    path.write_text(json.dumps(NEW)[:-20])
    trajectory, problem = read(path)
    assert isinstance(trajectory, Trajectory) and isinstance(problem, FormatProblem)
    assert (trajectory.end, len(trajectory.steps)) == (None, 1)
    assert "the file ends in the middle of the array" in problem.message


def test_a_bad_record_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "output.jsonl"
    records = [output(), output([3]), output(None), output(comment_success=3), output(instance_id="b")]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    first, bad_event, empty, bad_list, last = read(path)
    assert [item.id for item in (first, empty, last) if isinstance(item, Trajectory)] == [
        "output/django-1",
        "output/django-1#2",
        "output/b",
    ]
    assert isinstance(bad_event, FormatProblem) and isinstance(bad_list, FormatProblem)
    assert str(bad_event) == f"{path}:2: history.0: expected an event, found 3"
    assert bad_list.message == "comment_success: expected a list, found 3"


def test_the_real_files(shared_data: Path) -> None:
    items = [item for item in read(shared_data / "trajectories/openhands") if isinstance(item, Trajectory)]
    assert [item.id for item in items] == [
        "resolver_mock_output/neubig/pr-viewer#5",
        "resolver_mock_output/neubig/pr-viewer#1",
        "runtime_traj_basic",
    ]
    assert [item.reward for item in items] == [1.0, 1.0, None]
    assert [item.end for item in items] == ["terminated"] * 3
    assert [len(item.steps) for item in items] == [4, 22, 2]
    assert all(step.action.action != "message" for item in items for step in item.steps)
