"""Criteria of what a text cites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from rubrics.criteria.base import TextCheck, inside
from rubrics.criteria.values import Value, quoted, text_of
from rubrics.score import Score, StructureError, Unscored

_NUMERIC = re.compile(r"\[(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\]")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)  # where [1] is an index
_BRACKETS = re.compile(r"\(([^()]{4,400})\)")
# Names are possessive and begin where a word does, so that the time is in proportion to the text.
_NAME = r"(?<![\w'’.-])([^\W\d_][\w'’.-]{0,60}+)"
_YEAR = r"((?:19|20)\d\d)[a-z]?"
_IN_BRACKETS = re.compile(rf"\W{{0,4}}(?:(?:see|see also|cf\.|e\.g\.),?\s)?{_NAME}[^\d]{{0,200}}?[,\s]\s?{_YEAR}(?!\w)")
_IN_TEXT = re.compile(rf"{_NAME}(?:\set\sal\.?|\s(?:&|and)\s[^\W\d_][\w'’.-]{{0,60}}+)?\s\({_YEAR}\)")
_PARTICLES = frozenset({"al", "da", "de", "del", "der", "di", "el", "la", "le", "van", "von"})
_MONTHS = frozenset(
    {
        *("january", "february", "march", "april", "may", "june"),
        *("july", "august", "september", "october", "november", "december"),
    }
)


class Citations(TextCheck):
    """Whether a text cites, and what there is: the share of its citation markers that point to a source.

    Args:
        style: `numeric`, such as [1] and [2, 4-6], but not in code; or `author-year`, such as (Smith et al., 2020; Lee
            & Wu, 2019a) and Smith (2020), of which the first author and the year count.
        sources_from: a path to the list of sources. A number points to its place in the list, from 1; a name and a
            year to a source whose text has both. None: any marker will do.
        least: markers there must be; with fewer the score is 0.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        style: Literal["numeric", "author-year"] = "numeric",
        sources_from: str | None = None,
        least: int = 1,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if style not in ("numeric", "author-year") or least < 0:
            raise StructureError(
                f"Citations: style is 'numeric' or 'author-year' and least 0 or more, not {style!r}, {least}"
            )
        self.style, self.sources_from, self.least = style, sources_from, least
        self._sources  # noqa: B018

    @cached_property
    def _sources(self) -> Value | None:
        return None if self.sources_from is None else Value(self.sources_from)

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        sources = None if self._sources is None else self._sources.read(action, observation, task)
        if sources is not None and (isinstance(sources, str) or not hasattr(sources, "__len__")):
            raise Unscored(f"{self.sources_from} is no list")
        text: str | None = self._value.text(action, observation, task)
        if self.within is not None and (text := inside(str(text), self.within)) is None:
            return self._absent()
        text = _CODE.sub(" ", str(text))
        markers = list(dict.fromkeys(_numbers(text) if self.style == "numeric" else _names(text)))
        if len(markers) < self.least:
            return Score(0.0, f"it has {len(markers)} citation markers")
        if sources is None or not markers:
            return Score(1.0)
        texts = [] if self.style == "numeric" else [_words(source) for source in sources]
        bad = [marker for marker in markers if not self._points(marker, len(sources), texts)]
        said = f"no source for {quoted(', '.join(map(str, bad)))}" if bad else None
        return Score(1.0 - len(bad) / len(markers), said)

    def _points(self, marker: Any, count: int, texts: list[set[str]]) -> bool:
        if isinstance(marker, int):
            return 1 <= marker <= count
        name, year = marker.rsplit(" ", 1)
        return any({name.casefold(), year} <= text for text in texts)


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for marker in _NUMERIC.findall(text):
        for part in re.split(r"[,;]", marker):
            ends = [int(number) for number in re.findall(r"\d+", part)]
            found += range(ends[0], min(ends[-1], ends[0] + 200) + 1) if len(ends) == 2 else ends
    return found


def _names(text: str) -> list[str]:
    """First authors and years, in the order of the text."""
    found: list[tuple[int, str, str]] = []
    for brackets in _BRACKETS.finditer(text):
        cited = (_IN_BRACKETS.match(part) for part in brackets[1].split(";"))
        found += [(brackets.start(), one[1], one[2]) for one in cited if one]
    found += [(one.start(), one[1], one[2]) for one in _IN_TEXT.finditer(text)]
    return [f"{name.rstrip('.')} {year}" for _, name, year in sorted(found) if _is_name(name)]


def _is_name(word: str) -> bool:
    return word.casefold() not in _MONTHS and (not word[0].islower() or word in _PARTICLES)


def _words(source: Any) -> set[str]:
    said = " ".join(map(str, source.values())) if isinstance(source, Mapping) else text_of(source) or str(source)
    words = re.findall(r"[^\W_][\w'’-]*", said.casefold())
    return {word[:4] if re.fullmatch(r"\d{4}[a-z]", word) else word for word in words}
