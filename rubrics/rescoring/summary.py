"""What a run came to: the mean of every node, and the new rewards beside the recorded ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import TYPE_CHECKING, Any

from rubrics.rescoring.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

_STATUSES = ("scored", "unscored", "unfinished", "error", "unreadable")


@dataclass(slots=True)
class Component:
    """One node over many trajectories: how often it had which outcome, and its scores where it had one.

    `mean`, `low` and `high` are over the scored trajectories, None where there are none.
    """

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    total: float = 0.0
    low: float | None = None
    high: float | None = None

    def add(self, status: str, score: float | None) -> None:
        self.outcomes[status] += 1
        if status == "scored" and score is not None:
            self.total += score
            self.low = score if self.low is None else min(self.low, score)
            self.high = score if self.high is None else max(self.high, score)

    @property
    def mean(self) -> float | None:
        scored = self.outcomes["scored"]
        return self.total / scored if scored else None


class Summary:
    """Accumulates rows, one at a time.

    Attributes:
        statuses: number of rows by status.
        components: by path, in the order of the tree, the nodes in the evaluations of the last steps; the root is `""`.
        rewards: the new rewards of the episodes.
        cost: US dollars that the model calls cost; None where the price of one is not known.
        moved: number of trajectories whose new reward is `"up"`, `"down"` or the `"same"`, against the recorded one.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.statuses: Counter[str] = Counter()
        self.components: dict[str, Component] = {}
        self.rewards = Component("reward")
        self.moved: Counter[str] = Counter()
        self._recorded = self._new = 0.0
        self.cost: float | None = 0.0
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Count one row."""
        if row.evaluation is not None:
            for node in row.evaluation.nodes():
                self._node(node.path, node.kind, node.status, node.score)
        self._row(row.status, row.reward, row.recorded_reward)
        self._spent(row.usage)

    def add_data(self, data: Mapping[str, Any]) -> None:
        """Count one row, as the JSON values that it was written as."""
        below = [data["evaluation"]] if data.get("evaluation") else []
        while below:
            node = below.pop()
            self._node(node["path"], node["kind"], node["status"], node["score"])
            below += reversed(node["children"])
        self._row(data["status"], data["reward"], data.get("recorded_reward"))
        self._spent(data.get("usage"))

    def _spent(self, usage: Mapping[str, Any] | None) -> None:
        if usage:
            self.cost = None if self.cost is None or usage["cost"] is None else self.cost + usage["cost"]

    def _node(self, path: str, kind: str, status: str, score: float | None) -> None:
        component = self.components.get(path)
        if component is None:
            component = self.components[path] = Component(kind)
        component.add(status, score)

    def _row(self, status: str, reward: float | None, recorded: float | None) -> None:
        self.statuses[status] += 1
        if reward is None:
            return
        self.rewards.add("scored", reward)
        if recorded is not None:
            same = isclose(reward, recorded, rel_tol=1e-9, abs_tol=1e-12)
            self.moved["same" if same else "up" if reward > recorded else "down"] += 1
            self._recorded += recorded
            self._new += reward

    @property
    def recorded_mean(self) -> float | None:
        """Mean recorded reward of the trajectories that have both rewards."""
        compared = self.moved.total()
        return self._recorded / compared if compared else None

    @property
    def new_mean(self) -> float | None:
        """Mean new reward of the trajectories that have both rewards."""
        compared = self.moved.total()
        return self._new / compared if compared else None

    def describe(self) -> str:
        """How many trajectories came out how, and how far the rewards moved: one or two lines."""
        parts = [f"{self.statuses[status]} {status}" for status in _STATUSES if self.statuses[status]]
        text = f"{self.statuses.total()} trajectories: {', '.join(parts) or 'none'}"
        if self.recorded_mean is not None:
            moved = ", ".join(f"{self.moved[way]} {way}" for way in ("up", "down", "same"))
            text += f"\nepisode reward: recorded mean {self.recorded_mean:.3f}, new mean {self.new_mean:.3f} ({moved})"
        elif self.rewards.mean is not None:
            text += f"\nepisode reward: mean {self.rewards.mean:.3f} (none was recorded)"
        return text

    def table(self) -> Table:
        """The components as a table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        counted = [s for s in ("scored", "pending", "unscored", "skipped", "error") if self._any(s) or s == "scored"]
        table = Table(title="Components at the last step", title_justify="left")
        table.add_column("node", overflow="fold")
        table.add_column("kind", style="dim", overflow="fold")
        for status in counted:
            table.add_column(status, justify="right")
        for name in ("mean", "min", "max"):
            table.add_column(name, justify="right")
        for path, component in self.components.items():
            numbers = [component.mean, component.low, component.high]
            table.add_row(
                Text(path or "(root)"),
                Text(component.kind),
                *(str(component.outcomes[status] or "") for status in counted),
                *("" if number is None else f"{number:.3f}" for number in numbers),
            )
        return table

    def _any(self, status: str) -> bool:
        return any(component.outcomes[status] for component in self.components.values())
