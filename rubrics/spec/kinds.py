"""Kinds: what a file may name, and with which arguments, which come from the signatures of the classes."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, TypeVar, Union, cast, get_args, get_origin

from pydantic import ConfigDict, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

import rubrics.criteria
from rubrics.credit import Credit
from rubrics.criteria.values import Value
from rubrics.node import Node
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.spec.held import HeldCredit, HeldFunction, HeldNode, HeldPath, held_for, stands_for

R = TypeVar("R", bound=type[Rubric])

CONTAINERS = (
    *("WeightedSum", "Gate", "Sequential", "AllOf", "AnyOf", "Product", "Switch", "Scale", "Clip", "Invert", "Map"),
    *("Fallback", "Timeout", "Threaded", "RubricList", "RubricDict"),
)
CREDITS = ("Terminal", "Discounted", "EqualSplit", "Broadcast", "ByEvidence")
OURS = {
    "node": dict.fromkeys(CONTAINERS, "rubrics.spec.builtin"),
    "credit": dict.fromkeys(
        ("Terminal", "Discounted", "EqualSplit", "Broadcast", "ByEvidence"), "rubrics.spec.builtin"
    ),
    "judge": dict.fromkeys(("Judge", "Jury"), "judges.spec"),
    "client": dict.fromkeys(("LiteLLMClient", "OpenAICompatibleClient"), "judges.spec"),
}
"""The kinds of this library by family, and the modules that register them: none is imported before it is named."""
OURS["node"] |= dict.fromkeys(("LLMJudge", "TrajectoryJudge", "Checklist", "RequirementJudge"), "judges.spec")
OURS["node"] |= dict.fromkeys(("Requirement", "Passed"), "rubrics.spec.builtin")


_TypedDict, _Required, _NotRequired = cast(Any, (TypedDict, Required, NotRequired))  # of types that no checker knows


class KindError(RubricError, TypeError):
    """A class cannot be named in a file, or an object of it cannot be written to one, as it stands."""


class Kind:
    """Something that a file may name.

    Args:
        name: as the file names it.
        cls: the class that is called with the arguments.
        fields: annotations to use in place of those of the signature; None for an argument that no file gives.
        read: the arguments of an object; by default its attributes of those names.
        family: what it is: a node, or an argument of one.
    """

    def __init__(
        self,
        name: str,
        cls: type,
        fields: Mapping[str, Any] | None = None,
        read: Callable[[Any], Mapping[str, Any]] | None = None,
        family: str = "node",
    ) -> None:
        self.name, self.cls, self.fields, self.read = name, cls, dict(fields or {}), read
        self.family = family

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What the class takes and a file may give, by name."""
        given = inspect.signature(self.cls).parameters
        return {name: parameter for name, parameter in given.items() if self.fields.get(name, ...) is not None}

    @cached_property
    def given(self) -> dict[str, Any]:
        """The types of the arguments in a file, each as `Required` or `NotRequired`.

        Raises:
            KindError: the class takes arguments that no file can give.
        """
        hints = _hints(self.cls)
        fields: dict[str, Any] = {}
        annotation: Any
        for name, parameter in self.parameters.items():
            annotation = self.fields.get(name, hints.get(name, Any))
            if parameter.kind is parameter.VAR_KEYWORD and name not in self.fields:
                for option, kind in _options(annotation, self.name, name).items():
                    kind = self.fields.get(option, kind)
                    fields |= {} if kind is None else {option: _NotRequired[as_data(kind)]}
                continue
            several = parameter.kind is parameter.VAR_POSITIONAL
            annotation = as_data(Sequence[annotation] if several and name not in self.fields else annotation)
            needed = parameter.default is parameter.empty and not several
            fields[name] = _Required[annotation] if needed else _NotRequired[annotation]
        if "kind" in fields:
            raise KindError(f"{self.name} takes an argument 'kind', which in a file names the class; rename it")
        return fields

    @cached_property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        """What checks the arguments of a file, and has their JSON Schema.

        Raises:
            KindError: the class takes arguments that no file can give.
        """
        return self._adapter(self.given)

    @cached_property
    def some(self) -> TypeAdapter[dict[str, Any]]:
        """What checks some of the arguments, the others missing."""
        return self._adapter({name: _NotRequired[given.__args__[0]] for name, given in self.given.items()})

    def _adapter(self, given: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
        arguments: Any = _TypedDict(self.name, given)
        arguments.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
        try:
            return TypeAdapter(arguments)
        except PydanticUserError as error:
            problem = error.message.splitlines()[0]
            raise KindError(f"{self.name}: an argument has a type that no file can give: {problem}") from None

    def call(self, arguments: dict[str, Any]) -> Any:
        """The object that the arguments make."""
        rest: dict[str, Any] = dict(arguments)
        first: list[Any] = []
        nameless = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
        taken = list(self.parameters.values())
        while taken and not (taken[-1].kind in nameless and taken[-1].name in rest):
            taken.pop()
        for parameter in taken:  # up to the last that can only be given by its place
            given = rest.pop(parameter.name, parameter.default)
            first += (
                given if parameter.kind is parameter.VAR_POSITIONAL and parameter.name not in self.fields else [given]
            )
        return self.cls(*first, **rest)

    def arguments(self, value: Any) -> dict[str, Any]:
        """The arguments that make an equal object; those that have their defaults are left out.

        Raises:
            KindError: an argument was not kept.
        """
        read = getattr(value, "spec_arguments", None)
        if read is not None:
            kept = dict(read())
        elif self.read is not None:
            kept = dict(self.read(value))
        else:
            kept = {name: kept_argument(value, name) for name in self.parameters}
        return {name: given for name, given in kept.items() if not _is_default(given, self.parameters.get(name))}


def kept_argument(value: Any, name: str) -> Any:
    """What an object keeps of the argument of that name.

    Raises:
        KindError: nothing.
    """
    for attribute in (name, f"_{name}"):
        if attribute in getattr(value, "__dict__", ()):
            return vars(value)[attribute]
    found = getattr(value, name, value)
    if found is value or getattr(found, "__self__", None) is value:  # there is nothing, or a method of that name
        raise KindError(
            f"{type(value).__name__} does not keep its argument {name!r}: keep it as self.{name}, or give the class a "
            "method spec_arguments() that returns its arguments"
        )
    return found


_kinds: dict[tuple[str, str], Kind] = {}
_by_class: dict[type, Kind] = {}


def register(cls: R) -> R:
    """Let files name a class by its own name, without allowing an import. Usable as a decorator.

    Raises:
        KindError: another class has the name.
    """
    known = kind_named(cls.__name__)
    if known is not None and known.cls is not cls:
        raise KindError(
            f"the kind {cls.__name__!r} is {known.cls.__module__}.{known.cls.__qualname__}; rename the class"
        )
    add(Kind(cls.__name__, cls))
    return cls


def add(kind: Kind) -> None:
    """Register a kind."""
    _kinds[kind.family, kind.name] = _by_class[kind.cls] = kind


def registered(family: str = "node") -> list[str]:
    """The names of all kinds."""
    criteria = rubrics.criteria.KINDS if family == "node" else []
    return sorted({*OURS[family], *criteria, *(name for of, name in _kinds if of == family)})


def kind_named(name: str, family: str = "node") -> Kind | None:
    """The registered kind of that name; None where there is none."""
    if (family, name) not in _kinds:
        if name in OURS[family]:
            import_module(OURS[family][name])
        elif family == "node" and name in rubrics.criteria.KINDS:
            add(Kind(name, getattr(rubrics.criteria, name)))
    return _kinds.get((family, name))


def kind_of(cls: type) -> Kind | None:
    """The registered kind of a class; None where it is not registered."""
    if cls not in _by_class:
        for family in OURS:
            kind_named(cls.__name__, family)
    return _by_class.get(cls)


def custom(name: str, cls: type) -> Kind:
    """The kind of a class that is not registered. One that takes the arguments of a registered one is read like it."""
    for base in cls.__mro__:
        if (known := kind_of(base)) is not None:
            return Kind(name, cls, known.fields, known.read, known.family)
        if "__init__" in vars(base):
            break
    return Kind(name, cls)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"it must be a number, not {value!r:.80}")
    return value


