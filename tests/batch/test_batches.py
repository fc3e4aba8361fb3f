"""`evaluate_batch`: which leaves see which rows, and what becomes of rows that are no plain scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rubrics import (
    AllOf,
    EpisodeError,
    Fallback,
    Gate,
    InvalidScoreError,
    Map,
    Rubric,
    Score,
    Sequential,
    StructureError,
    Switch,
    TrajectoryRubric,
    Unscored,
    Usage,
    WeightedSum,
    add_usage,
    current_episode,
)
from rubrics.engine.frames import of_this_run
from tests.leaves import AsyncFixed, Boom, Fixed


class Length(Rubric):
    """The number of characters, over ten; unscored where there are none. Notes what it is asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.alone: list[str] = []

    def forward(self, action: str, observation: Any) -> Any:
        self.alone.append(action)
        if not action:
            raise Unscored("there is no text")
        return Score(len(action) / 10, f"{len(action)} characters")

    def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
        self.batches.append(list(actions))
        return np.array([len(action) / 10 if action else np.nan for action in actions])


class Answered(Rubric):
    """Whether the action is the answer that the task names."""

    def forward(self, action: str, observation: Any) -> float:
        return float(action == self.task["answer"])

    def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
        return np.array([action == task["answer"] for action, task in zip(actions, self.tasks, strict=True)])


WORDS = ["one", "", "three", "eleven"]
NOTHING = [None] * 4


def scores(batch: Any) -> list[float | None]:
    return [None if math.isnan(score) else score for score in batch.scores.tolist()]


def test_a_leaf_is_asked_once_for_all_rows() -> None:
    leaf = Length()
    batch = WeightedSum({"length": leaf, "fixed": Fixed(0.5)}, {"length": 0.5, "fixed": 0.5}).evaluate_batch(
        WORDS, NOTHING
    )
    assert scores(batch) == [0.4, None, 0.5, 0.55]
    assert batch.statuses == ["scored", "unscored", "scored", "scored"]
    assert leaf.batches == [WORDS]
    assert leaf.alone == []
    assert repr(batch) == "<BatchEvaluation of WeightedSum: 3 of 4 rows scored>"


def test_reasons_and_records_are_made_when_they_are_asked_for() -> None:
    batch = WeightedSum({"length": Length()}, {"length": 1.0}).evaluate_batch(WORDS, NOTHING)
    assert batch.reason(1) == "length is unscored: there is no text"
    assert batch.evaluation(0)["length"].reason == "3 characters"
    assert batch.evaluation(1).metadata == {"bounds": [0.0, 1.0]}


def test_unscored_rows_are_renormalised_as_in_the_loop() -> None:
    tree = WeightedSum([Length(), Fixed(0.5), Fixed(1.0)], [3.0, 1.0, -1.0], "positive", "renormalize")
    batch = tree.evaluate_batch(["four", ""], [None, None])
    assert scores(batch) == pytest.approx([(3 * 0.4 + 0.5 - 1) / 4, (0.5 * 4 - 1) / 4])


def test_a_sequence_asks_a_child_only_for_the_rows_that_need_it() -> None:
    answered, length, last = Answered(), Length(), Length()
    tree = Sequential(answered, Gate(length, 0.4), last)
    batch = tree.evaluate_batch(["a", "three", "", "yes"], NOTHING, [{"answer": w} for w in ("b", "three", "", "yes")])
    assert scores(batch) == [0.0, 0.5, None, 0.0]
    assert length.batches == [["three", "", "yes"]]
    assert last.batches == [["three"]]


def test_also_the_other_containers_that_stop() -> None:
    first, second, other = Length(), Length(), Length()
    AllOf(Map(first, lambda score: score - 0.3), second).evaluate_batch(WORDS, NOTHING)
    assert second.batches == [["", "three", "eleven"]]
    Fallback(Length(), other).evaluate_batch(WORDS, NOTHING)
    assert other.batches == [[""]]


def test_a_switch_asks_each_case_for_its_rows() -> None:
    long, short = Length(), Length()
    tree = Switch(lambda action, observation: "long" if len(action) > 3 else "short", {"long": long, "short": short})
    assert scores(tree.evaluate_batch(WORDS, NOTHING)) == [0.3, None, 0.5, 0.6]
    assert (long.batches, short.batches) == ([["three", "eleven"]], [["one", ""]])


def test_a_node_at_two_places_is_asked_once_for_each_row() -> None:
    shared = Length()
    tree = Sequential(Gate(shared, 0.4), WeightedSum([shared, Fixed(1.0)], [0.5, 0.5]))
    assert scores(tree.evaluate_batch(WORDS, NOTHING)) == [0.0, None, 0.75, 0.8]
    assert shared.batches == [WORDS]


