"""Nodes that need the live environment keep their recorded scores, and are marked."""

from __future__ import annotations

from typing import Any

import pytest

from rubrics import EqualSplit, Gate, Rubric, TrajectoryRubric, WeightedSum
from rubrics.rescoring import rescore, rescore_one
from rubrics.trajectory import Record, Step, Trajectory


class Reads(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        return action.number


class Live(Rubric):
    needs_live_state = True

    def forward(self, action: Any, observation: Any) -> Any:
        raise AssertionError("there is no environment")


class LiveAtEnd(TrajectoryRubric):
    needs_live_state = True

    def score_trajectory(self, trajectory: Any) -> Any:
        raise AssertionError("there is no environment")


def recording(*scores: dict[str, Any], components: dict[str, Any] | None = None) -> Trajectory:
    steps = [Step(Record(number=0.5), Record(text="x"), metadata={"rubric": {"scores": each}}) for each in scores]
    metadata = {} if components is None else {"components": components}
    return Trajectory("t", steps=steps, end="terminated", reward=0.25, reduction="last", metadata=metadata)


def half(live: Rubric) -> WeightedSum:
    return WeightedSum({"reads": Reads(), "live": live}, {"reads": 0.5, "live": 0.5})


def test_the_scores_that_hosts_leave_in_a_recording_are_kept() -> None:
    tree = half(Live())
    row = rescore_one(recording({"live": 1.0}, {"live": 0.0}), tree, record="steps")
    assert (row.status, row.reward, row.kept) == ("scored", 0.25, ["live"])
    assert row.evaluations is not None
    assert [each["live"].score for each in row.evaluations if each] == [1.0, 0.0]
    assert row.evaluation is not None
    assert row.evaluation["live"].metadata == {"kept": True}
    assert isinstance(tree.get_rubric("live"), Live)  # the tree is as it was


def test_a_full_record_and_a_component_will_do_too() -> None:
    record = {"path": "", "score": 0.5, "children": [{"path": "live", "score": 0.75, "children": []}]}
    full = recording({})
    full.steps[0].metadata = {"evaluation": record}
    assert rescore_one(full, half(Live())).reward == 0.625
    assert rescore_one(recording({}, components={"live": 0.25}), half(Live())).reward == 0.375


def test_a_component_is_of_the_whole_episode_and_so_of_its_last_step() -> None:
    row = rescore_one(recording({}, {}, components={"live": 1.0}), half(Live()))
    assert (row.status, row.reward) == ("scored", 0.75)


@pytest.mark.parametrize("score", [None, "high", True])
def test_without_a_recorded_score_it_is_unscored(score: Any) -> None:
    row = rescore_one(recording({"live": score}), half(Live()))
    assert (row.status, row.reward) == ("unscored", None)
    assert "live needs the live environment, and the recording has no score of it" in (row.reason or "")


def test_a_delayed_node_keeps_its_score_of_the_end_and_its_credit() -> None:
    row = rescore_one(recording({}, {}, components={"live": 1.0}), half(LiveAtEnd(credit=EqualSplit())))
    assert (row.status, row.reward) == ("scored", 0.75)
    assert row.step_rewards is not None
    assert row.step_rewards["values"] == [0.5, 0.5]


def test_a_whole_branch_and_the_root_can_need_it() -> None:
    class LiveSum(WeightedSum):
        needs_live_state = True

    branch = Gate(LiveSum({"a": Live(), "b": Live()}, {"a": 0.5, "b": 0.5}), 0.5)
    row = rescore_one(recording({"rubric": 0.75}), branch)
    assert (row.reward, row.kept) == (0.75, ["rubric"])
    assert (rescore_one(recording({}), LiveSum({"a": Live()}, {"a": 1.0})).reward) == 0.25


def test_many_trajectories_are_told_apart() -> None:
    many = [recording({"live": n / 10}) for n in range(10)]
    rows = list(rescore(many, half(Live())))
    assert [row.reward for row in rows] == [0.25 + n / 20 for n in range(10)]


def test_the_tree_is_put_back_where_the_run_is_given_up() -> None:
    tree = half(Live())
    rows = rescore([recording({"live": 1.0})] * 3, tree)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert isinstance(tree.get_rubric("live"), Live)


def test_the_tree_is_left_alone_so_that_several_may_use_it() -> None:
    class Custom(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.inner = half(Live())
            self.reads = Reads()

        def forward(self, action: Any, observation: Any) -> Any:
            return (self.inner(action, observation) + self.reads(action, observation)) / 2

    tree = Custom()
    recordings = [recording({"inner.live": 1.0}), recording({"inner.live": 0.5})]
    pairs = []
    for one, other in zip(rescore(recordings, tree), rescore(recordings, tree), strict=True):
        assert isinstance(tree.get_rubric("inner.live"), Live)
        assert isinstance(tree.inner[1], Live)
        pairs.append((one.reward, other.reward))
    assert pairs == [(0.625, 0.625), (0.5, 0.5)]
    for _ in range(10):
        rescore_one(recordings[0], tree)
    assert len(tree.reads._parents) < 10
