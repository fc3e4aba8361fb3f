"""Reading rubrics from elsewhere: files, data, the names of nodes, and grades."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrics.containers import WeightedSum
from rubrics.node import _INTERNAL
from rubrics.rubric import Rubric
from rubrics.score import RubricError, StructureError
from rubrics.spec.documents import Document, SpecError

Grades = Mapping[str, Any] | str | Path


class ImporterError(RubricError, ValueError):
    """A source cannot be read, or is no rubric of that kind; the message says where, and what was expected."""


class Source:
    """The data of a source, and where its parts stand.

    Args:
        given: a path (`.json`, `.yaml`, `.yml`, `.toml`), or the data itself.
    """

    def __init__(self, given: Any) -> None:
        self._document: Document | None = None
        if not isinstance(given, str | Path):
            self.where, self.data = "the data", given
            return
        path = Path(given)
        self.where = str(path)
        if path.suffix.lower() == ".toml":
            try:
                self.data = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise ImporterError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
            except tomllib.TOMLDecodeError as error:
                raise ImporterError(f"{path}: it is no TOML: {error}") from None
            return
        try:
            self.data = json.loads(path.read_text(encoding="utf-8-sig")) if path.suffix.lower() == ".json" else None
            if self.data is None:
                self._document = Document.read(path)
                self.data = self._document.data
        except SpecError as error:
            raise ImporterError(str(error)) from None
        except OSError as error:
            raise ImporterError(f"{path}: {error.strerror or error}") from None
        except ValueError as error:
            raise ImporterError(f"{path}: it is no JSON: {error}") from None

    def fault(self, place: Sequence[str | int], message: str) -> ImporterError:
        """What to raise where a part is wrong."""
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
        line = "" if self._document is None else f":{self._document.line(place)}"
        return ImporterError(f"{self.where}{line}: {f'{path}: ' if path else ''}{message}")

    def text(self, item: Mapping[str, Any], key: str, place: Sequence[str | int]) -> str:
        """A text of an object.

        Raises:
            ImporterError: there is none.
        """
        value = item.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fault((*place, key) if key in item else place, f"{key} must be a text, not {value!r:.80}")
        return value

    def number(self, item: Mapping[str, Any], key: str, default: float | None, place: Sequence[str | int]) -> float:
        """A number of an object.

        Raises:
            ImporterError: there is none.
        """
        value = item.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault((*place, key) if key in item else place, f"{key} must be a number, not {value!r:.80}")
        return float(value)

    def objects(self, value: Any, place: Sequence[str | int], what: str) -> list[Mapping[str, Any]]:
        """A list of objects, at least one.

        Raises:
            ImporterError: it is something else.
        """
        if not isinstance(value, list) or not value:
            raise self.fault(place, f"{what} must be a list with something in it, not {value!r:.80}")
        for number, item in enumerate(value):
            if not isinstance(item, Mapping):
                raise self.fault((*place, number), f"it must be an object, not {item!r:.80}")
        return value

    def summed(
        self,
        children: Mapping[str, Rubric],
        weights: Sequence[float],
        normalize: Any,
        place: Sequence[str | int] = (),
    ) -> WeightedSum:
        """A weighted sum of the children.

        Raises:
            ImporterError: the weights cannot be normalised so.
        """
        try:
            return WeightedSum(children, dict(zip(children, weights, strict=True)), normalize=normalize)
        except StructureError as error:
            raise self.fault(place, str(error)) from None


def names_of(wanted: Iterable[str]) -> list[str]:
    """Names for nodes, made of names or texts: short, each different, and none that a node has already."""
    made: list[str] = []
    taken: dict[str, int] = {}
    for text in wanted:
        slug = re.sub(r"\W+", "_", text.casefold()).strip("_")
        name = slug if len(slug) <= 40 else slug[:40].rpartition("_")[0] or slug[:40]
        name = name or "requirement"
        if name in _INTERNAL or inspect.getattr_static(WeightedSum, name, None) is not None:
            name += "_"
        taken[name] = taken.get(name, 0) + 1
        while taken[name] > 1 and f"{name}_{taken[name]}" in taken:
            taken[name] += 1
        if taken[name] > 1:
            name = f"{name}_{taken[name]}"
            taken[name] = 1
        made.append(name)
    return made


def grade_of(value: Any) -> float | None:
    """A grade as a number: true is 1; None where there is none."""
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) else None