def test_leaves_share_what_they_make_of_the_same_rows() -> None:
    made: list[int] = []

    class Upper(Rubric):
        def forward(self, action: str, observation: Any) -> float:
            return float(action.upper() == "ONE")

        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            def upper() -> list[str]:
                made.append(len(actions))
                return [action.upper() for action in actions]

            return np.array([text == "ONE" for text in of_this_run("upper", upper)])

    tree = Sequential(WeightedSum([Upper(), Upper()], [0.5, 0.5]), Upper())
    assert scores(tree.evaluate_batch(WORDS, NOTHING)) == [1.0, 0.0, 0.0, 0.0]
    assert made == [4, 1]


def test_arrays_are_rows_too() -> None:
    class Dimension(Rubric):
        def __init__(self, dimension: int) -> None:
            super().__init__()
            self.dimension = dimension

        def forward(self, action: Any, observation: Any) -> float:
            return float(action[self.dimension])

        def forward_batch(self, actions: Any, observations: Any) -> Any:
            return actions[:, self.dimension]

    actions = np.random.default_rng(1).random((1000, 3))
    tree = Sequential(Gate(Dimension(0), 0.5), WeightedSum([Dimension(1), Dimension(2)], [0.3, 0.7]))
    batch = tree.evaluate_batch(actions, np.zeros(1000))
    assert batch.scores.tolist() == [tree(action, 0.0) for action in actions]


# -- rows that are no plain scores ------------------------------------------------------------------------------------


class Picky(Length):
    """Refuses one word."""

    def forward(self, action: str, observation: Any) -> Any:
        if action == "three":
            raise Boom("three is too many")
        return super().forward(action, observation)

    def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
        if "three" in actions:
            raise Boom("one of them is three")
        return super().forward_batch(actions, observations)


def test_an_error_names_the_node_and_the_row() -> None:
    tree = WeightedSum({"picky": Picky()}, {"picky": 1.0})
    with pytest.raises(Boom, match="three is too many") as caught:
        tree.evaluate_batch(WORDS, NOTHING)
    assert caught.value.__notes__ == ["in rubric picky (Picky)", "in row 2 of the batch"]


def test_an_error_can_be_kept() -> None:
    batch = WeightedSum({"picky": Picky()}, {"picky": 1.0}).evaluate_batch(WORDS, NOTHING, on_error="keep")
    assert scores(batch) == [0.3, None, None, 0.6]
    assert batch.statuses == ["scored", "unscored", "error", "scored"]
    assert batch.reason(2) == "Boom: three is too many; in rubric picky (Picky)"


def test_an_error_is_caught_where_the_tree_catches_it() -> None:
    assert scores(Fallback(Picky(), 0.1, on_error=True).evaluate_batch(WORDS, NOTHING)) == [0.3, 0.1, 0.1, 0.6]


def test_a_batch_that_fails_where_no_row_does_is_told() -> None:
    class Broken(Length):
        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            raise KeyError("oops")

    with pytest.warns(RuntimeWarning, match=r"broken \(Broken\): forward_batch raised KeyError: 'oops'"):
        batch = WeightedSum({"broken": Broken()}, {"broken": 1.0}).evaluate_batch(WORDS, NOTHING)
    assert scores(batch) == [0.3, None, 0.5, 0.6]


@pytest.mark.parametrize(
    ("found", "shown"),
    [([0.5], r"float64 of shape \(1,\) for 4 rows"), ([None] * 4, "object of shape"), (["1"] * 4, "U1 of shape")],
    ids=["too few", "None", "text"],
)
def test_what_is_no_column_is_refused(found: Any, shown: str) -> None:
    class Wrong(Length):
        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            return np.array(found)

    with pytest.raises(InvalidScoreError, match=shown):
        Wrong().evaluate_batch(WORDS, NOTHING)


def test_a_row_that_is_no_number_is_asked_alone() -> None:
    class Infinite(Length):
        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            return np.array([np.inf, 0.1, 0.2, -np.inf])

    leaf = Infinite()
    assert scores(leaf.evaluate_batch(WORDS, NOTHING)) == [0.3, 0.1, 0.2, 0.6]
    assert leaf.alone == ["one", "eleven"]


def test_pending_rows_are_pending() -> None:
    class Later(Rubric):
        def forward(self, action: str, observation: Any) -> Any:
            return Score(0.25, pending=True) if action == "three" else 0.5

    batch = WeightedSum([Length(), Later()], [0.0, 1.0]).evaluate_batch(WORDS, NOTHING)
    assert batch.statuses == ["scored", "unscored", "pending", "scored"]
    assert scores(batch) == [0.5, None, 0.25, 0.5]


def test_an_overflow_is_the_error_that_it_is_in_the_loop() -> None:
    tree = Map(Length(), lambda score: score * 1e308 * 10)
    with pytest.raises(InvalidScoreError, match="the combination of its children gave inf") as caught:
        tree.evaluate_batch(["eleven or so and twenty"], [None])
    assert caught.value.__notes__[-1] == "in row 0 of the batch"


# -- trees that are evaluated row by row ------------------------------------------------------------------------------


class Summed(WeightedSum):
    """A class of a user, whose rule may be another."""


