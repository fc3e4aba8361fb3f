"""An input file as a stream of records, and of the problems with those that are none."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rubrics.formats.array import elements
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, parse
from rubrics.trajectory import Trajectory

_SAMPLE = 100  # records looked at, at most, to find out what a file is


class Source:
    """One input file: UTF-8, with or without a byte order mark. It is read as a stream, as often as asked.

    `line` is the line of the record that was read last.
    """

    def __init__(self, path: str | Path, format: str = "") -> None:
        self.path = Path(path)
        self.format = format
        self.line: int | None = None

    def problem(self, line: int | None, message: str) -> FormatProblem:
        return FormatProblem(str(self.path), line, message)

    def records(self) -> Iterator[Parsed | FormatProblem]:
        """The elements if the file is one JSON array, else one value a line, and a problem for what is no JSON."""
        with self.path.open("rb") as file:
            start = file.read(4)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise FormatError("the file is UTF-16; convert it to UTF-8", 1)
            begin = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
            file.seek(begin)
            while (first := file.read(1)).isspace():
                pass
            if not first:
                raise FormatError("the file is empty", 1)
            file.seek(begin)
            yield from elements(file) if first == b"[" else self._lines(file)

    def each(self, convert: Callable[[Parsed], Trajectory]) -> Iterator[Trajectory | FormatProblem]:
        """Every record through `convert`, which raises FormatError for a bad one; the others are not affected.

        A trajectory whose record does not say where it was recorded gets this file and line as its `source`. Places
        where the file had NaN or ±Infinity, read as null, are listed in its metadata under "not_finite".
        """
        for record in self.records():
            self.line = record.line
            if isinstance(record, FormatProblem):
                yield record
                continue
            try:
                trajectory = convert(record)
            except FormatError as error:
                yield self.problem(error.line or record.line, str(error))
            except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
                yield self.problem(record.line, f"not the shape of a record of this format: {error!r}")
            else:
                if trajectory.source is None:
                    trajectory.source = {"format": self.format, "path": str(self.path), "line": record.line}
                if record.not_finite:
                    trajectory.metadata["not_finite"] = record.not_finite
                yield trajectory

    def sample(self) -> tuple[list[Any], FormatProblem | None]:
        """The first few values that can be parsed, to recognise the format by, and the first problem before them."""
        values: list[Any] = []
        problem: FormatProblem | None = None
        try:
            for number, record in enumerate(self.records(), start=1):
                if isinstance(record, Parsed):
                    values.append(record.value)
                else:
                    problem = problem or record
                if sum(isinstance(value, dict) for value in values) == 3 or number == _SAMPLE:
                    break
        except FormatError as error:  # an array that is cut; what stands before the cut is good
            if not values:
                raise
            problem = problem or self.problem(error.line, str(error))
        return values, problem

    def _lines(self, file: BinaryIO) -> Iterator[Parsed | FormatProblem]:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            try:
                yield parse(line.decode(), number)
            except UnicodeDecodeError as error:
                yield self.problem(number, f"not UTF-8: {error.reason} (byte {error.start + 1} of the line)")
            except FormatError as error:
                cut = "" if line.endswith(b"\n") else "; the file ends in the middle of this line"
                yield self.problem(number, f"{error}{cut}")
