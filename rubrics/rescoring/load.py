"""Objects named on a command line: `PATH_OR_MODULE:NAME`."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import ref

from rubrics.group import GroupRubric
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric
from rubrics.score import RubricError, StructureError

_DEFAULTS = ("make_rubric", "rubric")
_OURS = [Path(__file__).parents[1], Path(__file__).parents[2] / "judges"]
_files: dict[Path, tuple[tuple[int, int], ModuleType]] = {}
_named: dict[int, tuple[ref[Rubric], str]] = {}


class LoadError(RubricError, ValueError):
    """What a name on the command line stands for cannot be loaded; the message says where it failed."""


def load_rubric(name: str) -> Rubric:
    """The tree that `PATH_OR_MODULE:FACTORY` stands for: `rubrics/legal.py:make_rubric` or `legal.rubrics:make_rubric`.

    What is named may be a function without arguments that returns the tree, the tree itself, or a `Rubric` class.
    Without a name, `make_rubric` or `rubric` is looked for. A file may import its neighbours, and it takes no module's
    name: a file `json.py` does not stand in for `json`.

    Raises:
        LoadError: the file or module does not import, has nothing of that name, or what is there gives no `Rubric`.
    """
    found = load_any_rubric(name)
    if not isinstance(found, Rubric):
        raise LoadError(f"{name} is a group rubric ({_kind(found)}), and a tree is needed here")
    return found


def load_any_rubric(name: str) -> Rubric | GroupRubric:
    """Like `load_rubric`, of a tree or of a group rubric.

    Raises:
        LoadError: as for `load_rubric`.
    """
    where, attribute = _split(name)
    module = load_module(where)
    if attribute is None:
        attribute = next((default for default in _DEFAULTS if hasattr(module, default)), None)
        if attribute is None:
            raise LoadError(f"{where} has neither make_rubric nor rubric; name one of: {_candidates(module)}")
    found = _attribute(module, attribute, where)
    if isinstance(found, GroupRubric):
        return found
    if isinstance(found, Rubric):
        return _noted(found, where, attribute)
    if not callable(found):
        raise LoadError(f"{where}:{attribute} is neither a Rubric nor a function that returns one, but {_kind(found)}")
    try:
        with _importable(_folder(where)):
            rubric = found()
    except (Exception, SystemExit) as error:
        raise LoadError(f"{where}:{attribute}() raised {_described(error)}") from error
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


def loaded_files() -> list[str]:
    """The files that were loaded as modules; another process that loads them can unpickle what is defined there."""
    return [str(path) for path in _files]


def _noted(rubric: Rubric, where: str, attribute: str) -> Rubric:
    """A tree, whose name is now known."""
    module = where if _folder(where) is None else str(Path(where).resolve())
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
        found = _attribute(module, part, where) if part else None
        if found is not None and not isinstance(found, type):
            raise LoadError(f"{where}:{part} is no class, but {_kind(found)}")
        classes.append(found)
    return Types(*classes)


def load_module(where: str) -> ModuleType:
    """A module by its dotted name or by the path of its file. A file is run once, until it changes.

    Raises:
        LoadError: it does not import; the message has the error and the line where it was raised.
    """
    folder = _folder(where)
    try:
        with _importable(folder):
            return import_module(where) if folder is None else _run_file(Path(where).resolve())
    except (Exception, SystemExit) as error:  # a script that exits when it is imported
        raise LoadError(f"{where} does not import: {_described(error)}") from error


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


def _folder(where: str) -> Path | None:
    """The folder of a file; None for a dotted name."""
    path = Path(where)
    if path.suffix != ".py" and not path.is_file():
        return None
    if not path.is_file():
        raise LoadError(f"there is no file {where}")
    return path.resolve().parent


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """What stands beside the file (or in the working directory) can be imported, before anything else; later, it comes
    last, for imports that happen when a rubric runs."""
    entry = str(Path.cwd() if folder is None else folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def _run_file(path: Path) -> ModuleType:
    stat = path.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    if path in _files and _files[path][0] == stamp:
        return _files[path][1]
    name = f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError("it is no Python file")
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses and pickle look a class's module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _files[path] = (stamp, module)
    return module


def _attribute(module: ModuleType, attribute: str, where: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise LoadError(f"{where} has no {attribute!r}; it has: {_candidates(module)}") from None


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


def _described(error: BaseException) -> str:
    """The last line of the traceback and where in the user's code it came from: all that is needed to mend a file."""
    if isinstance(error, LoadError):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {text}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    frames = [frame for frame in frames if frame.filename != __file__]
    users = [frame for frame in frames if not any(Path(frame.filename).is_relative_to(ours) for ours in _OURS)]
    where = (users or frames)[-1:]
    return f"{where[0].filename}:{where[0].lineno}: {text}" if where else text
