"""The replaying driver: recorded outcomes under today's weights and thresholds. No leaf is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rubrics.engine import sync
from rubrics.engine.plan import CONTAINER, Place, Plan
from rubrics.evaluation import Evaluation
from rubrics.score import Outcome, Unscored, is_pending


class _Missing(Exception):
    """Outcomes that are needed now but were not recorded."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.paths = paths


def reaggregate(plan: Plan, evaluation: Evaluation) -> Evaluation:
    """A new record of the tree, from the outcomes of an old one matched by path."""
    old = {node.path: node for node in evaluation.nodes()}
    new: dict[str, Evaluation] = {}
    try:
        _replay(plan.root, old, new)
    except _Missing as missing:
        root = new[""]
        root.status = "unscored"
        root.score = None
        root.reason = f"not recorded, but needed now: {', '.join(path or 'the root' for path in missing.paths)}"
        root.metadata = {"missing": missing.paths}
    return new[""]


def _replay(place: Place, old: dict[str, Evaluation], new: dict[str, Evaluation]) -> Outcome:
    source = old.get(place.path)
    if place.kind != CONTAINER:
        outcome = None if source is None else source.outcome
        if source is None or outcome is None:
            new[place.path] = Evaluation(place.path, place.kind_name)
            raise _Missing([place.path])
        new[place.path] = source.repeat(place.path)
        return outcome
    record = new[place.path] = Evaluation(place.path, place.kind_name)
    try:
        outcome = _combine(place, source, old, new)
    finally:
        for child in place.children:
            record.children.append(new.get(child.path) or _unreached(child))
    record.settle(outcome)
    return outcome


def _combine(
    place: Place, source: Evaluation | None, old: dict[str, Evaluation], new: dict[str, Evaluation]
) -> Outcome:
    node: Any = place.node
    children = place.children
    if node.routes:
        children = [child for child in children if child.path in old and old[child.path].status != "skipped"]
        if len(children) != 1:
            raise _Missing([place.path])
    if node.around is not None and source is not None and source.status == "unscored":
        known = old.get(children[0].path)
        if known is None or known.outcome is None:
            return Unscored(source.reason, source.metadata)  # it ran out of time; what its child would say is not known
    if node.stops and node.concurrent:  # any child may decide, so those that are known come first
        children = sorted(children, key=lambda child: child.path not in old or old[child.path].outcome is None)
    values: list[Outcome] = []
    missing: list[str] = []
    for i, child in enumerate(children):
        was = old.get(child.path)
        if node.catches and i == 0 and was is not None and was.status == "error":
            new[child.path] = was.repeat(child.path)
            kind = (was.reason or "").partition(":")[0]
            value: Outcome = Unscored(was.reason, {"error": kind})  # as `sync.swallowed` made it
        else:
            try:
                value = _replay(child, old, new)
            except _Missing as lost:
                missing.extend(lost.paths)
                if node.stops and not node.concurrent:
                    break
                continue
        values.append(value)
        if node.stops and node.stop(value):
            if node.concurrent:
                missing = []
            break
    if missing:
        raise _Missing(missing)
    return sync.combined(node.compiled()(values), place)


def _unreached(place: Place) -> Evaluation:
    return Evaluation(place.path, place.kind_name, children=[_unreached(child) for child in place.children])


def shares(place: Place, answered: Callable[[Place], Outcome | None], share: float = 1.0) -> dict[int, float]:
    """How much of each delayed node's score the root's score holds, by node index: the product of weights and factors.

    Args:
        place: the root of a plan.
        answered: the outcome at a place in the run that ended the episode; None where that place was not reached.
        share: what the caller's place holds.
    """
    found: dict[int, float] = {}
    outcome = answered(place)
    if not place.delays or outcome is None or isinstance(outcome, Unscored) or is_pending(outcome):
        return found
    if place.node._is_delayed():
        return {place.index: share}
    if place.kind != CONTAINER:
        return found  # opaque: what it was paid stays where it was paid
    node: Any = place.node
    values = [answered(child) for child in place.children]
    for child, value, part in zip(place.children, values, node.shares(values), strict=True):
        if part and value is not None and not is_pending(value):
            for index, inner in shares(child, answered, share * part).items():
                found[index] = found.get(index, 0.0) + inner
    return found
