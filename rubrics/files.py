"""Files that several processes may want to write, and files that nobody may."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what is to stand at a path. It gets there whole, when the block ends, or not at all.

    Links stay links. A pipe or a device is written as it is. Where the block writes nothing, nothing changes.

    Raises:
        OSError: it cannot be written; it names the path.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        yield path
        return
    part = target.with_name(f".{target.name}.{os.getpid()}.part")  # beside it: a move is whole within a file system
    try:
        yield part
        if part.exists():
            os.replace(part, target)
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) == part:
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)


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
