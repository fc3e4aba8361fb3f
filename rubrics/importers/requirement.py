"""`Requirement`: something that a rubric from elsewhere asks for, and what answers it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rubrics.containers.transforms import Single
from rubrics.criteria.values import quoted
from rubrics.rubric import Rubric
from rubrics.score import Score, StructureError, Unscored


class Requirement(Rubric):
    """Something to look for, in words. Its score is its grade; without one it is unscored.

    Args:
        text: what must be so.
        grade: in [0, 1], by whoever has graded it.
        id: its name in the source.
        scale: how it is to be answered, as judges' prompt files say it, such as `{"type": "likert", "low": 1, "high":
            5}`; None for yes or no.
        category, tags: what the source says of it.
        above: the requirements that it is a part of, the whole first.
    """

    def __init__(
        self,
        text: str,
        grade: float | None = None,
        id: str | None = None,
        scale: dict[str, Any] | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        above: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if not isinstance(text, str) or not text.strip():
            raise StructureError(f"Requirement: a requirement is a text, not {text!r:.80}")
        if grade is not None and (isinstance(grade, bool) or not math.isfinite(grade) or not 0.0 <= grade <= 1.0):
            raise StructureError(f"Requirement: a grade is a number from 0 to 1, not {grade!r}")
        self.text, self.grade, self.id, self.scale = text, grade, id, scale
        self.category, self.tags, self.above = category, tuple(tags), tuple(above)

    def extra_repr(self) -> str:
        """The text, cut, and the grade."""
        return quoted(self.text, 80) + ("" if self.grade is None else f", grade={self.grade:g}")

    def forward(self, action: Any, observation: Any) -> float | Score:
        if self.grade is None:
            raise Unscored(f"nobody has graded {quoted(self.text, 100)}")
        return float(self.grade)


class Passed(Single):
    """1 where the child reaches a threshold, else 0.

    Args:
        rubric: the child.
        threshold: that it must reach, within float rounding.
    """

    threshold: float = 1.0

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__(rubric)
        self.threshold = float(threshold)

    def change(self, score: float) -> float:
        """1 or 0."""
        return float(score >= self.threshold or math.isclose(score, self.threshold, rel_tol=1e-9, abs_tol=1e-12))

    def extra_repr(self) -> str:
        """The threshold."""
        return f"threshold={self.threshold}"


Leaf: TypeAlias = Callable[[Requirement], Rubric]
"""What makes the leaf of a requirement: a judge, a function of one's own, or the requirement itself."""
