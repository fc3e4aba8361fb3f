"""Harbor's trials and jobs: the reward and the end stand beside the trajectory."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

STEPS = [
    {"step_id": 1, "source": "user", "message": "Do it."},
    {"step_id": 2, "source": "agent", "message": "Done."},
]
HEAD = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "session_id": "s"}
DONE = {"finished_at": "2026-01-01T00:00:00Z", "task_name": "hello", "source": "tasks"}


def trial(folder: Path, result: Any = None, **files: Any) -> Path:
    """A trial's folder; a name such as `verifier__reward_json` stands for verifier/reward.json."""
    for name, content in {"agent__trajectory_json": {**HEAD, "steps": STEPS}, "result_json": result, **files}.items():
        path = folder / name.replace("__", "/").replace("_json", ".json").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return folder


def only(folder: Path) -> Any:
    (item,) = read(folder)
    return item


def test_a_trial_is_an_episode(tmp_path: Path) -> None:
    folder = trial(
        tmp_path / "hello__Ab1",
        {**DONE, "trial_name": "hello__Ab1", "verifier_result": {"rewards": {"reward": 0.5, "style": 1}}},
        verifier__reward_details_json={"reward": {"criteria": [{"name": "runs", "value": 0.25}]}},
    )
    (folder / "verifier" / "reward_details.json").rename(folder / "verifier" / "reward-details.json")
    (folder / "config.json").write_text("{}")
    (folder / "agent" / "episode.txt").write_text("…")
    trajectory = only(folder)
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, trajectory.reward, trajectory.end) == ("hello__Ab1", 0.5, "terminated")
    assert trajectory.source == {"format": "harbor", "path": str(folder), "line": None}
    assert trajectory.metadata["components"] == {"runs": 0.25, "reward": 0.5, "style": 1.0}
    assert trajectory.metadata["group"] == "hello"
    assert trajectory.task == {"task_name": "hello", "source": "tasks"}
    assert [step.action.content for step in trajectory.steps] == ["Done."]
    assert trajectory.steps[-1].observation.done is True


@pytest.mark.parametrize(
    ("files", "reward"),
    [
        ({"verifier__reward_json": {"reward": -1}}, -1.0),
        ({"verifier__reward_json": {"accuracy": 0.5}}, 0.5),
        ({"verifier__reward_json": {"accuracy": 0.5, "style": 1}}, None),
        ({"verifier__reward_txt": "0.75\n"}, 0.75),
        ({"verifier__reward_txt": "\n"}, None),
        ({}, None),
    ],
)
def test_the_reward_may_be_in_a_file_of_its_own(tmp_path: Path, files: dict[str, Any], reward: float | None) -> None:
    assert only(trial(tmp_path / "t", DONE, **files)).reward == reward


@pytest.mark.parametrize(
    ("result", "end"),
    [
        (DONE, "terminated"),
        ({**DONE, "exception_info": {"exception_type": "AgentTimeoutError"}}, "truncated"),
        ({**DONE, "exception_info": {"exception_type": "NonZeroAgentExitCodeError"}}, "error"),
        ({**DONE, "exception_info": {"exception_type": "RewardFileNotFoundError"}}, "terminated"),
        ({"task_name": "hello"}, None),
        (None, None),
    ],
)
def test_the_result_says_how_it_ended(tmp_path: Path, result: Any, end: str | None) -> None:
    folder = trial(tmp_path / "t", result, config_json={})
    trajectory = only(folder)
    assert (trajectory.end, trajectory.reward, len(trajectory.steps)) == (end, None, 1)
    assert trajectory.steps[-1].observation.done is (end == "terminated")


