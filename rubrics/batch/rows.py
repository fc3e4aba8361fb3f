"""The rows of a batch, and the runs that the code of leaves is in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rubrics.batch.sums import Column, Rows
from rubrics.engine.frames import Frame, Outcomes, Run
from rubrics.episode import Episode
from rubrics.evaluation import Usage
from rubrics.score import EpisodeError, StructureError

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


class Batch:
    """Rows under a tree. Those that the columns know nothing of are `AGAIN` in them."""

    def __init__(
        self, rubric: Rubric, actions: Sequence[Any], observations: Sequence[Any], tasks: Sequence[Any] | None = None
    ) -> None:
        size = len(actions)
        if len(observations) != size or (tasks is not None and len(tasks) != size):
            other = f"{len(observations)} observations" if tasks is None else f"{len(observations)} and {len(tasks)}"
            raise EpisodeError(
                f"a batch has one action, one observation and, where tasks are given, one task a row: there are {size} "
                f"actions, {other}{'' if tasks is None else ' observations and tasks'}"
            )
        self.plan = rubric._compiled()
        self.size = size
        self.spent: list[Usage] = []
        self.rows = Selection(self, None, actions, observations, (None,) * size if tasks is None else tasks)
        self.strange = False  # whether any row is to be evaluated by itself
        self.known: dict[int, tuple[Column, NDArray[np.bool_]]] = {}  # of nodes at several places, by index
        self._episodes: dict[int, Episode] = {}
        self._shared: dict[int, Outcomes] = {}

    def episode_of(self, row: int) -> Episode:
        """The episode that a row is the step of, for code that asks for it."""
        if row not in self._episodes:
            rows = self.rows
            episode = self._episodes[row] = Episode(self.plan.root.node, rows.tasks[row])
            episode._journal.begin(rows.actions[row], rows.observations[row])
        return self._episodes[row]

    def outcomes_of(self, row: int) -> Outcomes:
        """Where nodes share what they share in one row."""
        return self._shared.setdefault(row, Outcomes(self.plan.blank))


class Selection:
    """Some rows of a batch, by their numbers; None: all of them."""

    def __init__(
        self, batch: Batch, index: Rows | None, actions: Any = None, observations: Any = None, tasks: Any = None
    ) -> None:
        self.batch = batch
        self.size = batch.size if index is None else len(index)
        self._index = index
        if index is None:
            self.actions, self.observations, self.tasks = actions, observations, tasks

    def part(self, which: Rows) -> Selection:
        """Those of the rows at some places of this selection."""
        return Selection(self.batch, which if self._index is None else self._index[which])

    @cached_property
    def index(self) -> Rows:
        return np.arange(self.size) if self._index is None else self._index

    @cached_property
    def actions(self) -> Any:
        return self._taken(self.batch.rows.actions)

    @cached_property
    def observations(self) -> Any:
        return self._taken(self.batch.rows.observations)

    @cached_property
    def tasks(self) -> Any:
        return self._taken(self.batch.rows.tasks)

    @cached_property
    def frame(self) -> Frame:
        """The frame of the `forward_batch`es of these rows; what they share (see `of_this_run`), they share in it."""
        return Frame(BatchRun(self))

    def _taken(self, values: Any) -> Any:
        if isinstance(values, np.ndarray):
            if values.ndim > 1 and values.flags.f_contiguous:  # columns stay columns
                return values.T.take(self.index, axis=-1).T
            return values[self._index]
        return list(map(values.__getitem__, self.index.tolist()))


class BatchRun(Run):
    """The run of a `forward_batch`: of many episodes, so that there is none."""

    __slots__ = ("rows",)

    def __init__(self, rows: Selection) -> None:
        super().__init__(rows.batch.plan, None)
        self.rows = rows
        self.spent = rows.batch.spent
        self.open = False

    @property
    def tasks(self) -> Any:
        return self.rows.tasks

    @property
    def episode(self) -> Any:
        raise StructureError("a forward_batch is of many episodes: it has self.tasks, and neither self.task nor memory")

    @episode.setter
    def episode(self, value: Any) -> None: ...


class RowRun(Run):
    """The run of one row after another, for the `forward` of leaves. Its episode is made if somebody asks for it."""

    __slots__ = ("batch", "row")

    def __init__(self, batch: Batch) -> None:
        self.batch, self.row = batch, 0
        super().__init__(batch.plan, None)
        self.spent = batch.spent
        self.open = False

    @property
    def episode(self) -> Any:
        return self.batch.episode_of(self.row)

    @episode.setter
    def episode(self, value: Any) -> None: ...

    @property
    def last(self) -> Any:
        return self.batch.outcomes_of(self.row)

    @last.setter
    def last(self, value: Any) -> None: ...
