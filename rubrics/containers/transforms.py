"""Changes of one child's score, and a second choice where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rubrics.containers.container import Container, finite_number, named_children_of, require_one_child
from rubrics.rubric import Rubric
from rubrics.score import Outcome, Score, StructureError, Unscored, is_pending


class Single(Container):
    """A change of one child's score."""

    def __init__(self, rubric: Rubric) -> None:
        super().__init__(named_children_of({"rubric": rubric}, type(self).__name__))

    def _validate_structure(self) -> None:
        require_one_child(self)

    monotone: ClassVar[bool] = True
    """Whether the change keeps (or turns round) the order of scores, so that bounds can be changed like a score."""

    def combine(self, values: list[Outcome]) -> Outcome:
        value = values[0]
        if value.__class__ is not float and (isinstance(value, Unscored) or is_pending(value)):
            return self.passed_on(value)
        return self.change(float(value))

    def passed_on(self, value: Outcome) -> Outcome:
        """What becomes of a pending or unscored outcome: bounds are those of the changed score."""
        if not isinstance(value, Unscored) or "bounds" not in value.metadata:
            return value
        rest = {name: kept for name, kept in value.metadata.items() if name != "bounds"}
        if self.monotone:
            rest["bounds"] = sorted(self.change(float(end)) for end in value.metadata["bounds"])
        return Unscored(value.reason, rest)

    def change(self, score: float) -> float:
        """The rule."""
        raise NotImplementedError


class Scale(Single):
    """factor · score + offset; the intermediate reward of a pending child is scaled too."""

    state_fields = ("factor", "offset")
    factor: float = 1.0
    offset: float = 0.0

    def __init__(self, rubric: Rubric, factor: float, offset: float = 0.0) -> None:
        super().__init__(rubric)
        self.factor = finite_number(factor, "factor", "Scale")
        self.offset = finite_number(offset, "offset", "Scale")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, finite_number(value, name, "Scale") if name in self.state_fields else value)

    def change(self, score: float) -> float:
        return self.factor * score + self.offset

    def passed_on(self, value: Outcome) -> Outcome:
        if isinstance(value, Score):
            return Score(self.change(float(value)), value.reason, value.metadata, pending=True)
        return super().passed_on(value)

    def shares(self, values: list[Outcome | None]) -> list[float]:
        return [self.factor]

    @property
    def range(self) -> tuple[float, float]:
        low, high = sorted(self.change(end) for end in self[0].range)
        return low, high


class Clip(Single):
    """The score, held within [low, high]."""

    state_fields = ("low", "high")
    low: float = 0.0
    high: float = 1.0

    def __init__(self, rubric: Rubric, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__(rubric)
        self.low, self.high = finite_number(low, "low", "Clip"), finite_number(high, "high", "Clip")
        self._validate_structure()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, finite_number(value, name, "Clip") if name in self.state_fields else value)

    def _load(self, state: dict[str, Any]) -> None:
        super()._load(state)
        self._validate_structure()

    def _validate_structure(self) -> None:
        super()._validate_structure()
        if self.low > self.high:
            raise StructureError(f"Clip: low ({self.low}) is above high ({self.high})")

    def change(self, score: float) -> float:
        return min(max(score, self.low), self.high)

    def shares(self, values: list[Outcome | None]) -> list[float]:
        value = values[0]
        inside = value is not None and not isinstance(value, Unscored) and self.low <= value <= self.high
        return [1.0 if inside else 0.0]

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        return self.change(low), self.change(high)


class Invert(Single):
    """1 - score."""

    def change(self, score: float) -> float:
        return 1.0 - score

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        return 1.0 - high, 1.0 - low


class Map(Single):
    """function(score).

    Args:
        rubric: the child.
        function: from a float to a number.
        range: of the result, for bounds.
    """

    monotone = False
    function: Any = None

    def __init__(
        self, rubric: Rubric, function: Callable[[float], float], range: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        super().__init__(rubric)
        self.function = function
        self.range = range

    def change(self, score: float) -> float:
        return self.function(score)  # type: ignore[no-any-return]


class Fallback(Container):
    """The child's outcome; where it is unscored, the other's.

    Args:
        rubric: tried first.
        other: a number or a rubric.
        on_error: also use the other where the child raises an exception.
    """

    concurrent = False
    stops = True
    value: float | None = None

    def __init__(self, rubric: Rubric, other: Rubric | float, on_error: bool = False) -> None:
        children = {"rubric": rubric}
        if isinstance(other, Rubric):
            children["other"] = other
        super().__init__(named_children_of(children, "Fallback"))
        self.value = None if isinstance(other, Rubric) else finite_number(other, "other", "Fallback")
        self.catches = on_error

    def stop(self, value: Outcome) -> bool:
        return not isinstance(value, Unscored)

    def combine(self, values: list[Outcome]) -> Outcome:
        value = values[-1]
        if isinstance(value, Unscored) and self.value is not None:
            return Score(self.value, f"fallback, because: {value.reason or 'unscored'}", {"fallback": True})
        return value

    def shares(self, values: list[Outcome | None]) -> list[float]:
        returned = next((i for i, v in enumerate(values) if v is not None and not isinstance(v, Unscored)), None)
        return [1.0 if i == returned else 0.0 for i in range(len(values))]

    @property
    def range(self) -> tuple[float, float]:
        ends = [end for child in self for end in child.range]
        if self.value is not None:
            ends.append(self.value)
        return min(ends), max(ends)

    def extra_repr(self) -> str:
        parts = [] if self.value is None else [f"other={self.value}"]
        return ", ".join([*parts, *(["on_error=True"] if self.catches else [])])
