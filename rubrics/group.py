"""Rewards relative to a group: several trajectories of one task, judged against one another."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rubrics.engine.loop import Exit, contained
from rubrics.evaluation import NO_USAGE, Usage
from rubrics.score import InvalidScoreError, Outcome, RubricError, Score, Unscored, checked
from rubrics.trajectory import End, Step, Trajectory


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


@dataclass(frozen=True, slots=True)
class BatchScores:
    """What a group rubric made of a batch of groups.

    Attributes:
        scores: by trajectory, in the order given; None for an unscored one.
        reasons: why, by trajectory.
        usage: what it cost.
        groups: the judgement of each group that was judged, by its id; its scores are those of the trajectories in
            `members`.
        members: the positions of the trajectories of each group that was judged, one for each score; those that are
            identical share one.
        incomplete: ids of the groups that were not judged, since members are missing.
    """

    scores: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    usage: Usage = NO_USAGE
    groups: dict[Hashable, GroupScores] = field(default_factory=dict)
    members: dict[Hashable, list[list[int]]] = field(default_factory=dict)
    incomplete: tuple[Hashable, ...] = ()


class IncompleteGroupError(RubricError, ValueError):
    """A group that does not have the members it should have."""


async def score_groups(
    rubric: GroupRubric,
    trajectories: Sequence[Trajectory],
    group_ids: Sequence[Hashable] | None = None,
    *,
    size: int | None = None,
    incomplete: Literal["raise", "unscored"] = "raise",
    exclude: Collection[End | None] = ("error", "abandoned", None),
    concurrency: int = 16,
) -> BatchScores:
    """Score the groups of a batch, each relative to its own members.

    Args:
        rubric: judges a group.
        trajectories: of all groups, in any order.
        group_ids: one a trajectory; equal ids are a group, of any size. By default `metadata["group"]`, which
            `collect` writes.
        size: how many members each group should have. None: as many as there are.
        incomplete: what becomes of a group with more or fewer: `"raise"` an IncompleteGroupError that names all of
            them, or `"unscored"`: its members are, and the reason says so.
        exclude: ends with which a member is left out: it is unscored, and the others are compared without it. None is
            an episode whose end is not known. Add `"truncated"` to leave out those that were cut off.
        concurrency: groups judged at once.

    Returns:
        A score for each trajectory, or the reason why there is none. Members that did the same, step by step, are
        judged once, as one candidate (what cannot be written as JSON is like nothing else). Where fewer than two
        different ones are left there is nothing to compare, and they are unscored.

    Raises:
        IncompleteGroupError: as above, before any group is judged.
        Exception: what the rubric raises; the groups beside it are cancelled.
        ValueError: there are more or fewer ids than trajectories, a trajectory has none, or an option has no such
            value.
    """
    if incomplete not in ("raise", "unscored"):
        raise ValueError(f"incomplete is 'raise' or 'unscored', not {incomplete!r}")
    if isinstance(exclude, str) or not set(exclude) <= {*get_args(End), None}:
        raise ValueError(f"exclude is a collection of ends ({', '.join(get_args(End))}, None), not {exclude!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, not {concurrency}")
    members = _members(trajectories, group_ids)
    scores: list[float | None] = [None] * len(trajectories)
    reasons: list[str | None] = [None] * len(trajectories)
    wrong = {} if size is None else {id: rows for id, rows in members.items() if len(rows) != size}
    if wrong and incomplete == "raise":
        named = ", ".join(f"{id!r} has {len(rows)}" for id, rows in list(wrong.items())[:10])
        raise IncompleteGroupError(f"{len(wrong)} of {len(members)} groups do not have {size} members: {named}")
    distinct: dict[Hashable, list[list[int]]] = {}
    for id, rows in members.items():
        for row in rows:
            if id in wrong:
                reasons[row] = f"its group has {len(rows)} members and should have {size}"
            elif trajectories[row].end in exclude:
                reasons[row] = f"left out: the end of the episode is {trajectories[row].end or 'not known'}"
        same: dict[bytes | int, list[int]] = {}
        for row in rows:
            if reasons[row] is None:
                try:
                    content: bytes | int = _content(trajectories[row])
                except (TypeError, ValueError):
                    content = row
                same.setdefault(content, []).append(row)
        if same:
            distinct[id] = list(same.values())
    slots = asyncio.Semaphore(concurrency)

    async def judge(candidates: list[list[int]]) -> GroupScores:
        async with slots:
            return await rubric.score([trajectories[rows[0]] for rows in candidates])

    try:
        async with asyncio.TaskGroup() as tasks:
            judging = {id: tasks.create_task(contained(judge(candidates))) for id, candidates in distinct.items()}
    except BaseExceptionGroup as several:
        error = several.exceptions[0]
        raise error.error if isinstance(error, Exit) else error from None
    groups = {id: task.result() for id, task in judging.items()}
    for id, found in groups.items():
        alone = len(found) == 1 and len(distinct[id][0]) > 1
        for rows, score, reason in zip(distinct[id], found.scores, found.reasons, strict=True):
            for row in rows:
                scores[row] = score
                reasons[row] = "all members did the same: there is nothing to compare" if alone else reason
    spent = sum((found.usage for found in groups.values()), NO_USAGE)
    return BatchScores(tuple(scores), tuple(reasons), spent, groups, distinct, tuple(wrong))


def _members(trajectories: Sequence[Trajectory], group_ids: Sequence[Hashable] | None) -> dict[Hashable, list[int]]:
    if group_ids is None:
        group_ids = [trajectory.metadata.get("group") for trajectory in trajectories]
    if len(group_ids) != len(trajectories):
        raise ValueError(f"there are {len(group_ids)} group ids for {len(trajectories)} trajectories")
    members: dict[Hashable, list[int]] = {}
    for row, id in enumerate(group_ids):
        if id is None:
            raise ValueError(f"trajectory {row} ({trajectories[row].id!r}) has no group: give group_ids")
        try:
            members.setdefault(id, []).append(row)
        except TypeError as error:
            raise ValueError(f"the group id of trajectory {row} ({trajectories[row].id!r}) is no id: {error}") from None
    return members


def _content(trajectory: Trajectory) -> bytes:
    """What an agent did and saw, to tell whether two did the same."""
    from rubrics.formats.parsing import finite, json_line

    steps = Trajectory("", steps=[Step(step.action, step.observation) for step in trajectory.steps]).to_dict()["steps"]
    return json_line(finite(steps, []))


def _reason_of(outcome: Outcome) -> str | None:
    return outcome.reason if isinstance(outcome, (Score, Unscored)) else None
