"""Rules that decide which children count: gates, sequences, all, any, product, switch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import isclose, prod
from typing import Any

from rubrics.containers.container import (
    Container,
    children_given,
    finite_number,
    first_unscored,
    is_failed,
    named_children_of,
    numbers,
    pending_if,
    require_one_child,
)
from rubrics.rubric import Rubric
from rubrics.score import CaseError, InvalidScoreError, Outcome, StructureError, Unscored, is_pending


class Gate(Container):
    """The child's score if it reaches the threshold (within float rounding), else 0.

    Args:
        rubric: the child.
        threshold: the least score that passes. A score within 1e-9 (relative) or 1e-12 (absolute) of it passes.
    """

    state_fields = ("threshold",)
    _threshold: float = 1.0

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__(named_children_of({"rubric": rubric}, "Gate"))
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        """The least score that passes."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = finite_number(value, "threshold", "Gate")

    def combine(self, values: list[Outcome]) -> Outcome:
        value = values[0]
        if value.__class__ is not float and (isinstance(value, Unscored) or is_pending(value)):
            return value
        return value if self._passes(value) else 0.0

    def _passes(self, value: float) -> bool:
        return value >= self._threshold or isclose(value, self._threshold, rel_tol=1e-9, abs_tol=1e-12)

    def shares(self, values: list[Outcome | None]) -> list[float]:
        value = values[0]
        return [1.0 if value is not None and not isinstance(value, Unscored) and self._passes(value) else 0.0]

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        if low >= self._threshold:
            return low, high
        if high < self._threshold:
            return 0.0, 0.0
        return min(0.0, self._threshold), max(0.0, high)

    def _validate_structure(self) -> None:
        require_one_child(self)


class Sequential(Container):
    """Children in order: the first score that is not positive ends it and is the answer; else the last child's score.

    A 0 stays 0 and a penalty stays a penalty. It also stops, pending or unscored, at the first child that is. Empty:
    1.0.
    """

    concurrent = False
    stops = True

    def __init__(self, *rubrics: Any) -> None:
        super().__init__(children_given(rubrics, "Sequential"))

    def stop(self, value: Outcome) -> bool:
        if value.__class__ is float:
            return value <= 0.0
        return isinstance(value, Unscored) or is_pending(value) or value <= 0.0

    def combine(self, values: list[Outcome]) -> Outcome:
        return values[-1] if values else 1.0

    def shares(self, values: list[Outcome | None]) -> list[float]:
        known = [i for i, value in enumerate(values) if value is not None]
        return [1.0 if known and i == known[-1] else 0.0 for i in range(len(values))]

    @property
    def range(self) -> tuple[float, float]:
        if not len(self):
            return 1.0, 1.0
        return min(0.0, *(child.range[0] for child in self)), max(0.0, self[-1].range[1])


class _Several(Container):
    """Rules over any number of children of which at least one must be there."""

    def __init__(self, *rubrics: Any) -> None:
        super().__init__(children_given(rubrics, type(self).__name__))
        self._validate_structure()

    def _validate_structure(self) -> None:
        if not len(self):
            raise StructureError(f"{type(self).__name__}: there are no children; the rule says nothing about none")

    def combine(self, values: list[Outcome]) -> Outcome:
        unscored = first_unscored(values)
        if unscored is not None:
            return Unscored(unscored.reason, unscored.metadata)
        return pending_if(self.rule(numbers(values)), values)

    def rule(self, scores: list[float]) -> float:
        raise NotImplementedError


class AllOf(_Several):
    """0 as soon as one child's score is not positive (the others are cancelled), else the minimum."""

    stops = True

    def stop(self, value: Outcome) -> bool:
        return is_failed(value)

    def combine(self, values: list[Outcome]) -> Outcome:
        return 0.0 if any(is_failed(value) for value in values) else super().combine(values)

    def rule(self, scores: list[float]) -> float:
        return min(scores)

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, max(0.0, min(child.range[1] for child in self))


class AnyOf(_Several):
    """The maximum."""

    def rule(self, scores: list[float]) -> float:
        return max(scores)

    @property
    def range(self) -> tuple[float, float]:
        return max(child.range[0] for child in self), max(child.range[1] for child in self)


class Product(_Several):
    """The product."""

    def rule(self, scores: list[float]) -> float:
        return prod(sorted(scores))  # sorted: the order of the children must not change the rounding

    @property
    def range(self) -> tuple[float, float]:
        low, high = 1.0, 1.0
        for child in self:
            ends = [a * b for a in (low, high) for b in child.range]
            low, high = min(ends), max(ends)
        return low, high


class Switch(Container):
    """The child that `key(action, observation)` names.

    Args:
        key: returns one of the names.
        rubrics: children by name.
        default: for names that are not there; without it an unknown name is an error
            (`CaseError`).
    """

    concurrent = False
    routes = True
    key: Any = None
    _has_default: bool = False

    def __init__(
        self, key: Callable[[Any, Any], str], rubrics: Mapping[str, Rubric], default: Rubric | None = None
    ) -> None:
        cases = named_children_of(rubrics, "Switch")
        if default is not None:
            if "default" in cases:
                raise StructureError("Switch: a case is named 'default' and a default is given; rename the case")
            cases["default"] = default
        super().__init__(named_children_of(cases, "Switch"))
        self._validate_structure()
        if inspect.iscoroutinefunction(key):
            raise StructureError("Switch: key must be a plain function; an async one cannot be awaited here")
        self.key = key
        self._has_default = default is not None

    def _validate_structure(self) -> None:
        if not len(self):
            raise StructureError("Switch: there are no cases")

    def route(self, action: Any, observation: Any) -> str:
        name = self.key(action, observation)
        if inspect.isawaitable(name):
            getattr(name, "close", lambda: None)()
            raise InvalidScoreError("Switch: key handed back an awaitable; it must return the name of a case")
        if isinstance(name, str) and name in self._rubric_children:
            return name
        if self._has_default and "default" in self._rubric_children:
            return "default"
        raise CaseError(f"Switch: no case {name!r} and no default; the cases are {list(self._rubric_children)}")

    def combine(self, values: list[Outcome]) -> Outcome:
        return values[0]

    def shares(self, values: list[Outcome | None]) -> list[float]:
        return [0.0 if value is None else 1.0 for value in values]

    @property
    def range(self) -> tuple[float, float]:
        return min(child.range[0] for child in self), max(child.range[1] for child in self)
