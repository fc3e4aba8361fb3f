"""Rubrics that are lists of points: HealthBench's criteria, and requirements with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrics.containers import Clip
from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import Grades, Source, grade_of, names_of
from rubrics.rubric import Rubric


def healthbench(
    source: Any, *, grades: Grades | Sequence[Any] | None = None, leaf: Leaf | None = None, clip: bool = True
) -> Rubric:
    """The tree of the criteria of a HealthBench item.

    Its score is (points of the criteria that are met) / (all positive points): Σ points · score / Σ positive points,
    which penalties can take below 0 (Arora et al. 2025, "HealthBench", section 4).

    Args:
        source: a path, or the data: an item with `rubrics`, or the list of them: `criterion`, `points`, `tags`, and,
            where it was graded, `criteria_met`.
        grades: whether each is met, as booleans or numbers: a list in their order, or a mapping by criterion.
        leaf: what makes the leaf of a criterion; by default the requirement itself, with its grade.
        clip: whether the score is cut to [0, 1]; HealthBench itself cuts the mean over items.

    Raises:
        ImporterError: it is no such item.
    """
    read = Source(source)
    place: tuple[str | int, ...] = ()
    items = read.data
    if isinstance(items, Mapping):
        items, place = items.get("rubrics"), ("rubrics",)
    criteria = read.objects(items, place, "the criteria")
    texts = [read.text(each, "criterion", (*place, i)) for i, each in enumerate(criteria)]
    points = [read.number(each, "points", None, (*place, i)) for i, each in enumerate(criteria)]
    found = _answers(read, grades, texts, [each.get("criteria_met") for each in criteria])
    leaves = {
        name: _leaf(Requirement(text, grade, tags=list(each.get("tags") or ())), leaf)
        for name, text, grade, each in zip(names_of(texts), texts, found, criteria, strict=True)
    }
    whole = read.summed(leaves, points, "positive", place)
    return Clip(whole, 0.0, 1.0) if clip else whole


def requirements(
    source: Any, *, grades: Grades | Sequence[Any] | None = None, leaf: Leaf | None = None, clip: bool = True
) -> Rubric:
    """The tree of a list of weighted requirements, as the packages `rubric` and `autorubric` have them.

    Its score is Σ weight · score / Σ positive weights, cut to [0, 1]; a negative weight is a penalty.

    Args:
        source: a path (YAML or JSON), or the data: a list of `requirement`, `weight` (10, as in autorubric, where it is
            missing) and perhaps `name`, `options` (`label`, `value`, `na`). Sections with `criteria`, and a list under
            `rubric`, `sections` or `criteria`, are read as autorubric reads them.
        grades: of each, in [0, 1] or as booleans: a list in their order, or a mapping by name or requirement.
        leaf: what makes the leaf of a requirement; by default the requirement itself, with its grade.
        clip: whether the score is cut to [0, 1].

    Raises:
        ImporterError: it is no such list.
    """
    read = Source(source)
    items = _flat(read)
    texts = [read.text(each, "requirement", place) for place, each in items]
    weights = [read.number(each, "weight", 10.0, place) for place, each in items]
    named = [str(each.get("name") or text) for (_, each), text in zip(items, texts, strict=True)]
    found = _answers(read, grades, texts, [None] * len(items), named)
    leaves = {
        name: _leaf(Requirement(text, grade, each.get("name"), _scale(read, each, place)), leaf)
        for name, text, grade, (place, each) in zip(names_of(named), texts, found, items, strict=True)
    }
    whole = read.summed(leaves, weights, "positive")
    return Clip(whole, 0.0, 1.0) if clip else whole


def _flat(read: Source) -> list[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    data, place = read.data, ()  # type: Any, tuple[str | int, ...]
    for key in ("rubric", "sections", "criteria"):
        if isinstance(data, Mapping) and key in data:
            data, place = data[key], (*place, key)
    found: list[tuple[tuple[str | int, ...], Mapping[str, Any]]] = []
    for i, each in enumerate(read.objects(data, place, "the requirements")):
        if "criteria" in each and "requirement" not in each:
            inner = (*place, i, "criteria")
            found += [((*inner, j), one) for j, one in enumerate(read.objects(each["criteria"], inner, "criteria"))]
        else:
            found.append(((*place, i), each))
    return found


def _scale(read: Source, item: Mapping[str, Any], place: tuple[str | int, ...]) -> dict[str, Any] | None:
    if item.get("options") is None:
        return None
    options = read.objects(item["options"], (*place, "options"), "options")
    values = {
        read.text(each, "label", (*place, "options", i)): read.number(each, "value", None, (*place, "options", i))
        for i, each in enumerate(options)
        if not each.get("na")
    }
    abstains = {"abstain": True} if len(values) < len(options) else {}
    return {"type": "choice", "options": values, **abstains}


def _answers(
    read: Source, grades: Any, texts: list[str], own: list[Any], named: list[str] | None = None
) -> list[float | None]:
    if grades is None:
        return [grade_of(each) for each in own]
    found = Source(grades).data
    if isinstance(found, Mapping):
        keys = zip(named or texts, texts, strict=True)
        return [grade_of(found.get(name, found.get(text))) for name, text in keys]
    if not isinstance(found, list | tuple) or len(found) != len(texts):
        raise read.fault((), f"grades are one for each of the {len(texts)}, or an object by name, not {found!r:.80}")
    return [grade_of(each) for each in found]


def _leaf(requirement: Requirement, leaf: Leaf | None) -> Rubric:
    return requirement if leaf is None else leaf(requirement)
