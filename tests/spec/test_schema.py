"""The JSON Schema of files of rubrics: what it takes is what can be loaded."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from rubrics.spec import SpecError, data_of, loads, schema
from rubrics.spec.kinds import OURS, kind_named
from tests.spec.test_round_trip import TREES

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", TREES)
def test_what_is_written_is_valid(name: str) -> None:
    assert VALIDATOR.is_valid(data_of(TREES[name]))


@pytest.mark.parametrize(
    "text",
    [
        "kind: Gat",
        "{}",
        "kind: Gate",
        "kind: Gate\nrubric: {kind: Sequential}\nthreshold: high",
        "kind: Gate\nrubric: {kind: Sequential}\nthreshhold: 1",
        "kind: Gate\nrubric: 3",
        "kind: Sequential\nrubrics: 3",
        "kind: Fallback\nrubric: {kind: Sequential}\nother: x",
        "kind: LLMJudge",
        "kind: LLMJudge\nprompt: x\nscale: stars",
        "kind: LLMJudge\nprompt: x\napi_key: secret",
        "kind: TrajectoryJudge\ncredit: Discount",
        "kind: TrajectoryJudge\nprompt: '{{ trajectory }}'\nscale: binary\ncredit: Discounted",
        "kind: Sequential\n$id: null",
        "kind: Sequential\n$id: ''",
    ],
)
def test_what_cannot_be_loaded_is_not(text: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(text))
    with pytest.raises(SpecError):
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "$schema: rubric.schema.json\nkind: Sequential",
        "kind: Gate\nrubric: {$schema: rubric.schema.json, kind: Sequential}",
        "kind: LLMJudge\nprompt: x\nscale: binary\nbudget: {calls: null}",
        "kind: Checklist\nmodel: m\ncriteria: [{text: Is it polite, id: null}]",
    ],
)
def test_what_can_be_loaded_is(text: str) -> None:
    assert loads(text)
    assert VALIDATOR.is_valid(yaml.safe_load(text))


def test_every_kind_is_described() -> None:
    for family in OURS:
        for name in OURS[family]:
            described: dict[str, Any] = SCHEMA["$defs"][name]
            assert described["properties"]["kind"] == {"const": name}
            assert len(described["description"]) > 5, name
            kind = kind_named(name, family)
            assert kind is not None and set(described["properties"]) - {"kind", "$id", "$schema"} == set(kind.given)
