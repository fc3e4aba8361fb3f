"""Classes of one's own, as files of rubrics may name them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rubrics import Rubric, TrajectoryRubric

if TYPE_CHECKING:
    from rubrics import Credit


class Fixed(Rubric):
    range = (-10.0, 10.0)

    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.value = value

    def forward(self, action: Any, observation: Any) -> float:
        return self.value


class Slow(Fixed):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        return self.value


class Every(Rubric):
    """One argument of each sort."""

    def __init__(
        self,
        words: set[str],
        *parts: Rubric,
        table: Mapping[str, list[int]] | None = None,
        mode: Literal["strict", "loose"] = "strict",
        named: dict[str, Rubric] | None = None,
        function: Callable[[float], float] = math.sqrt,
        pair: tuple[int, str] = (1, "a"),
        anything: Any = None,
        unannotated=3,  # type: ignore[no-untyped-def]
    ) -> None:
        super().__init__()
        self.words, self.table, self.mode, self.function = words, table, mode, function
        self.pair, self.anything, self.unannotated = pair, anything, unannotated
        self.names = [f"part_{number}" for number in range(len(parts))]
        for name, part in zip(self.names, parts, strict=True):
            setattr(self, name, part)
        self.named = named

    @property
    def parts(self) -> list[Rubric]:
        return [getattr(self, name) for name in self.names]

    def spec_arguments(self) -> dict[str, Any]:
        names = ("words", "parts", "table", "mode", "named", "function", "pair", "anything", "unannotated")
        return {name: getattr(self, name) for name in names}

    def forward(self, action: Any, observation: Any) -> float:
        return self.function(sum(part(action, observation) for part in self.parts))


class Last(TrajectoryRubric):
    def __init__(self, intermediate_reward: float = 0.0, credit: Credit | None = None, share: float = 1.0) -> None:
        super().__init__(intermediate_reward, credit)
        self.share = share

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return self.share


class Twice(Rubric):
    """Does not keep what it was given."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = 2 * value

    def forward(self, action: Any, observation: Any) -> float:
        return self.value


class Forgetful(Rubric):
    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.count = len(texts)

    def forward(self, action: Any, observation: Any) -> float:
        return float(self.count)


class Loose(Rubric):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, action: Any, observation: Any) -> float:
        return 1.0


def half(value: float) -> float:
    return value / 2


class Halver:
    @staticmethod
    def half(value: float) -> float:
        return value / 2
