"""What data in a file stands for: a node, a credit strategy, a function, a path. And how objects become such data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from rubrics.criteria.values import Value

if TYPE_CHECKING:
    from rubrics.spec.building import Builder, Place
    from rubrics.spec.writing import Writer


class Held:
    """Data where an object is wanted; pydantic checks its outer form, and `build` makes the object.

    Attributes:
        data: as it stands in the file.
    """

    form: ClassVar[dict[str, Any]] = {}
    """JSON Schema of the data; `{"$comment": name}` refers to the definition of that name."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @classmethod
    def check(cls, data: Any) -> None:
        """Raise ValueError for data of another form."""

    def build(self, builder: Builder, place: Place) -> Any:
        """The object.

        Raises:
            Exception: whatever the object's class raises about its arguments.
        """
        raise NotImplementedError

    @classmethod
    def written(cls, value: Any, writer: Writer) -> Any:
        """An object as data."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def held(data: Any) -> Held:
            cls.check(data)
            return cls(data)

        return core_schema.no_info_after_validator_function(held, core_schema.any_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return cls.form


class HeldNode(Held):
    """A node of the tree: `{kind: …, its arguments}`, or `{$ref: …}` for one that stands elsewhere."""

    form: ClassVar[dict[str, Any]] = {"$comment": "node"}

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, Mapping):
            raise ValueError("a node is a mapping with a kind, such as {kind: WeightedSum, …}")

    def build(self, builder: Builder, place: Place) -> Any:
        return builder.node(self.data, place)

    @classmethod
    def written(cls, value: Any, writer: Writer) -> Any:
        return writer.node(value)


class HeldKind(Held):
    """An object of some kind that is no node: `{kind: …, its arguments}`, or the kind alone."""

    family: ClassVar[str]

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, str) and not (isinstance(data, Mapping) and isinstance(data.get("kind"), str)):
            raise ValueError(f"a {cls.family} is {{kind: …, and its arguments}}, or the kind alone")

    def build(self, builder: Builder, place: Place) -> Any:
        return builder.made({"kind": self.data} if isinstance(self.data, str) else self.data, place, self.family)

    @classmethod
    def written(cls, value: Any, writer: Writer) -> Any:
        made = writer.made(value)
        return made["kind"] if len(made) == 1 else made


class HeldCredit(HeldKind):
    """A credit strategy, such as `EqualSplit` or `{kind: Discounted, gamma: 0.9}`."""

    family = "credit"
    form: ClassVar[dict[str, Any]] = {"$comment": "credit"}


class HeldFunction(Held):
    """A function of a module, `module:function` or `file.py:function`, which the reader must have allowed; or, where it
    is called with a step, a path into it, such as `action.tool`."""

    form: ClassVar[dict[str, Any]] = {"type": "string", "description": "module:function, or a path such as action.tool"}

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, str):
            raise ValueError("a function is named as module:function, or file.py:function")
        if ":" not in data:
            Value(data)

    def build(self, builder: Builder, place: Place) -> Any:
        if ":" not in self.data:
            return Value(self.data)
        found = builder.imported(self.data, place)
        if not callable(found):
            raise builder.fault(place, f"{self.data} is no function")
        return found

    @classmethod
    def written(cls, value: Any, writer: Writer) -> Any:
        return value.path if isinstance(value, Value) else writer.named(value)


class HeldPath(Held):
    """A path; a relative one is relative to the folder of the file."""

    form: ClassVar[dict[str, Any]] = {"type": "string", "format": "path", "minLength": 1}

    @classmethod
    def check(cls, data: Any) -> None:
        if not isinstance(data, str) or not data:
            raise ValueError("a path is a text")

    def build(self, builder: Builder, place: Place) -> Any:
        return builder.folder / self.data

    @classmethod
    def written(cls, value: Any, writer: Writer) -> Any:
        return Path(value).as_posix() if Path(value).is_absolute() else writer.beside(Path(value))


_STANDS_FOR: list[tuple[type, Callable[[Any], bool], type[Held]]] = []


def stands_for(held: type[Held], kind: type, is_one: Callable[[Any], bool] | None = None) -> None:
    """Have `held` stand, in files, for arguments that are annotated with `kind` or a subclass of it.

    Args:
        is_one: whether an object is written as such; by default, whether it is an instance of `kind`.
    """
    _STANDS_FOR.append((kind, is_one or (lambda value: isinstance(value, kind)), held))


def held_for(annotation: Any) -> type[Held] | None:
    """What stands for an argument that is annotated so; None where the data itself does."""
    for kind, _, held in _STANDS_FOR:
        if annotation is kind or (isinstance(annotation, type) and kind in annotation.__mro__):
            return held
    return None


def held_of(value: Any) -> type[Held] | None:
    """What an object is written as; None where it is data itself."""
    return next((held for _, is_one, held in _STANDS_FOR if is_one(value)), None)
