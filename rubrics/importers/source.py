"""Reading rubrics from elsewhere: files, data, the names of nodes, and grades."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rubrics.containers import WeightedSum
from rubrics.node import _INTERNAL
from rubrics.rubric import Rubric
from rubrics.score import RubricError, StructureError
from rubrics.spec.documents import Document, SpecError, line_in_json

Grades = Mapping[str, Any] | str | Path
_TAKEN = frozenset(_INTERNAL).union(dir(WeightedSum))  # what a child may not be called


class ImporterError(RubricError, ValueError):
    """A source cannot be read, or is no rubric of that kind; the message says where, and what was expected."""


class Source:
    """The data of a source, and where its parts stand.

    Args:
        given: a path (`.json`, `.yaml`, `.yml`, `.toml`), a text of several lines, or the data itself.
        what: how what is no file is called in messages.
        text: what a text is, unless it begins as JSON does.
    """

    def __init__(self, given: Any, what: str = "the data", text: Literal["yaml", "toml"] = "yaml") -> None:
        self._line: Callable[[Sequence[str | int]], int] | None = None
        if not isinstance(given, str | Path):
            self.where, self.data = what, given
        elif isinstance(given, str) and "\n" in given:
            self.where = what
            self._parse(given, "json" if re.match(r"\s*(\{|\[\s*[{\]])", given) else text)
        else:
            self.where = str(given)
            self._parse(_text_of(Path(given)), Path(given).suffix.lower().removeprefix("."))

    def _parse(self, text: str, form: str) -> None:
        try:
            if form == "toml":
                self.data, self._line = tomllib.loads(text), partial(_line_in_toml, text)
            elif form == "json":
                self.data, self._line = json.loads(text), partial(line_in_json, text)
            elif form in ("yaml", "yml"):
                document = Document(text, self.where)
                self.data, self._line = document.data, document.line
            else:
                raise ImporterError(
                    f"{self.where}: a rubric is kept in a file that ends in .json, .yaml, .yml or .toml"
                )
        except SpecError as error:
            raise ImporterError(str(error)) from None
        except tomllib.TOMLDecodeError as error:
            raise ImporterError(f"{self.where}: it is no TOML: {error}") from None
        except json.JSONDecodeError as error:
            raise ImporterError(f"{self.where}:{error.lineno}: it is no JSON: {error.msg}") from None

    def fault(self, place: Sequence[str | int], message: str) -> ImporterError:
        """What to raise where a part is wrong."""
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
        line = "" if self._line is None else f":{self._line(place)}"
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

    def number(
        self,
        item: Mapping[str, Any],
        key: str,
        default: float | None,
        place: Sequence[str | int],
        low: float = -math.inf,
        high: float = math.inf,
    ) -> float:
        """A finite number of an object, not outside of low and high.

        Raises:
            ImporterError: there is none.
        """
        value = item.get(key, default)
        place = (*place, key) if key in item else place
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(place, f"{key} must be a number, not {value!r:.80}")
        if not math.isfinite(value) or not low <= value <= high:
            bounds = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
            wanted = bounds if math.isfinite(low) else "a finite number"
            raise self.fault(place, f"{key} must be {wanted}, not {value!r}")
        return float(value)

    def grade(
        self, value: Any, place: Sequence[str | int] = (), answers: Mapping[str, float | None] | None = None
    ) -> float | None:
        """A grade as a number: true is 1, and None is none.

        Args:
            answers: what else may be said, whatever its case, and what it is worth.

        Raises:
            ImporterError: it is neither, nor a number from 0 to 1.
        """
        if value is None:
            return None
        if isinstance(value, str):
            folded = {answer.strip().casefold(): worth for answer, worth in (answers or {}).items()}
            if value.strip().casefold() in folded:
                return folded[value.strip().casefold()]
        elif isinstance(value, int | float) and 0.0 <= value <= 1.0:
            return float(value)
        said = "".join(f", {answer}" for answer in answers or ())
        raise self.fault(place, f"a grade is a number from 0 to 1, true or false{said}; not {value!r:.80}")

    def require_known(self, keys: Iterable[Any], known: Iterable[str], place: Sequence[str | int] = ()) -> None:
        """Refuse names of what is not there: a grade that reaches nobody is a mistake.

        Raises:
            ImporterError: there are such.
        """
        if unknown := sorted({str(key) for key in keys}.difference(known)):
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            named = ", ".join(f"{key!r:.60}" for key in unknown[:3])
            raise self.fault(place, f"nothing in the rubric is called {named}{more}")

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
        if name in _TAKEN:
            name += "_"
        taken[name] = taken.get(name, 0) + 1
        while taken[name] > 1 and f"{name}_{taken[name]}" in taken:
            taken[name] += 1
        if taken[name] > 1:
            name = f"{name}_{taken[name]}"
            taken[name] = 1
        made.append(name)
    return made


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ImporterError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _line_in_toml(text: str, place: Sequence[str | int]) -> int:
    """The line of `table`, `table.key`, `list[number]` or `list[number].key`, or of what is there of it."""
    steps = list(place)
    table = str(steps[0]) if steps else ""
    several = len(steps) > 1 and isinstance(steps[1], int)
    skip = int(steps[1]) if several else 0
    key = str(steps[1 + several]) if len(steps) > 1 + several else None
    header = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*\]")
    found = 1
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("["):
            if inside:
                return found
            if header.match(line):
                inside, skip, found = skip == 0, skip - 1, number
        elif inside and key is not None and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return number
    return found
