"""Comparing two runs row by row: pairs by id, then every node of a pair at every step that both know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rubrics.evaluation import Evaluation
from rubrics.rescoring.diff import COMPARED, Change, Diff, NodeChange, Run, Way, direction
from rubrics.rescoring.grouping import group_key
from rubrics.rescoring.ranks import group_change
from rubrics.rescoring.row_file import RowFile
from rubrics.rescoring.rows import Row
from rubrics.score import RubricError

_Values = dict[str, "float | str"]
"""What one step's record says of every node, by path: its score, or its status where it has none."""


class DiffError(RubricError, ValueError):
    """Runs that cannot be compared: two rows of one have the same id, or one has an id that is no text."""


Rows = str | Path | Iterable[Row] | Mapping[str, Row]
"""A run: the file that it wrote, its rows, or its rows by id."""

GroupBy = Callable[[Row], str | int | None]
"""The group of a row; None where it is in none."""


def compare(old: Rows, new: Rows, *, group_by: GroupBy | None = None) -> Diff:
    """Compare two runs over the same trajectories. Files are read row by row, and not held.

    Args:
        old, new: the runs.
        group_by: what the rollouts of one task share; by default what the recordings say, where a whole number counts
            within its file. A group whose number stands in several files is named `"PATH: NUMBER"`.

    Raises:
        DiffError: two rows of one run have one id, or an id is no text.
        FormatError: a line of a file is no row, or two lines have one id; it names the lines.
        OSError: a file cannot be opened.
    """
    before, after = _run(old, "old"), _run(new, "new")
    comparison = _Comparison(Diff(before, after), group_by)
    for id, row in after.rows.items():
        comparison.add(id, before.rows.get(id), row)
    for id in before.rows:
        if id not in after.rows:
            comparison.add(id, before.rows[id], None)
    return comparison.finished()


def compare_recorded(run: Rows, *, group_by: GroupBy | None = None) -> Diff:
    """Compare the rewards that recordings came with to those of a run, and their parts to the nodes of the same names.

    Arguments and errors are those of `compare`.
    """
    after = _run(run, "new")
    before = Run("recorded", after.rows)
    comparison = _Comparison(Diff(before, after, recorded=True), group_by)
    for id, row in after.rows.items():
        comparison.add(id, row, row)
    return comparison.finished()


def _run(rows: Rows, name: str) -> Run:
    if isinstance(rows, str | Path):
        file = RowFile(rows)
        return Run(str(rows), file, file.unreadable)
    if isinstance(rows, Mapping):
        return Run(name, rows)
    by_id: dict[str, Row] = {}
    unreadable = 0
    for row in rows:
        if row.id is None:
            unreadable += 1
        elif not isinstance(row.id, str):
            raise DiffError(f"an id is a text, not {row.id!r}")
        elif by_id.setdefault(row.id, row) is not row:
            raise DiffError(f"two rows of the {name} run have the id {row.id!r}; a run has one row for each trajectory")
    return Run(name, by_id, unreadable)


@dataclass(slots=True)
class _Said:
    """What one side says of one trajectory: its status and reward, and of every node at the last step, or at all."""

    status: str
    reward: float | None
    last: _Values
    steps: list[_Values | None] | None = None


