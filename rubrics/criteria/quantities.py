"""Numbers in texts, and the units that follow them."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

from rubrics.criteria.base import library

_MARKS = str.maketrans(
    {
        **dict.fromkeys("−–‒﹣－", "-"),
        **dict.fromkeys("\u202f\u2009", "\u00a0"),
        **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff", ""),  # of direction
    }
)
_FRACTION = re.compile(r"(?:(?<![\w.,])(\d{1,9}) ?)?([¼½¾⅐-⅞↉])")
_TIMES_TEN = re.compile(r"(?<=\d)\s?[×x*·⋅]\s?10(?:\^\{?([-+]?\d{1,3})\}?|([⁺⁻]?[⁰¹²³⁴-⁹]{1,3}))(?!\w)")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_DATE = re.compile(r"(?<![\w.,])\d{1,4}-\d{1,2}-\d{1,4}(?![\w])")
_WORD = re.compile(r"\s\w")
_WORDS = frozenset({"a", "am", "are", "as", "at", "bar", "has", "in", "was"})  # units, unless a word follows


def _pattern(decimal: str, group: str) -> re.Pattern[str]:
    """Numbers with a decimal mark, and another mark, an apostrophe or a narrow space between groups of three digits."""
    grouped = rf"\d{{1,3}}(?:(?P<mark>[{group}'’\u00a0])\d{{3}})(?:(?P=mark)\d{{3}})*"
    fraction = rf"[{decimal}]\d+"
    number = rf"[-+]?(?:{grouped}(?:{fraction})?|\d+(?:{fraction})?|{fraction})(?:[eE][-+]?\d{{1,4}})?"
    return re.compile(rf"(?<![\w.,^])(?<!\^-){number}(?!\d|[.,]\d)")


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_UNIT = re.compile(r"\s?(°?[^\W\d_][^\W\d_]*(?:\s?[*/·^]\s?[-\w]+|[²³])*|[%‰°€$£])")


@dataclass(frozen=True, slots=True)
class Found:
    """A number in a text.

    Attributes:
        value: it.
        unit: what follows it and may be a unit; empty where nothing does.
    """

    value: float
    unit: str = ""


def numbers_in(text: str, decimal: Literal[".", ","] = ".") -> list[Found]:
    """The numbers of a text: `-3`, `1,234.5`, `1e-3`, `6 × 10²³`, `2½`, each with the unit that follows.

    Fractions such as 3/4, dates and versions are no numbers: a digit, a point or a letter beside a number makes it a
    part of something else.

    Args:
        decimal: the decimal mark; the other one may group digits by threes.
    """
    text = text.translate(_MARKS)
    if not text.isascii():
        text = _FRACTION.sub(_mixed, text)
    spelled = _DATE.sub(lambda date: " " * len(date[0]), _TIMES_TEN.sub(_exponent, text))
    group = "," if decimal == "." else "."
    found = []
    for match in _PATTERNS[decimal].finditer(spelled):
        before, after = spelled[max(match.start() - 1, 0) : match.start()], spelled[match.end() : match.end() + 2]
        if before in ("/", ":") or after.startswith("/") or re.match(r":\d", after):
            continue
        value = float(re.sub(f"[{group}'’\u00a0]", "", match.group()).replace(",", "."))
        unit = _UNIT.match(spelled, match.end())
        if unit is not None and unit[1] in _WORDS and _WORD.match(spelled, unit.end()):
            unit = None
        if math.isfinite(value):
            found.append(Found(value, unit[1] if unit else ""))
    return found


def _mixed(found: re.Match[str]) -> str:
    return repr(int(found[1] or 0) + unicodedata.numeric(found[2]))


def _exponent(found: re.Match[str]) -> str:
    return f"e{found[1] or found[2].translate(_SUPERSCRIPTS)}"


def unit_of(text: str, who: object) -> Any:
    """The unit of pint that a text such as `km/h` names; None where it names none.

    It is read here, since pint would work out what stands in a text, such as a power of powers.
    """
    powers: dict[str, int] = {}
    at, sign = 0, 1
    while at < len(text):
        factor = _FACTOR.match(text, at)
        name = None if factor is None else _unit_name(factor[1], who)
        if factor is None or name is None:
            return None
        powers[name] = powers.get(name, 0) + sign * int(factor[2] or 1)
        between = _BETWEEN.match(text, factor.end())
        at = factor.end() if between is None else between.end()
        if between is None and at < len(text):
            return None
        sign = -1 if between is not None and "/" in between[0] else 1
    registry = registry_of(who)
    return registry.Unit(registry.UnitsContainer(powers)) if powers else None


def registry_of(who: object) -> Any:
    """pint's registry of this application."""
    return library("pint", "math", who).get_application_registry()


_FACTOR = re.compile(r"([^\W\d]{1,40}|°[CF]?|[%‰])(?:\^?([-+]?[0-9])(?![\w.]))?(?!\w)")
_BETWEEN = re.compile(r"\s?[/*·]\s?(?=\S)")


def _unit_name(written: str, who: object) -> str | None:
    """pint's name of a unit; None where it knows none."""
    names = {"°": "degree", "°C": "degree_Celsius", "°F": "degree_Fahrenheit", "‰": "permille"}
    found = registry_of(who).parse_unit_name(names.get(written, written))
    return "".join(found[0]) if found else None
