"""Rewards relative to a group: several trajectories of one task, judged against one another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrics.evaluation import NO_USAGE, Usage
from rubrics.score import InvalidScoreError, Score, Unscored, checked
from rubrics.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class GroupScores:
    """What a group rubric made of a group.

    Attributes:
        scores: by candidate, in the order given; None for an unscored one.
        reasons: why, by candidate; None where nothing was said.
        usage: what it cost.
        metadata: anything else worth keeping, such as the comparisons.
    """

    scores: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    usage: Usage = NO_USAGE
    metadata: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def complete(self) -> bool:
        """Whether every candidate has a score."""
        return None not in self.scores


class GroupRubric(ABC):
    """A reward that depends on the other candidates of a group, such as a place in a ranking.

    Subclasses write `score_group`; callers use `score`, which checks what it gives.
    """

    @abstractmethod
    async def score_group(self, group: Sequence[Trajectory], task: Any = None) -> Any:
        """The judgement.

        Args:
            group: the candidates; trajectories of one task.
            task: what they were asked to do.

        Returns:
            A score for each, in order, as a `forward` may return one (None is unscored), or `GroupScores`.
        """

    async def score(self, group: Sequence[Trajectory], task: Any = None) -> GroupScores:
        """The scores of a group.

        Args:
            group: the candidates.
            task: by default that of the first candidate.

        Returns:
            One score for each. A group of one has nothing to compare, so it is unscored; an empty one stays empty.

        Raises:
            InvalidScoreError: there are more or fewer scores than candidates, or one is none.
        """
        if len(group) < 2:
            alone = "a group of one: there is nothing to compare it with"
            return GroupScores((None,) * len(group), (alone,) * len(group))
        found = await self.score_group(group, group[0].task if task is None else task)
        scores = found if isinstance(found, GroupScores) else self._read(found)
        if len(scores) != len(group):
            raise InvalidScoreError(f"{type(self).__name__} gave {len(scores)} scores for {len(group)} candidates")
        return scores

    def _read(self, found: Any) -> GroupScores:
        if isinstance(found, (str, bytes)) or not isinstance(found, Sequence):
            raise InvalidScoreError(f"{type(self).__name__} gave {found!r}, which is no list of scores")
        outcomes = [
            checked(value, lambda i=i: f"{type(self).__name__}, candidate {i}")  # type: ignore[misc]
            for i, value in enumerate(found)
        ]
        return GroupScores(
            tuple(None if isinstance(outcome, Unscored) else float(outcome) for outcome in outcomes),
            tuple(outcome.reason if isinstance(outcome, (Score, Unscored)) else None for outcome in outcomes),
        )

    def score_sync(self, group: Sequence[Trajectory], task: Any = None) -> GroupScores:
        """`score`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.score(group, task))
