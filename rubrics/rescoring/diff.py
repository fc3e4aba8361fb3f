"""What moved between two runs over the same trajectories, or between a run and the rewards that were recorded.

    changes = compare("old.jsonl", "new.jsonl")
    print(changes.counts)                      # Counter({"unchanged": 877, "down": 120, "up": 3})
    for change in changes.most_moved(10):
        print(change.id, change.old, change.new, change.nodes)

Rows are matched by id, and compared only where they are of the same trajectory to the letter. A number that is missing
is never a 0: what lost its score, or has one now, is counted apart.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import hypot, isclose, sqrt
from typing import Any, Literal, get_args

from rubrics.rescoring.ranks import ABSOLUTE, RELATIVE, GroupChange
from rubrics.rescoring.rows import Row

Way = Literal[
    "up",
    "down",
    "unchanged",  # within a relative difference of 1e-9, an absolute one of 1e-12
    "newly_unscored",
    "newly_scored",
    "unscored",  # in both runs
    "other_content",  # the trajectory itself differs, so its numbers are not compared
    "removed",  # it is in the old run only
    "added",  # it is in the new run only
]
WAYS: tuple[Way, ...] = get_args(Way)
COMPARED: tuple[Way, ...] = ("up", "down", "unchanged")
MOVED: tuple[Way, ...] = ("up", "down", "newly_unscored", "newly_scored")


@dataclass(slots=True)
class Change:
    """What became of one trajectory.

    Attributes:
        id: the trajectory's.
        way: how its reward moved; see `Way`.
        old, new: its rewards; None where there is none.
        old_status, new_status: of its rows; None where a run has none.
        group: what it shares with the other rollouts of its task; None where it is in no group.
        steps: number of its steps.
        nodes: paths of the nodes that moved, or lost or gained a score, at any step that was compared.
        unstable: the reward moved although the trees are the same.
    """

    id: str
    way: Way
    old: float | None = None
    new: float | None = None
    old_status: str | None = None
    new_status: str | None = None
    group: str | None = None
    steps: int = 0
    nodes: tuple[str, ...] = ()
    unstable: bool = False

    @property
    def difference(self) -> float | None:
        """New minus old; None where one of them is missing."""
        return None if self.old is None or self.new is None else self.new - self.old

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "nodes": list(self.nodes), "difference": self.difference}


@dataclass(slots=True)
class NodeChange:
    """One node over all comparisons of it: one a trajectory, at the last step, or one a step where both runs have the
    records of all steps.

    Attributes:
        path, kind: of the node; the path of the root is `""`.
        only: `"old"` or `"new"` where the other run has no such node.
        up, down, unchanged: comparisons in which it was scored in both runs.
        newly_unscored: those in which it lost its score, by its new status; `"absent"` where there is no record of it.
        newly_scored: those in which it gained one, by its old status.
        unstable: those in which it moved although its tree, or its judge, is the same.
    """

    path: str
    kind: str
    only: Literal["old", "new"] | None = None
    up: int = 0
    down: int = 0
    unchanged: int = 0
    newly_unscored: Counter[str] = field(default_factory=Counter)
    newly_scored: Counter[str] = field(default_factory=Counter)
    unstable: int = 0
    _old: float = 0.0
    _new: float = 0.0

    def add(self, old: float | str | None, new: float | str | None, same: bool = False) -> bool:
        """Count one comparison. Whether something changed."""
        if isinstance(old, float) and isinstance(new, float):
            way = direction(old, new)
            setattr(self, way, getattr(self, way) + 1)
            self._old += old
            self._new += new
            self.unstable += same and way != "unchanged"
            return way != "unchanged"
        if isinstance(old, float):
            self.newly_unscored[new if isinstance(new, str) else "absent"] += 1
        elif isinstance(new, float):
            self.newly_scored[old or "absent"] += 1
        else:
            return False
        return True

    @property
    def n(self) -> int:
        """Comparisons in which it was scored in both runs; the means are over these."""
        return self.up + self.down + self.unchanged

    @property
    def old_mean(self) -> float | None:
        """Its mean score in the old run; None where n is 0."""
        return self._old / self.n if self.n else None

    @property
    def new_mean(self) -> float | None:
        """Its mean score in the new run; None where n is 0."""
        return self._new / self.n if self.n else None

    @property
    def difference(self) -> float | None:
        """Mean of new minus old."""
        return (self._new - self._old) / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        counts = {name: getattr(self, name) for name in ("up", "down", "unchanged", "unstable", "n")}
        means = {name: getattr(self, name) for name in ("old_mean", "new_mean", "difference")}
        changed = {"newly_unscored": dict(self.newly_unscored), "newly_scored": dict(self.newly_scored)}
        return {"path": self.path, "kind": self.kind, "only": self.only, **counts, **changed, **means}


@dataclass(frozen=True, slots=True)
class Means:
    """The rewards of the trajectories that have one in both runs.

    Attributes:
        n: their number.
        old, new: mean rewards; None where n is 0.
        difference: mean of new minus old.
        low, high: where the mean difference lies with a confidence of 95 %, by the normal approximation. Rollouts of
            one group count as dependent on one another. None for fewer than two independent ones.
    """

    n: int
    old: float | None = None
    new: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(slots=True)
class Run:
    """One of the two sides.

    Attributes:
        name: its file, or what it is.
        rows: its rows by id.
        unreadable: number of records that could not be read; they have no id, and are not compared.
        rubrics: fingerprints of its trees, with the number of rows of each.
        judges: fingerprints of its judges by path.
    """

    name: str
    rows: Mapping[str, Row]
    unreadable: int = 0
    rubrics: Counter[str] = field(default_factory=Counter)
    judges: dict[str, set[str]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Note which tree and judges a row is of."""
        if row.rubric is not None:
            self.rubrics[row.rubric] += 1
        for path, fingerprint in (row.judges or {}).items():
            self.judges.setdefault(path, set()).add(fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without the rows."""
        judges = {path: sorted(found) for path, found in self.judges.items()}
        return {
            "name": self.name,
            "rows": len(self.rows),
            "unreadable": self.unreadable,
            "rubrics": dict(self.rubrics),
            "judges": judges,
        }


@dataclass(slots=True)
class Diff:
    """What moved. Made by `compare` and `compare_recorded`.

    Attributes:
        old, new: the two runs.
        recorded: whether the old numbers are the rewards that the new run's recordings came with.
        changes: one for every trajectory of either run, in the order of the new; what is only in the old comes last.
        nodes: by path, in the order of the tree.
        groups: by name; those of at least two rollouts that have a reward in both runs.
        statuses: number of trajectories by old and new status.
    """

    old: Run
    new: Run
    recorded: bool = False
    changes: list[Change] = field(default_factory=list)
    nodes: dict[str, NodeChange] = field(default_factory=dict)
    groups: dict[str, GroupChange] = field(default_factory=dict)
    statuses: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)

    @property
    def counts(self) -> Counter[Way]:
        """Number of trajectories by the way they moved."""
        return Counter(change.way for change in self.changes)

    @property
    def unstable(self) -> int:
        """Trajectories whose reward moved although the trees are the same: the tree gives what it likes."""
        return sum(change.unstable for change in self.changes)

    @property
    def same_rubric(self) -> bool | None:
        """Whether both runs are of the same trees; None where a run does not say."""
        if not self.old.rubrics or not self.new.rubrics:
            return None
        return self.old.rubrics.keys() == self.new.rubrics.keys()

    @property
    def changed_judges(self) -> list[str]:
        """Paths of judges that are in both runs and differ: in prompt, scale, model or sampling."""
        both = self.old.judges.keys() & self.new.judges.keys()
        return [path for path in self.new.judges if path in both and self.old.judges[path] != self.new.judges[path]]

    @property
    def moved_share(self) -> float | None:
        """The share of the old run's trajectories that did not stay as they were, in [0, 1]; None where it has none.

        What is gone, or has other content, did not stay; what is new is not counted.
        """
        counts = self.counts
        total = counts.total() - counts["added"]
        return (total - counts["unchanged"] - counts["unscored"]) / total if total else None

    @property
    def reward(self) -> Means:
        """The rewards of the trajectories that have one in both runs."""
        return _means([change for change in self.changes if change.way in COMPARED])

    def most_moved(self, count: int) -> list[Change]:
        """So many trajectories whose rewards went up or down, the most moved first."""
        moved = (change for change in self.changes if change.way in ("up", "down"))
        return heapq.nlargest(count, moved, key=lambda change: abs(change.difference or 0.0))

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        counts = self.counts
        return {
            "old": self.old.to_dict(),
            "new": self.new.to_dict(),
            "recorded": self.recorded,
            "same_rubric": self.same_rubric,
            "changed_judges": self.changed_judges,
            "unstable": self.unstable,
            "counts": {way: counts[way] for way in WAYS},
            "moved_share": self.moved_share,
            "statuses": [
                {"old": old, "new": new, "trajectories": number} for (old, new), number in self.statuses.items()
            ],
            "reward": asdict(self.reward),
            "nodes": [node.to_dict() for node in self.nodes.values()],
            "groups": [asdict(group) for group in self.groups.values()],
            "changes": [change.to_dict() for change in self.changes],
        }


def direction(old: float, new: float) -> Literal["up", "down", "unchanged"]:
    """How a number moved; equal within rounding is unchanged."""
    if isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
        return "unchanged"
    return "up" if new > old else "down"


def _means(changes: list[Change]) -> Means:
    """With standard errors that are clustered by group: a trajectory without one is a group of its own."""
    n = len(changes)
    if not n:
        return Means(0)
    old, new = (sum(values) / n for values in zip(*((c.old or 0.0, c.new or 0.0) for c in changes), strict=True))
    mean = sum(change.difference or 0.0 for change in changes) / n
    clusters: dict[object, float] = {}
    for number, change in enumerate(changes):
        cluster = number if change.group is None else change.group
        clusters[cluster] = clusters.get(cluster, 0.0) + (change.difference or 0.0) - mean
    k = len(clusters)
    if k < 2:
        return Means(n, old, new, mean)
    error = 1.96 * sqrt(k / (k - 1)) * hypot(*clusters.values()) / n
    return Means(n, old, new, mean, mean - error, mean + error)
