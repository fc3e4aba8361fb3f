"""The formats that can be read: one function each, of this package or of others, found by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

Read = Callable[[Source], Iterator[Trajectory | FormatProblem]]

_BUILT_IN = (  # modules of this package whose formats are unmistakable
    "atif",  # before ours: it may have an id, too
    "jsonl",
    "tau_bench",
    "openenv",
    "openreward",
    "verifiers",
    "verifiers_v0",
    "swe_agent",
    "openhands",
    "otel",
    "inspect_logs",
    "tau2",
    "nemo_gym",
    "harbor",
    "eval_protocol",
)
_GENERAL = ("anthropic", "openai_responses", "openai_chat")  # those that others extend, so they are asked last
_GROUP = "rubrics.formats"  # of entry points, for readers of other packages
_readers: dict[str, Reader] = {}


@dataclass(frozen=True, slots=True)
class Reader:
    """A format: its name, how it is recognised, and the function that reads a file of it; see `reader`."""

    name: str
    read: Read
    detect: Callable[[Any], bool] | None = None
    sniff: Callable[[bytes], bool] | None = None
    folder: Callable[[Path], bool] | None = None

    @property
    def description(self) -> str:
        """The first line of the docstring of the function."""
        return (self.read.__doc__ or "").strip().partition("\n")[0]


def reader(
    name: str,
    *,
    detect: Callable[[Any], bool] | None = None,
    sniff: Callable[[bytes], bool] | None = None,
    folder: Callable[[Path], bool] | None = None,
) -> Callable[[Read], Read]:
    """Registers the decorated function as the reader of a format.

    The function gets a `Source` and yields a `Trajectory` for every episode, and a `FormatProblem` for what it could
    not read; `Source.each` does that for one record at a time. A module that the entry point group `rubrics.formats`
    names is imported when the formats are asked for, so that its readers are known without an import.

    Args:
        name: what the format is called on a command line.
        detect: gets a parsed record from the start of a file and says whether it is of this format. The records may
            have stood in lines, an array, a document, compressed or not.
        sniff: gets the first bytes of a file, decompressed, for formats that are no records of JSON; asked before any
            `detect`.
        folder: gets a folder and says whether it is one thing of this format; then the `Source` is the folder, and
            nobody else looks into it.

    Raises:
        FormatError: the name is taken.
    """

    def register(function: Read) -> Read:
        if name in _readers and _readers[name].read is not function:
            raise FormatError(f"there is a reader for the format {name!r} already: {_readers[name].read!r}")
        _readers[name] = Reader(name, function, detect, sniff, folder)
        return function

    return register


def formats() -> dict[str, Reader]:
    """The known formats by name, in the order in which they are asked.

    A reader of another package that does not import is left out, with a warning that says why.
    """
    for module in (*_BUILT_IN, *_GENERAL):
        import_module(f"rubrics.formats.{module}")
    _load_entry_points()
    return dict(sorted(_readers.items(), key=lambda item: _turn(item[1])))


def _turn(known: Reader) -> int:
    """When a format is asked: the general ones after those of others, whatever was imported first."""
    package, _, module = known.read.__module__.rpartition(".")
    if package != __package__ or module not in (*_BUILT_IN, *_GENERAL):
        return len(_BUILT_IN)
    return _BUILT_IN.index(module) if module in _BUILT_IN else len(_BUILT_IN) + 1 + _GENERAL.index(module)


@cache
def _load_entry_points() -> None:
    for entry_point in entry_points(group=_GROUP):
        try:
            entry_point.load()
        except Exception as error:  # whatever another package's import may raise
            origin = f" of {entry_point.dist.name}" if entry_point.dist else ""
            message = f"the format {entry_point.name!r}{origin} is not available: {type(error).__name__}: {error}"
            warnings.warn(message, stacklevel=3)
