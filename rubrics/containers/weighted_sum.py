"""`WeightedSum`, and sums that are rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Literal, TypeAlias

from rubrics.containers.container import (
    Children,
    Container,
    finite_number,
    first_unscored,
    named_children_of,
    numbers,
    pending_if,
)
from rubrics.containers.exact import dot, written_out
from rubrics.score import Outcome, Score, StructureError, Unscored, is_pending

Normalize: TypeAlias = Literal["total", "positive"]


class WeightedSum(Container):
    """Σ weight · score, rounded once.

    Args:
        rubrics: a list, or a mapping whose keys become the names.
        weights: in the same shape; finite.
        normalize: None: the weights must sum to 1. `"total"`: divide by their sum, which must not be 0. `"positive"`:
            divide by the sum of the positive ones; for points with penalties, such as [10, 5, -15].
        on_unscored: `"unscored"`: one unscored child makes the sum unscored, with `metadata["bounds"]`, the least and
            the greatest value it could have had. `"renormalize"`: scale the positive part by (positive weights) /
            (positive weights that were scored); penalties keep their weight, and with no positive weight scored the
            sum is unscored.

    A pending child counts with its intermediate reward and makes the sum pending.
    """

    state_fields = ("weights",)
    normalize: Normalize | None = None
    on_unscored: Literal["unscored", "renormalize"] = "unscored"
    _weights: Mapping[str, float] = {}
    _divisor: float = 1.0

    def __init__(
        self,
        rubrics: Children,
        weights: Sequence[float] | Mapping[str, float],
        normalize: Normalize | None = None,
        on_unscored: Literal["unscored", "renormalize"] = "unscored",
    ) -> None:
        named = named_children_of(rubrics, "WeightedSum")
        if isinstance(rubrics, Mapping) != isinstance(weights, Mapping):
            raise StructureError("WeightedSum: rubrics and weights must have one shape, two lists or two mappings")
        if isinstance(weights, Mapping):
            if set(weights) != set(named):
                raise StructureError(
                    f"WeightedSum: keys of weights {list(weights)} must match keys of rubrics {list(named)}"
                )
            by_name = {name: weights[name] for name in named}
        else:
            if len(weights) != len(named):
                raise StructureError(
                    f"WeightedSum: number of rubrics ({len(named)}) must match number of weights ({len(weights)})"
                )
            by_name = dict(zip(named, weights, strict=True))
        if normalize not in (None, "total", "positive"):
            raise StructureError(f"WeightedSum: normalize is None, 'total' or 'positive', not {normalize!r}")
        if on_unscored not in ("unscored", "renormalize"):
            raise StructureError(f"WeightedSum: on_unscored is 'unscored' or 'renormalize', not {on_unscored!r}")
        super().__init__(named)
        self.normalize = normalize
        self.on_unscored = on_unscored
        self._set_weights(by_name)

    @property
    def weights(self) -> list[float]:
        """The weights as given, in the order of the children (a copy)."""
        return [self._weights[name] for name in self._rubric_children if name in self._weights]

    @weights.setter
    def weights(self, weights: Sequence[float] | Mapping[str, float]) -> None:
        names = list(self._rubric_children)
        by_name = dict(weights) if isinstance(weights, Mapping) else dict(zip(names, weights, strict=False))
        if set(by_name) != set(names) or len(weights) != len(names):
            raise StructureError(f"WeightedSum: {len(weights)} weights for the children {names}")
        self._set_weights(by_name)

    def _set_weights(self, by_name: Mapping[str, float]) -> None:
        checked = {
            name: finite_number(weight, f"the weight of {name!r}", "WeightedSum") for name, weight in by_name.items()
        }
        self._check(list(checked.values()))
        self._weights = checked
        self._changed()

    def _check(self, weights: list[float]) -> None:
        if not weights:
            raise StructureError("WeightedSum: there are no children; an empty sum says nothing")
        total = fsum(weights)
        if self.normalize is None and abs(total - 1.0) > 1e-6:
            raise StructureError(
                f"WeightedSum: weights must sum to 1.0, got {total}; for points, use normalize='total' or 'positive'"
            )
        if self.normalize == "total" and total == 0.0:
            raise StructureError("WeightedSum: the weights sum to 0, so they cannot be normalised by their total")
        if self.normalize == "positive" and not any(weight > 0.0 for weight in weights):
            raise StructureError(
                "WeightedSum: no weight is positive, so they cannot be normalised by the positive ones"
            )

    def _validate_structure(self) -> None:
        missing = [name for name in self._rubric_children if name not in self._weights]
        if missing:
            raise StructureError(f"WeightedSum: child {missing[0]!r} has no weight; assign .weights for all children")
        weights = self.weights
        self._check(weights)
        self._divisor = 1.0
        if self.normalize == "total":
            self._divisor = fsum(weights)
        elif self.normalize == "positive":
            self._divisor = fsum(weight for weight in weights if weight > 0.0)

    def combine(self, values: list[Outcome]) -> Outcome:
        for value in values:
            if value.__class__ is not float:
                return self._combine_mixed(values)
        return dot(self.weights, numbers(values)) / self._divisor

    def compiled(self) -> Callable[[list[Outcome]], Outcome]:
        return written_out(self.weights, self._divisor, self.combine)

    def _combine_mixed(self, values: list[Outcome]) -> Outcome:
        if first_unscored(values) is None:
            return pending_if(dot(self.weights, numbers(values)) / self._divisor, values)
        names = list(self._rubric_children)
        lost = [name for name, value in zip(names, values, strict=True) if isinstance(value, Unscored)]
        reason = "; ".join(
            f"{name} is unscored: {value.reason or 'no reason given'}"
            for name, value in zip(names, values, strict=True)
            if isinstance(value, Unscored)
        )
        if self.on_unscored == "renormalize" and (scale := self._scale(values)) is not None:
            weights = [w * scale if w > 0.0 else w for w in self.weights]
            kept = [(w, float(v)) for w, v in zip(weights, values, strict=True) if not isinstance(v, Unscored)]
            total = dot([w for w, _ in kept], [v for _, v in kept]) / self._divisor
            pending = any(is_pending(value) for value in values)
            return Score(total, f"renormalised without {', '.join(lost)}", {"renormalized": lost}, pending)
        return Unscored(reason, {"bounds": self._bounds(values)})

    def _scale(self, values: Sequence[Outcome | None]) -> float | None:
        """(positive weights) / (positive weights that were scored); None where none was."""
        positive = [w for w in self.weights if w > 0.0]
        scored = [
            w
            for w, v in zip(self.weights, values, strict=True)
            if w > 0.0 and v is not None and not isinstance(v, Unscored)
        ]
        return fsum(positive) / fsum(scored) if scored else None

    def _bounds(self, values: Sequence[Outcome | None]) -> list[float]:
        low, high = [], []
        for child, weight, value in zip(self, self.weights, values, strict=True):
            if value is None or isinstance(value, Unscored) or is_pending(value):
                ends = sorted(weight * end for end in child.range)
            else:
                ends = [weight * value] * 2
            low.append(ends[0])
            high.append(ends[1])
        return sorted((fsum(low) / self._divisor, fsum(high) / self._divisor))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value, from the ranges of the children."""
        self._validate_structure()
        low, high = self._bounds([None] * len(self))
        return low, high

    def shares(self, values: list[Outcome | None]) -> list[float]:
        scale: float | None = 1.0
        if any(value is None or isinstance(value, Unscored) for value in values):
            scale = self._scale(values)
        return [(w * (scale or 0.0) if w > 0.0 else w) / self._divisor for w in self.weights]

    def extra_repr(self) -> str:
        parts = [f"weights={self.weights}"]
        if self.normalize:
            parts.append(f"normalize={self.normalize!r}")
        if self.on_unscored != "unscored":
            parts.append(f"on_unscored={self.on_unscored!r}")
        return ", ".join(parts)
