"""A batch is the loop: the same scores, statuses and errors, whatever the tree and whatever its leaves answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from rubrics import Fallback, Rubric, Score, Unscored
from tests.leaves import Boom, seen_by_caller
from tests.random_trees import build, nodes

ROWS = 8


class Answers(Rubric):
    """Answers the row that the action names out of a list; an exception is raised."""

    def __init__(self, answers: Sequence[Any]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[int] = []

    def forward(self, action: int, observation: Any) -> Any:
        assert self.task == f"task {action}"
        self.asked.append(action)
        answer = self.answers[action]
        if isinstance(answer, type):
            raise answer("as the row wants it")
        return answer


class Column(Answers):
    """The same, and all rows at once."""

    def forward_batch(self, actions: Sequence[int], observations: Sequence[Any]) -> Any:
        assert list(self.tasks) == [f"task {action}" for action in actions]
        assert list(observations) == [f"observation {action}" for action in actions]
        answers = [self.answers[action] for action in actions]
        for answer in answers:
            if isinstance(answer, type) and answer is not Unscored:
                raise answer("one of the rows")
        return np.array([np.nan if answer is None or answer is Unscored else answer for answer in answers])


numbers = st.one_of(st.integers(-4, 12).map(lambda eighths: eighths / 8), st.floats(-2, 2))
answers = st.one_of(numbers, numbers, st.sampled_from([None, Unscored, 0.0, 1.0, True]))
odd = st.one_of(answers, st.just(Boom), numbers.map(lambda x: Score(x, pending=True)), st.just(float("inf")))
columns = st.one_of(
    st.tuples(st.just("leaf"), st.lists(answers, min_size=ROWS, max_size=ROWS), st.just("column")),
    st.tuples(st.just("leaf"), st.lists(answers | st.just(Boom), min_size=ROWS, max_size=ROWS), st.just("column")),
    st.tuples(st.just("leaf"), st.lists(odd, min_size=ROWS, max_size=ROWS), st.just("rows")),
)
catching = st.tuples(st.just("catching"), columns.map(lambda child: [child]), numbers)
specs = st.recursive(columns, lambda inner: nodes(inner, waiting=False) | nodes(inner, waiting=False), max_leaves=10)


def made(spec: Any, shared: bool) -> Rubric:
    known: dict[str, Rubric] = {}

    def leaf(rows: Any, kind: str) -> Rubric:
        make = Column if kind == "column" else Answers
        return known.setdefault(repr((rows, kind)), make(rows)) if shared else make(rows)

    return build(spec, leaf)


def by_row(tree: Rubric) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for row in range(ROWS):
        try:
            found.append(seen_by_caller(tree.episode(f"task {row}").step(row, f"observation {row}")))
        except Exception as error:
            found.append(("error", type(error)))
    return found


def by_batch(tree: Rubric, **options: Any) -> list[tuple[str, Any]]:
    rows = range(ROWS)
    observations, tasks = [f"observation {row}" for row in rows], [f"task {row}" for row in rows]
    batch = tree.evaluate_batch(list(rows), observations, tasks, on_error="keep", **options)
    assert batch.scores.dtype == np.float64
    assert batch.scores.shape == (ROWS,)
    found: list[tuple[str, Any]] = []
    for row, status in enumerate(batch.statuses):
        if status == "error":
            found.append((status, type(batch.errors[row])))
        else:
            found.append((status, None if status == "unscored" else batch.scores[row]))
        assert (status in ("scored", "pending")) == (not np.isnan(batch.scores[row]))
    return found


@settings(max_examples=400, deadline=None)
@given(specs, st.booleans())
def test_a_batch_is_the_loop(spec: Any, shared: bool) -> None:
    tree = made(spec, shared)
    assert by_batch(tree) == by_row(tree)


@settings(max_examples=150, deadline=None)
@given(specs, numbers)
def test_also_where_errors_are_caught(spec: Any, other: float) -> None:
    tree = Fallback(made(spec, False), other, on_error=True)
    assert by_batch(tree) == by_row(tree)
