"""Judge files of Harbor's rewardkit: TOML with `[judge]`, `[[criterion]]` and `[scoring]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrics.containers import AllOf, AnyOf, Invert, Scale
from rubrics.importers.requirement import Leaf, Passed, Requirement
from rubrics.importers.source import Source, grade_of, names_of
from rubrics.rubric import Rubric

_AGGREGATIONS = ("weighted-mean", "weighted-sum", "all-pass", "any-pass", "threshold", "required-pass")


def rewardkit(source: Any, *, grades: Mapping[str, Any] | None = None, leaf: Leaf | None = None) -> Rubric:
    """The tree of a judge file of rewardkit.

    Args:
        source: the path of a TOML file, or its data. Of `[judge]` nothing is read: who answers is said by `leaf`.
        grades: of each criterion, in [0, 1] or as booleans, by its `name`, `id` or `description`.
        leaf: what makes the leaf of a criterion; by default the requirement itself, with its grade.

    `weighted-mean`, `weighted-sum`, `all-pass`, `any-pass`, `threshold` and `required-pass` are what they are there; a
    criterion with `negate` counts as 1 - score.

    Raises:
        ImporterError: it is no such file.
    """
    read = Source(source)
    if not isinstance(read.data, Mapping):
        raise read.fault((), "a judge file is an object with a list of criterion")
    items = read.objects(read.data.get("criterion"), ("criterion",), "criterion")
    texts = [read.text(each, "description", ("criterion", i)) for i, each in enumerate(items)]
    weights = [read.number(each, "weight", 1.0, ("criterion", i)) for i, each in enumerate(items)]
    leaves: dict[str, Rubric] = {}
    names = names_of(str(each.get("name") or text) for each, text in zip(items, texts, strict=True))
    for i, (name, text, each) in enumerate(zip(names, texts, items, strict=True)):
        keys = [key for key in (each.get("name"), each.get("id"), text) if isinstance(key, str)]
        given = next((grades[key] for key in keys if grades is not None and key in grades), None)
        id = each.get("id") or each.get("name")
        requirement = Requirement(text, grade_of(given), None if id is None else str(id), _scale(read, each, i))
        made: Rubric = requirement if leaf is None else leaf(requirement)
        leaves[name] = Invert(made) if each.get("negate") else made
    scoring = read.data.get("scoring") or {}
    how = str(scoring.get("aggregation", "weighted-mean")).replace("_", "-")
    if how not in _AGGREGATIONS:
        raise read.fault(("scoring", "aggregation"), f"it is one of {', '.join(_AGGREGATIONS)}, not {how!r}")
    if how == "any-pass":
        return AnyOf({name: Passed(each) for name, each in leaves.items()})
    if how in ("all-pass", "required-pass"):
        optional = [bool(each.get("optional")) and how == "required-pass" for each in items]
        required = {name: Passed(made) for (name, made), skip in zip(leaves.items(), optional, strict=True) if not skip}
        if not required:
            raise read.fault(("scoring", "aggregation"), "required-pass needs a criterion that is not optional")
        return AllOf(required)
    mean = read.summed(leaves, weights, "total", ("criterion",))
    if how == "weighted-sum":
        return Scale(mean, sum(weights))
    return Passed(mean, read.number(scoring, "threshold", 0.5, ("scoring",))) if how == "threshold" else mean


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
