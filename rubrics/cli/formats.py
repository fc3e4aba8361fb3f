"""`rubrics formats`: what can be read."""

from __future__ import annotations

import typer

from rubrics.formats import formats as known_formats
from rubrics.shown import printable


def formats() -> None:
    """List the formats of trajectory files that can be read, by the names that --format takes.

    A file's content decides its format, so a name is only needed where that is not wanted. Files may be compressed
    (gzip, Zstandard), and folders are read as a whole.
    """
    known = known_formats()
    width = max(map(len, known))
    for name, reader in sorted(known.items()):
        typer.echo(printable(f"{name:{width}}  {reader.description}").rstrip())
