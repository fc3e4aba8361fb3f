"""Records, trajectories as data, and the reading of the end."""

import copy
import enum
import json
import pickle
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pydantic
import pytest
from hypothesis import given, strategies as st

from rubrics.trajectory import Record, Step, Trajectory, read_end

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)

# --- Record ----------------------------------------------------------------------------------------------------------


def test_keys_are_attributes_at_every_depth() -> None:
    record = Record({"text": "hi", "call": {"name": "search"}, "calls": [{"args": {"q": 1}}], "pair": ({"x": 1}, 2)})
    assert record.text == record["text"] == "hi"
    assert record.call.name == "search"
    assert record.calls[0].args.q == 1
    assert record.pair[0].x == 1
    assert record.call is record.call
    assert isinstance(record, dict)
    assert isinstance(record, Mapping)


def test_a_real_key_wins_over_a_method() -> None:
    record = Record(keys=["ctrl"], items=[{"price": 3}], get=1, values=2, update=4, copy=5, pop=6)
    assert record.keys == ["ctrl"]
    assert record.items[0].price == 3
    assert (record.get, record.values, record.update, record.copy, record.pop) == (1, 2, 4, 5, 6)
    assert dict(record) == {**record}
    assert next(iter(dict(record).items())) == ("keys", ["ctrl"])


def test_methods_are_there_where_no_key_has_their_name() -> None:
    record = Record(a=1)
    assert list(record.keys()) == ["a"]
    assert list(record.items()) == [("a", 1)]
    assert record.get("b", 2) == 2


def test_a_missing_attribute_names_the_keys_there_are() -> None:
    record = Record(text="hi", done=True)
    with pytest.raises(AttributeError, match=r"no 'txt'; it has: text, done"):
        _ = record.txt
    assert not hasattr(record, "__array__")
    assert getattr(record, "reward", None) is None
    with pytest.raises(AttributeError, match="it has: nothing"):
        _ = Record().txt
    assert {"text", "done", "items"} <= set(dir(record))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.__setitem__("a", 2),
        lambda r: r.__delitem__("a"),
        lambda r: setattr(r, "a", 2),
        lambda r: delattr(r, "a"),
        lambda r: r.update(a=2),
        lambda r: r.pop("a"),
        lambda r: r.popitem(),
        lambda r: r.clear(),
        lambda r: r.setdefault("b", 2),
        lambda r: r.__ior__({"a": 2}),
    ],
)
def test_it_cannot_be_changed(change: Callable[[Any], Any]) -> None:
    record = Record(a=1)
    with pytest.raises(TypeError, match="cannot be changed"):
        change(record)
    assert record == {"a": 1}
    changed = dict(record)
    changed["a"] = 2
    assert record.a == 1


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_it_equals_copies_and_serialises_like_the_plain_dict(data: dict[str, Any]) -> None:
    record = Record(data)
    assert record == data
    assert data == record
    assert dict(record) == data
    assert repr(record) == repr(data)
    for twin in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert type(twin) is Record
        assert twin == data
    if "items" not in str(data):  # json calls the method of that name
        assert json.loads(json.dumps(record)) == json.loads(json.dumps(data))
    assert record | {"more": 1} == data | {"more": 1}


def test_the_original_is_not_wrapped_in_place() -> None:
    data = {"a": {"b": 1}, "c": [{"d": 2}]}
    Record(data)
    assert type(data["a"]) is dict
    assert type(data["c"][0]) is dict  # type: ignore[index]


# --- Trajectory ------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    red = "red"


class Model(pydantic.BaseModel):
    text: str
    colour: Colour = Colour.red


@dataclass
class Data:
    score: Any
    more: list[Model] = field(default_factory=list)


class Plain:
    def __init__(self) -> None:
        self.number = 3
        self._private = object()


def test_live_objects_become_plain_json() -> None:
    trajectory = Trajectory(
        id="t",
        task=Record(goal="x"),
        initial=Plain(),
        steps=[Step(Model(text="é"), Data(np.float32(0.5), [Model(text="y")]), np.float64(1.0), {"n": np.arange(2)})],
        end="truncated",
        reward=1.0,
        reduction="sum",
        source={"format": "live"},
        metadata={"tags": ("a", "b")},
    )
    data = trajectory.to_dict()
    assert data == json.loads(json.dumps(data))
    assert data == {
        "id": "t",
        "task": {"goal": "x"},
        "initial": {"number": 3},
        "steps": [
            {
                "action": {"text": "é", "colour": "red"},
                "observation": {"score": 0.5, "more": [{"text": "y", "colour": "red"}]},
                "reward": 1.0,
                "metadata": {"n": [0, 1]},
            }
        ],
        "end": "truncated",
        "reward": 1.0,
        "reduction": "sum",
        "source": {"format": "live"},
        "metadata": {"tags": ["a", "b"]},
    }


