"""A replay: rows in the order of the trajectories and of their number, and nothing scored that should not be."""

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import Gate, Rubric, Score, Sequential, Threaded, TrajectoryRubric, Unscored, Usage, WeightedSum, add_usage
from rubrics.formats import FormatProblem
from rubrics.rescoring import Row, rescore, rescore_async, rescore_one
from rubrics.trajectory import End, Record, Step, Trajectory


class Reads(Rubric):
    """The number in the action."""

    def forward(self, action: Any, observation: Any) -> Any:
        return action.number


class ReadsSlowly(Rubric):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(getattr(action, "seconds", 0))
        return action.number


class Last(TrajectoryRubric):
    def score_trajectory(self, trajectory: Any) -> Any:
        return trajectory[-1][0].number


class LastAsync(TrajectoryRubric):
    async def score_trajectory(self, trajectory: Any) -> Any:
        await asyncio.sleep(0)
        return trajectory[-1][0].number


def trajectory(id: str = "t", *numbers: Any, end: End | None = "terminated", done: bool | None = None) -> Trajectory:
    steps = [Step(Record(number=number), Record(text="x"), 0.25) for number in numbers]
    if done is not None and steps:
        steps[-1].observation = Record(text="x", done=done)
    return Trajectory(id, steps=steps, end=end, reward=0.5, reduction="sum", source={"path": "a.jsonl", "line": 3})


def only(trajectory: Trajectory, rubric: Rubric, **options: Any) -> Row:
    (row,) = rescore([trajectory], rubric, **options)
    return row


BOTH = pytest.mark.parametrize("leaf", [Reads, ReadsSlowly])
BOTH_DELAYED = pytest.mark.parametrize("delayed", [Last, LastAsync])


@BOTH
def test_a_row_has_the_new_reward_beside_the_recorded_one(leaf: type[Rubric]) -> None:
    row = only(trajectory("t", 0.25, 0.5), WeightedSum({"reads": leaf()}, {"reads": 1.0}))
    assert (row.id, row.status, row.reward, row.recorded_reward) == ("t", "scored", 0.75, 0.5)
    assert (row.end, row.steps, row.reason, row.usage) == ("terminated", 2, None, None)
    assert row.source == {"path": "a.jsonl", "line": 3}
    assert row.evaluation is not None
    assert row.evaluation["reads"].score == 0.5
    assert row.step_rewards == {
        "values": [0.25, 0.5],
        "emitted": [0.25, 0.5],
        "total": 0.75,
        "kind": "reward",
        "reduction": "sum",
    }


@BOTH_DELAYED
@pytest.mark.parametrize(
    ("end", "done"),
    [("terminated", None), ("truncated", None), (None, True), ("terminated", True), ("terminated", False)],
)
def test_the_end_comes_from_the_observation_or_from_the_recording(
    delayed: type[Rubric], end: End | None, done: bool | None
) -> None:
    row = only(trajectory("t", 0.25, 0.5, end=end, done=done), delayed())
    assert (row.status, row.reward, row.end) == ("scored", 0.5, end or "terminated")
    assert row.step_rewards is not None
    assert row.step_rewards["values"] == [0.0, 0.5]


@BOTH_DELAYED
def test_an_unfinished_trajectory_is_not_a_failed_one(delayed: type[Rubric]) -> None:
    unfinished = trajectory("t", 0.25, 0.5, end=None, done=False)
    row = only(unfinished, delayed())
    assert (row.status, row.reward, row.end) == ("unfinished", None, None)
    assert row.reason == "neither the recording nor the last observation says how the episode ended"
    assert row.evaluation is None
    assumed = only(unfinished, delayed(), assume_end="truncated")
    assert (assumed.status, assumed.reward, assumed.end) == ("scored", 0.5, "truncated")
    known = only(trajectory("t", 0.5), delayed(), assume_end="truncated")
    assert known.end == "terminated"


