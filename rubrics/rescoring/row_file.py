"""The rows of a run by id, without holding them: a large run is compared, or looked up, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rubrics.formats.parsing import FormatError
from rubrics.rescoring.rows import Row, row_data, row_of


class RowFile(Mapping[str, Row]):
    """A file that a run wrote, as a mapping from the ids of its trajectories to their rows.

    Only places in the file are held; a row is read again whenever it is asked for. Records that could not be read have
    no id, and are counted instead.

    Attributes:
        path: the file.
        unreadable: number of rows of records that could not be read.

    Raises:
        FormatError: a line is no row, or two rows have one id; it names the file and the lines.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.unreadable = 0
        self._places: dict[str, tuple[int, int]] = {}  # offset and number of the line
        offset = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.isspace():
                    self._note(row_data(line, path, number)["id"], offset, number)
                offset += len(line)

    def _note(self, id: object, offset: int, number: int) -> None:
        if id is None:
            self.unreadable += 1
        elif not isinstance(id, str):
            raise FormatError(f"{self.path}:{number}: an id is a text, not {id!r}", number)
        elif id in self._places:
            raise FormatError(
                f"{self.path}:{number}: the id {id!r} has a row at line {self._places[id][1]} already; a run has one "
                "row for each trajectory, so leave out the one that is out of date",
                number,
            )
        else:
            self._places[id] = offset, number

    def __getitem__(self, id: str) -> Row:
        offset, number = self._places[id]
        with self.path.open("rb") as file:
            file.seek(offset)
            data = row_data(file.readline(), self.path, number)
        if data["id"] != id:
            raise FormatError(f"{self.path}:{number}: the file was changed while it was read", number)
        return row_of(data, self.path, number)

    def __contains__(self, id: object) -> bool:  # without reading the row
        return id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
