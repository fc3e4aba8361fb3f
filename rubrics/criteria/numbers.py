"""Criteria of numbers: equal within a tolerance, in a range, in units; a choice of several; equal as mathematics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubrics.criteria.base import ReferenceCheck, TextCheck, inside, library
from rubrics.criteria.quantities import Found, numbers_in, registry_of, unit_of
from rubrics.criteria.values import Value, quoted
from rubrics.score import Score, StructureError, Unscored

Pick = Literal["only", "first", "last"]


class _NumberCheck(TextCheck):
    """A leaf that looks at one number of a text."""

    def __init__(self, pick: Pick, decimal: Literal[".", ","], of: str, within: str | None) -> None:
        super().__init__(of, within)
        if pick not in ("only", "first", "last"):
            raise StructureError(f"{type(self).__name__}: pick is 'only', 'first' or 'last', not {pick!r}")
        if decimal not in (".", ","):
            raise StructureError(f"{type(self).__name__}: decimal is '.' or ',', not {decimal!r}")
        self.pick: Pick = pick
        self.decimal: Literal[".", ","] = decimal

    def number_in(self, text: str) -> Found | Score:
        """The number that is meant, or the score of a text that has none."""
        found = numbers_in(text, self.decimal)
        if not found:
            return Score(0.0, f"there is no number in {quoted(text, 80)}")
        if self.pick == "only" and len({(each.value, each.unit) for each in found}) > 1:
            return Score(0.0, f"there are {len(found)} numbers; one was asked for")
        return found[-1] if self.pick == "last" else found[0]


class NumericEqual(_NumberCheck):
    """Whether a number is the expected one, within a tolerance.

    Args:
        expected: the number; or expected_from, a path to it: a number, or a text that is one, such as `"10 km"`, in
            whose unit it is then compared.
        relative, absolute: it may be off by relative · |expected| or by absolute, whichever is more.
        unit: of the expected number, such as `km/h`; a number in another unit of its kind is converted, and one without
            a unit counts as being in this one, unless need_unit. Needs the extra `math`.
        need_unit: whether the unit must be written.
        pick: which number of the text is meant; with `only`, several different ones score 0: they are a guess.
        decimal: the decimal mark.
        of, within: see `TextCheck`.

    Source of units: pint.
    """

    def __init__(
        self,
        expected: float | None = None,
        expected_from: str | None = None,
        relative: float = 1e-9,
        absolute: float = 0.0,
        unit: str | None = None,
        need_unit: bool = False,
        pick: Pick = "only",
        decimal: Literal[".", ","] = ".",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(pick, decimal, of, within)
        if (expected is None) == (expected_from is None):
            raise StructureError("NumericEqual: give either expected or expected_from")
        if expected is not None and not math.isfinite(expected):
            raise StructureError(f"NumericEqual: expected is a finite number, not {expected}")
        if relative < 0.0 or absolute < 0.0:
            raise StructureError("NumericEqual: tolerances are 0 or more")
        self.expected, self.expected_from = expected, expected_from
        self.relative, self.absolute, self.unit, self.need_unit = relative, absolute, unit, need_unit
        self._reference  # noqa: B018
        if unit is not None:
            pint = library("pint", "math", self)
            try:
                registry_of(self).parse_units(unit)
            except (pint.PintError, ArithmeticError, TypeError, ValueError) as error:
                raise StructureError(f"NumericEqual: {unit!r} is no unit: {error}") from None

    @cached_property
    def _reference(self) -> Value | None:
        return None if self.expected_from is None else Value(self.expected_from)

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        expected = self._expected(action, observation, task)
        text = self._value.text(action, observation, task)
        if self.within is not None:
            said = inside(text, self.within)
            if said is None:
                return Score(0.0, f"there is no <{self.within}>")
            text = said
        found = self.number_in(text)
        if isinstance(found, Score):
            return found
        value = self._converted(found, expected.unit)
        if isinstance(value, Score):
            return value
        if abs(value - expected.value) <= max(self.relative * abs(expected.value), self.absolute):
            return 1.0
        return Score(0.0, f"it says {value:.12g}, and {expected.value:.12g} is expected")

    def _expected(self, action: Any, observation: Any, task: Any) -> Found:
        """The expected number in the unit that it bears, or else in `unit`."""
        if self._reference is None:
            return Found(float(self.expected), self.unit or "")  # type: ignore[arg-type]
        value = self._reference.read(action, observation, task)
        if isinstance(value, str):
            found = numbers_in(value)
            if len(found) == 1:
                unit = found[0].unit
                return found[0] if unit and unit_of(unit, self) is not None else Found(found[0].value, self.unit or "")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return Found(float(value), self.unit or "")
        raise Unscored(f"{self.expected_from} is no number")

    def _converted(self, found: Found, unit: str) -> float | Score:
        if not unit:
            return found.value
        written = unit_of(found.unit, self) if found.unit else None
        if written is None:
            if self.need_unit:
                return Score(0.0, f"it says no unit; {unit} is expected")
            return found.value
        pint, registry = library("pint", "math", self), registry_of(self)
        wanted = registry.parse_units(unit) if unit == self.unit else unit_of(unit, self)
        try:
            return float(registry.Quantity(found.value, written).to(wanted).magnitude)
        except (pint.PintError, ArithmeticError):  # of another kind, or degrees within a product
            return Score(0.0, f"{found.unit} is no unit like {unit}")


class InRange(_NumberCheck):
    """Whether a number lies in a range.

    Args:
        least, most: the bounds, both allowed; None for no bound.
        pick, decimal: as for `NumericEqual`.
        of, within: see `TextCheck`.
    """

    def __init__(
        self,
        least: float | None = None,
        most: float | None = None,
        pick: Pick = "only",
        decimal: Literal[".", ","] = ".",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(pick, decimal, of, within)
        if least is None and most is None:
            raise StructureError("InRange: give least, most or both")
        if least is not None and most is not None and least > most:
            raise StructureError(f"InRange: least ({least}) is above most ({most})")
        self.least, self.most = least, most

    def score_text(self, text: str) -> float | Score:
        found = self.number_in(text)
        if isinstance(found, Score):
            return found
        low = self.least is not None and found.value < self.least
        high = self.most is not None and found.value > self.most
        return Score(0.0, f"it says {found.value:g}, which is too {'low' if low else 'high'}") if low or high else 1.0


class MathEqual(ReferenceCheck):
    """Whether an answer is the expected one as mathematics: `1/2`, `0.5` and `\\frac{1}{2}` are equal.

    The comparison runs in a process of its own, with limits on time and memory: no answer hangs a step, in any thread.
    It takes some milliseconds; in async code, wrap the leaf in `rubrics.Threaded`.

    Args:
        expected, expected_from, of, within: see `ReferenceCheck`.
        seconds: for one comparison; an answer that takes longer scores 0.

    Source: math-verify (Hugging Face), on sympy.
    """

    extra: ClassVar[str | None] = "math"

    def __init__(
        self,
        expected: str | Sequence[str] | None = None,
        expected_from: str | None = None,
        seconds: float = 5.0,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(expected, expected_from, of, within)
        if not 0.0 < seconds <= 3600.0:
            raise StructureError(f"MathEqual: seconds is above 0, not {seconds}")
        self.seconds = seconds

    def _require(self) -> None:
        library("math_verify", "math", self)

    def score_pair(self, text: str, reference: str) -> float | Score:
        if text.strip() == reference.strip():
            return 1.0
        from rubrics.criteria.mathematics import equal

        verdict = equal(text, reference, self.seconds)
        if verdict == "unreadable reference":
            raise Unscored(f"the expected answer {quoted(reference, 80)} is no mathematics")
        return Score(float(verdict == "equal"), None if verdict == "equal" else f"it is {verdict}")
