"""Rewards relative to a group: several trajectories of one task, judged against one another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from rubrics.evaluation import NO_USAGE, Usage
from rubrics.score import InvalidScoreError, Outcome, Score, Unscored, checked
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

        Raises:
            Unscored: none of them can be scored.
        """

    async def score(self, group: Sequence[Trajectory], task: Any = None) -> GroupScores:
        """The scores of a group.

        Args:
            group: the candidates.
            task: by default that of the first candidate.

        Returns:
            One score for each. A group of one has nothing to compare, so it is unscored; an empty one stays empty.

        Raises:
            InvalidScoreError: there are more or fewer scores than candidates, or one is no finite number.
        """
        if len(group) < 2:
            alone = "a group of one: there is nothing to compare it with"
            return GroupScores((None,) * len(group), (alone,) * len(group))
        try:
            found = await self.score_group(group, group[0].task if task is None else task)
        except Unscored as unscored:
            found = GroupScores((None,) * len(group), (unscored.reason,) * len(group), metadata=unscored.metadata)
        return self._checked(found, len(group))

    def _checked(self, found: Any, size: int) -> GroupScores:
        who = type(self).__name__
        whole = found if isinstance(found, GroupScores) else None
        values = found if whole is None else whole.scores
        if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
            raise InvalidScoreError(f"{who} gave {found!r}, which is no list of scores")
        outcomes = [
            checked(value, lambda i=i: f"{who}, candidate {i}")  # type: ignore[misc]
            for i, value in enumerate(values)
        ]
        reasons = tuple(map(_reason_of, outcomes)) if whole is None else whole.reasons
        if len(outcomes) != size or len(reasons) != size:
            raise InvalidScoreError(
                f"{who} gave {len(outcomes)} scores and {len(reasons)} reasons for {size} candidates"
            )
        scores = tuple(None if isinstance(outcome, Unscored) else float(outcome) for outcome in outcomes)
        return GroupScores(scores, reasons) if whole is None else replace(whole, scores=scores)

    def score_sync(self, group: Sequence[Trajectory], task: Any = None) -> GroupScores:
        """`score`, for sync code; it blocks the thread."""
        from rubrics.engine.loop import block

        return block(lambda: self.score(group, task))


def _reason_of(outcome: Outcome) -> str | None:
    return outcome.reason if isinstance(outcome, (Score, Unscored)) else None