def test_a_trajectory_that_goes_on_in_another_file_is_one_episode(tmp_path: Path) -> None:
    copied = [{**step, "is_copied_context": True} for step in STEPS]
    summary = {"step_id": 3, "source": "user", "message": "Go on."}
    further = {**HEAD, "steps": [*copied, summary, {"step_id": 4, "source": "agent", "message": "More."}]}
    folder = trial(
        tmp_path / "t",
        DONE,
        agent__trajectory_json={**HEAD, "steps": STEPS, "continued_trajectory_ref": "more.json"},
        agent__more_json=further,
    )
    trajectory = only(folder)
    assert [step.action.content for step in trajectory.steps] == ["Done.", "More."]
    assert trajectory.steps[0].observation.content == "Go on."
    assert trajectory.metadata["continued_trajectory_ref"] is None
    assert "repaired" not in trajectory.metadata


def test_a_trial_without_a_trajectory_has_no_steps(tmp_path: Path) -> None:
    folder = trial(tmp_path / "t", {**DONE, "verifier_result": {"rewards": {"reward": 1}}}, agent__trajectory_json=None)
    trajectory = only(folder)
    assert (trajectory.steps, trajectory.reward, trajectory.end) == ([], 1.0, "terminated")


def test_a_job_is_a_folder_of_trials(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"n_trials": 3}')
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "job.log").write_text("…")
    for name in ("b", "a"):
        trial(tmp_path / name, {**DONE, "verifier_result": {"rewards": {"reward": 1.0}}})
    trial(tmp_path / "c", DONE, agent__trajectory_json='{\n "steps": [')
    *good, problem = read(tmp_path)
    assert [item.id for item in good if isinstance(item, Trajectory)] == ["a", "b"]
    assert isinstance(problem, FormatProblem)
    assert problem.path == str(tmp_path / "c")
    assert problem.message.startswith("trajectory.json:2: the file ends in the middle")


def test_a_trial_of_several_steps_has_an_episode_for_each(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({**DONE, "trial_name": "hello__Ab1"}))
    for name in ("one", "two"):
        trial(tmp_path / "steps" / name, verifier__reward_json={"reward": 1.0})
    assert [(item.id, item.reward) for item in read(tmp_path) if isinstance(item, Trajectory)] == [
        ("hello__Ab1/one", 1.0),
        ("hello__Ab1/two", 1.0),
    ]


def test_a_file_is_no_trial(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps({**HEAD, "steps": STEPS}))
    (problem,) = read(path, format="harbor")
    assert "expected the folder of a trial" in str(problem)


def test_each_step_of_a_trial_of_several_has_its_own_result(tmp_path: Path) -> None:
    ran = {"agent_execution": {"finished_at": "2026-01-01T00:00:00Z"}}
    results = [
        {"step_name": "build", **ran, "verifier_result": {"rewards": {"reward": 1.0}}},
        {"step_name": "deploy", **ran, "exception_info": {"exception_type": "AgentTimeoutError"}},
    ]
    job = tmp_path / "job"
    whole = {
        **DONE,
        "trial_name": "hello__Ab1",
        "step_results": results,
        "verifier_result": {"rewards": {"reward": 0.5}},
    }
    for name in ("build", "deploy", "test"):
        trial(job / "hello__Ab1" / "steps" / name, verifier__reward_txt="0.25" if name == "test" else None)
    (job / "hello__Ab1" / "agent").mkdir()  # Harbor's own, and empty
    (job / "hello__Ab1" / "result.json").write_text(json.dumps(whole))
    build, deploy, test = read(job)
    assert isinstance(build, Trajectory) and isinstance(deploy, Trajectory) and isinstance(test, Trajectory)
    assert (build.id, build.reward, build.end) == ("hello__Ab1/build", 1.0, "terminated")
    assert (deploy.id, deploy.reward, deploy.end) == ("hello__Ab1/deploy", None, "truncated")
    assert (test.id, test.reward, test.end) == ("hello__Ab1/test", 0.25, None)  # it was being run
    assert build.metadata["group"] == "hello/build"
    assert build.task == {"task_name": "hello", "source": "tasks"}