class Calls(Rubric):
    def __init__(self) -> None:
        super().__init__()
        self.length = Length()

    def forward(self, action: str, observation: Any) -> Any:
        return self.length(action, observation)


class Remembers(Length):
    def forward(self, action: str, observation: Any) -> float:
        self.memory["calls"] = self.memory.get("calls", 0) + 1
        return float(self.memory["calls"])


class Overridden(Length):
    def forward(self, action: str, observation: Any) -> float:
        return 7.0


class Whole(TrajectoryRubric):
    def score_trajectory(self, trajectory: Any) -> float:
        return 1.0


def hooked() -> Rubric:
    tree = Length()
    tree.register_forward_hook(lambda *_: None)
    return tree


@pytest.mark.parametrize(
    "make",
    [
        hooked,
        Calls,
        Remembers,
        Overridden,
        lambda: Summed([Length()], [1.0]),
        lambda: WeightedSum([Length(), Whole()], [0.5, 0.5]),
        lambda: WeightedSum([Length(), AsyncFixed()], [0.5, 0.5]),
        lambda: Fixed(0.5),
    ],
    ids=["hook", "custom forward", "memory", "forward overridden", "class of a user", "delayed", "async", "no batch"],
)
def test_other_trees_are_evaluated_row_by_row(make: Any) -> None:
    tree = make()
    batch = tree.evaluate_batch(WORDS, NOTHING)
    expected = [tree.episode().step(word, None) for word in WORDS]
    assert scores(batch) == [None if score is None else float(score) for score in expected]
    assert all(node.batches == [] for node in (tree, *tree.rubrics()) if isinstance(node, Length))


async def test_an_async_tree_is_evaluated_with_a_limit_also_where_a_loop_runs() -> None:
    busy = [0, 0]

    class Counting(AsyncFixed):
        async def forward(self, action: str, observation: Any) -> Any:
            busy[0] += 1
            busy[1] = max(busy)
            answer = await super().forward(action, observation)
            busy[0] -= 1
            return answer

    batch = Counting(0.5, turns=3).evaluate_batch(list(map(str, range(20))), [None] * 20, concurrency=4)
    assert batch.scores.tolist() == [0.5] * 20
    assert busy == [0, 4]


def test_an_async_leaf_with_a_batch_is_asked_for_all() -> None:
    class Remote(Length):
        async def forward(self, action: str, observation: Any) -> Any:  # type: ignore[override]
            return Length.forward(self, action, observation)

        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            return Length.forward_batch(self, actions, observations)

    leaf = Remote()
    assert scores(Gate(leaf, 0.4).evaluate_batch(WORDS, NOTHING)) == [0.0, None, 0.5, 0.6]
    assert leaf.alone == []


# -- what code in a batch knows ---------------------------------------------------------------------------------------


def test_the_rows_of_a_batch_have_no_one_task() -> None:
    class Confused(Length):
        def forward_batch(self, actions: Sequence[str], observations: Sequence[Any]) -> Any:
            return np.zeros(len(actions)) if self.task else np.ones(len(actions))

    with pytest.warns(RuntimeWarning, match=r"it has self\.tasks"):
        Confused().evaluate_batch(WORDS, NOTHING)
    with pytest.raises(AttributeError, match=r"within forward_batch; in forward there is self\.task"):
        _ = Length().tasks


def test_a_node_may_have_tasks_of_its_own() -> None:
    leaf = Length()
    leaf.tasks = ["mine"]
    assert leaf.tasks == ["mine"]


def test_a_leaf_that_is_asked_row_by_row_knows_its_episode_and_spends() -> None:
    class Plain(Rubric):
        def forward(self, action: str, observation: Any) -> float:
            episode = current_episode()
            assert episode is not None
            assert episode.task == self.task == f"task {action}"
            assert episode.pairs(self) == [(action, None)]
            add_usage(Usage(calls=1))
            return 1.0

    tree = WeightedSum([Length(), Plain()], [0.5, 0.5])
    assert tree.evaluate_batch(WORDS, NOTHING, [f"task {word}" for word in WORDS]).usage.calls == 4


def test_rows_must_be_as_many() -> None:
    with pytest.raises(EpisodeError, match="there are 4 actions, 1 observations"):
        Length().evaluate_batch(WORDS, [None])
    with pytest.raises(EpisodeError, match="4 and 1 observations and tasks"):
        Length().evaluate_batch(WORDS, NOTHING, [None])
    with pytest.raises(ValueError, match="on_error is 'raise' or 'keep'"):
        Length().evaluate_batch(WORDS, NOTHING, on_error="ignore")  # type: ignore[arg-type]


def test_no_rows_are_no_scores() -> None:
    batch = Length().evaluate_batch([], [])
    assert batch.scores.shape == (0,)
    assert batch.statuses == []


def test_the_structure_is_still_checked() -> None:
    tree = Gate(Length())
    del tree.rubric
    with pytest.raises(StructureError):
        tree.evaluate_batch(WORDS, NOTHING)
