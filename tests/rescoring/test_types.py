"""Actions and observations made again of recorded data."""

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from rubrics import Rubric
from rubrics.rescoring import Types, rescore_one
from rubrics.trajectory import Record, Step, Trajectory


class Guess(pydantic.BaseModel, extra="forbid"):
    number: int


@dataclass
class Seen:
    hint: str
    extra: Any = None
    done: bool = False


class Plain:
    def __init__(self, hint: str) -> None:
        self.hint = hint


class Exact(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(isinstance(action, Guess) and isinstance(observation, Seen))


def trajectory(**first: Any) -> Trajectory:
    steps = [
        Step(Record(first.get("action") or {"number": 3}), Record(hint="higher", extra={"a": 1}), 0.5),
        Step(Record(number=4), Record(hint="correct", done=True)),
    ]
    return Trajectory("t", initial=Record(hint="start"), steps=steps)


def test_models_dataclasses_and_plain_classes() -> None:
    initial, steps = Types(Guess, Seen).of(trajectory())
    assert initial == Seen("start")
    assert steps[0] == Step(Guess(number=3), Seen("higher", Record(a=1)), 0.5)
    assert Types(None, Plain).of(Trajectory("t", initial=Record(hint="x")))[0].hint == "x"


def test_by_default_the_data_stay_as_they_are() -> None:
    recording = trajectory()
    initial, steps = Types().of(recording)
    assert initial is recording.initial
    assert steps is recording.steps


def test_what_is_null_stays_none() -> None:
    initial, steps = Types(Guess, Seen).of(Trajectory("t", steps=[Step(None, None)]))
    assert (initial, steps) == (None, [Step(None, None)])


def test_the_tree_gets_the_objects_and_the_end_is_read_from_them() -> None:
    row = rescore_one(trajectory(), Exact(), types=Types(Guess, Seen))
    assert (row.status, row.reward, row.end) == ("scored", 2.0, "terminated")
    assert rescore_one(trajectory(), Exact()).reward == 0.0


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            {"number": "x"},
            "steps.0.action: no Guess can be made of it: 1 validation error for Guess; number;",
        ),
        (
            {"number": 1, "more": 2},
            "steps.0.action: no Guess can be made of it: 1 validation error for Guess; more;",
        ),
    ],
)
def test_what_does_not_fit_makes_one_row_an_error(action: dict[str, Any], message: str) -> None:
    row = rescore_one(trajectory(action=action), Exact(), types=Types(Guess, Seen))
    assert row.status == "error"
    assert row.reason is not None
    assert row.reason.startswith(message)


def test_what_has_no_fields_makes_no_object() -> None:
    row = rescore_one(Trajectory("t", steps=[Step("guess 3", "higher")], end="terminated"), Exact(), types=Types(Guess))
    assert row.reason == "steps.0.action: a Guess is made of an object's fields, found 'guess 3'"
