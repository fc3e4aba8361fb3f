"""What a judge is shown of a live value is what it is shown of the value once it was recorded."""

import datetime
import enum
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from judges import Binary, Judge, JudgeConfigError, PromptError, ScriptedClient, TrajectoryJudge
from rubrics import ByEvidence, Step, Trajectory


class Kind(enum.StrEnum):
    BUY = "buy"


class Plain(enum.Enum):
    BUY = "buy"


class Order(pydantic.BaseModel):
    size: float = pydantic.Field(1.0, alias="SIZE")
    note: str = pydantic.Field("secret", exclude=True)


VALUES = [
    "text",
    "",
    Kind.BUY,
    Plain.BUY,
    datetime.date(2026, 1, 2),
    uuid.UUID(int=7),
    3,
    2.5,
    True,
    None,
    math.nan,
    [1, math.inf, "x"],
    {"a": (1, 2), "b": Kind.BUY},
    Order(SIZE=2.0),
]


def shown(value: Any) -> str:
    judge = Judge("{{ value | untrusted }}", Binary(), model="none", client=ScriptedClient(""))
    return judge.messages(value=value)[-1]["content"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_live_and_recorded_values_look_the_same(value: Any) -> None:
    recorded = Trajectory(id="t", steps=[Step(value, None)]).to_dict()
    line = json.loads(json.dumps(recorded).replace("NaN", "null").replace("Infinity", "null"))
    assert shown(value) == shown(Trajectory.from_dict(line).steps[0].action)


def test_a_decimal_is_shown_as_it_is_recorded() -> None:
    assert "0.10" in shown(Decimal("0.10"))


@pytest.mark.parametrize("name", ["prompts/tone.md", "tone.yaml"])
def test_a_path_given_as_a_text_is_no_template(name: str) -> None:
    with pytest.raises(PromptError, match=r"give it as Path\("):
        Judge(name, Binary(), model="none", client=ScriptedClient(""))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 5}, "budget is a Budget"),
        ({"price": 0.5}, "price is a Price"),
        ({"sampling": ["a"]}, "sampling is a mapping"),
        ({"model": 3}, "model is a text"),
        ({"endpoint": 5}, "endpoint is a text"),
        ({"reason": "no"}, "reason is True or False"),
        ({"expected": "no"}, "expected is True or False"),
    ],
)
def test_wrong_options_are_refused_when_the_judge_is_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgeConfigError, match=message):
        Judge("{{ a | untrusted }}", Binary(), **{"model": "none", "client": ScriptedClient(""), **options})


def test_credit_by_evidence_needs_evidence() -> None:
    with pytest.raises(JudgeConfigError, match="needs the evidence"):
        TrajectoryJudge(scale=Binary(), evidence=False, credit=ByEvidence(), model="none", client=ScriptedClient(""))


def test_options_of_other_judges_are_no_options_of_a_trajectory_judge() -> None:
    with pytest.raises(TypeError, match="expected"):
        TrajectoryJudge(scale=Binary(), expected=True, model="none", client=ScriptedClient(""))  # type: ignore[call-arg]
