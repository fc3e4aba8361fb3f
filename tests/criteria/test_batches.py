"""Criteria score many steps at once as they score them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rubrics.criteria
from rubrics import Rubric
from rubrics.criteria import KINDS
from tests.criteria.test_as_data import ARGUMENTS

ELSEWHERE = ("EmbeddingSimilarity", "RewardModel")  # they have tests of their own
TEXTS = ["a", "", "<answer>7</answer>", '{"a": {"b": {"x": [1, null]}}}', "Answer: A", "aaa aaa aaa", "x" * 500, "[1]"]
ACTIONS: list[Any] = [*TEXTS, {"content": "a"}, {"tool": "x"}, None]
TASKS: list[Any] = [{"answer": "a"}] * 6 + [None, {"answer": 7}, {"answer": ["7", "a"]}, {}, {"answer": None}]


def leaves() -> list[Rubric]:
    kinds = [getattr(rubrics.criteria, kind) for kind in KINDS if kind not in ELSEWHERE]
    return [
        kind(**ARGUMENTS.get(kind.__name__, {})) for kind in kinds if hasattr(kind, "score_step") and not kind.is_async
    ]


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: type(leaf).__name__)
def test_many_steps_are_scored_as_one_by_one(leaf: Rubric) -> None:
    batch = leaf.evaluate_batch(ACTIONS, [None] * len(ACTIONS), TASKS)
    alone = [
        leaf.evaluate_sync(action, None, leaf.episode(task=task)) for action, task in zip(ACTIONS, TASKS, strict=True)
    ]
    expected = [each.score if each.status == "scored" else np.nan for each in alone]
    np.testing.assert_array_equal(batch.scores, np.array(expected, dtype=float))
