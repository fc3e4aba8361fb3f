"""Combinators: each is a rule over the outcomes of its children, and only that.

A rule is two small functions, `stop(value)` (no further child is needed) and `combine(values)`, plus flags that say
how the children are run. The sync, the async and the replaying driver share them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import fsum, inf, isclose, isfinite, prod
from typing import Any, ClassVar, Literal, TypeAlias

from rubrics.engine.plan import CONTAINER, CUSTOM, HOLDER
from rubrics.rubric import Rubric
from rubrics.score import CaseError, InvalidScoreError, Outcome, Score, StructureError, Unscored, is_pending

Children: TypeAlias = "Sequence[Rubric] | Mapping[str, Rubric]"
Normalize: TypeAlias = Literal["total", "positive"]


def _named(rubrics: Children, who: str) -> dict[str, Rubric]:
    """Children by name: a mapping's keys, or `rubric_0`, `rubric_1`, … as in OpenEnv."""
    if isinstance(rubrics, Mapping):
        named = dict(rubrics)
    else:
        named = {f"rubric_{i}": rubric for i, rubric in enumerate(rubrics)}
    for name, rubric in named.items():
        if not isinstance(rubric, Rubric):
            raise StructureError(f"{who}: child {name!r} is {rubric!r} ({type(rubric).__name__}), not a Rubric")
    return named


def _spread(rubrics: tuple[Any, ...], who: str) -> dict[str, Rubric]:
    """Children given one by one, as one list or as one mapping."""
    if len(rubrics) == 1 and not isinstance(rubrics[0], Rubric) and isinstance(rubrics[0], (Sequence, Mapping)):
        return _named(rubrics[0], who)
    return _named(rubrics, who)