class _Comparison:
    def __init__(self, diff: Diff, group_by: GroupBy | None) -> None:
        self.diff = diff
        self.group_by = group_by
        self._groups: dict[str, dict[str, None]] = {}  # the files in which each number stands
        self._files: dict[int, str] = {}  # of the trajectories whose group is a number, by their place
        self._kinds: dict[str, str] = {}
        self._seen: tuple[dict[str, None], dict[str, None]] = ({}, {})  # paths of each side, in their order

    def add(self, id: str, old: Row | None, new: Row | None) -> None:
        """Compare the rows of one trajectory; at least one is there."""
        diff = self.diff
        if old is not None and not diff.recorded:
            diff.old.add(old)
        if new is not None:
            diff.new.add(new)
        row = new or old
        assert row is not None
        group = self._group(row) if self.group_by is None else self.group_by(row)
        before = None if old is None else self._recorded(old) if diff.recorded else self._said(old, 0)
        after = None if new is None else self._said(new, 1)
        change = Change(id, "added" if before is None else "removed", group=None if group is None else str(group))
        change.steps = row.steps
        if before is not None:
            change.old, change.old_status = before.reward, before.status
        if after is not None:
            change.new, change.new_status = after.reward, after.status
        if old is not None and new is not None and before is not None and after is not None:
            change.way = _way(old, new, before.reward, after.reward)
            if change.way != "other_content":
                same_tree = not diff.recorded and old.rubric is not None and old.rubric == new.rubric
                same_tree = same_tree and old.end == new.end
                change.unstable = same_tree and change.way in ("up", "down")
                change.nodes = self._nodes(before, after, same_tree, _same_judges(old, new))
        diff.statuses[change.old_status, change.new_status] += 1
        diff.changes.append(change)

    def _nodes(self, old: _Said, new: _Said, same_tree: bool, same_judges: set[str]) -> tuple[str, ...]:
        changed: dict[str, None] = {}
        for before, after in _steps(old, new):
            for path in (*after, *(path for path in before if path not in after)):
                node = self.diff.nodes.get(path)
                if node is None:
                    node = self.diff.nodes[path] = NodeChange(path, self._kinds[path])
                if node.add(before.get(path), after.get(path), same_tree or path in same_judges):
                    changed[path] = None
        return tuple(changed)

    def _group(self, row: Row) -> str | int | None:
        key = group_key(row.group, row.source)
        if key is not row.group:
            self._files[len(self.diff.changes)] = key[0]
            self._groups.setdefault(str(row.group), {})[key[0]] = None
        return row.group

    def _said(self, row: Row, side: int) -> _Said:
        last = self._values(row.evaluation, side) or {}
        steps = [self._values(each, side) for each in row.evaluations] if row.evaluations else None
        return _Said(row.status, row.reward, last, steps)

    def _recorded(self, row: Row) -> _Said:
        parts: _Values = {
            name: "unscored" if value is None else float(value) for name, value in (row.components or {}).items()
        }
        self._seen[0].update(dict.fromkeys(parts))
        for name in parts:
            self._kinds.setdefault(name, "recorded")
        return _Said("unscored" if row.recorded_reward is None else "scored", row.recorded_reward, parts)

    def _values(self, evaluation: Evaluation | None, side: int) -> _Values | None:
        if evaluation is None:
            return None
        values: _Values = {}
        for node in evaluation.nodes():
            scored = node.status == "scored" and node.score is not None
            values[node.path] = float(node.score or 0.0) if scored else node.status
            if node.path not in self._seen[side]:
                self._seen[side][node.path] = None
                if side == 1 or node.path not in self._kinds:
                    self._kinds[node.path] = node.kind
        return values

    def finished(self) -> Diff:
        diff = self.diff
        old, new = self._seen
        found, diff.nodes = diff.nodes, {}
        for path in tree_order({**new, **old}):
            node = found.get(path) or NodeChange(path, "")  # else of trajectories that are in one run only
            node.kind = self._kinds[path]
            node.only = None if path in old and path in new else "old" if path in old else "new"
            diff.nodes[path] = node
        for change in diff.changes:
            change.nodes = tuple(path for path in change.nodes if diff.nodes[path].only is None)
        for place, path in self._files.items():
            change = diff.changes[place]
            if len(self._groups[change.group or ""]) > 1:
                change.group = f"{path}: {change.group}"
        grouped: dict[str, list[Change]] = {}
        for change in diff.changes:
            if change.group is not None and change.way in COMPARED:
                grouped.setdefault(change.group, []).append(change)
        for group, members in grouped.items():
            if len(members) > 1:
                rewards = [(change.old or 0.0, change.new or 0.0) for change in members]
                diff.groups[group] = group_change(group, *zip(*rewards, strict=True))
        return diff


def _way(old: Row, new: Row, before: float | None, after: float | None) -> Way:
    if old.content is not None and new.content is not None and old.content != new.content:
        return "other_content"
    if before is not None and after is not None:
        return direction(before, after)
    if before is None and after is None:
        return "unscored"
    return "newly_unscored" if after is None else "newly_scored"


def tree_order(paths: Collection[str]) -> Iterator[str]:
    """Each path behind that of its parent, and otherwise as they come."""
    below: dict[str, list[str]] = {}
    known = set(paths)
    for path in paths:
        if path:
            parent = path.rpartition(".")[0]
            while parent and parent not in known:
                parent = parent.rpartition(".")[0]
            below.setdefault(parent, []).append(path)
    waiting = [""]
    while waiting:
        path = waiting.pop()
        if path in known:
            yield path
        waiting.extend(reversed(below.get(path, ())))


def _same_judges(old: Row, new: Row) -> set[str]:
    theirs = new.judges or {}
    return {path for path, fingerprint in (old.judges or {}).items() if theirs.get(path) == fingerprint}


def _steps(old: _Said, new: _Said) -> Iterator[tuple[_Values, _Values]]:
    """The steps that are compared: all where both sides have them, else the last.

    What a tree that raised had scored before it did may be of an earlier step, and is left out.
    """
    if old.steps is not None and new.steps is not None and len(old.steps) == len(new.steps):
        for before, after in zip(old.steps, new.steps, strict=True):
            if before is not None and after is not None:
                yield before, after
        return
    left_out: set[str] = set()
    for said in (old, new):
        if said.status == "error":
            left_out.update(path for path, value in said.last.items() if isinstance(value, float))
    yield tuple({path: value for path, value in said.last.items() if path not in left_out} for said in (old, new))  # type: ignore[misc]
