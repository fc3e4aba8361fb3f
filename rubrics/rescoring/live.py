"""Nodes that need the live environment: offline, their recorded scores stand in for them."""

from __future__ import annotations

from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from rubrics.delayed import TrajectoryRubric
from rubrics.engine.frames import current_episode
from rubrics.episode import Episode
from rubrics.rubric import Rubric
from rubrics.score import Score, Unscored
from rubrics.trajectory import Step, Trajectory

kept_scores: WeakKeyDictionary[Episode, Trajectory] = WeakKeyDictionary()
"""The recordings of the episodes that are being replayed."""


def live_paths(rubric: Rubric) -> list[str]:
    """The paths of the nodes that declare `needs_live_state`, the outermost ones; the root's is `""`."""
    found: list[str] = []
    for path, node in [("", rubric), *rubric.named_rubrics()]:
        if node.needs_live_state and not any(not outer or path.startswith(f"{outer}.") for outer in found):
            found.append(path)
    return found


def keeping_recorded(rubric: Rubric) -> tuple[Rubric, list[str]]:
    """The tree to replay, in which nodes that need the live environment answer what was recorded, and their paths.

    The given tree is left as it is: others may be using it. What is above such a node is copied, all else is shared.
    """
    paths = live_paths(rubric)
    return (_replaced(rubric, "", paths) if paths else rubric), paths


def _replaced(node: Rubric, path: str, live: list[str]) -> Rubric:
    if path in live:
        return _stand_in(node, path)
    below = f"{path}." if path else ""
    if not any(each.startswith(below) for each in live):
        return node
    made = copy(node)
    for name, child in node.named_children():
        made._add_child(name, _replaced(child, f"{below}{name}", live))
    return made


def _stand_in(node: Rubric, path: str) -> Rubric:
    stand_in = _RecordedAtEnd(node, path) if isinstance(node, TrajectoryRubric) else _Recorded(path)
    stand_in.range = node.range
    stand_in.reduction = node.reduction
    return stand_in


class _Recorded(Rubric):
    """What a node answered at this step of the recording."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, action: Any, observation: Any) -> Score:
        """The recorded score."""
        episode = current_episode()
        assert episode is not None
        recording, index = kept_scores[episode], len(episode._journal.actions) - 1
        score = _score_in(recording.steps[index], self.path)
        if score is None and index == len(recording.steps) - 1:
            score = _component(recording, self.path)
        return _kept(score, self.path)


class _RecordedAtEnd(TrajectoryRubric):
    """What a delayed node answered at the end of the recording."""

    def __init__(self, node: TrajectoryRubric, path: str) -> None:
        super().__init__(node.intermediate_reward, node._credit)
        self.path = path

    def score_trajectory(self, trajectory: list[Any]) -> Score:
        """The recorded score."""
        episode = current_episode()
        assert episode is not None
        recording = kept_scores[episode]
        score = _score_in(recording.steps[-1], self.path)
        return _kept(_component(recording, self.path) if score is None else score, self.path)


def _kept(score: float | None, path: str) -> Score:
    if score is None:
        raise Unscored(f"{path or 'the root'} needs the live environment, and the recording has no score of it")
    return Score(score, "the recorded score: the node needs the live environment", {"kept": True})


def _score_in(step: Step, path: str) -> float | None:
    """The score of a node in the report of a step that hosts leave in its metadata."""
    report = step.metadata.get("rubric")
    scores = report.get("scores") if isinstance(report, dict) else None
    if isinstance(scores, dict) and path in scores:
        return _number(scores[path])
    record = step.metadata.get("evaluation")
    return _number(_in_record(record, path)) if isinstance(record, dict) else None


def _in_record(record: dict[str, Any], path: str) -> Any:
    if record.get("path") == path:
        return record.get("score")
    children = record.get("children") or ()
    return next((found for child in children if (found := _in_record(child, path)) is not None), None)


def _component(recording: Trajectory, path: str) -> float | None:
    if not path:
        return _number(recording.reward)
    components = recording.metadata.get("components")
    return _number(components.get(path)) if isinstance(components, dict) else None


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