def _number(value: Any, name: str, who: str) -> float:
    """A finite number, not a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise StructureError(f"{who}: {name} must be a finite number, got {value!r}")
    return float(value)


class _Holder(Rubric):
    """What holds children under names, with a length, iteration and indexing that follow the one registry."""

    def __len__(self) -> int:
        return len(self._rubric_children)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._rubric_children.values()))

    def __getitem__(self, index: Any) -> Any:
        return list(self._rubric_children.values())[index]


class Container(_Holder):
    """A node whose score follows from its children's by a rule. Subclass it for a rule of your own.

    Attributes:
        concurrent: whether async children run at once; otherwise children run in order.
        stops: whether `stop` can end the evaluation before the last child.
        catches: whether an exception of the first child counts as unscored.
        routes: whether one child is chosen, by `route(action, observation)`.
        around: None, or an async method that runs the one child in its own way.
    """

    concurrent: ClassVar[bool] = True
    stops: ClassVar[bool] = False
    catches: bool = False
    routes: ClassVar[bool] = False
    around: Callable[[Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]] | None = None

    def __init__(self, children: Mapping[str, Rubric]) -> None:
        super().__init__()
        for name, child in children.items():
            self._add_child(name, child)

    def stop(self, value: Outcome) -> bool:
        """Whether this outcome of a child makes the ones that have not run unnecessary."""
        return False

    def combine(self, values: list[Outcome]) -> Outcome:
        """The outcome, from those of the children that ran, in order."""
        raise NotImplementedError

    def route(self, action: Any, observation: Any) -> str:
        """The name of the child to run."""
        raise NotImplementedError

    def shares(self, values: list[Outcome | None]) -> list[float]:
        """How much of each child's score the combined score holds; 0 where the rule is not linear in it (opaque).

        Args:
            values: the children's outcomes, None where one has none.
        """
        return [0.0] * len(values)

    def forward(self, action: Any, observation: Any) -> Any:
        """The rule, for subclasses whose own `forward` builds on it:

        the score, or a coroutine where a child is async.
        """
        if self.is_async_tree:
            return self._forward_async(action, observation)
        if self.routes:
            return self._rubric_children[self.route(action, observation)](action, observation)
        values: list[Outcome] = []
        for child in self:
            values.append(_outcome(child(action, observation)))
            if self.stop(values[-1]):
                break
        return self._answer(values)

    async def _forward_async(self, action: Any, observation: Any) -> Any:
        values: list[Outcome] = []
        children = [self._rubric_children[self.route(action, observation)]] if self.routes else list(self)
        for child in children:
            value = child(action, observation)
            values.append(_outcome(await value if child.is_async_tree else value))
            if self.stop(values[-1]):
                break
        return self._answer(values)

    def _answer(self, values: list[Outcome]) -> Any:
        outcome = self.combine(values)
        if isinstance(outcome, Unscored):
            raise outcome
        return outcome

    def _kind(self) -> str:
        return CONTAINER if type(self).forward is Container.forward and "forward" not in self.__dict__ else CUSTOM


def _outcome(value: Any) -> Outcome:
    return Unscored() if value is None else value


def _first_unscored(values: Sequence[Outcome]) -> Unscored | None:
    return next((value for value in values if isinstance(value, Unscored)), None)


def _pending_if(value: float, values: Sequence[Outcome]) -> Outcome:
    """Mark a combined value as pending where one of its parts is."""
    return Score(value, pending=True) if any(is_pending(part) for part in values) else value


def _numbers(values: Sequence[Outcome]) -> list[float]:
    return [float(value) for value in values]  # type: ignore[arg-type]


def _below(value: Outcome) -> bool:
    """A settled score that is not positive: a failed check, or a penalty."""
    if value.__class__ is float:
        return value <= 0.0
    return not isinstance(value, Unscored) and not is_pending(value) and value <= 0.0


class WeightedSum(Container):
    """Σ weight · score, rounded once.

    Args:
        rubrics: a list, or a mapping whose keys become the names.
        weights: in the same shape; finite.
        normalize: None: the weights must sum to 1. `"total"`: divide by their sum, which must not be 0. `"positive"`:
            divide by the sum of the positive ones; for points with penalties, such as [10, 5, -15].
        on_unscored: `"unscored"`: one unscored child makes the sum unscored, with `metadata["bounds"]`, the least and
            the greatest value it could have had. `"renormalize"`: scale the positive part by (positive weights) /
            (positive weights
            that were scored); penalties keep their weight, and with no positive weight scored the sum is unscored.

    A pending child counts with its intermediate reward and makes the sum pending.
    """

    state_fields = ("weights",)
    normalize: Normalize | None = None
    on_unscored: Literal["unscored", "renormalize"] = "unscored"
    _weights: Mapping[str, float] = {}
    _parts: Sequence[tuple[float, float]] = ()
    _divisor: float = 1.0

    def __init__(
        self,
        rubrics: Children,
        weights: Sequence[float] | Mapping[str, float],
        normalize: Normalize | None = None,
        on_unscored: Literal["unscored", "renormalize"] = "unscored",
    ) -> None:
        named = _named(rubrics, "WeightedSum")
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
        checked = {name: _number(weight, f"the weight of {name!r}", "WeightedSum") for name, weight in by_name.items()}
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
        self._parts = [_halves(weight) for weight in weights]
        self._divisor = 1.0
        if self.normalize == "total":
            self._divisor = fsum(weights)
        elif self.normalize == "positive":
            self._divisor = fsum(weight for weight in weights if weight > 0.0)

    def combine(self, values: list[Outcome]) -> Outcome:
        split = _SPLIT
        terms: list[float] = []
        add = terms.extend
        for (wh, wl), s in zip(self._parts, values):  # noqa: B905 (strict costs time, and the lengths are checked)
            if s.__class__ is not float:
                return self._combine_mixed(values)
            high = split * s
            high -= high - s
            low = s - high
            add((wh * high, wl * high, wh * low, wl * low))
        return _rounded(terms, self._parts, values) / self._divisor  # type: ignore[arg-type]

    def _combine_mixed(self, values: list[Outcome]) -> Outcome:
        if _first_unscored(values) is None:
            return _pending_if(_dot(self._parts, _numbers(values)) / self._divisor, values)
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
            total = _dot([_halves(w) for w, _ in kept], [v for _, v in kept]) / self._divisor
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


_SPLIT = 134217729.0  # 2**27 + 1: halves a float so that products of halves are exact (Veltkamp, Dekker 1971)


_TINY = 1e-290


def _halves(x: float) -> tuple[float, float]:
    high = _SPLIT * x
    high -= high - x
    return high, x - high


def _dot(weights: Sequence[tuple[float, float]], scores: Sequence[float]) -> float:
    """The exact Σ w·s, rounded once: the products of halves are exact, and `fsum` rounds their exact sum."""
    terms: list[float] = []
    for (wh, wl), s in zip(weights, scores, strict=True):
        high, low = _halves(s)
        terms += (wh * high, wl * high, wh * low, wl * low)
    return _rounded(terms, weights, scores)


def _rounded(terms: list[float], weights: Sequence[tuple[float, float]], scores: Sequence[float]) -> float:
    """The sum of exact products; where they may have overflowed or underflowed, the sum in fractions."""
    try:
        total = fsum(terms)
    except (OverflowError, ValueError):
        total = inf
    if total - total == 0.0 and not (-_TINY < total < _TINY and any(scores)):
        return total
    try:
        return float(
            sum((Fraction(wh) + Fraction(wl)) * Fraction(s) for (wh, wl), s in zip(weights, scores, strict=True))
        )
    except (OverflowError, ValueError):
        return inf  # refused by the engine, with the node's path


class Gate(Container):
    """The child's score if it reaches the threshold (within float rounding), else 0.

    Args:
        rubric: the child.
        threshold: the least score that passes. A score within 1e-9 (relative) or 1e-12 (absolute) of it passes.
    """

    state_fields = ("threshold",)
    _threshold: float = 1.0

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__(_named({"rubric": rubric}, "Gate"))
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        """The least score that passes."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = _number(value, "threshold", "Gate")

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
        _exactly_one(self)


