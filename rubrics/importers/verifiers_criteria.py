"""Criteria files of verifiers' rubric judge: TOML or JSON with a list `criteria`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import Source, names_of
from rubrics.rubric import Rubric


def verifiers(
    source: Any,
    *,
    weights: Mapping[str, float] | None = None,
    grades: Mapping[str, Any] | None = None,
    leaf: Leaf | None = None,
) -> Rubric:
    """The tree of a criteria file of verifiers: Σ weight · score / Σ weight.

    Args:
        source: a path, or the data: `criteria`, or the list of them: `name`, `text`, `weight` (1), and `choices` from
            the worst to the best, spaced evenly over [0, 1] (`no`, `yes`).
        weights: in place of the file's, by name.
        grades: of each criterion by name: one of its choices, or a number in [0, 1].
        leaf: what makes the leaf of a criterion; by default the requirement itself, with its grade.

    Raises:
        ImporterError: it is no such file, or a weight or grade is of no criterion in it.
    """
    read = Source(source, text="toml")
    items, place = read.data, ()  # type: Any, tuple[str | int, ...]
    if isinstance(items, Mapping):
        items, place = items.get("criteria"), ("criteria",)
    listed = read.objects(items, place, "criteria")
    named = [read.text(each, "name", (*place, i)) for i, each in enumerate(listed)]
    for what, given in (("weights", weights), ("grades", grades)):
        if unknown := sorted(set(given or ()).difference(named)):
            raise read.fault(place, f"{what} name {', '.join(unknown)}; the criteria are {', '.join(named)}")
    if doubled := sorted({name for name in named if named.count(name) > 1}):
        raise read.fault(place, f"several criteria are called {', '.join(doubled)}, so that a grade would be of all")
    own = [read.number(each, "weight", 1.0, (*place, i), 0.0) for i, each in enumerate(listed)]
    overrides = Source(weights or {}, "the weights")
    leaves: dict[str, Rubric] = {}
    points = []
    for i, (node, name, each) in enumerate(zip(names_of(named), named, listed, strict=True)):
        changed = name in (weights or {})
        points.append(overrides.number(overrides.data, name, None, (), 0.0) if changed else own[i])
        choices = each.get("choices") or ["no", "yes"]
        if len(choices) < 2 or len(set(map(str, choices))) != len(choices):
            raise read.fault((*place, i, "choices"), "choices are two or more, each different")
        values = {str(choice): at / (len(choices) - 1) for at, choice in enumerate(choices)}
        answer = (grades or {}).get(name)
        grade = values.get(answer) if isinstance(answer, str) else read.grade(answer, (*place, i), values)
        if isinstance(answer, str) and grade is None:
            raise read.fault((*place, i), f"{answer!r} is none of the choices {', '.join(values)}")
        scale = None if choices == ["no", "yes"] else {"type": "choice", "options": values}
        requirement = Requirement(read.text(each, "text", (*place, i)), grade, name, scale)
        leaves[node] = requirement if leaf is None else leaf(requirement)
    return read.summed(leaves, points, "total", place)
