"""Batches of groups: by id, ragged, incomplete, with members that failed, and with members that did the same."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rubrics import (
    GroupRubric,
    GroupScores,
    IncompleteGroupError,
    Score,
    Step,
    Trajectory,
    Unscored,
    component_advantages,
    group_advantages,
    score_groups,
)
from rubrics.evaluation import Usage


class Rank(GroupRubric):
    """The share of the others that did worse, by the number that was said."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.open = self.most = 0

    async def score_group(self, group: Any, task: Any = None) -> Any:
        said = [trajectory.steps[-1].action["say"] for trajectory in group]
        self.asked.append(said)
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.001)
        self.open -= 1
        if 13 in said:
            raise Unscored("thirteen")
        if 99 in said:
            raise ZeroDivisionError("a bug")
        worse = [sum(other < one for other in said) / (len(said) - 1) for one in said]
        return GroupScores(tuple(worse), tuple(f"said {one}" for one in said), Usage(calls=1))


def said(number: int, group: Any = None, end: Any = "terminated", reward: float | None = None) -> Trajectory:
    metadata = {} if group is None else {"group": group}
    step = Step({"say": number}, {"done": True}, reward)
    return Trajectory(f"t{number}", steps=[step], end=end, metadata=metadata)


async def test_ragged_groups_in_any_order() -> None:
    batch = [said(1), said(5), said(2), said(9), said(3), said(7)]
    found = await score_groups(Rank(), batch, ["a", "b", "a", "b", "a", "b"])
    assert found.scores == (0.0, 0.0, 0.5, 1.0, 1.0, 0.5)
    assert found.reasons[2] == "said 2" and found.usage.calls == 2 and found.incomplete == ()
    assert found.members == {"a": [[0], [2], [4]], "b": [[1], [3], [5]]}
    assert found.groups["b"].scores == (0.0, 1.0, 0.5)


async def test_the_group_that_collect_wrote() -> None:
    found = await score_groups(Rank(), [said(1, "x"), said(2, "x"), said(4, "y"), said(3, "y")])
    assert found.scores == (0.0, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"trajectory 1 \('t2'\) has no group"):
        await score_groups(Rank(), [said(1, "x"), said(2)])
    with pytest.raises(ValueError, match="3 group ids for 1 trajectories"):
        await score_groups(Rank(), [said(1)], [1, 2, 3])


async def test_incomplete_groups_are_refused_or_marked() -> None:
    batch, ids = [said(n) for n in range(5)], ["a", "a", "a", "b", "b"]
    rubric = Rank()
    with pytest.raises(IncompleteGroupError, match="1 of 2 groups do not have 3 members: 'b' has 2"):
        await score_groups(rubric, batch, ids, size=3)
    assert rubric.asked == [], "nothing was paid for"
    found = await score_groups(rubric, batch, ids, size=3, incomplete="unscored")
    assert found.scores == (0.0, 0.5, 1.0, None, None) and found.incomplete == ("b",)
    assert found.reasons[3] == "its group has 2 members and should have 3"


async def test_members_that_failed_or_were_cut_off_are_left_out_by_policy() -> None:
    batch = [said(1), said(2, end="error"), said(3, end="truncated"), said(4, end=None), said(5, end="abandoned")]
    found = await score_groups(Rank(), batch, ["a"] * 5, size=5)
    assert found.scores == (0.0, None, 1.0, None, None)
    assert found.reasons[1] == "left out: the end of the episode is error"
    assert found.reasons[3] == "left out: the end of the episode is not known"
    strict = await score_groups(Rank(), batch, ["a"] * 5, exclude=("error", "abandoned", "truncated"))
    assert strict.scores == (0.0, None, None, 1.0, None)
    everything = await score_groups(Rank(), batch, ["a"] * 5, exclude=())
    assert everything.scores == (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency is at least 1, not 0"),
        ({"incomplete": "drop"}, "incomplete is 'raise' or 'unscored', not 'drop'"),
        ({"exclude": "truncated"}, "exclude is a collection of ends .*, not 'truncated'"),
        ({"exclude": ("failed",)}, "exclude is a collection of ends"),
        ({"group_ids": [["a"]]}, r"the group id of trajectory 0 \('t1'\) is no id: unhashable type"),
    ],
)
async def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await score_groups(Rank(), [said(1)], **{"group_ids": ["a"], **options})


async def test_what_cannot_be_written_down_is_like_nothing_else() -> None:
    batch = [said(1), said(1), said(2)]
    for one in batch[:2]:
        one.steps[0].observation = object()
    assert (await score_groups(Rank(), batch, ["a"] * 3)).members == {"a": [[0], [1], [2]]}


async def test_identical_members_are_judged_once() -> None:
    rubric = Rank()
    batch = [said(2, reward=0.1), said(1), said(2, reward=0.9), said(3), said(2)]
    found = await score_groups(rubric, batch, ["a"] * 5)
    assert rubric.asked == [[2, 1, 3]]
    assert found.scores == (0.5, 0.0, 0.5, 1.0, 0.5)
    assert found.members["a"] == [[0, 2, 4], [1], [3]]


async def test_where_there_is_nothing_to_compare() -> None:
    rubric = Rank()
    found = await score_groups(rubric, [said(2), said(2), said(7)], ["a", "a", "b"])
    assert found.scores == (None, None, None) and rubric.asked == []
    assert found.reasons[0] == "all members did the same: there is nothing to compare"
    assert found.reasons[2] == "a group of one: there is nothing to compare it with"
    assert (await score_groups(rubric, [], [])).scores == ()


