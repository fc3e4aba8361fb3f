"""Rescoring by a group rubric: whole groups in, a row for each member out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rubrics.evaluation import Evaluation, evaluation_of
from rubrics.fingerprinting import fingerprint_of
from rubrics.formats.parsing import FormatProblem
from rubrics.group import BatchScores, GroupRubric, score_groups
from rubrics.rescoring.grouping import group_key
from rubrics.rescoring.judging import refuse_unnamed
from rubrics.rescoring.output import Key
from rubrics.rescoring.replay import FAILURES, ReplayError, end_of, is_cancelled, row_for
from rubrics.rescoring.rows import Row
from rubrics.rescoring.types import Types
from rubrics.trajectory import End, Trajectory

Member = tuple[int, Key, Trajectory]


@dataclass(frozen=True, slots=True)
class GroupMethod:
    """How groups are scored again; the same for all of a run.

    Attributes:
        rubric: judges a group.
        size: how many members a group should have; None: as many as there are.
        by: the expression that gave a trajectory its group; None: its recording did, see `group_key`.
        assume_end, types: as of `Method`.
        fingerprint: of the rubric, and of what makes a group.
    """

    rubric: GroupRubric
    size: int | None = None
    by: str | None = None
    assume_end: End | None = None
    types: Types = field(default_factory=Types)
    fingerprint: str = ""

    @classmethod
    def of(
        cls, rubric: GroupRubric, size: int | None, by: str | None, assume_end: End | None, types: Types | None
    ) -> GroupMethod:
        """A method with its fingerprint."""
        refuse_unnamed(rubric)
        print_of_all = fingerprint_of([rubric, size, by, *([] if types in (None, Types()) else [types])])
        return cls(rubric, size, by, assume_end, types or Types(), print_of_all)


async def groups_as_completed(
    trajectories: Iterator[tuple[int, Key, Trajectory | FormatProblem]],
    method: GroupMethod,
    concurrency: int,
    known: Callable[[Key, int], bool],
    stopped: Callable[[], bool],
) -> AsyncGenerator[list[tuple[int, Key, Row]], None]:
    """The rows of each group, as soon as it is judged.

    A group is judged when it has its size, where one is given, else at the end of the input: its trajectories are in
    memory until then.

    Args:
        trajectories: with their numbers and keys.
        method: how they are scored.
        concurrency: groups judged at once.
        known: whether a trajectory has a row already. A group all of whose members have one is left as it is.
        stopped: asked before a group is judged; once it says so, what is in progress is finished.
    """
    waiting: dict[Hashable, list[Member]] = {}
    running: set[asyncio.Task[list[tuple[int, Key, Row]]]] = set()

    async def begin(members: list[Member]) -> AsyncGenerator[list[tuple[int, Key, Row]], None]:
        there = [known(key, number) for number, key, _ in members]  # all are asked, which notes their places
        if not all(there):
            running.add(asyncio.create_task(_judged(members, method)))
        while len(running) >= concurrency:
            for rows in await _some(running):
                yield rows

    try:
        for number, key, trajectory in trajectories:
            if stopped():
                break
            if isinstance(trajectory, FormatProblem):
                if not known(key, number):
                    yield [(number, key, row_for(trajectory, key[1], method.fingerprint))]
                continue
            id = trajectory.metadata.get("group")
            if method.by is None:
                id = group_key(id, trajectory.source)
            if not isinstance(id, Hashable) or id is None:
                if not known(key, number):
                    yield [(number, key, _alone(trajectory, key, method))]
                continue
            members = waiting.setdefault(id, [])
            members.append((number, key, trajectory))
            if len(members) == method.size:
                async for rows in begin(waiting.pop(id)):
                    yield rows
        for members in waiting.values():
            if stopped():
                break
            async for rows in begin(members):
                yield rows
        while running:
            for rows in await _some(running):
                yield rows
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _some(running: set[asyncio.Task[list[tuple[int, Key, Row]]]]) -> list[list[tuple[int, Key, Row]]]:
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    running -= done
    return [task.result() for task in done]


async def _judged(members: Sequence[Member], method: GroupMethod) -> list[tuple[int, Key, Row]]:
    rows = [row_for(trajectory, key[1], method.fingerprint) for _, key, trajectory in members]
    kind = type(method.rubric).__name__
    try:
        prepared = [_prepared(trajectory, method) for _, _, trajectory in members]
        ids = [trajectory.metadata["group"] for trajectory in prepared]
        found = await score_groups(method.rubric, prepared, ids, size=method.size, incomplete="unscored")
    except FAILURES as error:
        if is_cancelled(error):
            raise
        own = isinstance(error, ReplayError)
        for row in rows:
            row.status = "error"
            row.reason = str(error) if own else f"{type(error).__name__}: {error}"
            row.evaluation = evaluation_of(error)
    else:
        for index, (row, trajectory) in enumerate(zip(rows, prepared, strict=True)):
            _settle(row, trajectory, found, index, kind)
    return [(number, key, row) for (number, key, _), row in zip(members, rows, strict=True)]


def _settle(row: Row, trajectory: Trajectory, found: BatchScores, index: int, kind: str) -> None:
    score, row.reason = found.scores[index], found.reasons[index]
    row.end = trajectory.end
    row.evaluation = Evaluation("", kind, "unscored" if score is None else "scored", score, row.reason)
    if score is not None:
        row.status, row.reward, row.reason = "scored", score, None
    elif trajectory.end is None:
        row.status = "unfinished"
    if index == 0:  # what the group as a whole cost and came to
        row.usage = found.usage.to_dict() if found.usage else None
        for group in found.groups.values():  # there is one, or none
            row.evaluation.metadata = dict(group.metadata)
        row.evaluation.own_usage = found.usage


def _prepared(trajectory: Trajectory, method: GroupMethod) -> Trajectory:
    initial, steps = method.types.of(trajectory)
    end = end_of(trajectory, steps) or method.assume_end
    return replace(trajectory, initial=initial, steps=steps, end=end)


def _alone(trajectory: Trajectory, key: Key, method: GroupMethod) -> Row:
    row = row_for(trajectory, key[1], method.fingerprint)
    row.group, row.reason = None, "nothing says which group it belongs to: say what they share with --group-by"
    return row
