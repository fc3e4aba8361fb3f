"""JSON as trajectory files hold it: never a NaN, never half a value, always with the line it stands on."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from rubrics.score import RubricError


class FormatError(RubricError, ValueError):
    """A trajectory file, or one record of it, cannot be read or written; `line` counts from 1, None if unknown."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class FormatProblem:
    """What stands in a stream of trajectories in place of something that could not be read."""

    path: str
    line: int | None
    message: str

    @property
    def place(self) -> str:
        """The file and, where it is known, the line: `runs.jsonl:3`."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """One JSON value and its line. `not_finite` are the places where the file had NaN or ±Infinity, here None."""

    line: int
    value: Any
    not_finite: list[str] = field(default_factory=list)


_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))


def parse(data: bytes, line: int) -> Parsed:
    """One JSON value. Raises FormatError with what is wrong and where in the text; UnicodeDecodeError."""
    if not _has_long_number(data):  # which would come out rounded, beyond 64 bits
        with suppress(orjson.JSONDecodeError):
            return Parsed(line, orjson.loads(data))
    text = data.decode()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg} (column {error.colno})", line) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets within brackets
        raise FormatError(f"JSON that cannot be read: {error}", line) from None
    return checked(value, text, line)


def _has_long_number(data: bytes) -> bool:
    """Whether there are 19 digits in a row: if so, two neighbours among every ninth byte are digits, which is rare."""
    return b"00" in data[::9].translate(_DIGITS) and b"0" * 19 in data.translate(_DIGITS)


def checked(value: Any, text: str, line: int) -> Parsed:
    """A value decoded from this text. JSON has no NaN, but Python and others write it; looking for it is cheap."""
    if "NaN" not in text and "Infinity" not in text:
        return Parsed(line, value)
    places: list[str] = []
    return Parsed(line, finite(value, places), places)


def finite(value: Any, places: list[str], place: str = "") -> Any:
    """Plain JSON data with None for every float that is not finite, and the places of those appended to `places`."""
    if isinstance(value, float) and not math.isfinite(value):
        places.append(place)
        return None
    dot = f"{place}." if place else ""
    if isinstance(value, dict):
        return {key: finite(item, places, f"{dot}{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item, places, f"{dot}{index}") for index, item in enumerate(value)]
    return value


def json_line(value: Any) -> bytes:
    """One line of JSONL. Raises ValueError for a float that is not finite."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def number(value: Any, place: str) -> float | None:
    """A recorded number, or None where there is none. Raises FormatError, naming the place, for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{place}: expected a number, found {value!r:.60}")
    if (found := _float(value)) is None:
        raise FormatError(f"{place}: the number is too large, {value!r:.60}")
    return found


def numbers(values: Any) -> dict[str, float | None]:
    """The numbers in a mapping by name: None is one that was not scored, booleans are 1 and 0, the rest is left out."""
    if not isinstance(values, dict):
        return {}
    return {
        name: None if value is None else _float(value)
        for name, value in values.items()
        if value is None or isinstance(value, int | float)
    }


def _float(value: int | float) -> float | None:
    """None where it is too large for one, such as 1e999 or a whole number of hundreds of digits."""
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def expect_object(value: Any, place: str) -> dict[str, Any]:
    """An object of the file, {} where it is null. Raises FormatError, naming the place, for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object, found {value!r:.60}")
    return value


def expect_list(value: Any, place: str) -> list[Any]:
    """A list of the file, [] where it is null. Raises FormatError, naming the place, for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{place}: expected a list, found {value!r:.60}")
    return value
