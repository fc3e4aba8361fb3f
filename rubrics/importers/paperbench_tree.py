"""Rubrics of PaperBench: trees of requirements with weights, graded at the leaves.

A node's score is Σ weight · score / Σ weight over its sub-tasks (Starace et al. 2025, "PaperBench", section 2.2). A
leaf that its judge failed on (`valid_score: false`), which PaperBench counts as 0, is unscored here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import Grades, Source, names_of
from rubrics.rubric import Rubric


def paperbench(source: Any, *, grades: Grades | None = None, leaf: Leaf | None = None) -> Rubric:
    """The tree of a PaperBench rubric.

    Args:
        source: the path of a `rubric.json`, or its data: `id`, `requirements`, `weight`, `sub_tasks`, and, where it was
            graded, `score`.
        grades: scores of the leaves by their `id`: a mapping, or a graded tree (a path, or its data). By default those
            in the source, if it has any.
        leaf: what makes the leaf of a requirement; by default the requirement itself, with its grade.

    Raises:
        ImporterError: it is no such rubric, or a grade is none, or of no leaf in it.
    """
    read = Source(source)
    if not isinstance(read.data, Mapping):
        raise read.fault((), f"a PaperBench rubric is an object, not {read.data!r:.80}")
    if grades is None:
        return _node(read, read.data, (), (), None, leaf, {})
    given = Source(grades, "the grades")
    known = _grades(given)
    leaves: dict[str, tuple[str | int, ...]] = {}
    tree = _node(read, read.data, (), (), known, leaf, leaves)
    given.require_known(known, leaves)
    return tree


def _node(
    read: Source,
    node: Mapping[str, Any],
    place: tuple[str | int, ...],
    above: tuple[str, ...],
    grades: Mapping[str, float | None] | None,
    leaf: Leaf | None,
    leaves: dict[str, tuple[str | int, ...]],
) -> Rubric:
    text = read.text(node, "requirements", place)
    below = node.get("sub_tasks")
    if below:
        parts = read.objects(below, (*place, "sub_tasks"), "sub_tasks")
        texts = [read.text(part, "requirements", (*place, "sub_tasks", i)) for i, part in enumerate(parts)]
        weights = [read.number(part, "weight", None, (*place, "sub_tasks", i), 0.0) for i, part in enumerate(parts)]
        path = (*above, text)
        children = [
            _node(read, part, (*place, "sub_tasks", i), path, grades, leaf, leaves) for i, part in enumerate(parts)
        ]
        return read.summed(dict(zip(names_of(texts), children, strict=True)), weights, "total", place)
    id = None if node.get("id") is None else str(node["id"])
    if id is not None and leaves.setdefault(id, place) is not place:
        raise read.fault((*place, "id"), f"another leaf has the id {id!r}, so that a grade would be of both")
    grade = _own(read, node, place) if grades is None else None if id is None else grades.get(id)
    finer = node.get("finegrained_task_category")
    tags = [] if finer is None else [str(finer)]
    requirement = Requirement(text, grade, id, None, node.get("task_category"), tags, above)
    return requirement if leaf is None else leaf(requirement)


def _own(read: Source, leaf: Mapping[str, Any], place: tuple[str | int, ...]) -> float | None:
    """The score that a leaf bears; None where its judge failed."""
    return None if leaf.get("valid_score") is False else read.grade(leaf.get("score"), (*place, "score"))


def _grades(read: Source) -> dict[str, float | None]:
    """The scores of the leaves of a graded tree by id, or a mapping of such."""
    data = read.data
    if not isinstance(data, Mapping):
        raise read.fault((), f"grades are an object of scores by id, or a graded rubric, not {data!r:.80}")
    if "sub_tasks" not in data and "requirements" not in data:
        return {str(id): read.grade(score, (id,)) for id, score in data.items()}
    found: dict[str, float | None] = {}
    todo: list[tuple[tuple[str | int, ...], Mapping[str, Any]]] = [((), data)]
    while todo:
        place, node = todo.pop()
        if below := node.get("sub_tasks"):
            parts = read.objects(below, (*place, "sub_tasks"), "sub_tasks")
            todo += [((*place, "sub_tasks", i), part) for i, part in enumerate(parts)]
            continue
        if node.get("id") is None:
            raise read.fault(place, f"a graded leaf has no id: {str(node.get('requirements'))[:80]!r}")
        found[str(node["id"])] = _own(read, node, place)
    return found
