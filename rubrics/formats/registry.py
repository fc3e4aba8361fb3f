"""The formats that can be read: one function each, found by name or by what a file holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

Read = Callable[[Source], Iterator[Trajectory | FormatProblem]]

_BUILT_IN = ("jsonl", "tau_bench")  # modules of this package, in the order in which they are asked
_readers: dict[str, Reader] = {}


@dataclass(frozen=True, slots=True)
class Reader:
    """A format: its name, how a parsed record of it is recognised, and the function that reads a file."""

    name: str
    detect: Callable[[Any], bool]
    read: Read

    @property
    def description(self) -> str:
        return (self.read.__doc__ or "").strip().partition("\n")[0]


def reader(name: str, *, detect: Callable[[Any], bool]) -> Callable[[Read], Read]:
    """Registers the decorated function as the reader of a format.

    The function gets a `Source` and yields a `Trajectory` for every episode, and a `FormatProblem` for what it could
    not read; `Source.each` does that for one record at a time. `detect` gets a parsed record from the start of a file
    and says whether it is of this format. Raises FormatError when the name is taken.
    """

    def register(function: Read) -> Read:
        if name in _readers and _readers[name].read is not function:
            raise FormatError(f"there is a reader for the format {name!r} already: {_readers[name].read!r}")
        _readers[name] = Reader(name, detect, function)
        return function

    return register


def formats() -> dict[str, Reader]:
    """The known formats by name."""
    for module in _BUILT_IN:
        import_module(f"rubrics.formats.{module}")
    return dict(_readers)


def read(paths: str | Path | Iterable[str | Path], format: str | None = None) -> Iterator[Trajectory | FormatProblem]:
    """All trajectories of these files in order, as a stream, with a `FormatProblem` in place of each bad one.

    A bad record never hides a good one, in its own file or the next. `format` is a name from `formats()`; without it
    each file's own content decides. An id that was read before in this call gets a number, `id#2`, so that results can
    be told apart. Raises FormatError for a format that does not exist.
    """
    known = formats()
    if format is not None and format not in known:
        raise FormatError(f"no format {format!r}; known formats: {', '.join(sorted(known))}")
    return _read([paths] if isinstance(paths, str | Path) else paths, known, format)


def _read(
    paths: Iterable[str | Path], known: dict[str, Reader], format: str | None
) -> Iterator[Trajectory | FormatProblem]:
    seen: dict[str, int] = {}
    for path in paths:
        try:
            chosen = known[format] if format else _detect(Source(path), known)
            source = Source(path, chosen.name)
            for item in chosen.read(source):
                if isinstance(item, Trajectory):
                    item.id = _distinct(item.id, seen)
                yield item
        except FormatError as error:
            yield FormatProblem(str(path), error.line, str(error))
        except OSError as error:
            yield FormatProblem(str(path), None, f"cannot be read: {error.strerror or error}")


def _distinct(id: str, seen: dict[str, int]) -> str:
    """The id, or `id#2` and so on where it was given before."""
    number = seen[id] = seen.get(id, 0) + 1
    while number > 1 and f"{id}#{number}" in seen:
        number += 1
    if number == 1:
        return id
    seen[id], seen[f"{id}#{number}"] = number, 1
    return f"{id}#{number}"


def _detect(source: Source, known: dict[str, Reader]) -> Reader:
    sample, problem = source.sample()
    for candidate in known.values():
        if any(candidate.detect(value) for value in sample):
            return candidate
    names = ", ".join(sorted(known))
    if problem and not sample:
        raise FormatError(f"{problem.message}; none of the known formats: {names}", problem.line)
    raise FormatError(f"unknown format: {_shape(sample)}; known formats: {names}", 1)


def _shape(sample: list[Any]) -> str:
    if not sample:
        return "the array is empty"
    if isinstance(sample[0], dict):
        return f"the first record has the keys {', '.join(list(sample[0])[:12]) or '(none)'}"
    return f"the first record is no JSON object but {type(sample[0]).__name__}"
