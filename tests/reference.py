"""The outcome table of the design, read once more: a tree as data, and a tiny interpreter in exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import pytest

from rubrics import Score

Spec = tuple[Any, ...]
"""A tree as data: (kind, children, parameters…); a leaf is ("leaf", answer before the end, answer at the end)."""

Outcome = tuple[str, Fraction | None]


def reference(spec: Spec, end: bool = False) -> Outcome:
    """The outcome of a tree without errors; `end`: what was pending is known now."""
    kind, children, *parameters = spec
    if kind == "leaf":
        value = parameters[0] if end else children
        if value is None:
            return "unscored", None
        return ("pending" if isinstance(value, Score) else "scored"), Fraction(float(value))
    return RULES[kind]([lambda child=child: reference(child, end) for child in children], *parameters)


def together(outcomes: list[Outcome], rule: Callable[[list[Fraction]], Fraction]) -> Outcome:
    """Unscored before pending before scored."""
    states = {state for state, _ in outcomes}
    if "unscored" in states:
        return "unscored", None
    values = [value for _, value in outcomes if value is not None]
    return ("pending" if "pending" in states else "scored"), rule(values)


def weighted(children: list[Callable[[], Outcome]], weights: list[int], normalize: str, on_unscored: str) -> Outcome:
    outcomes = [child() for child in children]
    divisor = Fraction(sum(w for w in weights if normalize == "total" or w > 0))
    parts = list(zip(weights, outcomes, strict=True))
    if on_unscored == "renormalize":
        positive = sum(w for w in weights if w > 0)
        scored = sum(w for w, (state, _) in parts if w > 0 and state != "unscored")
        if scored:
            parts = [part for part in parts if part[1][0] != "unscored"]
            parts = [(w * Fraction(positive, scored) if w > 0 else w, outcome) for w, outcome in parts]
    return together(
        [outcome for _, outcome in parts],
        lambda values: sum((w * v for (w, _), v in zip(parts, values, strict=True)), Fraction(0)) / divisor,
    )


def sequential(children: list[Callable[[], Outcome]]) -> Outcome:
    outcome: Outcome = ("scored", Fraction(1))
    for child in children:
        outcome = child()
        if outcome[1] is None or outcome[0] == "pending" or outcome[1] <= 0:
            break
    return outcome


def all_of(children: list[Callable[[], Outcome]]) -> Outcome:
    outcomes = [child() for child in children]
    if any(state == "scored" and value is not None and value <= 0 for state, value in outcomes):
        return "scored", Fraction(0)
    return together(outcomes, min)


def one(change: Callable[..., Fraction], pending_too: bool = False) -> Callable[..., Outcome]:
    def rule(children: list[Callable[[], Outcome]], *parameters: float) -> Outcome:
        state, value = children[0]()
        if value is None or (state == "pending" and not pending_too):
            return state, value
        return state, change(value, *map(Fraction, parameters))

    return rule


def gate(value: Fraction, threshold: Fraction) -> Fraction:
    near = max(Fraction(1, 10**9) * max(abs(value), abs(threshold)), Fraction(1, 10**12))
    return value if value >= threshold or abs(value - threshold) <= near else Fraction(0)


def added(children: list[Callable[[], Outcome]]) -> Outcome:
    """A custom forward that calls its children until one is unscored."""
    outcomes: list[Outcome] = []
    for child in children:
        outcomes.append(child())
        if outcomes[-1][1] is None:
            break
    return together(outcomes, lambda values: sum(values, Fraction(0)))


def fallback(children: list[Callable[[], Outcome]], number: float | None = None) -> Outcome:
    outcome = children[0]()
    if outcome[0] != "unscored":
        return outcome
    return children[1]() if number is None else ("scored", Fraction(number))


RULES: dict[str, Callable[..., Outcome]] = {
    "sum": weighted,
    "sequential": sequential,
    "all": all_of,
    "any": lambda children: together([child() for child in children], max),
    "product": lambda children: together([child() for child in children], lambda values: Fraction(prod(values))),
    "switch": lambda children, chosen: children[chosen](),
    "added": added,
    "fallback": fallback,
    "gate": one(gate),
    "scale": one(lambda value, factor, offset: factor * value + offset, pending_too=True),
    "clip": one(lambda value, low, high: min(max(value, low), high)),
    "invert": one(lambda value: 1 - value),
    "map": one(lambda value: value * value),
    "timeout": one(lambda value: value, pending_too=True),
    "threaded": one(lambda value: value, pending_too=True),
}


def same(answer: tuple[str, float | None], expected: Outcome) -> None:
    status, value = expected
    assert answer[0] == status
    assert answer[1] == (None if value is None else pytest.approx(float(value), rel=1e-9, abs=1e-9))
