"""Paths into a step, and the text that is found there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rubrics import Record, Rubric, StructureError, Unscored, WeightedSum
from rubrics.criteria.values import Value, quoted, text_of


@dataclass
class Move:
    content: str
    _secret: str = "gold"


STEP = {
    "action": Record(content="hi", tool_calls=[{"name": "search", "arguments": {"a.b": 1}}]),
    "observation": Move("seen"),
    "task": {"answer": [4, 5]},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("action.content", "hi"),
        ("action.tool_calls[0].name", "search"),
        ("action.tool_calls[-1]['arguments'][\"a.b\"]", 1),
        ("observation.content", "seen"),
        ("task.answer[1]", 5),
        ("task['answer'][0]", 4),
    ],
)
def test_what_is_at_a_path(path: str, value: Any) -> None:
    assert Value(path).read(**STEP) == value


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("action.text.more", "there is no action.text"),
        ("action.tool_calls[3].name", r"there is no action.tool_calls\[3\]"),
        ("observation._secret", "there is no observation._secret"),
        ("task.answer.x", "there is no task.answer.x"),
    ],
)
def test_what_is_not_there_is_unscored_and_named(path: str, missing: str) -> None:
    with pytest.raises(Unscored, match=missing):
        Value(path).read(**STEP)


@pytest.mark.parametrize(
    "path", ["", "actions", "action.", "action[x]", "actionx", "action..a", "answer", "action[0]b", 3]
)
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(StructureError, match="path into the step"):
        Value(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (4, "4"),
        (2.5, "2.5"),
        (True, None),
        (None, None),
        (b"x", None),
        ([], None),
        (Move("a"), "a"),
        (Record(content="a", text="b"), "a"),
        (Record(content=None, text="b"), "b"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"message": {"role": "assistant", "content": "a"}}, "a"),
        ({"tool": "x"}, None),
    ],
)
def test_the_text_of_a_value(value: Any, text: str | None) -> None:
    assert text_of(value) == text


def test_where_there_is_no_text_it_is_unscored() -> None:
    with pytest.raises(Unscored, match="action is an object with the keys tool, which has no text"):
        Value("action").text({"tool": "x"}, None)


def test_quotations_are_cut() -> None:
    assert quoted("a\nb") == repr("a\nb")
    assert len(quoted("x" * 999)) == 202


def test_the_texts_of_many_rows_are_read_once() -> None:
    """By two leaves that look at one path, in a batch; a row without text has None."""
    read: list[Any] = []

    class Leaf(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return float(len(Value("action.text").text(action, observation)))

        def forward_batch(self, actions: Any, observations: Any) -> Any:
            texts = Value("action.text").texts(actions, observations, self.tasks)
            read.append(texts)
            return np.array([np.nan if text is None else len(text) for text in texts])

    rows = [{"text": "four"}, {"content": "x"}, {"text": "sixsix"}]
    scores = WeightedSum([Leaf(), Leaf()], [0.5, 0.5]).evaluate_batch(rows, [None] * 3).scores
    assert scores[[0, 2]].tolist() == [4.0, 6.0]
    assert np.isnan(scores[1])
    assert read[0] == ["four", None, "sixsix"]
    assert read[0] is read[1]


def test_the_texts_of_whole_values() -> None:
    rows = ["a", {"content": "b"}, 4, None]
    assert Value("action").texts(rows, [], []) == ["a", "b", "4", None]
    assert Value("task").texts([], [], rows) == ["a", "b", "4", None]