def _exactly_one(node: Container) -> None:
    if len(node) != 1:
        raise StructureError(f"{type(node).__name__} has one child, not {len(node)}: {list(node._rubric_children)}")


class Sequential(Container):
    """Children in order: the first score that is not positive ends it and is the answer; else the last child's score.

    A 0 stays 0 and a penalty stays a penalty. It also stops, pending or unscored, at the first child that is. Empty:
    1.0.
    """

    concurrent = False
    stops = True

    def __init__(self, *rubrics: Any) -> None:
        super().__init__(_spread(rubrics, "Sequential"))

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
        super().__init__(_spread(rubrics, type(self).__name__))
        self._validate_structure()

    def _validate_structure(self) -> None:
        if not len(self):
            raise StructureError(f"{type(self).__name__}: there are no children; the rule says nothing about none")

    def combine(self, values: list[Outcome]) -> Outcome:
        unscored = _first_unscored(values)
        if unscored is not None:
            return Unscored(unscored.reason, unscored.metadata)
        return _pending_if(self.rule(_numbers(values)), values)

    def rule(self, scores: list[float]) -> float:
        raise NotImplementedError


class AllOf(_Several):
    """0 as soon as one child's score is not positive (the others are cancelled), else the minimum."""

    stops = True

    def stop(self, value: Outcome) -> bool:
        return _below(value)

    def combine(self, values: list[Outcome]) -> Outcome:
        return 0.0 if any(_below(value) for value in values) else super().combine(values)

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
            (:class:`~rubrics.score.CaseError`).
    """

    concurrent = False
    routes = True
    key: Any = None
    _has_default: bool = False

    def __init__(
        self, key: Callable[[Any, Any], str], rubrics: Mapping[str, Rubric], default: Rubric | None = None
    ) -> None:
        cases = _named(rubrics, "Switch")
        if default is not None:
            if "default" in cases:
                raise StructureError("Switch: a case is named 'default' and a default is given; rename the case")
            cases["default"] = default
        super().__init__(_named(cases, "Switch"))
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


class _Single(Container):
    """A change of one child's score."""

    def __init__(self, rubric: Rubric) -> None:
        super().__init__(_named({"rubric": rubric}, type(self).__name__))

    def _validate_structure(self) -> None:
        _exactly_one(self)

    def combine(self, values: list[Outcome]) -> Outcome:
        value = values[0]
        if value.__class__ is not float and (isinstance(value, Unscored) or is_pending(value)):
            return self.passed_on(value)
        return self.change(float(value))

    def passed_on(self, value: Outcome) -> Outcome:
        """What becomes of a pending or unscored outcome."""
        return value

    def change(self, score: float) -> float:
        """The rule."""
        raise NotImplementedError


class Scale(_Single):
    """factor · score + offset; the intermediate reward of a pending child is scaled too."""

    state_fields = ("factor", "offset")
    factor: float = 1.0
    offset: float = 0.0

    def __init__(self, rubric: Rubric, factor: float, offset: float = 0.0) -> None:
        super().__init__(rubric)
        self.factor = _number(factor, "factor", "Scale")
        self.offset = _number(offset, "offset", "Scale")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _number(value, name, "Scale") if name in self.state_fields else value)

    def change(self, score: float) -> float:
        return self.factor * score + self.offset

    def passed_on(self, value: Outcome) -> Outcome:
        if isinstance(value, Score):
            return Score(self.change(float(value)), value.reason, value.metadata, pending=True)
        return value

    def shares(self, values: list[Outcome | None]) -> list[float]:
        return [self.factor]

    @property
    def range(self) -> tuple[float, float]:
        low, high = sorted(self.change(end) for end in self[0].range)
        return low, high


class Clip(_Single):
    """The score, held within [low, high]."""

    state_fields = ("low", "high")
    low: float = 0.0
    high: float = 1.0

    def __init__(self, rubric: Rubric, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__(rubric)
        self.low, self.high = _number(low, "low", "Clip"), _number(high, "high", "Clip")
        self._validate_structure()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _number(value, name, "Clip") if name in self.state_fields else value)

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