@pytest.mark.parametrize("end", ["error", "abandoned"])
def test_what_failed_or_was_abandoned_is_unscored(end: End) -> None:
    row = only(trajectory("t", 1, end=end), Last())
    assert (row.status, row.reward, row.end) == ("unscored", None, end)
    assert row.reason == f"the end of the recorded episode is {end!r}"


def test_a_trajectory_without_steps_is_unscored() -> None:
    row = only(trajectory("t"), Last())
    assert (row.status, row.reason) == ("unscored", "the trajectory has no steps")


@BOTH
def test_a_rubric_that_raises_makes_one_row_of_many_an_error(leaf: type[Rubric]) -> None:
    tree = Sequential({"first": leaf(), "then": Gate(leaf(), threshold=0.5)})
    trajectories = [trajectory("a", 1, 1), trajectory("b", 1, "one", 1), trajectory("c", 0.5)]
    a, b, c = rescore(trajectories, tree)
    assert (a.reward, c.reward) == (2.0, 0.5)
    assert (b.status, b.reward, b.step_rewards) == ("error", None, None)
    assert b.reason is not None
    assert b.reason.startswith("step 2 of 3: InvalidScoreError: ")
    assert "'one'" in b.reason
    assert "first" in b.reason
    assert b.evaluation is not None
    assert b.evaluation["first"].status == "error"


def test_the_message_of_any_exception_names_the_node() -> None:
    row = only(
        Trajectory("t", steps=[Step(Record(text="x"), None)], end="terminated"), WeightedSum({"n": Reads()}, {"n": 1})
    )
    assert row.status == "error"
    assert row.reason is not None
    assert row.reason.startswith("step 1 of 1: AttributeError: the record has no 'number'; it has: text; in rubric ")
    assert "n" in row.reason.rpartition("in rubric ")[2]


@BOTH_DELAYED
def test_an_error_at_the_end_is_an_error(delayed: type[Rubric]) -> None:
    row = only(trajectory("t", 1, "one"), delayed())
    assert row.status == "error"
    assert row.reason is not None
    assert row.reason.startswith("step 2 of 2: InvalidScoreError")


