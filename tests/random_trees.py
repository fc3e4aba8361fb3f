"""Random trees: as data, and built in the library with leaves that are plain, async, delayed or shared."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from rubrics import (
    AllOf,
    AnyOf,
    Clip,
    Fallback,
    Gate,
    Invert,
    Map,
    Product,
    Rubric,
    Scale,
    Score,
    Sequential,
    Switch,
    Threaded,
    Timeout,
    WeightedSum,
)
from tests.leaves import AsyncFixed, Fixed, Judged
from tests.reference import Spec


class Added(Rubric):
    def __init__(self, children: list[Rubric]) -> None:
        super().__init__()
        self.order = [f"part_{i}" for i in range(len(children))]
        for name, child in zip(self.order, children, strict=True):
            setattr(self, name, child)
        if any(child.is_async_tree for child in children):
            self.is_async = True

    def forward(self, action: Any, observation: Any) -> Any:
        return self.later(action, observation) if self.is_async else self.now(action, observation)

    def now(self, action: Any, observation: Any) -> Any:
        total = 0.0
        for name in self.order:
            score = getattr(self, name)(action, observation)
            if score is None:
                return None
            total += score
        return total

    async def later(self, action: Any, observation: Any) -> Any:
        total = 0.0
        for name in self.order:
            child = getattr(self, name)
            score = child(action, observation)
            score = await score if child.is_async_tree else score
            if score is None:
                return None
            total += score
        return total


def square(value: float) -> float:
    return value * value


class Choice:
    def __init__(self, chosen: int) -> None:
        self.chosen = chosen

    def __call__(self, action: Any, observation: Any) -> str:
        return f"case_{self.chosen}"


def build(spec: Spec, leaf: Callable[[Any, Any], Rubric]) -> Rubric:
    kind, children, *parameters = spec
    if kind == "leaf":
        return leaf(children, parameters[0])
    parts = [build(child, leaf) for child in children]
    if kind == "sum":
        weights, normalize, on_unscored = parameters
        return WeightedSum(parts, weights, normalize=normalize, on_unscored=on_unscored)
    if kind == "switch":
        return Switch(Choice(parameters[0]), {f"case_{i}": part for i, part in enumerate(parts)})
    if kind == "added":
        return Added(parts)
    if kind == "map":
        return Map(parts[0], square)
    if kind == "timeout":
        return Timeout(parts[0], 60)
    make: dict[str, Callable[..., Rubric]] = {
        "sequential": Sequential,
        "all": AllOf,
        "any": AnyOf,
        "product": Product,
        "fallback": Fallback,
        "gate": Gate,
        "scale": Scale,
        "clip": Clip,
        "invert": Invert,
        "threaded": Threaded,
    }
    return make[kind](*parts, *parameters)


def plain(before: Any, at_end: Any) -> Rubric:
    return Fixed(before)


def asynchronous(turns: random.Random, share: float = 1.0) -> Callable[[Any, Any], Rubric]:
    """Leaves that take a random number of turns of the loop; some may be plain."""

    def leaf(before: Any, at_end: Any) -> Rubric:
        return AsyncFixed(before, turns.randrange(6)) if turns.random() < share else Fixed(before)

    return leaf


def delayed(judge: type[Judged]) -> Callable[[Any, Any], Rubric]:
    def leaf(before: Any, at_end: Any) -> Rubric:
        return judge(at_end, float(before)) if isinstance(before, Score) else Fixed(before)

    return leaf


# Random trees

numbers = st.integers(-4, 12).map(lambda eighths: eighths / 8)
leaf_specs = st.one_of(
    numbers.map(lambda value: ("leaf", value, value)),
    numbers.map(lambda value: ("leaf", value, value)),
    st.just(("leaf", None, None)),
    st.tuples(numbers, st.one_of(numbers, st.none())).map(lambda ends: ("leaf", Score(ends[0], pending=True), ends[1])),
)


def weights_for(children: list[Spec]) -> st.SearchStrategy[Spec]:
    each = st.integers(-3, 5)
    weights = st.lists(each, min_size=len(children), max_size=len(children)).filter(lambda ws: max(ws) > 0)
    return st.tuples(
        st.just("sum"),
        st.just(children),
        weights,
        st.just("positive"),
        st.sampled_from(["unscored", "renormalize"]),
    )


def nodes(inner: st.SearchStrategy[Spec], waiting: bool) -> st.SearchStrategy[Spec]:
    single = inner.map(lambda child: [child])
    several = st.lists(inner, min_size=1, max_size=4)
    kinds = [
        several.flatmap(weights_for),
        st.tuples(st.just("sequential"), st.lists(inner, max_size=4)),
        st.tuples(st.sampled_from(["all", "any", "product", "added"]), several),
        several.flatmap(lambda cs: st.tuples(st.just("switch"), st.just(cs), st.integers(0, len(cs) - 1))),
        st.tuples(st.just("fallback"), single, numbers),
        st.tuples(st.just("fallback"), st.lists(inner, min_size=2, max_size=2)),
        st.tuples(st.just("gate"), single, numbers),
        st.tuples(st.just("scale"), single, numbers, numbers),
        st.tuples(st.just("clip"), single, st.just(0.25), st.just(0.75)),
        st.tuples(st.sampled_from(["invert", "map"]), single),
    ]
    if waiting:
        kinds.append(st.tuples(st.sampled_from(["timeout", "threaded"]), single))
    return st.one_of(kinds)


specs = st.recursive(leaf_specs, lambda inner: nodes(inner, waiting=False), max_leaves=10)
waiting_specs = st.recursive(leaf_specs, lambda inner: nodes(inner, waiting=True), max_leaves=10)


def with_sharing(leaf: Callable[[Any, Any], Rubric]) -> Callable[[Any, Any], Rubric]:
    """Equal leaves are one node."""
    made: dict[str, Rubric] = {}

    def shared(before: Any, at_end: Any) -> Rubric:
        key = repr((before, at_end))
        if key not in made:
            made[key] = leaf(before, at_end)
        return made[key]

    return shared
