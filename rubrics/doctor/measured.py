"""What trajectories show of a tree: the scores of its nodes, row by row, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rubrics.evaluation import Evaluation
from rubrics.rescoring.rows import Row
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Measured:
    """Scored trajectories, one row each.

    Attributes:
        paths: of the nodes, in the order of the tree; the root's is `""`.
        scores: shape (rows, nodes): what each node said last in the episode; NaN where it has no score.
        statuses: of each node, how often it was scored, unscored, skipped, pending or an error.
        rewards: of the episodes, shape (rows,); NaN where there is none.
        recorded: the rewards they were recorded with; NaN where there is none.
        outcomes: what the episodes are held against, shape (rows,); NaN where it is not known.
        lengths: characters of all actions; NaN where the trajectory was not there.
        groups: of each row, what it shares with the other rollouts of its task; None for none.
        rows: how many rows there are by their status.
        why: of each node, the reasons for which it had no score, and how often.
        reasons: why rows have no reward because of an error, the first few.
        unread: what could not be read, the first few.
        late: of each episode that went on after all of its recorded reward had been paid, the share of its new reward
            that was paid after, and its id.
    """

    paths: list[str]
    scores: Floats
    statuses: dict[str, Counter[str]]
    why: dict[str, Counter[str]]
    rewards: Floats
    recorded: Floats
    outcomes: Floats
    lengths: Floats
    groups: list[Any]
    rows: Counter[str]
    reasons: list[str]
    unread: list[str]
    late: list[tuple[str, float]]


def measured(
    rubric: Rubric,
    rows: Iterable[tuple[Row, Trajectory | None]],
    outcome: Callable[[Trajectory], Any] | None = None,
) -> Measured:
    """Read the scores of all nodes off rows.

    Args:
        rubric: the tree that made the rows.
        rows: each with its trajectory, where that is at hand.
        outcome: what an episode is held against; by default its recorded reward.
    """
    paths = ["", *(path for path, _ in rubric.named_rubrics())]
    place = {path: number for number, path in enumerate(paths)}
    statuses = {path: Counter[str]() for path in paths}
    why = {path: Counter[str]() for path in paths}
    nodes: list[list[float]] = []
    columns: dict[str, list[float]] = {name: [] for name in ("rewards", "recorded", "outcomes", "lengths")}
    groups: list[Any] = []
    counts, late_shares = Counter[str](), list[tuple[str, float]]()
    problems: dict[str, list[str]] = {"error": [], "unreadable": []}
    nothing = float("nan")
    for row, trajectory in rows:
        counts[row.status] += 1
        told = problems.get(row.status)
        if told is not None and row.reason and len(told) < 5:
            told.append(row.reason if row.id is None else f"{row.id}: {row.reason}")
        if row.evaluation is None:
            continue
        line = [nothing] * len(paths)
        _note(row.evaluation, place, statuses, why, line)
        nodes.append(line)
        columns["rewards"].append(nothing if row.reward is None else row.reward)
        columns["recorded"].append(nothing if row.recorded_reward is None else row.recorded_reward)
        held = row.recorded_reward if outcome is None or trajectory is None else _number(outcome(trajectory))
        columns["outcomes"].append(nothing if held is None else held)
        columns["lengths"].append(nothing if trajectory is None else float(length_of(trajectory)))
        groups.append(row.group)
        if trajectory is not None and (late := _late(row, trajectory)) is not None:
            late_shares.append((str(row.id), late))
    arrays = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    scores = np.array(nodes, dtype=np.float64).reshape(len(nodes), len(paths))
    return Measured(
        paths,
        scores,
        statuses,
        why,
        groups=groups,
        rows=counts,
        reasons=problems["error"],
        unread=problems["unreadable"],
        late=late_shares,
        **arrays,
    )


def _note(
    node: Evaluation,
    place: Mapping[str, int],
    statuses: dict[str, Counter[str]],
    why: dict[str, Counter[str]],
    line: list[float],
) -> None:
    number = place.get(node.path)  # a second call of one child is no place of the tree
    if number is not None:
        statuses[node.path][node.status] += 1
        if node.status == "scored" and node.score is not None:
            line[number] = node.score
        elif node.status == "unscored" and node.reason:
            why[node.path][node.reason] += 1
    for child in node.children:
        _note(child, place, statuses, why, line)


def length_of(trajectory: Trajectory) -> int:
    """Characters of all texts in the actions of a trajectory."""
    return sum(_characters(step.action) for step in trajectory.steps)


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_characters, dict(value).values()))
    if isinstance(value, list | tuple):
        return sum(map(_characters, value))
    return _characters(vars(value)) if hasattr(value, "__dict__") else 0


def _number(value: Any) -> float | None:
    """A number, or a boolean as 0 or 1; None for anything else."""
    if isinstance(value, int | float):
        return float(value)
    return None


def _late(row: Row, trajectory: Trajectory) -> float | None:
    """The share of the new reward that was paid after the last recorded reward; None where that says nothing."""
    rewards = row.step_rewards or {}
    emitted: list[float | None] = rewards.get("emitted") or []
    recorded = [step.reward or 0.0 for step in trajectory.steps]
    paid = [i for i, reward in enumerate(recorded) if reward]
    if not paid or rewards.get("reduction") != "sum" or len(emitted) != len(recorded) or min(recorded) < 0.0:
        return None
    gains = [max(value or 0.0, 0.0) for value in emitted]
    late = [gain for gain in gains[paid[-1] + 1 :] if gain]
    if paid[-1] + 1 == len(gains) or not any(gains):
        return None
    return sum(late) / sum(gains) if len(late) > 1 else 0.0  # one payment is that of a node that waits for the end
