"""Which rollouts are of one group, where nobody says what they share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any


def group_key(group: Any, source: Mapping[str, Any] | None) -> Any:
    """What the rollouts of one group have in common, given what their recordings say.

    A number counts within its file, since many formats number their tasks from 0: it comes with the file's path. Any
    other group, such as a task's name, is one wherever its members stand.

    Args:
        group: as recorded.
        source: where the trajectory was recorded or read. Without a line, as of a folder that holds one trajectory,
            the path is of no use.
    """
    path = (source or {}).get("path")
    if path is None or (source or {}).get("line") is None or not is_number(group):
        return group
    return path, group


def is_number(group: Any) -> bool:
    """Whether a group is a whole number, be it written as text."""
    return isinstance(group, int) or (isinstance(group, str) and group.isdecimal())


class Numbers:
    """Notes numbered groups, to tell where one number stands in several files."""

    def __init__(self) -> None:
        self._places: dict[Any, Any] = {}
        self._split: set[Any] = set()

    def add(self, group: Any, source: Mapping[str, Any] | None) -> None:
        """Note the group of one trajectory."""
        key = group_key(group, source)
        if isinstance(group, Hashable) and key is not group and self._places.setdefault(group, key) != key:
            self._split.add(group)

    @property
    def split(self) -> int:
        """How many numbers stand in several files, each of which is several groups."""
        return len(self._split)
