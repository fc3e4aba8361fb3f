"""A tree for rollouts in which an agent may call tools and then gives an answer, for the tests of several hosts."""

import asyncio
from typing import Any

from rubrics import Rubric, Score, TrajectoryRubric, Unscored, WeightedSum
from rubrics.credit import Credit


class Polite(Rubric):
    def forward(self, action: Any, observation: Any) -> Score:
        return Score(float("please" in (action.content or "")), reason="it says please")


class Looked(TrajectoryRubric):
    """The share of replies that call a tool."""

    def score_trajectory(self, trajectory: Any) -> float:
        return sum(bool(action.tool_calls) for action, _ in trajectory) / len(trajectory)


class Right(Rubric):
    """What it says depends on what the answer is, a column of the task."""

    column = "answer"

    def forward(self, action: Any, observation: Any) -> Any:
        answer = self.task[self.column]
        if answer == "unscored":
            raise Unscored("nobody knows")
        if answer == "bug":
            raise ZeroDivisionError("a bug")
        return float(answer in (action.content or ""))


class RightAsync(Right):
    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        return super().forward(action, observation)


def make_tree(right: type[Rubric] = Right, credit: Credit | None = None) -> WeightedSum:
    return WeightedSum(
        {"polite": Polite(), "looked": Looked(credit=credit), "right": right()},
        {"polite": 0.25, "looked": 0.25, "right": 0.5},
    )
