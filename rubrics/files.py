"""Files that several processes may want to write, and files that nobody may."""

from __future__ import annotations

from collections.abc import Iterable
from io import FileIO
from pathlib import Path


def input_of(path: Path, inputs: Iterable[str | Path]) -> Path | None:
    """The file among the inputs that a path leads to, or the folder among them that it lies in; None where there is
    neither, so that the path may be written."""
    real = path.resolve()
    for given in map(Path, inputs):
        same = path.exists() and given.exists() and path.samefile(given)
        if same or given.resolve() in real.parents:
            return given
    return None


def locked(file: FileIO) -> bool:
    """Whether this process now holds the file for writing. It does until the file is closed, or the process dies."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