def test_what_json_cannot_hold_is_named_with_its_place() -> None:
    with pytest.raises(TypeError, match=r"steps\.1\.observation cannot be written as JSON: a object"):
        Trajectory("t", steps=[Step(1, 2), Step(1, [object()])]).to_dict()
    with pytest.raises(ValueError, match=r"steps\.0\.action cannot be written as JSON"):
        Trajectory("t", steps=[Step(b"\xff", 2)]).to_dict()


@given(
    task=JSON, initial=JSON, steps=st.lists(st.tuples(JSON, JSON, st.none() | st.floats(allow_nan=False)), max_size=3)
)
def test_dicts_round_trip(task: Any, initial: Any, steps: list[tuple[Any, Any, float | None]]) -> None:
    trajectory = Trajectory("t", task, initial, [Step(*step) for step in steps], end="error", metadata={"a": task})
    assert Trajectory.from_dict(trajectory.to_dict()) == trajectory


@given(task=JSON, steps=st.lists(st.tuples(JSON, JSON), max_size=3))
def test_parsed_data_become_the_same_trajectory(task: Any, steps: list[tuple[Any, Any]]) -> None:
    trajectory = Trajectory("t", task, None, [Step(*step) for step in steps], end="error", metadata={"a": task})
    copied, taken = Trajectory.from_dict(trajectory.to_dict()), Trajectory.from_parsed(trajectory.to_dict())
    assert taken == copied
    assert pickle.dumps(taken) == pickle.dumps(copied)  # which tells Records from dicts, at every depth


def test_trajectories_read_back_hold_records() -> None:
    data = {
        "id": "t",
        "task": {"goal": 1},
        "initial": {"n": 0},
        "steps": [{"action": {"a": 1}, "observation": {"o": {"x": 2}}}],
    }
    trajectory = Trajectory.from_dict(data)
    assert type(data["steps"][0]["observation"]["o"]) is dict  # type: ignore[index]
    assert trajectory.task.goal == 1
    assert trajectory.initial.n == 0
    assert trajectory.steps[0].action.a == 1
    assert trajectory.steps[0].observation.o.x == 2
    assert trajectory.steps[0].reward is None
    assert trajectory.end is None
    assert trajectory.metadata == {}


# --- the end ---------------------------------------------------------------------------------------------------------

NAMES = ("done", "finished", "terminated", "truncated")


def naive_end(observation: Any) -> str | None:
    def says(name: str) -> bool:
        if isinstance(observation, Mapping) and name in observation and is_boolean(observation[name]):
            return bool(observation[name])
        value = getattr(observation, name, None)
        return is_boolean(value) and bool(value)

    if says("terminated") or says("finished"):
        return "terminated"
    if says("truncated"):
        return "truncated"
    return "terminated" if says("done") else None


