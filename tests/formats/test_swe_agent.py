"""Trajectories of SWE-agent: its own fields, ends told by exit status, patches to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

PATCH = "\r\ndiff --git a/x.py b/x.py\r\n+fixed\r\n"
HISTORY = [
    {"role": "system", "content": "You are a programmer.", "agent": "main"},
    {"role": "user", "content": "A demonstration", "is_demo": True},
    {"role": "assistant", "content": "shown", "is_demo": True},
    {"role": "user", "content": "Fix it.", "agent": "main"},
    {"role": "assistant", "content": "I look.", "action": "ls"},
    {"role": "user", "content": "x.py"},
]


def turn(action: str, **more: Any) -> dict[str, Any]:
    return {
        "action": action,
        "observation": "out\r\n",
        "response": f"I do.\n```\n{action}\n```",
        "thought": "I do.",
        "state": {"working_dir": "/repo"},
        "execution_time": 0.3,
        "query": HISTORY,
        **more,
    }


def run(**more: Any) -> dict[str, Any]:
    return {
        "environment": "main",
        "trajectory": [turn("ls"), turn("submit", observation=PATCH)],
        "history": HISTORY,
        "info": {"exit_status": "submitted", "submission": PATCH, "model_stats": {"api_calls": 2}},
        **more,
    }


def only(folder: Path, data: Any, name: str = "repo__issue-1.traj") -> Any:
    path = folder / name
    path.write_text(json.dumps(data, indent=2))
    (item,) = read(path)
    return item


def test_a_turn_is_a_step_with_its_own_fields(tmp_path: Path) -> None:
    trajectory = only(tmp_path, run())
    look, submit = trajectory.steps
    assert look.action == {"action": "ls", "thought": "I do.", "response": "I do.\n```\nls\n```"}
    assert look.observation == {"observation": "out\r\n", "done": False}
    assert look.metadata == {"state": {"working_dir": "/repo"}, "execution_time": 0.3}
    assert submit.observation == {"observation": PATCH, "submission": PATCH, "done": True}
    assert [message.content for message in trajectory.initial.messages] == [
        "You are a programmer.",
        "A demonstration",
        "shown",
        "Fix it.",
    ]
    assert (trajectory.id, trajectory.end, trajectory.reward) == ("repo__issue-1", "terminated", None)
    assert trajectory.metadata["group"] == "repo__issue-1"
    assert trajectory.metadata["submission"] == PATCH


def test_the_problem_is_the_task_where_the_file_has_it(tmp_path: Path) -> None:
    problem = {"type": "github", "id": "repo__issue-1", "github_url": "https://example.org/1"}
    for config in ({"problem_statement": problem}, json.dumps({"problem_statement": problem})):
        trajectory = only(tmp_path, run(replay_config=config), "x9.traj")
        assert trajectory.task == problem
        assert (trajectory.id, trajectory.metadata["group"]) == ("x9", "repo__issue-1")


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ("submitted", "terminated"),
        ("exit_forfeit", "terminated"),
        ("exit_command", "terminated"),
        ("submitted (exit_cost)", "truncated"),
        ("exit_cost", "truncated"),
        ("exit_context", "truncated"),
        ("exit_format", "truncated"),
        ("exit_error", "error"),
        ("submitted (exit_environment_error)", "error"),
        ("something new", None),
        (None, None),
    ],
)
def test_the_exit_status_tells_the_end(tmp_path: Path, status: str | None, end: str | None) -> None:
    trajectory = only(tmp_path, run(info={"exit_status": status}))
    assert trajectory.end == end
    assert trajectory.steps[-1].observation == {"observation": PATCH, "done": end == "terminated"}


def test_a_run_without_turns_is_a_trajectory_without_steps(tmp_path: Path) -> None:
    trajectory = only(tmp_path, run(trajectory=[], history=[], info={"exit_status": "exit_error"}))
    assert (trajectory.steps, trajectory.end, trajectory.initial.messages) == ([], "error", [])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (run(trajectory=["x"]), "trajectory.0: expected a turn with action and observation, found 'x'"),
        (run(history=[{"role": "user"}]), "not the shape of a record of this format: KeyError('content')"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, record: Any, message: str) -> None:
    problem = only(tmp_path, record)
    assert isinstance(problem, FormatProblem)
    assert problem.message == message


def test_a_file_that_is_cut_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.traj"
    path.write_text(json.dumps(run(), indent=2)[:-200])
    (problem,) = read(path)
    assert isinstance(problem, FormatProblem)
    assert "the file ends in the middle of a JSON document" in problem.message


def test_the_real_file(shared_data: Path) -> None:
    (trajectory,) = read(shared_data / "trajectories/swe_agent")
    assert isinstance(trajectory, Trajectory)
    assert trajectory.id == "6e44b9__sweagenttestrepo-1c2844"
    assert (trajectory.end, trajectory.reward, len(trajectory.steps)) == ("terminated", None, 5)
    assert trajectory.steps[-1].observation.submission.startswith("\r\ndiff --git")
    assert trajectory.metadata["group"] == "SWE-agent__test-repo-i1"
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
