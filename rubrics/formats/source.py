"""An input file as a stream of records, and of the problems with those that are none."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any

from rubrics.formats.array import documents, elements
from rubrics.formats.compression import SUFFIXES, damage, open_decompressed
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, parse
from rubrics.formats.tables import is_table, rows
from rubrics.trajectory import Trajectory

_HEAD = 4096
_SAMPLE = 100  # records looked at, at most, to find out what a file is


class Source:
    """One input file, or a folder that its reader takes as a whole. It is read as a stream, as often as asked.

    Text is UTF-8, with or without a byte order mark; what is compressed with gzip or Zstandard is decompressed,
    whatever its name. `line` is the line of the record that was read last.
    """

    def __init__(self, path: str | Path, format: str = "") -> None:
        self.path = Path(path)
        self.format = format
        self.line: int | None = None

    @property
    def stem(self) -> str:
        """The name of the file without what it says of its encoding: `airline` of `airline.json.gz`."""
        return Path(uncompressed_name(self.path)).stem

    def problem(self, line: int | None, message: str) -> FormatProblem:
        return FormatProblem(str(self.path), line, message)

    def open(self) -> BufferedReader:
        """The bytes of the file, decompressed. What is compressed can be read once, from the start."""
        return open_decompressed(self.path)

    def head(self) -> bytes:
        """The first few thousand bytes, decompressed."""
        with self.open() as file:
            return file.read(_HEAD)

    def records(self) -> Iterator[Parsed | FormatProblem]:
        """The records of the file, whatever its encoding, and a problem for what is none.

        They are the rows of a table (Parquet, Arrow), else the elements if the file is one JSON array, else one JSON
        value a line, else JSON values over several lines, as they are written for people. Raises FormatError where the
        rest of the file cannot be read.
        """
        with self.open() as file:
            try:
                for record in self._rows(file) if is_table(file.peek(8)) else self._json(file):
                    self.line = record.line
                    yield record
            except FormatError as error:
                if reason := damage(file):
                    raise FormatError(f"{reason}; {error}", error.line) from None
                raise
            if reason := damage(file):
                raise FormatError(reason, self.line)

    def each(
        self, convert: Callable[[Parsed], Trajectory], records: Iterable[Parsed | FormatProblem] | None = None
    ) -> Iterator[Trajectory | FormatProblem]:
        """Every record through `convert`, which raises FormatError for a bad one; the others are not affected.

        `records` are those of the file, unless the episodes of the format are something else: parts of one record, or
        made of several.

        A trajectory whose record does not say where it was recorded gets this file and line as its `source`. Places
        where the file had NaN or ±Infinity, read as null, are listed in its metadata under "not_finite".
        """
        return self.each_of(lambda record: (convert(record),), records)

    def each_of(
        self, convert: Callable[[Parsed], Iterable[Trajectory]], records: Iterable[Parsed | FormatProblem] | None = None
    ) -> Iterator[Trajectory | FormatProblem]:
        """Like `each`, for a format whose records hold any number of episodes."""
        for record in self.records() if records is None else records:
            if isinstance(record, FormatProblem):
                yield record
            else:
                yield from self.converted(record, convert)

    def converted(
        self, record: Parsed, convert: Callable[[Parsed], Iterable[Trajectory]]
    ) -> Iterator[Trajectory | FormatProblem]:
        """What `each_of` does with one record, for a format that puts its records together itself."""
        try:
            for trajectory in convert(record):
                if trajectory.source is None:
                    trajectory.source = {"format": self.format, "path": str(self.path), "line": record.line}
                if record.not_finite:
                    trajectory.metadata["not_finite"] = record.not_finite
                yield trajectory
        except FormatError as error:
            yield self.problem(error.line or record.line, str(error))
        except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            yield self.problem(record.line, f"not the shape of a record of this format: {error!r}")

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

    def _rows(self, file: BufferedReader) -> Iterator[Parsed | FormatProblem]:
        for row in rows(file):
            yield self.problem(row.line, str(row)) if isinstance(row, FormatError) else row

    def _json(self, file: BufferedReader) -> Iterator[Parsed | FormatProblem]:
        number = _skip_to_json(file)
        if file.peek(1)[:1] == b"[":
            yield from elements(file, number)
            return
        line = file.readline()
        first = self._parsed(line, number)
        if isinstance(first, FormatProblem) and line.startswith(b"{") and file.peek(1):
            yield from self._documents(file, number, line)
            return
        yield first
        yield from self._lines(file, number + 1)

    def _lines(self, file: BufferedReader, number: int) -> Iterator[Parsed | FormatProblem]:
        for count, line in enumerate(file, number):
            if not line.isspace():
                yield self._parsed(line, count)

    def _documents(self, file: BufferedReader, number: int, line: bytes) -> Iterator[Parsed | FormatProblem]:
        """What starts with a line that is no JSON by itself: values over several lines, or lines and a bad one."""
        last = 0
        try:
            for value in documents(file, number, line):
                yield value
                last = value.line
        except FormatError as error:
            yield from self._lines_behind(last, error)

    def _lines_behind(self, last: int, error: FormatError) -> Iterator[Parsed | FormatProblem]:
        """The lines behind the last good value, if one of the first of them is a record; else raises the error."""
        bad: list[FormatProblem] = []
        with self.open() as again:
            lines = self._lines(again, _skip_to_json(again))
            behind = (each for each in lines if (each.line or 0) > last)
            for each in islice(behind, _SAMPLE):
                if isinstance(each, FormatProblem):
                    bad.append(each)
                elif isinstance(each.value, dict) and each.value:
                    yield from bad or (self.problem(error.line, str(error)),)
                    yield each
                    yield from lines
                    return
        raise error

    def _parsed(self, line: bytes, number: int) -> Parsed | FormatProblem:
        try:
            return parse(line, number)
        except UnicodeDecodeError as error:
            return self.problem(number, f"not UTF-8: {error.reason} (byte {error.start + 1} of the line)")
        except FormatError as error:
            cut = "" if line.endswith(b"\n") else "; the file ends in the middle of this line"
            return self.problem(number, f"{error}{cut}")


def uncompressed_name(path: Path) -> str:
    """The name of a file without the suffix that compression gave it."""
    return path.stem if path.suffix in SUFFIXES else path.name


def _skip_to_json(file: BufferedReader) -> int:
    """Skips what stands before the first value, and returns the line that it starts at."""
    start = file.peek(3)[:3]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FormatError("the file is UTF-16; convert it to UTF-8", 1)
    if start == codecs.BOM_UTF8:
        file.read(3)
    line = 1
    while (character := file.peek(1)[:1]).isspace():
        file.read(1)
        line += character == b"\n"
    if not character:
        raise FormatError(damage(file) or "the file is empty", 1)
    return line