def is_boolean(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


class ExtraModel(pydantic.BaseModel, extra="allow"):
    pass


class OddModel(ExtraModel):
    def __getattr__(self, name: str) -> Any:
        if name == "done":
            return True
        return super().__getattr__(name)  # type: ignore[misc]


class Attributes:
    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


class Proxy:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None


class Interceptor:
    def __init__(self, values: dict[str, Any]) -> None:
        object.__setattr__(self, "values", values)

    def __getattribute__(self, name: str) -> Any:
        values = object.__getattribute__(self, "values")
        return values[name] if name in values else object.__getattribute__(self, name)


class DictWithAttributes(dict[str, Any]):
    terminated: Any = False


def with_slots(values: dict[str, Any]) -> Any:
    instance = type("Slots", (), {"__slots__": (*NAMES, "other")})()
    for name, value in values.items():
        setattr(instance, name, value)
    return instance


def with_class_attributes(values: dict[str, Any]) -> Any:
    return type("Class", (Attributes,), dict(values))({})


def with_properties(values: dict[str, Any]) -> Any:
    return type("Properties", (), {name: property(lambda self, value=value: value) for name, value in values.items()})()


def as_dataclass(values: dict[str, Any]) -> Any:
    return make_dataclass("Fields", [(name, Any) for name in values])(**values)


def as_dataclass_with_defaults(values: dict[str, Any]) -> Any:
    fields = [(name, Any, field(default=None)) for name in NAMES]
    return make_dataclass("Defaults", fields)(**{k: v for k, v in values.items() if k in NAMES})


def as_model(values: dict[str, Any]) -> Any:
    return pydantic.create_model("Fields", **dict.fromkeys(values, (Any, ...)))(**values)  # type: ignore[call-overload]


def as_model_with_property(values: dict[str, Any]) -> Any:
    names = [name for name in values if name != "truncated"]
    namespace = {
        "truncated": property(lambda self: values.get("truncated")),
        "__annotations__": dict.fromkeys(names, Any),
    }
    return type("Mixed", (pydantic.BaseModel,), namespace)(**{name: values[name] for name in names})


def as_named_tuple(values: dict[str, Any]) -> Any:
    return namedtuple("Fields", values)(**values)


SHAPES: list[Callable[[dict[str, Any]], Any]] = [
    dict,
    OrderedDict,
    UserDict,
    DictWithAttributes,
    Record,
    lambda values: SimpleNamespace(**values),
    lambda values: ExtraModel(**values),
    lambda values: OddModel(**values),
    Attributes,
    Proxy,
    Interceptor,
    with_slots,
    with_class_attributes,
    with_properties,
    as_dataclass,
    as_dataclass_with_defaults,
    as_model,
    as_model_with_property,
    as_named_tuple,
]

VALUES = st.sampled_from(
    [True, False, True, False, np.True_, np.False_, None, 0, 1, 1.0, "yes", "2 of 5", np.array(True)]
)


@given(shape=st.sampled_from(SHAPES), values=st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES))
def test_the_end_is_what_a_plain_reading_finds(shape: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> None:
    observation = shape(values)
    assert read_end(observation) == naive_end(observation)
    assert read_end(observation) == naive_end(observation)  # now with what was learnt about the class


@pytest.mark.parametrize("value", [1, "True", "2 of 5", 1.0, [True], Mock(), MagicMock(), np.array(True), np.ones(1)])
def test_only_a_real_boolean_ends_an_episode(value: Any) -> None:
    for name in NAMES:
        assert read_end({name: value}) is None
        assert read_end(SimpleNamespace(**{name: value})) is None


@pytest.mark.parametrize(
    "observation", [None, "done", 1, [True], (True,), {"done"}, b"done", Mock(), MagicMock(), dict, object()]
)
def test_other_things_do_not_end_it(observation: Any) -> None:
    assert read_end(observation) is None


@pytest.mark.parametrize(
    ("observation", "end"),
    [
        ({"done": True}, "terminated"),
        ({"done": np.bool_(True)}, "terminated"),
        ({"finished": True}, "terminated"),
        ({"terminated": True}, "terminated"),
        ({"truncated": True}, "truncated"),
        ({"done": True, "truncated": True}, "truncated"),
        ({"terminated": True, "truncated": True}, "terminated"),
        ({"finished": True, "truncated": True}, "terminated"),
        ({"terminated": False, "truncated": False, "done": True}, "terminated"),
        ({"done": False}, None),
    ],
)
def test_truncated_wins_over_done_and_terminated_over_both(observation: dict[str, bool], end: str | None) -> None:
    for shape in (dict, Record, Attributes, as_model, with_slots):
        assert read_end(shape(observation)) == end


def test_classes_made_on_the_fly_do_not_pile_up() -> None:
    from rubrics import trajectory

    for _ in range(trajectory._MAX_CLASSES + 10):
        read_end(as_dataclass({"done": True}))
    assert len(trajectory._readers) <= trajectory._MAX_CLASSES


def test_the_fields_of_a_subclass_are_written_too() -> None:
    class Tool(pydantic.BaseModel):
        pass

    class Search(Tool):
        query: str

    class Call(pydantic.BaseModel):
        tool: Tool

    recorded = Trajectory("a", steps=[Step(Call(tool=Search(query="x")), None)]).to_dict()
    assert recorded["steps"][0]["action"] == {"tool": {"query": "x"}}
