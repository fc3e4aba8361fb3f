"""What a batch of steps gives, and the loop over rows that are evaluated by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rubrics.batch.driver import columns_of
from rubrics.batch.rows import Batch, Selection
from rubrics.batch.sums import Column
from rubrics.engine.loop import block
from rubrics.episode import Episode
from rubrics.evaluation import NO_USAGE, Evaluation, Status, Usage
from rubrics.score import Score

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


class BatchEvaluation:
    """The scores of a batch of steps.

    Attributes:
        scores: (rows,), float64; NaN where a row is unscored, or raised.
        errors: what rows raised, by row, where `on_error="keep"`.
        usage: what model calls cost.
    """

    def __init__(
        self,
        rubric: Rubric,
        rows: Selection,
        scores: Column,
        pending: set[int],
        errors: dict[int, Exception],
        usage: Usage,
    ) -> None:
        self.scores = scores
        self.errors = errors
        self.usage = usage
        self._rubric, self._rows, self._pending = rubric, rows, pending

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        known = int(np.count_nonzero(~np.isnan(self.scores)))
        return f"<BatchEvaluation of {type(self._rubric).__name__}: {known} of {len(self)} rows scored>"

    @property
    def statuses(self) -> list[Status]:
        """`"scored"`, `"pending"`, `"unscored"` or `"error"`, by row."""
        found: list[Status] = ["unscored" if missing else "scored" for missing in np.isnan(self.scores).tolist()]
        for row in self._pending:
            found[row] = "pending"
        for row in self.errors:
            found[row] = "error"
        return found

    def evaluation(self, row: int) -> Evaluation:
        """The whole record of a row, which is evaluated again for it (on a tree with async nodes this thread waits).

        Raises:
            Exception: whatever a node raises.
        """
        rows = self._rows
        action, observation, task = rows.actions[row], rows.observations[row], rows.tasks[row]
        episode = self._rubric.episode(task, record=True)
        try:
            return self._rubric.evaluate_sync(action, observation, episode)
        finally:
            episode.abandon()

    def reason(self, row: int) -> str | None:
        """Why a row has its score, or has none: the reason of the root. The row is evaluated again for it."""
        if row in self.errors:
            error = self.errors[row]
            return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        return self.evaluation(row).reason


def evaluate_batch(
    rubric: Rubric,
    actions: Sequence[Any],
    observations: Sequence[Any],
    tasks: Sequence[Any] | None,
    on_error: Literal["raise", "keep"],
    concurrency: int,
) -> BatchEvaluation:
    """See `Rubric.evaluate_batch`."""
    if on_error not in ("raise", "keep"):
        raise ValueError(f"on_error is 'raise' or 'keep', not {on_error!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, not {concurrency}")
    batch = Batch(rubric, actions, observations, tasks)
    scores = columns_of(batch)
    loop = _Loop(batch, scores, on_error == "raise")
    again = np.flatnonzero(np.isinf(scores)).tolist()
    if again and rubric.is_async_tree:
        block(loop.all_async, again, concurrency)
    else:
        loop.all(again)
    usage = sum(batch.spent, loop.usage)
    return BatchEvaluation(rubric, batch.rows, scores, loop.pending, loop.errors, usage)


class _Loop:
    """Rows evaluated by themselves, each as a step of an episode of its own."""

    def __init__(self, batch: Batch, scores: Column, raises: bool) -> None:
        self.batch, self.scores, self.raises = batch, scores, raises
        self.pending: set[int] = set()
        self.errors: dict[int, Exception] = {}
        self.usage = NO_USAGE

    def all(self, rows: list[int]) -> None:
        for row in rows:
            episode = self._episode(row)
            try:
                score = episode.step(self.batch.rows.actions[row], self.batch.rows.observations[row])
            except Exception as error:
                self._failed(row, error)
            else:
                self._note(row, score)
            finally:
                self._done(episode)

    async def all_async(self, rows: list[int], concurrency: int) -> None:
        waiting = iter(rows)

        async def work() -> None:
            for row in waiting:
                episode = self._episode(row)
                try:
                    action, observation = self.batch.rows.actions[row], self.batch.rows.observations[row]
                    score = await episode.astep(action, observation, threads=True)
                except Exception as error:
                    self._failed(row, error)
                else:
                    self._note(row, score)
                finally:
                    self._done(episode)

        at_once = 1 if self.batch.plan.self_stateful else min(concurrency, len(rows))
        workers = [asyncio.create_task(work()) for _ in range(at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _episode(self, row: int) -> Episode:
        return self.batch.plan.root.node.episode(self.batch.rows.tasks[row], record=None)

    def _note(self, row: int, score: float | Score | None) -> None:
        self.scores[row] = np.nan if score is None else score
        if isinstance(score, Score) and score.pending:
            self.pending.add(row)

    def _failed(self, row: int, error: Exception) -> None:
        if self.raises:
            with suppress(AttributeError):  # an exception that refuses new attributes goes on as it is
                error.add_note(f"in row {row} of the batch")
            raise error
        self.scores[row] = np.nan
        self.errors[row] = error

    def _done(self, episode: Episode) -> None:
        self.usage = self.usage + episode.usage
        episode.abandon()