class Unsure(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        if action.number > 1:
            raise Unscored("no idea")
        return 1.0


def test_an_unscored_step_says_which_and_why() -> None:
    row = only(trajectory("t", 1, 2, 1), Unsure())
    assert (row.status, row.reward) == ("unscored", None)
    assert row.reason == "step 2 of 3 is unscored: no idea"
    assert row.step_rewards is not None
    assert row.step_rewards["emitted"] == [1.0, None, 1.0]
    assert row.step_rewards["values"] == [None, None, None]
    unpaid = trajectory("t", 1, 1, 2, 1)
    unpaid.steps[0].metadata["unpaid"] = True
    assert only(unpaid, Unsure()).reason == "step 3 of 4 is unscored: no idea"


def test_steps_after_the_end_are_an_error_and_cost_nothing() -> None:
    asked: list[Any] = []

    class Asked(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            asked.append(action)
            return 1.0

    recording = trajectory("t", 1, 2, 3)
    recording.steps[1].observation = Record(done=True)
    row = only(recording, Asked())
    assert row.status == "error"
    assert row.reason == (
        "the recording goes on after its end: the observation of step 2 of 3 says that the episode is over (terminated)"
    )
    assert asked == []


class RewardReader(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        assert "reward" not in action
        assert "reward" not in observation
        return 1.0


def test_recorded_rewards_are_not_shown_to_the_tree() -> None:
    assert only(trajectory("t", 1, 2), RewardReader()).status == "scored"


class Knows(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        self.memory["steps"] = self.memory.get("steps", 0) + 1
        return Score(self.task.goal, metadata={"steps": self.memory["steps"]})


def test_the_task_is_there_and_no_state_is_left_over() -> None:
    recordings = [Trajectory(str(i), Record(goal=i), steps=[Step(1, 2)] * 3, end="terminated") for i in range(3)]
    for row in rescore(recordings, Knows()):
        assert row.evaluation is not None
        assert row.evaluation.score == int(row.id or "")
        assert row.evaluation.metadata == {"steps": 3}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_rubric_that_keeps_its_state_on_itself_is_reset_and_not_shared(is_async: bool) -> None:
    class Counts(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.reset()

        def reset(self) -> None:
            self.seen = 0

        def forward(self, action: Any, observation: Any) -> float:
            self.seen += 1
            if action.number < 0:
                raise ValueError("negative")
            return float(self.seen)

    tree = Sequential(Counts(), ReadsSlowly()) if is_async else Counts()
    rows = list(rescore([trajectory(str(i), 1, -1 if i == 1 else 1) for i in range(4)], tree))
    assert [row.status for row in rows] == ["scored", "error", "scored", "scored"]
    assert {row.reward for row in rows} == ({2.0, None} if is_async else {3.0, None})


class Spends(Rubric):
    def forward(self, action: Any, observation: Any) -> Any:
        add_usage(Usage(calls=1, total_tokens=10, cost=0.5))
        return action.number


@pytest.mark.parametrize("other", [Last, LastAsync])
def test_usage_is_that_of_all_steps_also_of_failed_ones(other: type[Rubric]) -> None:
    tree = WeightedSum({"spends": Spends(), "last": other()}, {"spends": 0.5, "last": 0.5})
    good, bad = rescore([trajectory("a", 1, 1, 1), trajectory("b", 1, "one", 1)], tree)
    assert good.usage is not None
    assert (good.usage["calls"], good.usage["total_tokens"], good.usage["cost"]) == (3, 30, 1.5)
    assert bad.usage is not None
    assert bad.usage["calls"] == 2


def test_what_could_not_be_read_is_a_row_too() -> None:
    problem = FormatProblem("runs.jsonl", 7, "not JSON")
    first, second, third = rescore([trajectory("a", 1), problem, trajectory("b", 1)], Reads())
    assert (first.status, third.status) == ("scored", "scored")
    assert (second.id, second.status, second.reason) == (None, "unreadable", "runs.jsonl:7: not JSON")
    assert second.source == {"path": "runs.jsonl", "line": 7}


# --- many at once ----------------------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_the_trajectories() -> None:
    recordings = [
        Trajectory(str(i), steps=[Step(Record(number=i, seconds=0.02 * (i % 3)), 1)], end="terminated")
        for i in range(30)
    ]
    rows = list(rescore(recordings, ReadsSlowly(), concurrency=4))
    assert [row.id for row in rows] == [str(i) for i in range(30)]
    assert [row.reward for row in rows] == list(range(30))


class Crowd(Rubric):
    """Counts who is in it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.most = 0

    async def forward(self, action: Any, observation: Any) -> float:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.001)
        self.inside -= 1
        return 1.0


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_so_many_are_in_progress_and_no_more(concurrency: int) -> None:
    crowd = Crowd()
    rows = list(rescore((trajectory(str(i), 1, 1) for i in range(40)), crowd, concurrency=concurrency))
    assert len(rows) == 40
    assert crowd.most == concurrency
    with pytest.raises(ValueError, match="at least 1, not 0"):
        list(rescore([trajectory("t", 1)], crowd, concurrency=0))


@pytest.mark.parametrize(("leaf", "ahead"), [(Reads, 1), (ReadsSlowly, 16)])
def test_trajectories_are_read_as_they_are_needed(leaf: type[Rubric], ahead: int) -> None:
    taken = 0

    def recordings() -> Iterator[Trajectory]:
        nonlocal taken
        for i in range(1000):
            taken += 1
            yield trajectory(str(i), 1)

    rows = rescore(recordings(), leaf(), concurrency=4)
    assert taken == 0
    for _ in range(10):
        next(rows)
    assert taken <= 10 + ahead
    rows.close()  # type: ignore[attr-defined]


def test_who_stops_reading_leaves_nothing_running() -> None:
    crowd = Crowd()
    rows = rescore((trajectory(str(i), *[1] * 100) for i in range(100)), crowd, concurrency=8)
    next(rows)
    del rows
    gc.collect()  # an unawaited coroutine or a pending task would be a warning, hence an error, here
    assert crowd.inside >= 0


async def test_where_a_loop_runs_there_is_an_async_form() -> None:
    recordings = [trajectory(str(i), i) for i in range(5)]
    with pytest.raises(RuntimeError, match="use rescore_async"):
        rescore(recordings, ReadsSlowly())
    assert [row.reward async for row in rescore_async(recordings, ReadsSlowly())] == [0, 1, 2, 3, 4]
    assert [row.reward for row in rescore(recordings, Reads())] == [0, 1, 2, 3, 4]
    assert [row.reward async for row in rescore_async(recordings, Reads())] == [0, 1, 2, 3, 4]


async def test_an_async_run_can_be_closed_early() -> None:
    crowd = Crowd()
    rows = rescore_async((trajectory(str(i), *[1] * 100) for i in range(100)), crowd, concurrency=8)
    await anext(rows)
    await rows.aclose()
    assert len(asyncio.all_tasks()) == 1


def test_an_async_tree_can_be_scored_one_by_one() -> None:
    assert rescore_one(trajectory("t", 1, 2), ReadsSlowly()).reward == 3.0


OUTCOMES = st.sampled_from([0.0, 0.5, 1.0, -1.0, None, "bad"])


@given(st.lists(st.lists(OUTCOMES, max_size=4), max_size=6), st.sampled_from([Reads, ReadsSlowly]))
def test_rows_out_are_rows_in(runs: list[list[Any]], leaf: Callable[[], Rubric]) -> None:
    rows = list(rescore([trajectory(str(i), *numbers) for i, numbers in enumerate(runs)], leaf()))
    assert [row.id for row in rows] == [str(i) for i in range(len(runs))]
    for row, numbers in zip(rows, runs, strict=True):
        bad = numbers.index("bad") if "bad" in numbers else None
        if bad is not None:
            assert row.status == "error"
        elif not numbers or None in numbers:
            assert (row.status, row.reward) == ("unscored", None)
        else:
            assert (row.status, row.reward) == ("scored", sum(numbers))
        assert Row.from_dict(json.loads(row.to_json())) == row


# --- accidents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError(), KeyError("x")])
@pytest.mark.parametrize("tree", ["plain", "async", "several", "nested", "threads"])
def test_a_leaf_that_exits_or_gives_up_fails_its_own_row_only(error: BaseException, tree: str) -> None:
    class Leaf(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            if action.number < 0:
                raise error
            return 1.0

    class AsyncLeaf(Leaf):
        async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
            return super().forward(action, observation)

    several = WeightedSum([AsyncLeaf(), AsyncLeaf()], [0.5, 0.5])
    trees = {
        "plain": Leaf(),
        "async": AsyncLeaf(),
        "several": several,
        "nested": WeightedSum([several, AsyncLeaf()], [0.5, 0.5]),
        "threads": WeightedSum([Threaded(Leaf()), Threaded(Leaf())], [0.5, 0.5]),
    }
    rows = list(rescore([trajectory("a", 1), trajectory("b", -1), trajectory("c", 1)], trees[tree]))
    assert [row.status for row in rows] == ["scored", "error", "scored"]
    assert type(error).__name__ in str(rows[1].reason)


def test_the_reduction_that_was_recorded_is_the_one_of_the_new_reward() -> None:
    recording = trajectory("a", 1, 2)
    recording.reduction = "last"
    assert [row.reward for row in rescore([recording], Reads())] == [2.0]
