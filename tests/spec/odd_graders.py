"""Classes whose arguments are of less usual types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from rubrics import Rubric, WeightedSum


class Half(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return 0.5


class ByPlace(Half):
    def __init__(self, first: int, second: int = 2, /, third: int = 3) -> None:
        super().__init__()
        self.first, self.second, self.third = first, second, third


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class ByLevel(Half):
    def __init__(self, points: dict[Level, int]) -> None:
        super().__init__()
        self.points = points


class Limits(BaseModel):
    low: int = 0
    high: int = 1


class Limited(Half):
    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits = limits


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Paired(Half):
    def __init__(self, pair: Pair, counts: Counter[str]) -> None:
        super().__init__()
        self.pair, self.counts = pair, counts


class Several(Half):
    def __init__(self, words: Iterable[str], numbers: Collection[int] = ()) -> None:
        super().__init__()
        self.words, self.numbers = words, numbers


class OfArray(Half):
    def __init__(self, values: Any = np.arange(3)) -> None:  # noqa: B008
        super().__init__()
        self.values = values


class OfFile(Half):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


class Bonus(WeightedSum):
    def __init__(self, rubrics: list[Rubric], weights: list[float], bonus: float = 0.0) -> None:
        super().__init__(rubrics, weights)
        self.bonus = bonus
