"""What the tree itself shows, before anything is scored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rubrics.containers import AllOf, Fallback, Gate, Map, RubricDict, RubricList, Sequential, Timeout, WeightedSum
from rubrics.containers.container import Container
from rubrics.doctor.findings import Finding, found
from rubrics.node import is_ours
from rubrics.rubric import Rubric

SMALL = 1e-3
"""A node that moves a sum by less than this share of the sum's span cannot be told from noise by a trainer."""
_PROBES = 33  # points at which the function of a `Map` is looked at


def structural_findings(tree: Rubric) -> Iterator[Finding]:
    """What is wrong with a tree as it is built."""
    if isinstance(tree, RubricList | RubricDict):
        yield found("no-score", "", f"a {type(tree).__name__} holds rubrics and has no score")
    yield from _node(tree, "", timed=False)


def judges_of(node: Any) -> list[Any]:
    """The judges that a node asks. They are known by what they have: this package does not import them."""
    judge = getattr(node, "judge", None)
    each = {id(judge): judge for judge in getattr(judge, "judges", [judge]) if hasattr(judge, "asker")}
    return list(each.values())


def asks_models(tree: Rubric) -> bool:
    """Whether a node of a tree asks a model."""
    return bool(judges_of(tree)) or any(judges_of(node) for _, node in tree.named_rubrics())


def _node(node: Rubric, path: str, timed: bool) -> Iterator[Finding]:
    timed = timed or isinstance(node, Timeout)
    for look in (_declared, _gate, _sequence, _all_of, _sum, _fallback, _map, _judges):
        yield from look(node, path)
    if node._own_async() and not (timed or judges_of(node) or is_ours(type(node))):
        kind = type(node).__name__
        yield found(
            "no-timeout", path, f"{kind} is async and nothing limits its time: one call that hangs holds all up"
        )
    for name, child in node.named_children():
        yield from _node(child, _below(path, name), timed)


def _gate(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, Gate):
        return
    low, high = node[0].range
    child, threshold = _named(path, node, 0), node.threshold
    if not node._passes(high):
        what = f"its threshold {threshold:g} is above {high:g}, the most that {child} can score: it is always 0"
        yield found("gate-cannot-pass", path, what, threshold=threshold, range=[low, high])
    elif node._passes(low):
        what = f"its threshold {threshold:g} is not above {low:g}, the least that {child} can score: all passes"
        yield found("gate-cannot-fail", path, what, threshold=threshold, range=[low, high])


def _sequence(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, Sequential):
        return
    children = list(node.named_children())
    for i, (name, child) in enumerate(children[:-1]):
        if child.range[1] <= 0.0:
            what = f"{_below(path, name)} never scores above 0, where a Sequential stops: this node never runs"
            for later, _ in children[i + 1 :]:
                yield found("unreachable", _below(path, later), what, range=list(child.range))
            break
    for i, (name, child) in enumerate(children):
        cheap = [later for later, other in children[i + 1 :] if not asks_models(other)]
        if asks_models(child) and cheap:
            what = (
                f"it asks a model before {', '.join(cheap)}, which asks none: a step that fails there is paid for first"
            )
            yield found("judge-before-check", _below(path, name), what, checks=cheap)


def _all_of(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, AllOf):
        return
    for name, child in node.named_children():
        if child.range[1] <= 0.0:
            what = f"{_below(path, name)} never scores above 0, so the whole never does"
            yield found("gate-cannot-pass", path, what, range=list(child.range))


def _sum(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, WeightedSum):
        return
    named = zip(node.named_children(), node.weights, strict=True)
    parts = [(_below(path, name), weight, child.range) for (name, child), weight in named]
    shut = [isinstance(child, Gate | AllOf) for child in node]  # what is wrong with these is told of themselves
    span = math.fsum(abs(weight) * (high - low) for _, weight, (low, high) in parts)
    for (where, weight, (low, high)), is_shut in zip(parts, shut, strict=True):
        share = abs(weight) * (high - low) / span if span else 1.0
        if weight == 0.0:
            what = "its weight is 0: it runs, and may cost, and changes nothing"
        elif low == high and not is_shut:
            what = f"it always scores {low:g}: its weight {weight:g} only shifts the sum"
        elif share < SMALL and not is_shut:
            what = f"its weight {weight:g} moves the sum by {100 * share:.2g} % of what its parts move together"
        else:
            continue
        yield found("weight-cannot-matter", where, what, weight=weight, share=share, range=[low, high])


def _fallback(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, Fallback) or not isinstance(inner := node[0], Fallback):
        return
    if inner.value is not None and (inner.catches or not node.catches):
        what = f"what it falls back to is never used: {_named(path, node, 0)} falls back to {inner.value:g} before"
        yield found("unreachable", path, what, severity="warning")


def _map(node: Rubric, path: str) -> Iterator[Finding]:
    if not isinstance(node, Map):
        return
    (low, high), (least, most) = node[0].range, node.range
    if not (math.isfinite(low) and math.isfinite(high)):
        return
    for i in range(_PROBES):
        at = low + (high - low) * i / (_PROBES - 1)
        try:
            value = float(node.function(at))
        except Exception as error:  # whatever the user's function raises
            told = f"{type(error).__name__}: {error}"
            yield found("range", path, f"its function raises {told} at {at:g}, which its child can score", at=at)
            return
        if not least - 1e-9 <= value <= most + 1e-9:
            what = f"its function gives {value:g} at {at:g}, outside the declared range {least:g} to {most:g}"
            yield found("range", path, what, at=at, value=value, declared=[least, most])
            return


def _declared(node: Rubric, path: str) -> Iterator[Finding]:
    """A container of one's own that declares another range than its parts give it."""
    known: Any = next((base for base in type(node).__mro__ if is_ours(base)), None)
    if not isinstance(node, Container) or known is type(node) or type(node).combine is not known.combine:
        return
    worked_out = known.range
    if not isinstance(worked_out, property) or worked_out.fget is None:
        return
    (least, most), (low, high) = node.range, worked_out.fget(node)
    if (least, most) != (low, high):
        what = f"it declares the range {least:g} to {most:g}, and its parts give {low:g} to {high:g}"
        yield found("range", path, what, severity="warning", declared=[least, most], parts=[low, high])


def _judges(node: Rubric, path: str) -> Iterator[Finding]:
    for judge in judges_of(node):
        if judge.asker.exchanger.budget is None:
            yield found("no-budget", path, "nothing limits what its judge may spend")
        prompt = getattr(judge, "prompt", None)
        if prompt is not None and prompt.unfenced:
            lines = ", ".join(map(str, prompt.unfenced))
            what = f"its prompt prints a value without a fence (line {lines}): what is judged can pose as the prompt"
            yield found("unfenced", path, what, lines=list(prompt.unfenced))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named(path: str, node: Container, index: int) -> str:
    return _below(path, list(node._rubric_children)[index])
