"""Trajectory files: one reader a format, found by what a file holds.

    for item in read(["runs.jsonl", "airline.json"]):
        if isinstance(item, FormatProblem):
            print(item)          # airline.json:812: reward: expected a number, found "1"
        else:
            score(item)          # a Trajectory

A record that cannot be read is reported with its file and line and never hides the others. A reader for another format
is one function with a decorator, see `reader`.
"""

from typing import TYPE_CHECKING

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed
from rubrics.formats.reading import read
from rubrics.formats.registry import Reader, formats, reader
from rubrics.formats.source import Source

if TYPE_CHECKING:
    from rubrics.formats.jsonl import write_jsonl
    from rubrics.formats.tables import write_parquet

__all__ = [
    "FormatError",
    "FormatProblem",
    "Parsed",
    "Reader",
    "Source",
    "formats",
    "read",
    "reader",
    "write_jsonl",
    "write_parquet",
]


def __getattr__(name: str) -> object:
    if name == "write_jsonl":  # brings pydantic
        from rubrics.formats.jsonl import write_jsonl

        return write_jsonl
    if name == "write_parquet":
        from rubrics.formats.tables import write_parquet

        return write_parquet
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
