"""Recorded runs as data: `Record`, `Step`, `Trajectory`, and how the end of an episode is read.

A rubric is written for the action and observation objects of an environment. The same rubric must run on what was
written to disk, so readers hand out `Record`s: dicts whose keys are attributes too. And both in the environment and
offline the end of an episode is read by the same function, `read_end`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NoReturn

End = Literal["terminated", "truncated", "error", "abandoned"]
"""How an episode ended: the environment ended it, the driver cut it off, something failed, or nobody went on."""

Reduction = Literal["sum", "last"]
"""How the reward of a whole episode follows from the rewards of its steps."""


_ATOMS = frozenset((str, int, float, bool, type(None)))
_new, _fill = dict.__new__, dict.update


class Record(dict[str, Any]):
    """A read-only dict with attribute access: recorded data in place of an environment's object.

    `record.text` is `record["text"]`. Dicts inside it, also in lists and tuples, are `Record`s. As a dict it equals,
    prints and serialises like the plain one; `dict(record)` is a plain copy to change.

    A real key always wins: with a key `keys` or `items`, `record.keys` is the recorded value, because a rubric asks for
    its environment's fields. Code that wants the method on unknown data writes `dict(record).items()`; `dict(record)`,
    `**record`, `copy` and `pickle` work for every key. A name that is neither raises AttributeError and lists the keys
    there are.
    """

    def __init__(self, data: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any) -> None:
        values = dict(data, **more)
        for key, value in values.items():
            if value.__class__ not in _ATOMS:
                values[key] = wrap(value)
        _fill(self, values)
        # An instance's own __dict__ is read at the speed of C and wins over methods of the class; __getattr__ is slow.
        _set_attributes(self, values)

    def __getattr__(self, name: str) -> Any:
        keys = ", ".join(map(str, list(self)[:20])) + (", …" if len(self) > 20 else "")
        raise AttributeError(f"the record has no {name!r}; it has: {keys or 'nothing'}", name=name, obj=self)

    def __dir__(self) -> Iterable[str]:
        return [*dir(type(self)), *(key for key in self if isinstance(key, str))]

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a Record is what was recorded and cannot be changed; change a copy: dict(record)")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse


_set_attributes = vars(Record)["__dict__"].__set__


def wrap(value: Any) -> Any:
    """The same data with every dict in it, at any depth of dicts, lists and tuples, as a `Record`."""
    kind = type(value)
    if kind is dict:
        values = value.copy()
        for key, item in value.items():
            if item.__class__ not in _ATOMS:
                values[key] = wrap(item)
        return record_of(values)
    if kind is list:
        return [item if item.__class__ in _ATOMS else wrap(item) for item in value] if value else []
    if kind is tuple:
        return tuple([wrap(item) for item in value])
    return Record(value) if isinstance(value, dict) and not isinstance(value, Record) else value


def record_of(values: dict[str, Any]) -> Record:
    """A `Record` of values that are wrapped already, in a dict that nobody else keeps: a third of the time."""
    record: Record = _new(Record)
    _fill(record, values)
    _set_attributes(record, values)
    return record


def records_of(value: Any) -> Any:
    """Like `wrap`, for JSON values that nobody else keeps, such as a line just parsed: nothing is copied."""
    kind = value.__class__
    if kind is dict:
        for key, item in value.items():
            if item.__class__ not in _ATOMS:
                value[key] = records_of(item)
        return record_of(value)
    if kind is list:
        for index, item in enumerate(value):
            if item.__class__ not in _ATOMS:
                value[index] = records_of(item)
    return value


@dataclass(slots=True)
class Step:
    """One action and the observation that answered it; `reward` is the recorded one, None where there was none."""

    action: Any
    observation: Any
    reward: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Trajectory:
    """One recorded episode.

    `initial` is the observation before the first action. `end` is None where the recording does not say how the
    episode ended: it is unfinished, which is not the same as failed. `reward` is the recorded reward of the whole
    episode (None where there was none) and `reduction` says how it follows from those of the steps. `source` says
    where it was recorded or read: `{"format", "path", "line"}` from our readers.
    """

    id: str
    task: Any = None
    initial: Any = None
    steps: list[Step] = field(default_factory=list)
    end: End | None = None
    reward: float | None = None
    reduction: Reduction | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, in the order of our JSONL (floats that are not finite stay as they are).

        Models, dataclasses, arrays and plain objects become dicts and lists. Raises TypeError or ValueError, naming
        the place, for what cannot be written, such as bytes that are not text.
        """
        steps = [
            {
                "action": _plain(step.action, f"steps.{i}.action"),
                "observation": _plain(step.observation, f"steps.{i}.observation"),
                "reward": _plain(step.reward, f"steps.{i}.reward"),
                **({"metadata": _plain(step.metadata, f"steps.{i}.metadata")} if step.metadata else {}),
            }
            for i, step in enumerate(self.steps)
        ]
        return {
            "id": self.id,
            "task": _plain(self.task, "task"),
            "initial": _plain(self.initial, "initial"),
            "steps": steps,
            "end": self.end,
            "reward": _plain(self.reward, "reward"),
            "reduction": self.reduction,
            "source": _plain(self.source, "source"),
            "metadata": _plain(self.metadata, "metadata"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trajectory:
        """The inverse of `to_dict`, with `Record`s for dicts. It trusts its input; `rubrics.formats` reads files."""
        return cls._made_of(data, wrap)

    @classmethod
    def from_parsed(cls, data: Mapping[str, Any]) -> Trajectory:
        """Like `from_dict`, for data that nobody else keeps, such as a line just parsed: its dicts are not copied."""
        return cls._made_of(data, records_of)

    @classmethod
    def _made_of(cls, data: Mapping[str, Any], wrapped: Callable[[Any], Any]) -> Trajectory:
        steps = [
            Step(
                wrapped(step["action"]),
                wrapped(step["observation"]),
                step.get("reward"),
                dict(step.get("metadata") or {}),
            )
            for step in data.get("steps") or ()
        ]
        return cls(
            id=data["id"],
            task=wrapped(data.get("task")),
            initial=wrapped(data.get("initial")),
            steps=steps,
            end=data.get("end"),
            reward=data.get("reward"),
            reduction=data.get("reduction"),
            source=data.get("source"),
            metadata=dict(data.get("metadata") or {}),
        )


def jsonable(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The same data as JSON values: tuples as lists, keys as strings, and `convert` for whatever JSON does not know."""
    kind = type(value)
    if value is None or kind is str or kind is int or kind is float or kind is bool:
        return value
    if isinstance(value, dict):
        return {
            key if type(key) is str else str(convert(key)): jsonable(item, convert) for key, item in dict.items(value)
        }
    if isinstance(value, list | tuple):
        return [jsonable(item, convert) for item in value]
    return convert(value)


def _plain(value: Any, place: str) -> Any:
    try:
        return jsonable(value, plain_object)
    except ValueError as error:  # pydantic's error is one
        raise ValueError(f"{place} cannot be written as JSON: {error}") from None
    except TypeError as error:
        raise TypeError(f"{place} cannot be written as JSON: {error}") from None


def plain_object(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=_plain_fields, serialize_as_any=True)


def _plain_fields(value: Any) -> Any:
    if callable(to_list := getattr(value, "tolist", None)):  # numpy's arrays and scalars
        return to_list()
    if hasattr(value, "__dict__") and not callable(value):
        return {name: item for name, item in vars(value).items() if not name.startswith("_")}
    raise TypeError(f"a {type(value).__qualname__} is none of its values; make it a dataclass or a pydantic model")


# --- the end of an episode -------------------------------------------------------------------------------------------

_Ended = Literal["terminated", "truncated"] | None
_Reader = Callable[[Any], _Ended]
_ENDS: dict[str, _Ended] = {  # in the order in which they win
    "terminated": "terminated",
    "finished": "terminated",
    "truncated": "truncated",
    "done": "terminated",
}
_MAX_CLASSES = 1024  # classes made on the fly must not pile up here
_readers: dict[type, _Reader] = {}


def read_end(observation: Any) -> Literal["terminated", "truncated"] | None:
    """How the episode ended with this observation, or None if it goes on.

    Looks for `terminated` and `truncated` (Gymnasium), `finished` (OpenReward) and `done` (OpenEnv), as attributes, and
    as keys if the observation is a mapping (a key that holds a boolean wins over the attribute). Only a real boolean
    (bool or numpy.bool_) counts: a number, a string, an array or a mock does not end an episode. `truncated` wins over
    `done`; `terminated` and `finished` win over both.

    Called once a step, so it does not ask objects for names they have not got (slow, where a class has `__getattr__`).
    What a class itself provides (slots, properties, defaults) is looked up when its first instance is read: a class
    that gains one of the names later is not noticed.
    """
    return end_reader(type(observation))(observation)


def end_reader(kind: type) -> Callable[[Any], Literal["terminated", "truncated"] | None]:
    """What `read_end` does for observations of one class, for loops that meet the same class at every step."""
    reader = _readers.get(kind)
    if reader is None:
        if len(_readers) >= _MAX_CLASSES:
            _readers.clear()
        reader = _readers[kind] = _reader_for(kind)
    return reader


def _reader_for(kind: type) -> _Reader:
    """The fastest function that sees on an instance of this class what `getattr` (and a mapping's keys) would show."""
    if kind is dict or kind is Record:
        return _end_of_keys
    if issubclass(kind, Mapping):
        return _end_of_mapping
    provided = {name: end for name, end in _ENDS.items() if _provides(kind, name)}
    if kind.__module__ == "builtins" and not kind.__dictoffset__ and not provided:
        return _never
    fallback = next((base.__module__ for base in kind.__mro__ if "__getattr__" in base.__dict__), None)
    pydantic = fallback == "pydantic.main"  # its __getattr__ is slow, and finds nothing but extra fields
    plain = kind.__getattribute__ is object.__getattribute__ or kind is SimpleNamespace
    if not plain or (fallback and not pydantic):
        return partial(_end_of_attributes, _ENDS)
    if pydantic:
        return partial(_end_of_mixed_model, provided) if provided else _end_of_model
    if not kind.__dictoffset__:
        return partial(_end_of_attributes, provided)
    return partial(_end_of_attributes, _ENDS) if provided else _end_of_instance


def _provides(kind: type, name: str) -> bool:
    """Whether a class can say True for a name by itself: a descriptor (property, slot), or True as its default.

    Any other default, such as the False of a dataclass field, ends nothing: the instance's own value decides.
    """
    for base in kind.__mro__:
        if name in base.__dict__:
            value = base.__dict__[name]
            return hasattr(type(value), "__get__") or _true(value)
    return False


def _never(observation: Any) -> None:
    return None


def _end_of_keys(values: Mapping[str, Any]) -> _Ended:
    if "terminated" in values or "finished" in values or "truncated" in values:
        for name, end in _ENDS.items():
            if name in values and _true(values[name]):
                return end
        return None
    if "done" in values and (done := values["done"]) is not False and _true(done):
        return "terminated"
    return None


def _end_of_instance(observation: Any) -> _Ended:
    values = observation.__dict__
    if "terminated" in values or "finished" in values or "truncated" in values:
        return _end_of_keys(values)
    if "done" in values and (done := values["done"]) is not False and _true(done):  # as above: a call costs as much
        return "terminated"
    return None


def _end_of_model(observation: Any) -> _Ended:
    values = observation.__dict__
    if observation.__pydantic_extra__ or "terminated" in values or "finished" in values or "truncated" in values:
        return _end_of_mixed_model({}, observation)
    if "done" in values and (done := values["done"]) is not False and _true(done):
        return "terminated"
    return None


def _end_of_mixed_model(provided: Mapping[str, _Ended], observation: Any) -> _Ended:
    values: Mapping[str, Any] = {**(observation.__pydantic_extra__ or {}), **observation.__dict__}
    return _first(lambda name: getattr(observation, name, None) if name in provided else values.get(name))


def _end_of_attributes(names: Mapping[str, _Ended], observation: Any) -> _Ended:
    for name, end in names.items():
        value = getattr(observation, name, None)
        if _true(value):
            return end
    return None


def _end_of_mapping(observation: Any) -> _Ended:
    def read(name: str) -> Any:
        if name in observation and _boolean(value := observation[name]):
            return value
        return getattr(observation, name, None)

    return _first(read)


def _first(read: Callable[[str], Any]) -> _Ended:
    return next((end for name, end in _ENDS.items() if _true(read(name))), None)


def _true(value: Any) -> bool:
    if value is True or value is False or value is None:
        return value is True
    return _boolean(value) and bool(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    numpy = sys.modules.get("numpy")  # nothing can be one of its booleans before it is imported
    return numpy is not None and isinstance(value, numpy.bool_)
