"""Files that several processes may want to write."""

from __future__ import annotations

from io import FileIO


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
