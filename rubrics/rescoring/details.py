"""One trajectory of a comparison, as JSON values of a bounded size: its steps, and its trees, old beside new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rubrics.evaluation import Evaluation
from rubrics.rescoring.comparing import tree_order
from rubrics.rescoring.diff import Change, direction
from rubrics.rescoring.rows import Row
from rubrics.shown import Cut
from rubrics.trajectory import Trajectory

_STEPS = 200  # shown of a trajectory, at most


def detail(
    old: Row | None, new: Row | None, trajectory: Trajectory | None, why: str | None, cut: Cut, *, recorded: bool
) -> dict[str, Any]:
    """What a page shows of one trajectory.

    Args:
        old, new: its rows; one may be missing.
        trajectory: its recording; None where it was not found.
        why: the reason why it was not.
        cut: makes values small.
        recorded: the old numbers are what the new row says was recorded.
    """
    row = new or old
    assert row is not None
    source = row.source or {}
    place = [str(source[key]) for key in ("path", "line") if source.get(key) is not None]
    if recorded and old is not None:
        old = _recorded(old)
    sides = {"old": old, "new": new}
    found: dict[str, Any] = {
        "source": ":".join(place) or None,
        "end": row.end,
        "count": row.steps,
        "reasons": {side: each.reason and cut.text(each.reason) for side, each in sides.items() if each is not None},
        "records": [
            {"step": step, "label": label, "nodes": list(_nodes(before, after, cut, label != RAISED or row.steps == 1))}
            for step, label, before, after in _records(old, new)
        ],
    }
    if trajectory is None:
        return {**found, "why": why}
    found["task"], found["initial"] = cut.value(trajectory.task), cut.value(trajectory.initial)
    found["steps"] = [
        {
            "step": number,
            "action": cut.value(step.action),
            "observation": cut.value(step.observation),
            "reward": cut.value(step.reward),
        }
        for number, step in enumerate(trajectory.steps, start=1)
        if _is_shown(number, len(trajectory.steps))
    ]
    return found


def changed_nodes(
    old: Row | None, new: Row | None, change: Change, *, recorded: bool
) -> Iterator[tuple[str, str, Evaluation | None, Evaluation | None]]:
    """The nodes at which a change began, those below which nothing changed.

    Returns:
        The path, what the step is called, and both records. Of several steps it is the last at which the node changed.
    """
    records = list(_records(_recorded(old) if recorded and old else old, new))
    for path in change.nodes:
        if any(other != path and (path == "" or other.startswith(f"{path}.")) for other in change.nodes):
            continue
        for _, label, before, after in reversed(records):
            nodes = _node(before, path), _node(after, path)
            if _differ(*nodes):
                yield path, label, *nodes
                break


def _node(evaluation: Evaluation | None, path: str) -> Evaluation | None:
    return None if evaluation is None else next((node for node in evaluation.nodes() if node.path == path), None)


def _differ(old: Evaluation | None, new: Evaluation | None) -> bool:
    before, after = (node.score if node is not None and node.status == "scored" else None for node in (old, new))
    if before is None or after is None:
        return before is not after
    return direction(before, after) != "unchanged"


def _is_shown(number: int, count: int) -> bool:
    """Of a long trajectory, the steps in the middle are left out."""
    return number <= _STEPS // 2 or number > count - _STEPS // 2


RAISED = "Where it raised"

_Record = tuple[int | None, str, Evaluation | None, Evaluation | None]


def _records(old: Row | None, new: Row | None) -> Iterator[_Record]:
    """The steps that have a record: number (None where it is not known), what to call it, and both records.

    A tree that raised did so at a step that its row does not name. Its record stands beside the last of the other side.
    """
    olds, news = _evaluations(old), _evaluations(new)
    count = max(len(olds), len(news))
    raised = any(row is not None and row.status == "error" and row.evaluation for row in (old, new))
    for step, (before, after) in enumerate(zip(_padded(olds, count), _padded(news, count), strict=True), start=1):
        if count == 1 and not raised and (before or after):
            yield None, "Last step", before, after
        elif count > 1 and (before or after) and _is_shown(step, count):
            yield step, f"Step {step}", before, after
    if raised:
        before, after = (None if row is None else row.evaluation for row in (old, new))
        yield None, RAISED, before, after


def _evaluations(row: Row | None) -> list[Evaluation | None]:
    if row is None or row.status == "error":
        return []
    return row.evaluations or [row.evaluation]


def _padded(evaluations: list[Evaluation | None], count: int) -> list[Evaluation | None]:
    """A side that has the record of the last step only has none of the others."""
    return [None] * (count - len(evaluations)) + evaluations


def _recorded(row: Row) -> Row:
    """What was recorded of a trajectory, as a row."""
    parts = [
        Evaluation(name, "recorded", "unscored" if value is None else "scored", value)
        for name, value in (row.components or {}).items()
    ]
    return Row(row.id, "scored", evaluation=Evaluation("", "recorded", children=parts) if parts else None)


def _nodes(
    old: Evaluation | None, new: Evaluation | None, cut: Cut, same_step: bool = True
) -> Iterator[dict[str, Any]]:
    """Every node of either record. Scores of different steps are not put side by side: the old one is left out."""
    olds = {node.path: node for node in old.nodes()} if old else {}
    news = {node.path: node for node in new.nodes()} if new else {}
    paths = {**news, **olds}
    if not same_step:
        both = {path for path, node in olds.items() if node.score is not None and path in news}
        olds = {path: node for path, node in olds.items() if path not in both or news[path].score is None}
    for path in tree_order(paths):
        parts = path.split(".")
        above = [".".join(parts[:end]) for end in range(1, len(parts))]
        depth = sum(parent in paths for parent in above) + (1 if path and "" in paths else 0)
        parent = next((parent for parent in reversed(above) if parent in paths), "")
        node: dict[str, Any] = {
            "path": cut.text(path),
            "name": cut.text(path[len(parent) + 1 :] if parent else path),
            "depth": depth,
            "kind": cut.text((news.get(path) or olds[path]).kind),
        }
        for side, found in (("old", olds.get(path)), ("new", news.get(path))):
            if found is not None and found.kind != "recorded":
                node[side] = _said(found, cut)
            elif found is not None and path:
                node[side] = {"status": found.status, "score": found.score}
        yield node


def _said(node: Evaluation, cut: Cut) -> dict[str, Any]:
    said: dict[str, Any] = {"status": node.status, "score": node.score}
    if node.reason:
        said["reason"] = cut.text(node.reason)
    if node.metadata:
        said["metadata"] = cut.value(node.metadata)
    return said