Number = Annotated[Any, PlainValidator(_number), WithJsonSchema({"type": "number"})]
"""A float; a whole number stays one, since a class may tell 1 from 1.0."""


def as_data(annotation: Any) -> Any:
    """The type of an argument as a file gives it: what stands for objects in place of their classes."""
    if annotation is inspect.Parameter.empty:
        return Any
    if (held := held_for(annotation)) is not None:
        return held
    if annotation is float:
        return Number
    origin, parts = get_origin(annotation), get_args(annotation)
    if collections.abc.Callable in (annotation, origin) or annotation is typing.Callable:
        return HeldFunction
    if origin is None or origin is Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(as_data(parts[0]), *parts[1:])]
    kinds = tuple(map(as_data, parts))
    if origin in (collections.abc.Iterable, collections.abc.Collection):
        origin = list  # pydantic would give what can be gone through once, or nothing
    if origin in (Union, UnionType):
        return Union[kinds]  # noqa: UP007
    return origin[kinds]


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class's arguments; a name that is only imported for type checkers counts as anything."""
    known: dict[str, Any] = {"Rubric": Rubric, "Credit": Credit, "Sequence": Sequence, "Mapping": Mapping}
    initialiser: Any = inspect.getattr_static(cls, "__init__")
    while True:
        try:
            return typing.get_type_hints(initialiser, localns=known, include_extras=True)
        except NameError as error:
            if error.name is None or error.name in known:
                raise
            known[error.name] = Any


def _options(hint: Any, kind: str, name: str) -> dict[str, Any]:
    """The arguments that `**options: Unpack[…]` stands for."""
    parts = get_args(hint)
    if len(parts) == 1 and typing.is_typeddict(parts[0]):
        return typing.get_type_hints(parts[0])
    raise KindError(f"{kind} takes **{name}, which a file cannot give: name each argument in its __init__")


def _is_default(value: Any, parameter: inspect.Parameter | None) -> bool:
    if parameter is None or isinstance(value, Node) or type(value) is not type(parameter.default):
        return value is None and parameter is None
    # Arrays compare to arrays, and -0.0 is another float.
    return (value == parameter.default) is True and repr(value) == repr(parameter.default)


def _is_credit(value: Any) -> bool:
    return not isinstance(value, type) and callable(value) and hasattr(value, "conserves")


stands_for(HeldNode, Node)
stands_for(HeldCredit, Credit, _is_credit)
stands_for(HeldPath, Path)
stands_for(HeldFunction, Value)
