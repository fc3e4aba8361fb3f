"""Judge files of Harbor's rewardkit: TOML with `[judge]`, `[[criterion]]` and `[scoring]`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rubrics.containers import AllOf, AnyOf, Invert, Scale
from rubrics.importers.requirement import Leaf, Passed, Requirement
from rubrics.importers.source import Source, names_of
from rubrics.rubric import Rubric

_AGGREGATIONS = ("weighted-mean", "weighted-sum", "all-pass", "any-pass", "threshold", "required-pass")


def rewardkit(source: Any, *, grades: Mapping[str, Any] | None = None, leaf: Leaf | None = None) -> Rubric:
    """The tree of a judge file of rewardkit.

    Args:
        source: the path of a TOML file, or its data. Of `[judge]` nothing is read: who answers is said by `leaf`.
        grades: of each criterion, in [0, 1] or as booleans, by its `name`, `id` or `description`.
        leaf: what makes the leaf of a criterion; by default the requirement itself, with its grade.

    `weighted-mean`, `weighted-sum`, `all-pass`, `any-pass`, `threshold` and `required-pass` are what they are there; a
    criterion with `negate`, or whose `annotations.type` says that it is negative, counts as 1 - score. `annotations`
    may also make it optional, by their `importance`.

    Raises:
        ImporterError: it is no such file.
    """
    read = Source(source, text="toml")
    if not isinstance(read.data, Mapping):
        raise read.fault((), "a judge file is an object with a list of criterion")
    items = read.objects(read.data.get("criterion"), ("criterion",), "criterion")
    texts = [read.text(each, "description", ("criterion", i)) for i, each in enumerate(items)]
    scoring = read.data.get("scoring") or {}
    how = str(scoring.get("aggregation", "weighted-mean")).replace("_", "-")
    if how not in _AGGREGATIONS:
        raise read.fault(("scoring", "aggregation"), f"it is one of {', '.join(_AGGREGATIONS)}, not {how!r}")
    least = -math.inf if how == "weighted-sum" else 0.0
    weights = [read.number(each, "weight", 1.0, ("criterion", i), least) for i, each in enumerate(items)]
    leaves: dict[str, Rubric] = {}
    names = names_of(str(each.get("name") or text) for each, text in zip(items, texts, strict=True))
    called = [
        [k for k in (each.get("name"), each.get("id"), text) if isinstance(k, str)]
        for each, text in zip(items, texts, strict=True)
    ]
    Source({}, "the grades").require_known(grades or {}, {key for keys in called for key in keys})
    for i, (name, text, each) in enumerate(zip(names, texts, items, strict=True)):
        keys = called[i]
        given = next((grades[key] for key in keys if grades is not None and key in grades), None)
        id = each.get("id") or each.get("name")
        requirement = Requirement(
            text, read.grade(given, ("criterion", i)), None if id is None else str(id), _scale(read, each, i)
        )
        made: Rubric = requirement if leaf is None else leaf(requirement)
        leaves[name] = Invert(made) if _marked(each, "negate", "type", "negative") else made
    if how == "any-pass":
        return AnyOf({name: Passed(each) for name, each in leaves.items()})
    if how in ("all-pass", "required-pass"):
        skips = how == "required-pass"
        optional = [skips and _marked(each, "optional", "importance", "optional") for each in items]
        required = {name: Passed(made) for (name, made), skip in zip(leaves.items(), optional, strict=True) if not skip}
        if not required:
            raise read.fault(("scoring", "aggregation"), "required-pass needs a criterion that is not optional")
        return AllOf(required)
    if how == "weighted-sum":
        positive = [weight for weight in weights if weight > 0.0]
        shared = read.summed(leaves, weights, "positive" if positive else "total", ("criterion",))
        return Scale(shared, math.fsum(positive or weights))
    mean = read.summed(leaves, weights, "total", ("criterion",))
    return Passed(mean, read.number(scoring, "threshold", 0.5, ("scoring",))) if how == "threshold" else mean


def _marked(item: Mapping[str, Any], key: str, annotation: str, word: str) -> bool:
    """Whether a criterion is marked by its key or, where that is not there, by a word in its annotations."""
    if key in item:
        return bool(item[key])
    annotations = item.get("annotations")
    return isinstance(annotations, Mapping) and word in str(annotations.get(annotation, "")).lower()


def _scale(read: Source, item: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    kind, place = item.get("type", "binary"), ("criterion", number)
    if kind == "binary":
        return None
    if kind == "likert":
        return {"type": "likert", "low": 1, "high": int(read.number(item, "points", 5, place))}
    if kind == "numeric":
        low, high = read.number(item, "min", 0.0, place), read.number(item, "max", 1.0, place)
        return {"type": "numeric", "low": low, "high": high}
    if kind == "rubric":
        levels = item.get("levels") or []
        if len(levels) < 2:
            raise read.fault((*place, "levels"), "a rubric of levels has two or more")
        anchors = {str(at): str(level) for at, level in enumerate(levels)}
        return {"type": "likert", "low": 0, "high": len(levels) - 1, "anchors": anchors}
    raise read.fault((*place, "type"), f"it is binary, likert, numeric or rubric, not {kind!r}")
