"""Folders of Harbor's trials: the trajectory (ATIF, see `rubrics.formats.atif`), the reward, and how it ended.

    trial/result.json            task_name, verifier_result.rewards, exception_info
    trial/agent/trajectory.json  and the files that it goes on in, which are read as one episode
    trial/verifier/reward.json   or reward.txt, where result.json has no rewards; reward-details.json

    reward       the one named "reward", else the only one
    components   all rewards by name, and the criteria of reward-details.json
    end          result.json: finished without an exception (terminated); AgentTimeoutError (truncated); another
                 exception (error), unless the verifier had been started, or was what failed: then the agent was done.
                 Without result.json the trial is unfinished
    group, task  the name of the task

A job is a folder of trials. A trial whose agent wrote no ATIF has no steps. Each step of a trial of several steps
(`steps/<name>`) is an episode: what became of it stands in `step_results` of the trial's result.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrics.formats.atif import joined, trajectory_of_atif
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, number, numbers
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Record, Trajectory

_VERIFIER = ("Verifier", "Reward", "AddTestsDir", "DownloadVerifierDir")  # how names of its exceptions start


def _trial(path: Path) -> bool:
    beside = ("result.json", "config.json", "verifier")
    several = (path / "steps").is_dir()  # then the episodes are in there
    return (path / "agent").is_dir() and not several and any((path / name).exists() for name in beside)


@reader("harbor", folder=_trial)
def read_harbor(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """Harbor trials and jobs, as folders: agent/trajectory.json, verifier/reward.json, result.json."""
    if not source.path.is_dir():
        raise FormatError("expected the folder of a trial; its trajectory.json by itself is of the format 'atif'")
    try:
        yield _read(source.path)
    except FormatError as error:
        yield source.problem(None, str(error))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        yield source.problem(None, f"a file of the trial is not of Harbor's shape: {error!r}")


def _read(folder: Path) -> Trajectory:
    result = _result(folder)
    rewards = _rewards(folder, result)
    reward = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
    end = _end(result)
    trajectory = _agent(folder)
    task = result.get("task_name")
    failed = result.get("exception_info") or {}
    trajectory.id = str(result.get("trial_name") or folder.name)
    trajectory.task = None if task is None else Record(task_name=task, source=result.get("source"))
    trajectory.end, trajectory.reward = end, reward
    if trajectory.steps and end == "terminated":
        last = trajectory.steps[-1]
        last.observation = Record({**last.observation, "done": True})
    trajectory.source = {"format": "harbor", "path": str(folder), "line": None}
    trajectory.metadata["components"] = {**_criteria(folder), **rewards}
    if task is not None:
        trajectory.metadata["group"] = f"{task}/{result['step_name']}" if "step_name" in result else task
    if failed:
        trajectory.metadata["error"] = f"{failed.get('exception_type')}: {failed.get('exception_message')}"
    return trajectory


def _result(folder: Path) -> dict[str, Any]:
    """What Harbor says of a trial, or in the result of a trial of several steps of the one in this folder."""
    result = _json(folder / "result.json")
    trial = _json(folder.parents[1] / "result.json") if result is None and folder.parent.name == "steps" else None
    if trial is not None:
        steps = {each["step_name"]: each for each in trial.get("step_results") or ()}
        step = steps.get(folder.name, {})
        finished = (step.get("agent_execution") or {}).get("finished_at")
        name = f"{trial['trial_name']}/{folder.name}"
        about = {"task_name": trial.get("task_name"), "source": trial.get("source"), "trial_name": name}
        return {**step, **about, "step_name": folder.name, "finished_at": finished}
    return result or {}


def _agent(folder: Path) -> Trajectory:
    """What the agent did, out of its files; without steps where there are none."""
    documents: dict[Path, Any] = {}
    path = folder / "agent" / "trajectory.json"
    while path.is_file() and path not in documents:
        documents[path] = _json(path)
        path = path.with_name(Path(str(documents[path].get("continued_trajectory_ref"))).name or "none")
    if not documents:
        return Trajectory(folder.name, metadata={"no_steps": "the agent wrote no trajectory.json"})
    return trajectory_of_atif(joined(list(documents.values())), folder.name)


def _rewards(folder: Path, result: Mapping[str, Any]) -> dict[str, float | None]:
    recorded = (result.get("verifier_result") or {}).get("rewards")
    if recorded is None:
        recorded = _json(folder / "verifier" / "reward.json")
    if recorded is None and (text := folder / "verifier" / "reward.txt").is_file():
        recorded = _json(text) if text.read_bytes().strip() else None
    if isinstance(recorded, dict):
        return numbers(recorded)
    value = number(recorded, "verifier/reward")
    return {} if value is None else {"reward": value}


def _criteria(folder: Path) -> dict[str, float | None]:
    """What rewardkit tells of the parts of a reward."""
    details = (_json(folder / "verifier" / "reward-details.json") or {}).get("reward")
    criteria = details.get("criteria") if isinstance(details, dict) else None
    return numbers({each["name"]: each.get("value") for each in criteria or ()})


def _end(result: Mapping[str, Any]) -> End | None:
    failed = result.get("exception_info") or {}
    kind = failed.get("exception_type")
    if kind is None:
        return "terminated" if result.get("finished_at") or result.get("verifier_result") else None
    if kind == "AgentTimeoutError":
        return "truncated"
    return "terminated" if str(kind).startswith(_VERIFIER) else "error"


def _json(path: Path) -> Any:
    """The JSON document in a file; None where there is no such file."""
    if not path.is_file():
        return None
    try:
        for record in Source(path).records():
            if isinstance(record, Parsed):
                return record.value
            raise FormatError(record.message, record.line)
    except FormatError as error:
        place = path.name if error.line is None else f"{path.name}:{error.line}"
        raise FormatError(f"{place}: {error}") from None
    return None