async def test_a_group_that_cannot_be_scored_leaves_the_others() -> None:
    found = await score_groups(Rank(), [said(13), said(1), said(2), said(3)], [0, 0, 1, 1])
    assert found.scores == (None, None, 0.0, 1.0) and found.reasons[0] == "thirteen"


async def test_a_bug_in_the_rubric_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await score_groups(Rank(), [said(99), said(1), said(2), said(3)], [0, 0, 1, 1])


async def test_concurrency_is_bounded() -> None:
    rubric = Rank()
    await score_groups(rubric, [said(n) for n in range(40)], [n // 2 for n in range(40)], concurrency=3)
    assert rubric.most == 3


async def test_from_a_batch_to_advantages() -> None:
    batch = [said(1), said(2), said(3, end="error"), said(4), said(13), said(6)]
    ids = ["a", "a", "a", "a", "b", "b"]
    found = await score_groups(Rank(), batch, ids)
    advantages = group_advantages(found.scores, ids, method="dr_grpo")
    assert advantages == pytest.approx([-0.5, 0.0, np.nan, 0.5, np.nan, np.nan], nan_ok=True)


def test_component_advantages_by_hand() -> None:
    """Two groups of two: by "a" the first wins by a lot, by "b" the second by a little; normalised, they cancel out."""
    scores = {"a": [10.0, 0.0, 1.0, 1.0], "b": [0.1, 0.2, 0.0, 1.0]}
    ids = [0, 0, 1, 1]
    half = 1 / np.sqrt(2)  # (r - mean) / std of two
    assert component_advantages(scores, {"a": 1, "b": 1}, ids) == pytest.approx([0, 0, -half, half], abs=1e-12)
    assert component_advantages(scores, {"a": 3, "b": 1}, ids) == pytest.approx([2 * half, -2 * half, -half, half])
    summed = np.array(scores["a"]) + np.array(scores["b"])
    assert group_advantages(summed, ids) == pytest.approx([half, -half, -half, half]), "summed first, `a` drowns `b`"
    centred = component_advantages(scores, {"a": 0.5, "b": 1}, ids, method="dr_grpo")
    assert centred == pytest.approx([2.45, -2.45, -0.5, 0.5])
    whitened = component_advantages(scores, {"a": 3, "b": 1}, ids, whiten=True)
    assert whitened.mean() == pytest.approx(0) and whitened.std(ddof=1) == pytest.approx(1)


def test_a_member_without_one_of_the_scores_has_no_part() -> None:
    scores = {"a": [1.0, 0.0, None, 0.5], "b": [0.0, 1.0, 0.5, 0.25]}
    found = component_advantages(scores, {"a": 1.0, "b": 1.0}, ["g"] * 4, method="dr_grpo")
    alone = component_advantages(
        {name: [values[i] for i in (0, 1, 3)] for name, values in scores.items()},
        {"a": 1.0, "b": 1.0},
        ["g"] * 3,
        "dr_grpo",
    )
    assert np.isnan(found[2]) and found[[0, 1, 3]] == pytest.approx(alone)
    ignored = component_advantages(scores, {"a": 0.0, "b": 1.0}, ["g"] * 4, method="dr_grpo")
    assert not np.isnan(ignored).any(), "a weight of 0 needs no score"
    excluded = component_advantages(scores, {"a": 0.0, "b": 1.0}, ["g"] * 4, exclude=[True, False, False, False])
    assert np.isnan(excluded).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("scores", "weights", "message"),
    [
        ({}, {}, "scores are of nothing"),
        ({"a": [1.0]}, {"b": 1.0}, "scores are of a, weights of b"),
        ({"a": [1.0]}, {"a": float("nan")}, "weights must be finite: a = nan"),
        ({"a": [1.0, 2.0]}, {"a": 1.0}, r"scores\['a'\] has 2 rows and group_ids has 1"),
    ],
)
def test_mistakes(scores: Any, weights: Any, message: str) -> None:
    from rubrics import CreditError

    with pytest.raises(CreditError, match=message):
        component_advantages(scores, weights, [0])


rewards = st.lists(
    st.tuples(st.integers(0, 3), st.floats(-5, 5), st.floats(-5, 5), st.booleans()), min_size=1, max_size=20
)


@given(rewards, st.floats(-2, 2), st.floats(-2, 2))
def test_component_advantages_are_linear_in_the_weights(rows: Any, first: float, second: float) -> None:
    ids = [row[0] for row in rows]
    columns = {"a": [row[1] for row in rows], "b": [row[2] for row in rows]}
    whole = component_advantages(columns, {"a": first, "b": second}, ids)
    parts = first * group_advantages(columns["a"], ids) + second * group_advantages(columns["b"], ids)
    assert whole == pytest.approx(parts, abs=1e-9)
    one = component_advantages({"a": columns["a"]}, {"a": 1.0}, ids, exclude=[row[3] for row in rows])
    assert one == pytest.approx(group_advantages(columns["a"], ids, exclude=[row[3] for row in rows]), nan_ok=True)


def test_a_score_may_carry_its_reason() -> None:
    class Reasons(GroupRubric):
        async def score_group(self, group: Any, task: Any = None) -> Any:
            return [Score(0.5, reason="fair")] * len(group)

    found = asyncio.run(score_groups(Reasons(), [said(1), said(2)], [0, 0]))
    assert found.reasons == ("fair", "fair")
