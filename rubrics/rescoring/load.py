"""Objects named on a command line: `PATH_OR_MODULE:NAME`, or a file of data."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from weakref import ref

from rubrics.group import GroupRubric
from rubrics.modules import LoadError, attribute_of, described, folder_of, importable, load_module
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.score import StructureError

_DATA = (".yaml", ".yml", ".json")
_DEFAULTS = ("make_rubric", "rubric")
_named: dict[int, tuple[ref[Rubric], str]] = {}


def load_rubric(name: str, *, allow_import: Iterable[str] = ()) -> Rubric:
    """The tree that `PATH_OR_MODULE:FACTORY` stands for: `rubrics/legal.py:make_rubric` or `legal.rubrics:make_rubric`;
    or that a file of data, `legal.yaml`, describes.

    What is named may be a function without arguments that returns the tree, the tree itself, or a `Rubric` class.
    Without a name, `make_rubric` or `rubric` is looked for. A file may import its neighbours, and it takes no module's
    name: a file `json.py` does not stand in for `json`.

    Args:
        allow_import: modules that a file of data may import (see `rubrics.load`).

    Raises:
        LoadError: the file or module does not import, has nothing of that name, or what is there gives no `Rubric`.
    """
    found = load_any_rubric(name, allow_import=allow_import)
    if not isinstance(found, Rubric):
        raise LoadError(f"{name} is a group rubric ({_kind(found)}), and a tree is needed here")
    return found


def load_any_rubric(name: str, *, allow_import: Iterable[str] = ()) -> Rubric | GroupRubric:
    """Like `load_rubric`, of a tree or of a group rubric.

    Raises:
        LoadError: as for `load_rubric`.
    """
    if name.lower().endswith(_DATA):
        from rubrics.spec import SpecError, load

        try:
            return load(name, allow_import=allow_import)
        except SpecError as error:
            raise LoadError(str(error)) from error
    where, attribute = _split(name)
    module = load_module(where)
    if attribute is None:
        attribute = next((default for default in _DEFAULTS if hasattr(module, default)), None)
        if attribute is None:
            raise LoadError(f"{where} has neither make_rubric nor rubric; name one of: {_candidates(module)}")
    found = attribute_of(module, attribute, where, _candidates(module))
    if isinstance(found, GroupRubric):
        return found
    if isinstance(found, Rubric):
        return _noted(found, where, attribute)
    if not callable(found):
        raise LoadError(f"{where}:{attribute} is neither a Rubric nor a function that returns one, but {_kind(found)}")
    try:
        with importable(folder_of(where)):
            rubric = found()
    except (Exception, SystemExit) as error:
        raise LoadError(f"{where}:{attribute}() raised {described(error)}") from error
    if inspect.iscoroutine(rubric):
        rubric.close()
    if isinstance(rubric, GroupRubric):
        return rubric
    if not isinstance(rubric, Rubric):
        raise LoadError(f"{where}:{attribute}() returned {_kind(rubric)}, not a Rubric")
    _check(rubric, f"{where}:{attribute}")
    return _noted(rubric, where, attribute)


def name_of(rubric: Rubric) -> str | None:
    """What to give `load_rubric`, in any folder, for an equal tree; None for one that was not loaded by name."""
    found, name = _named.get(id(rubric), (None, None))
    return name if found is not None and found() is rubric else None


def _noted(rubric: Rubric, where: str, attribute: str) -> Rubric:
    """A tree, whose name is now known."""
    module = where if folder_of(where) is None else str(Path(where).resolve())
    key = id(rubric)
    _named[key] = (ref(rubric, lambda _: _named.pop(key, None)), f"{module}:{attribute}")
    return rubric


def load_types(name: str) -> Types:
    """The classes that `PATH_OR_MODULE:Action,Observation` stands for; either name may be left empty.

    Raises:
        LoadError: as for `load_rubric`, or what is named is no class.
    """
    where, _, names = name.rpartition(":")
    parts = [part.strip() for part in names.split(",")]
    if not where or len(parts) != 2 or not any(parts):
        raise LoadError(f"types are given as PATH_OR_MODULE:Action,Observation, not {name!r}")
    module = load_module(where)
    classes: list[type | None] = []
    for part in parts:
        found = attribute_of(module, part, where, _candidates(module)) if part else None
        if found is not None and not isinstance(found, type):
            raise LoadError(f"{where}:{part} is no class, but {_kind(found)}")
        classes.append(found)
    return Types(*classes)


def _check(rubric: Rubric, where: str) -> None:
    """Raise LoadError where the tree is built wrongly."""
    try:
        rubric._compiled()
    except StructureError as error:
        raise LoadError(f"{where}: {error}") from error


def _split(name: str) -> tuple[str, str | None]:
    where, colon, attribute = name.rpartition(":")
    if attribute.endswith("()"):
        raise LoadError(f"name the function without calling it: {name.removesuffix('()')}")
    if colon and where and attribute.isidentifier():
        return where, attribute
    if colon and not attribute:
        raise LoadError(f"{name!r} names nothing behind the colon")
    return name, None


def _candidates(module: ModuleType) -> str:
    """The public names of a module that may be rubrics or factories of rubrics."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, Rubric | GroupRubric)
            or (callable(value) and getattr(value, "__module__", None) == module.__name__)
        )
    ]
    return ", ".join(names) or "no function, class or rubric of its own"


def _kind(value: object) -> str:
    kind = type(value).__qualname__
    return "None" if value is None else f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
