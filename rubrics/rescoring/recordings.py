"""The recordings that rows were made from, found again: by what they hold, whatever file they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rubrics.formats import read
from rubrics.rescoring.content import content_hash
from rubrics.rescoring.rows import Row
from rubrics.trajectory import Trajectory


class Recordings:
    """Looks for the trajectories of some rows.

    Args:
        files: trajectory files to look in; None for those that the rows name as their source.

    Attributes:
        missing: after `find`, why a trajectory was not found, by id.
    """

    def __init__(self, files: Iterable[str | Path] | None = None) -> None:
        self.files = None if files is None else [Path(file) for file in files]
        self.missing: dict[str, str] = {}

    def find(self, rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Trajectory]]:
        """The id of a row and its trajectory, as they are found: the one that holds what the row was made from.

        A row of a run that recorded no hash is matched by id.
        """
        wanted: dict[str, list[str]] = {}
        files: dict[Path, None] = {}
        for id, row in rows:
            wanted.setdefault(row.content or f"id:{id}", []).append(id)
            where = (row.source or {}).get("path")
            if self.files is not None:
                self.missing[id] = "none of the files that were given holds this trajectory as it was scored"
            elif not isinstance(where, str):
                self.missing[id] = "the row does not say which file it was read from"
            elif not Path(where).exists():
                self.missing[id] = f"its recording is not at hand: there is no {where} here"
            else:
                self.missing[id] = f"{where} does not hold this trajectory as it was scored"
                files[Path(where)] = None
        for file in files if self.files is None else self.files:
            if not wanted:
                return
            for item in read(file):
                if isinstance(item, Trajectory):
                    ids = wanted.pop(content_hash(item), None) or wanted.pop(f"id:{item.id}", None) or ()
                    for id in ids:
                        del self.missing[id]
                        yield id, item