class Invert(_Single):
    """1 - score."""

    def change(self, score: float) -> float:
        return 1.0 - score

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        return 1.0 - high, 1.0 - low


class Map(_Single):
    """function(score).

    Args:
        rubric: the child.
        function: from a float to a number.
        range: of the result, for bounds.
    """

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
        super().__init__(_named(children, "Fallback"))
        self.value = None if isinstance(other, Rubric) else _number(other, "other", "Fallback")
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


class _Around(_Single):
    """An async node that runs its one child in its own way and passes the outcome on."""

    is_async = True

    def combine(self, values: list[Outcome]) -> Outcome:
        return values[0]

    def shares(self, values: list[Outcome | None]) -> list[float]:
        return [1.0]

    @property
    def range(self) -> tuple[float, float]:
        low, high = self[0].range
        return low, high

    def _own_async(self) -> bool:
        return True


class Timeout(_Around):
    """The child's outcome, or unscored where it takes longer.

    An async child is cancelled. A sync child runs in a worker thread, which nothing can interrupt: it is left to
    finish alone, and what it answers then is ignored.

    Args:
        rubric: the child.
        seconds: wall-clock seconds, positive.
    """

    state_fields = ("seconds",)
    _seconds: float = 1.0

    def __init__(self, rubric: Rubric, seconds: float) -> None:
        super().__init__(rubric)
        self.seconds = seconds

    @property
    def seconds(self) -> float:
        """Wall-clock seconds."""
        return self._seconds

    @seconds.setter
    def seconds(self, value: float) -> None:
        value = _number(value, "seconds", "Timeout")
        if value <= 0.0:
            raise StructureError(f"Timeout: seconds must be positive, got {value}")
        self._seconds = value

    async def around(self, child: Callable[[], Awaitable[Outcome]]) -> Outcome:
        import asyncio

        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await child()
        except TimeoutError:
            if not limit.expired():
                raise
            return Unscored(f"timed out after {self._seconds:g} s")


class Threaded(_Around):
    """A child that blocks, run in a worker thread so that nothing waits for it but its parent."""

    async def around(self, child: Callable[[], Awaitable[Outcome]]) -> Outcome:
        return await child()


class _Collection(_Holder):
    """Holds children for a parent's custom forward; it does not aggregate."""

    def forward(self, action: Any, observation: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} holds rubrics and does not combine them; call one of them in a parent's forward"
        )

    def __bool__(self) -> bool:
        return bool(self._rubric_children)

    def _kind(self) -> str:
        return HOLDER


class RubricList(_Collection):
    """A list of rubrics, like `nn.ModuleList`; a parent's `forward` calls them."""

    def __init__(self, rubrics: Sequence[Rubric] | None = None) -> None:
        super().__init__()
        self.extend(rubrics or ())

    def append(self, rubric: Rubric) -> None:
        """Add a rubric at the end."""
        taken = [int(name[7:]) for name in self._rubric_children if name.startswith("rubric_") and name[7:].isdigit()]
        self._add_child(*_named({f"rubric_{max(taken, default=-1) + 1}": rubric}, "RubricList").popitem())

    def extend(self, rubrics: Sequence[Rubric]) -> None:
        """Add rubrics at the end."""
        for rubric in rubrics:
            self.append(rubric)

    def __setitem__(self, index: int, rubric: Rubric) -> None:
        name = list(self._rubric_children)[index]
        self._add_child(*_named({name: rubric}, "RubricList").popitem())

    def __delitem__(self, index: int) -> None:
        delattr(self, list(self._rubric_children)[index])


class RubricDict(_Collection):
    """Rubrics by key, like `nn.ModuleDict`; a parent's `forward` calls them."""

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        super().__init__()
        self.update(rubrics or {})

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._add_child(*_named({key: rubric}, "RubricDict").popitem())

    def __getitem__(self, key: str) -> Rubric:
        return self._rubric_children[key]

    def __delitem__(self, key: str) -> None:
        if key not in self._rubric_children:
            raise KeyError(key)
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self._rubric_children

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._rubric_children))

    def keys(self) -> Iterator[str]:
        """The keys."""
        return iter(list(self._rubric_children))

    def values(self) -> Iterator[Rubric]:
        """The rubrics."""
        return iter(list(self._rubric_children.values()))

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """(key, rubric) pairs."""
        return iter(list(self._rubric_children.items()))

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add or replace rubrics."""
        for name, rubric in rubrics.items():
            self[name] = rubric
