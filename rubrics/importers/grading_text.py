"""Grading text as Inspect's model-graded scorers take it: what the target says, answered by C, P or I."""

from __future__ import annotations

from rubrics.importers.requirement import Leaf, Requirement
from rubrics.importers.source import ImporterError
from rubrics.rubric import Rubric

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}


def inspect_grading(
    text: str, *, partial_credit: bool = False, grade: str | None = None, leaf: Leaf | None = None
) -> Rubric:
    """The leaf of a grading text: the expected answer, or what a right one must hold.

    Args:
        text: the `target` of an Inspect sample.
        partial_credit: whether P, half a point, is a grade beside C (correct) and I (incorrect).
        grade: C, P or I, by whoever has graded it.
        leaf: what makes the leaf; by default the requirement itself, with its grade.

    Raises:
        ImporterError: there is no such grade.
    """
    menu = {name: value for name, value in _GRADES.items() if partial_credit or name != "P"}
    if grade is not None and grade not in menu:
        raise ImporterError(f"a grade is {', '.join(menu)}, not {grade!r}")
    scale = {"type": "choice", "options": menu}
    requirement = Requirement(text, None if grade is None else menu[grade], scale=scale)
    return requirement if leaf is None else leaf(requirement)
