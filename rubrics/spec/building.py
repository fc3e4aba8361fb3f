"""From data to a tree."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from rubrics.modules import LoadError, file_of, load_module
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.spec.documents import Document, Key, SpecError
from rubrics.spec.held import Held
from rubrics.spec.kinds import Kind, KindError, custom, kind_named, registered

Place = tuple[Key, ...]
_SHOWN = 20  # faults, at most


class _Failed(Exception):
    """A part could not be built; what was wrong has been noted."""


class Builder:
    """Builds the tree of a document, and notes all faults on the way.

    Args:
        document: the data.
        folder: what relative paths are relative to.
        allowed: modules that may be imported, by their names, those of their packages, or their files.
    """

    def __init__(self, document: Document, folder: Path, allowed: Iterable[str] = ()) -> None:
        self.document, self.folder = document, folder
        self.allowed = [allowed] if isinstance(allowed, str) else list(allowed)
        self._shared: dict[str, Rubric | None] = {}  # by $id; None for one that failed
        self._faults: dict[str, None] = {}

    def tree(self) -> Rubric:
        """The tree.

        Raises:
            SpecError: the data is wrong somewhere.
        """
        data = self.document.data
        try:
            if not isinstance(data, Mapping):
                raise self.fault((), f"a file holds a node, {{kind: …}}, not {_said(data)}")
            tree = self.node(data, ())
        except _Failed:
            faults = list(self._faults)
            more = [f"… and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
            raise SpecError("\n".join([*faults[:_SHOWN], *more])) from None
        try:
            tree._compiled()
        except RubricError as error:
            raise SpecError(f"{self.document.where}: {error}") from error
        return tree

    def fault(self, place: Place, message: str) -> _Failed:
        """Note that something is wrong at a place; raise what this returns."""
        path = ""
        for key in self.document.found(place):
            path += f"[{key}]" if isinstance(key, int) else f".{key}"
        path = path.removeprefix(".")
        line = self.document.line(place)
        self._faults[f"{self.document.where}:{line}: {f'{path}: ' if path else ''}{message}"] = None
        return _Failed()

    def node(self, data: Mapping[str, Any], place: Place) -> Rubric:
        """The node that data describes; its `$schema` is for editors."""
        data = {key: value for key, value in data.items() if key != "$schema"}
        if "$ref" in data:
            name = data["$ref"]
            if len(data) > 1:
                raise self.fault(
                    place, f"beside $ref there is nothing else; there is {', '.join(set(data) - {'$ref'})}"
                )
            if not isinstance(name, str) or name not in self._shared:
                known = ", ".join(self._shared) or "none"
                raise self.fault((*place, "$ref"), f"no node above has the $id {name!r}; there is {known}")
            shared = self._shared[name]
            if shared is None:
                raise _Failed
            return shared
        name = data.get("$id")
        if "$id" in data and (not isinstance(name, str) or not name or name in self._shared):
            raise self.fault((*place, "$id"), f"an $id is a text that no other node has, not {name!r}")
        made: Rubric | None = None
        try:
            made = self.made({key: value for key, value in data.items() if key != "$id"}, place, "node")
        finally:
            if name is not None:
                self._shared[name] = made
        return made

    def made(self, data: Mapping[str, Any], place: Place, family: str) -> Any:
        """The object of some kind that data describes."""
        kind = self._kind(data.get("kind"), (*place, "kind"), family)
        arguments = {key: value for key, value in data.items() if key != "kind"}
        return self.tried(place, kind.call, {"arguments": self.built(self._checked(kind, arguments, place), place)})

    def tried(self, place: Place, make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """What a class or function makes of arguments; an error it raises is a fault of the file."""
        try:
            return make(**arguments)
        except Exception as error:
            named = "" if isinstance(error, RubricError) else f"{type(error).__name__}: "
            raise self.fault(place, f"{named}{str(error) or 'it raised no message'}") from error

    def built(self, value: Any, place: Place) -> Any:
        """A value with objects in the places of the data that stands for them."""
        if isinstance(value, Held):
            return value.build(self, place)
        if not isinstance(value, dict | list | tuple | set | frozenset):
            return value
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        made, failed = [], False
        for key, item in items:
            try:
                made.append((key, self.built(item, (*place, key))))
            except _Failed:
                failed = True  # the others may have faults, too
        if failed:
            raise _Failed
        if all(item is given for (_, item), (_, given) in zip(made, items, strict=True)):
            return value  # of whatever class it is, such as a Counter or a named tuple
        return dict(made) if isinstance(value, dict) else type(value)(item for _, item in made)

    def imported(self, name: str, place: Place) -> Any:
        """What `module:name` names, where the module is allowed."""
        where, _, attribute = name.rpartition(":")
        path = self.folder / where
        is_file = where.endswith(".py")
        if not self._is_allowed(where, path if is_file else None):
            said = path.as_posix() if is_file else where
            raise self.fault(
                place,
                f"{name} is code, and {where} is not allowed: pass allow_import=[{said!r}], or --allow-import {said}",
            )
        try:
            module = load_module(str(path) if is_file else where)
        except LoadError as error:
            raise self.fault(place, str(error)) from error
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part, None)
            if isinstance(found, ModuleType) and not self._is_allowed(found.__name__, file_of(found.__name__)):
                raise self.fault(place, f"{name} is code of {found.__name__}, which {where} imports; it is not allowed")
        if found is None:
            raise self.fault(place, f"{where} has no {attribute!r}")
        return found

    def _is_allowed(self, where: str, path: Path | None) -> bool:
        if path is not None:
            return any(name.endswith(".py") and Path(name).resolve() == path.resolve() for name in self.allowed)
        return any(where == name or where.startswith(f"{name}.") for name in self.allowed)

    def _kind(self, name: Any, place: Place, family: str) -> Kind:
        if not isinstance(name, str) or not name:
            if name is None:
                raise self.fault(place[:-1], "a kind is missing: {kind: …} names what it is")
            raise self.fault(place, f"a kind is a text, not {name!r}")
        if ":" in name:
            found = self.imported(name, place)
            if family != "node" or not isinstance(found, type) or not issubclass(found, Rubric):
                raise self.fault(
                    place, f"{name} is no class of rubrics" if family == "node" else f"{name} is no {family}"
                )
            return custom(name, found)
        kind = kind_named(name, family)
        if kind is None:
            known = registered(family)
            close = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {close[0]}?" if close else f"the kinds are {', '.join(known)}"
            own = " (a class of your own is module:Class)" if family == "node" else ""
            raise self.fault(place, f"there is no kind {name!r}; {hint}{own}")
        return kind

    def _checked(self, kind: Kind, arguments: Mapping[str, Any], place: Place) -> dict[str, Any]:
        try:
            return kind.adapter.validate_json(json.dumps(arguments, allow_nan=False), strict=True)
        except KindError as error:
            raise self.fault(place, str(error)) from None
        except (ValueError, TypeError) as error:
            if not isinstance(error, ValidationError):  # infinity, or what else YAML knows and JSON does not
                raise self.fault(place, f"an argument is no JSON: {error}") from None
            invalid = error
        problems: dict[Place, list[Any]] = {}
        wrong = set[Key]()
        for problem in invalid.errors(include_url=False):
            wrong.update(problem["loc"][:1])
            problems.setdefault(self.document.found((*place, *problem["loc"])), []).append(problem)
        for where, several in problems.items():
            if any(other[: len(where)] == where and other != where for other in problems):
                several = [problem for problem in several if problem["type"] == "missing"]  # the inner fault says more
            for message in _explained(kind, several):
                self.fault(where, message)
        right = {name: value for name, value in arguments.items() if name not in wrong}
        self.built(kind.some.validate_json(json.dumps(right), strict=True), place)  # for faults further down
        raise _Failed


def _explained(kind: Kind, problems: list[Any]) -> list[str]:
    """What is wrong with one argument. Several ways in which it is of the wrong type are told together."""
    told: list[str] = []
    wanted: list[str] = []
    for problem in problems:
        name = problem["loc"][-1] if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(name), kind.given, 1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(kind.given) or 'no arguments'}"
            told.append(f"{kind.name} has no argument {name!r}; {hint}")
        elif problem["type"] == "missing":
            told.append(f"{kind.name} needs the argument {name!r}")
        elif problem["type"] == "json_invalid":
            told.append("a text in it has half of a pair of surrogates, which is no character")
        elif problem["type"] == "value_error":
            told.append(str(problem["ctx"]["error"]))
        else:
            wanted.append(problem["msg"].removeprefix("Input should be "))
    if wanted:
        told.append(f"it must be {' or '.join(dict.fromkeys(wanted))}, not {_said(problems[-1]['input'])}")
    return told


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
