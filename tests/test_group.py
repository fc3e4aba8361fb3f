"""`GroupRubric`: rewards relative to a group of trajectories."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from rubrics import InvalidScoreError, Score, Unscored
from rubrics.evaluation import Usage
from rubrics.group import GroupRubric, GroupScores
from rubrics.trajectory import Trajectory


class Answers(GroupRubric):
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[list[str], Any]] = []

    async def score_group(self, group: Any, task: Any = None) -> Any:
        self.asked.append(([trajectory.id for trajectory in group], task))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def group_of(size: int) -> list[Trajectory]:
    return [Trajectory(f"t{i}", task="the task") for i in range(size)]


async def test_numbers_as_a_forward_may_return_them() -> None:
    rubric = Answers([1, True, np.float32(0.5), Score(0.25, "close"), None, -2.0])
    found = await rubric.score(group_of(6))
    assert found.scores == (1.0, 1.0, 0.5, 0.25, None, -2.0)
    assert [type(score) for score in found.scores if score is not None] == [float] * 5
    assert found.reasons == (None, None, None, "close", None, None)
    assert not found.complete and len(found) == 6 and found.usage == Usage()
    assert rubric.asked == [([f"t{i}" for i in range(6)], "the task")]


@pytest.mark.parametrize("answer", [(0.0, 1.0), np.array([0.0, 1.0]), iter([0.0, 1.0]), range(2)])
async def test_lists_of_any_kind(answer: Any) -> None:
    assert (await Answers(answer).score(group_of(2))).scores == (0.0, 1.0)


async def test_whole_scores_keep_what_they_carry() -> None:
    given = GroupScores((1, None), ("a", None), Usage(calls=2), {"k": 1})  # type: ignore[arg-type]
    found = await Answers(given).score(group_of(2), task="another")
    assert found == GroupScores((1.0, None), ("a", None), Usage(calls=2), {"k": 1})
    assert type(found.scores[0]) is float


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [0.0],
        [0.0] * 3,
        [0.0, float("nan")],
        [0.0, float("inf")],
        [0.0, "1"],
        [[0.0], [1.0]],
        "01",
        b"01",
        0.5,
        None,
        {0: 0.0, 1: 1.0},
        {0.0, 1.0},
        GroupScores((0.0,), (None,)),
        GroupScores((0.0, float("nan")), (None, None)),
        GroupScores((0.0, 1.0), (None,)),
        GroupScores((0.0, "1"), (None, None)),  # type: ignore[arg-type]
    ],
)
async def test_anything_else_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidScoreError, match="Answers"):
        await Answers(answer).score(group_of(2))


async def test_the_message_names_the_candidate() -> None:
    with pytest.raises(InvalidScoreError, match="Answers, candidate 1"):
        await Answers([0.0, float("nan"), 1.0]).score(group_of(3))


@pytest.mark.parametrize("size", [0, 1])
async def test_a_group_of_one_has_nothing_to_compare(size: int) -> None:
    rubric = Answers([1.0] * size)
    found = await rubric.score(group_of(size))
    assert found.scores == (None,) * size and len(found.reasons) == size and rubric.asked == []
    assert found.complete is (size == 0)


async def test_a_group_that_cannot_be_scored() -> None:
    found = await Answers(Unscored("the judge is out", {"kind": "auth"})).score(group_of(2))
    assert found.scores == (None, None) and found.reasons == ("the judge is out",) * 2
    assert found.metadata == {"kind": "auth"}


async def test_exceptions_are_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await Answers(ZeroDivisionError()).score(group_of(2))


def test_in_sync_code() -> None:
    assert Answers([0.0, 1.0]).score_sync(group_of(2)).scores == (0.0, 1.0)


async def test_in_sync_code_where_a_loop_runs() -> None:
    found = await asyncio.to_thread(Answers([0.0, 1.0]).score_sync, group_of(2))
    assert found.scores == (0.0, 1.0)


def test_it_is_no_rubric_without_a_judgement() -> None:
    with pytest.raises(TypeError, match="score_group"):
        GroupRubric()  # type: ignore[abstract]
