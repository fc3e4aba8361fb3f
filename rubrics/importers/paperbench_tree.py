"""Rubrics of PaperBench: trees of requirements with weights, graded at the leaves.

A node's score is Σ weight · score / Σ weight over its sub-tasks (Starace et al. 2025, "PaperBench", section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import Grades, ImporterError, Source, grade_of, names_of
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
        ImporterError: it is no such rubric, or a grade is none.
    """
    read = Source(source)
    known = None if grades is None else _grades(grades)
    if not isinstance(read.data, Mapping):
        raise read.fault((), f"a PaperBench rubric is an object, not {read.data!r:.80}")
    return _node(read, read.data, (), known, leaf)


def _node(
    read: Source,
    node: Mapping[str, Any],
    place: tuple[str | int, ...],
    grades: Mapping[str, Any] | None,
    leaf: Leaf | None,
) -> Rubric:
    text = read.text(node, "requirements", place)
    below = node.get("sub_tasks")
    if below:
        parts = read.objects(below, (*place, "sub_tasks"), "sub_tasks")
        texts = [read.text(part, "requirements", (*place, "sub_tasks", i)) for i, part in enumerate(parts)]
        weights = [read.number(part, "weight", None, (*place, "sub_tasks", i)) for i, part in enumerate(parts)]
        children = [_node(read, part, (*place, "sub_tasks", i), grades, leaf) for i, part in enumerate(parts)]
        return read.summed(dict(zip(names_of(texts), children, strict=True)), weights, "total", place)
    id = node.get("id")
    found = node.get("score") if grades is None else grades.get(str(id))
    grade = grade_of(found)
    if found is not None and (grade is None or not 0.0 <= grade <= 1.0):
        raise read.fault((*place, "score"), f"a grade is a number from 0 to 1, not {found!r:.80}")
    requirement = Requirement(text, grade, None if id is None else str(id), category=node.get("task_category"))
    return requirement if leaf is None else leaf(requirement)


def _grades(given: Grades) -> dict[str, Any]:
    """The scores of the leaves of a graded tree by id, or a mapping of such."""
    read = Source(given)
    data = read.data
    if not isinstance(data, Mapping):
        raise read.fault((), f"grades are an object of scores by id, or a graded rubric, not {data!r:.80}")
    if "sub_tasks" not in data and "requirements" not in data:
        return {str(id): score for id, score in data.items()}
    found: dict[str, Any] = {}
    todo = [data]
    while todo:
        node = todo.pop()
        below = node.get("sub_tasks") or []
        todo += below
        if not below:
            if "id" not in node:
                raise ImporterError(f"{read.where}: a graded leaf has no id: {str(node.get('requirements'))[:80]!r}")
            found[str(node["id"])] = node.get("score")
    return found
