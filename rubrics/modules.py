"""Modules that a user names: by a dotted name, or by the path of a Python file."""

from __future__ import annotations

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

from rubrics.score import RubricError

_OURS = [Path(__file__).parent, Path(__file__).parents[1] / "judges"]
_LOADING = [Path(__file__), Path(__file__).parent / "rescoring" / "load.py"]  # where what a user named is called
_files: dict[Path, tuple[tuple[int, int], ModuleType]] = {}


class LoadError(RubricError, ValueError):
    """What a name stands for cannot be loaded; the message says where it failed."""


def load_module(where: str) -> ModuleType:
    """A module by its dotted name or by the path of its file. A file is run once, until it changes.

    A file may import its neighbours, and it takes no module's name: a file `json.py` does not stand in for `json`.

    Raises:
        LoadError: it does not import; the message has the error and the line where it was raised.
    """
    folder = folder_of(where)
    try:
        with importable(folder):
            return import_module(where) if folder is None else _run_file(Path(where).resolve())
    except (Exception, SystemExit) as error:  # a script that exits when it is imported
        raise LoadError(f"{where} does not import: {described(error)}") from error


def loaded_files() -> list[str]:
    """The files that were loaded as modules; another process that loads them can unpickle what is defined there."""
    return [str(path) for path in _files]


def file_of(module: str) -> Path | None:
    """The file that was loaded as a module of this name; None for a module that has its name to itself."""
    return next((path for path, (_, loaded) in _files.items() if loaded.__name__ == module), None)


def folder_of(where: str) -> Path | None:
    """The folder of a file; None for a dotted name."""
    path = Path(where)
    if path.suffix != ".py" and not path.is_file():
        return None
    if not path.is_file():
        raise LoadError(f"there is no file {where}")
    return path.resolve().parent


@contextmanager
def importable(folder: Path | None) -> Iterator[None]:
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


def attribute_of(module: ModuleType, attribute: str, where: str, candidates: str) -> Any:
    """What a module calls by a name.

    Raises:
        LoadError: nothing; the message lists the candidates.
    """
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise LoadError(f"{where} has no {attribute!r}; it has: {candidates}") from None


def described(error: BaseException) -> str:
    """The last line of the traceback and where in the user's code it came from: all that is needed to mend a file."""
    if isinstance(error, LoadError):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {text}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    frames = [frame for frame in frames if Path(frame.filename) not in _LOADING]
    users = [frame for frame in frames if not any(Path(frame.filename).is_relative_to(ours) for ours in _OURS)]
    where = (users or frames)[-1:]
    return f"{where[0].filename}:{where[0].lineno}: {text}" if where else text
