"""The content hash: the same for the same content, another for any other."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rubrics.formats import FormatProblem, read, write_jsonl
from rubrics.rescoring import content_hash
from rubrics.trajectory import Record, Step, Trajectory

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def trajectory(**changed: Any) -> Trajectory:
    fields: dict[str, Any] = {
        "id": "t",
        "task": Record(goal="win", rank=1),
        "initial": Record(text="go"),
        "steps": [Step(Record(a=1, b=2), Record(text="x"), 0.5), Step(Record(a=3, b=4), Record(text="y"), 1.0)],
        "end": "terminated",
        "reward": 1.5,
        "reduction": "sum",
        "metadata": {"group": "g"},
    }
    return Trajectory(**{**fields, **changed})


def test_where_it_stands_does_not_count() -> None:
    here = content_hash(trajectory(source={"path": "a.jsonl", "line": 3}))
    assert here == content_hash(trajectory(source={"path": "b.jsonl", "line": 9}, id="u"))
    assert len(here) == 32


@pytest.mark.parametrize(
    "other",
    [
        {"task": None},
        {"initial": None},
        {"steps": []},
        {"end": "truncated"},
        {"reward": None},
        {"reduction": "last"},
        {"metadata": {}},
    ],
)
def test_everything_else_does(other: dict[str, Any]) -> None:
    assert content_hash(trajectory(**other)) != content_hash(trajectory())


def test_one_value_in_one_step_does() -> None:
    changed = trajectory()
    changed.steps[1] = Step(Record(a=3, b=5), Record(text="y"), 1.0)
    assert content_hash(changed) != content_hash(trajectory())
    changed.steps[1] = Step(Record(b=4, a=3), Record(text="y"), 1.0)  # the order of keys does not
    assert content_hash(changed) == content_hash(trajectory())


@given(values, values)
def test_a_file_keeps_it(action: Any, observation: Any) -> None:
    held = trajectory(steps=[Step(action, observation)])
    again = Trajectory.from_dict(copy.deepcopy(held.to_dict()))
    assert content_hash(again) == content_hash(held)


def test_jsonl_keeps_it(tmp_path: Path) -> None:
    held = [trajectory(id=str(n), steps=[Step({"n": 10**n}, {"é": "\ud800"})]) for n in (1, 30)]
    write_jsonl(tmp_path / "a.jsonl", held)
    assert [content_hash(each) for each in read(tmp_path / "a.jsonl")] == [content_hash(each) for each in held]


def test_what_json_does_not_know_has_one() -> None:
    odd = trajectory(steps=[Step({1: np.arange(3)}, {"at": Path("x")})])
    assert content_hash(odd) == content_hash(copy.deepcopy(odd)) != content_hash(trajectory())


def test_a_problem_has_one() -> None:
    assert content_hash(FormatProblem("a", 1, "x")) != content_hash(FormatProblem("a", 2, "x"))
