"""Rubrics that are lists of points: HealthBench's criteria, and requirements with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrics.containers import Clip, Invert
from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import Grades, Source, names_of
from rubrics.rubric import Rubric

_VERDICTS: dict[str, float | None] = {"MET": 1.0, "UNMET": 0.0, "CANNOT_ASSESS": None}


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
    found = _answers(read, grades, texts, [each.get("criteria_met") for each in criteria], place)
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

    Its score is Σ weight · score / Σ positive weights, cut to [0, 1]; a negative weight is a penalty. Where all are
    penalties, it is 1 - Σ weight · score / Σ weight. What could not be assessed makes the whole unscored; autorubric by
    default leaves it out of the sums.

    Args:
        source: a path (YAML or JSON), or the data: a list of `requirement`, `weight` (10, as in autorubric, where it is
            missing) and perhaps `name`, `options` (`label`, `value`, `na`). Sections with `criteria`, and a list under
            `rubric`, `sections` or `criteria`, are read as autorubric reads them.
        grades: of each, in [0, 1], as booleans, `MET` or `UNMET`, or the label of an option: a list in their order, or
            a mapping by name or requirement.
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
    scales = [_scale(read, each, place) for place, each in items]
    answers = [
        _VERDICTS if scale is None else _labels(scale, each) for scale, (_, each) in zip(scales, items, strict=True)
    ]
    found = _answers(read, grades, texts, [None] * len(items), (), named, answers)
    leaves = {
        name: _leaf(Requirement(text, grade, each.get("name"), scale), leaf)
        for name, text, grade, scale, (_, each) in zip(names_of(named), texts, found, scales, items, strict=True)
    }
    if all(weight <= 0.0 for weight in weights) and any(weights):
        return Invert(read.summed(leaves, [-weight for weight in weights], "total"))
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
        read.text(each, "label", (*place, "options", i)): read.number(
            each, "value", None, (*place, "options", i), 0.0, 1.0
        )
        for i, each in enumerate(options)
        if not each.get("na")
    }
    abstains = {"abstain": True} if len(values) < len(options) else {}
    return {"type": "choice", "options": values, **abstains}


def _labels(scale: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, float | None]:
    """What each option is worth; those that mean that it does not apply, nothing."""
    return {**scale["options"], **{str(each.get("label")): None for each in item["options"] if each.get("na")}}


def _answers(
    read: Source,
    grades: Any,
    texts: list[str],
    own: list[Any],
    place: tuple[str | int, ...] = (),
    named: list[str] | None = None,
    answers: Sequence[Mapping[str, float | None]] | None = None,
) -> list[float | None]:
    """The grade of each: its own, or, where grades are given, that in its place or under its name or text."""
    said: list[Any] = list(answers or [{}] * len(texts))
    if grades is None:
        return [read.grade(each, (*place, i, "criteria_met")) for i, each in enumerate(own)]
    given = Source(grades, "the grades")
    found = given.data
    if isinstance(found, Mapping):
        keys = list(zip(named or texts, texts, strict=True))
        given.require_known(found, {key for both in keys for key in both})
        each_key = [name if name in found else text for name, text in keys]
        return [given.grade(found.get(key), (key,), may) for key, may in zip(each_key, said, strict=True)]
    if not isinstance(found, list | tuple) or len(found) != len(texts):
        raise given.fault((), f"grades are one for each of the {len(texts)}, or an object by name, not {found!r:.80}")
    return [given.grade(each, (i,), may) for i, (each, may) in enumerate(zip(found, said, strict=True))]


def _leaf(requirement: Requirement, leaf: Leaf | None) -> Rubric:
    return requirement if leaf is None else leaf(requirement)
