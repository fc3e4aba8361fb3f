"""From a tree to data."""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Mapping, Set
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from rubrics.modules import file_of
from rubrics.node import Node
from rubrics.rubric import Rubric
from rubrics.spec.documents import SpecError
from rubrics.spec.held import held_of
from rubrics.spec.kinds import Kind, KindError, custom, kind_of


class Writer:
    """Writes a tree as data.

    Args:
        tree: the tree.
        folder: the folder of the file, which names of Python files are relative to.
    """

    def __init__(self, tree: Rubric, folder: Path | None = None) -> None:
        self.tree, self.folder = tree, folder
        self._ids: dict[int, str] = {}
        self._written: set[int] = set()
        self._path: list[str] = []
        places = list(_places(tree, ""))
        count = Counter(id(node) for node, _ in places)
        for node, path in places:
            if count[id(node)] > 1:
                self._ids.setdefault(id(node), path)

    def data(self) -> dict[str, Any]:
        """The tree as data.

        Raises:
            SpecError: part of it cannot be written, with its path.
        """
        return self.node(self.tree)

    def node(self, node: Rubric) -> dict[str, Any]:
        """A node as data: its kind and its arguments, or a reference to where it stands."""
        if id(node) in self._written and id(node) in self._ids:
            return {"$ref": self._ids[id(node)]}
        self._written.add(id(node))
        if node._forward_hooks or node._forward_pre_hooks:
            raise self.refused("it has hooks, which no file can hold; remove them first")
        if "forward" in vars(node):
            raise self.refused("its forward was assigned to the object; make it a method of a class")
        made = self.made(node)
        return {"$id": self._ids[id(node)], **made} if id(node) in self._ids else made

    def made(self, value: Any) -> dict[str, Any]:
        """An object of some kind as data."""
        kind = self._kind(type(value))
        try:
            arguments = kind.arguments(value)
        except KindError as error:
            raise self.refused(str(error)) from None
        return {"kind": kind.name, **{name: self.at(name, given) for name, given in arguments.items()}}

    def at(self, name: str, value: Any) -> Any:
        """An argument, or a part of one, as data."""
        self._path.append(name)
        try:
            return self.value(value)
        finally:
            self._path.pop()

    def value(self, value: Any) -> Any:
        """Any value as data."""
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refused(f"it is {value}; a file holds finite numbers")
        if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
            return value if type(value) in (bool, int, float, str, type(None)) else to_jsonable_python(value)
        if (held := held_of(value)) is not None:
            return held.written(value, self)
        if isinstance(value, Mapping):
            named = [(str(key.value if isinstance(key, Enum) else key), item) for key, item in value.items()]
            return {key: self.at(key, item) for key, item in named}
        if isinstance(value, Set):
            return sorted((self.value(item) for item in value), key=repr)
        if isinstance(value, list | tuple):
            return [self.at(str(number), item) for number, item in enumerate(value)]
        if callable(value):
            return self.named(value)
        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, UnicodeDecodeError):
            raise self.refused(f"a {type(value).__name__} cannot be written to a file: {value!r:.80}") from None

    def named(self, value: Any) -> str:
        """A class or function as `module:name`.

        Raises:
            SpecError: it cannot be named.
        """
        name = getattr(value, "__qualname__", "")
        if (
            isinstance(value, functools.partial)
            or not name
            or "<" in name
            or not isinstance(getattr(value, "__self__", None), ModuleType | None)  # that of `math.sqrt` is `math`
        ):
            shown = name or repr(value)
            raise self.refused(f"{shown[-80:]} has no name that a file could give; define it at the top of a module")
        module = str(value.__module__)
        path = file_of(module)
        if path is None:
            return f"{module}:{name}"
        return f"{self.beside(path)}:{name}"

    def beside(self, path: Path) -> str:
        """A path, as it is named in a file of this folder."""
        folder = Path.cwd() if self.folder is None else self.folder.resolve()
        return Path(os.path.relpath(path, folder)).as_posix()

    def refused(self, message: str) -> SpecError:
        """What to raise where something cannot be written."""
        return SpecError(f"{'.'.join(self._path) or 'the root'}: {message}")

    def _kind(self, cls: type) -> Kind:
        return kind_of(cls) or custom(self.named(cls), cls)


def _places(node: Rubric, path: str) -> Any:
    """Each node at each of its places; what is below a node that was met already is not told again."""
    todo: list[tuple[Node, str]] = [(node, path)]
    met: set[int] = set()
    while todo:
        node, path = todo.pop()  # type: ignore[assignment]
        yield node, path or "root"
        if id(node) not in met:
            met.add(id(node))
            below = [(child, f"{path}.{name}" if path else name) for name, child in node._rubric_children.items()]
            todo += reversed(below)
