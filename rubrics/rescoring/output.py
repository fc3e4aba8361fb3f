"""The file of a run: rows are appended as they are done, by one process at a time, and put in order at the end."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from rubrics.files import input_of, locked
from rubrics.formats.parsing import FormatError
from rubrics.rescoring.rows import row_data
from rubrics.score import RubricError

Key = tuple[str | None, str | None, int]
"""What tells rows apart: the id and the content of the trajectory, and how many equal ones came before it."""


class OutputError(RubricError, OSError):
    """The file of a run cannot be used, or not written; the message says what to do."""


def refuse_inputs(path: Path, inputs: Iterable[str | Path]) -> None:
    """Raise OutputError where a file that is to be written is an input, or would be read as one."""
    given = input_of(path, inputs)
    if given is None:
        return
    if given.is_dir():
        raise OutputError(f"{path} lies in {given}, which is read: choose a place outside of it")
    raise OutputError(f"{path} is one of the inputs; recordings and rubrics are never overwritten")


@dataclass(slots=True)
class _Place:
    """Where a row stands in the file.

    Attributes:
        offset, length: in the file.
        position: its place in the input; None where that is not known.
        old: whether it was there before.
        again: whether it is to be made again; it stays until it has been.
    """

    offset: int
    length: int
    position: int | None = None
    old: bool = False
    again: bool = False


class Output:
    """The file of a run, open for writing. It is this process's until it is closed, and has at most one row a key.

    Args:
        path: the file.
        resume: keep the rows that are there already; else there may be none.
        overwrite: begin with an empty file.
        rubric: the fingerprint of the tree.
        refuse_others: whether rows of another tree are refused. Else they are set aside, into a file beside this one.
        again: which rows, as JSON values, are to be made again. Until they are, they stay.

    Attributes:
        good: number of rows that were there before and need not be made again.
        aside: the file with the rows of another tree; None where there were none.

    Raises:
        OutputError: the file is there and neither `resume` nor `overwrite` is given, is being written by another
            process, holds something else than such rows, or cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        resume: bool = False,
        overwrite: bool = False,
        rubric: str = "",
        refuse_others: bool = False,
        again: Callable[[Mapping[str, Any]], bool] = lambda data: False,
    ) -> None:
        self.path = Path(path)
        link = self.path.is_symlink()  # it stays one when the file is replaced
        self._target = self.path.resolve() if link else self.path
        self.rubric = rubric
        self.good = 0
        self.aside: Path | None = None
        self._places: dict[Key, _Place] = {}
        self._end = 0  # of the rows in the file
        self._replaced = False  # whether there are rows in it that others stand for
        self._file = self._taken()
        self._is_file = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        try:
            if not self._is_file:  # a pipe or a device: rows go there as they come
                return
            if overwrite:
                self._file.truncate(0)
            elif os.fstat(self._file.fileno()).st_size and not resume:
                raise OutputError(self._whose())
            else:
                self._load(again, refuse_others)
        except FormatError as error:
            self._file.close()
            raise OutputError(f"{error}; choose another file, or give --overwrite") from None
        except OSError as error:
            self._file.close()
            raise error if isinstance(error, OutputError) else self._failed(error) from None

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _taken(self) -> FileIO:
        """The file, held by this process."""
        while True:
            try:
                file = FileIO(self.path, "wb" if self._special() else "ab+")
            except OSError as error:
                raise self._failed(error) from None
            if not locked(file):
                file.close()
                raise OutputError(f"{self.path} is being written by another process")
            try:
                same = os.path.samestat(os.stat(self.path), os.fstat(file.fileno()))
            except FileNotFoundError:
                same = False
            if same:
                return file
            file.close()  # it was replaced by a process that has just finished

    def _special(self) -> bool:
        return self.path.exists() and not self.path.is_file()

    def _whose(self) -> str:
        """Why a file that is there is not written to."""
        with self.path.open("rb") as file:
            first = row_data(file.readline(), self.path, 1)
        if first.get("rubric") == self.rubric:
            return f"{self.path} holds a run of this rubric: give --resume to go on with it, or --overwrite"
        return f"{self.path} holds a run of another rubric: choose another file, or give --resume or --overwrite"

    def _load(self, again: Callable[[Mapping[str, Any]], bool], refuse_others: bool) -> None:
        stale = repeated = False
        offset = 0
        equal: Counter[str | None] = Counter()
        for line, data in self._lines():
            id, content = data["id"], data.get("content")
            if data.get("rubric") != self.rubric:
                if refuse_others:
                    raise OutputError(self._whose())
                stale = True
            else:
                key = (id, content, 0 if id is not None else equal[content])
                repeated = repeated or key in self._places  # a process died after it made this one again
                self._places.pop(key, None)
                self._places[key] = _Place(offset, len(line), old=True, again=again(data))
                equal[content] += id is None
            offset += len(line)
        self._file.truncate(offset)  # a process died while it wrote the last line
        self._end = offset
        self.good = sum(not place.again for place in self._places.values())
        if stale:
            self._set_aside()
        if stale or repeated:
            self._rewrite(list(self._places))

    def kept(self) -> Iterator[dict[str, Any]]:
        """The rows that were there before and still stand, as JSON values."""
        places = [place for place in self._places.values() if place.old]
        if not places:
            return
        with self.path.open("rb") as file:
            for place in places:
                file.seek(place.offset)
                yield row_data(file.read(place.length), self.path, 0)

    def _lines(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield line, row_data(line, self.path, number)

    def _set_aside(self) -> None:
        number, stem = 1, self._target.name.removesuffix(".jsonl")
        while (aside := self._target.with_name(f"{stem}.before{number}.jsonl")).exists():
            number += 1
        os.link(self._target, aside)
        self.aside = aside

    def has(self, key: Key, position: int) -> bool:
        """Whether a trajectory has its row already; where there is one, its place in the input is noted."""
        place = self._places.get(key)
        if place is not None:
            place.position = position
        return place is not None and not place.again

    def holds(self, key: Key) -> bool:
        """Whether there is a row for a trajectory, be it one that is to be made again."""
        return key in self._places

    def add(self, key: Key, line: bytes, position: int) -> None:
        """Write a row, as a line of JSON, also in the place of one that was there. It is in the file on return.

        Raises:
            OutputError: it cannot be written.
        """
        offset, rest = self._end, line
        try:
            while rest:  # the system may take a part at a time
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._failed(error) from None
        self._replaced = self._replaced or key in self._places
        self._places[key] = _Place(offset, len(line), position)
        self._end = offset + len(line)

    def finish(self) -> int:
        """Put the rows in the order of the input; those of trajectories that were not in it come last.

        Returns:
            The number of those.
        """
        known = [key for key, place in self._places.items() if place.position is not None]
        known.sort(key=lambda key: self._places[key].position or 0)
        others = [key for key, place in self._places.items() if place.position is None]
        order = [*known, *others]
        offsets = [self._places[key].offset for key in order]
        if self._is_file and (self._replaced or offsets != sorted(offsets)):
            self._rewrite(order)
        return len(others)

    def _rewrite(self, keys: list[Key]) -> None:
        """Replace the file by one with these rows in this order, at once."""
        temporary = self._target.with_name(f"{self._target.name}.tmp")
        try:
            with FileIO(temporary, "wb+") as new, self.path.open("rb") as old:
                offset = 0
                for key in keys:
                    place = self._places[key]
                    old.seek(place.offset)
                    line = old.read(place.length)
                    while line:
                        line = line[new.write(line) :]
                    place.offset, offset = offset, offset + place.length
                os.fsync(new.fileno())
            replacement = FileIO(temporary, "ab+")
            locked(replacement)
            os.replace(temporary, self._target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._failed(error) from None
        self._file.close()
        self._file, self._end = replacement, offset

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"{self.path} cannot be written: {error.strerror or error}")
