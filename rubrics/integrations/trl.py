"""TRL: a tree as a reward function of `GRPOTrainer` (and of the other online trainers).

    trainer = GRPOTrainer(model=…, reward_funcs=reward_function(tree), train_dataset=dataset, …)

Each completion is a rollout of one tree: `self.task` is its row of the dataset (every column but the prompt),
`episode.initial` the prompt, each assistant's message an action. A rollout without a reward is `None`, which TRL leaves
out of its group's baseline and gives the advantage 0. The means of all components are logged as metrics.

TRL itself is not imported here; tried with the releases named in docs/hosts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import Any, Literal

from rubrics.integrations.conversations import trajectory_of
from rubrics.integrations.scoring import Scored, Scorer
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

_NOT_COLUMNS = ("trainer_state", "log_extra", "log_metric", "environments")


class RewardFunction:
    """A tree in the place of a reward function. It can be pickled where the tree can.

    Attributes:
        scorer: scores the rollouts.
        __name__: how TRL calls its metric.
    """

    def __init__(self, scorer: Scorer, name: str) -> None:
        self.scorer = scorer
        self.__name__ = name

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> Any:
        """The rewards of a batch, in order; None for a rollout without one."""
        scored = self.scorer.score_all(_rollouts(prompts, completions, given))
        return _rewards(scored, given)


class AsyncRewardFunction(RewardFunction):
    """The same as a coroutine function, which TRL runs at once with its other async ones."""

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """As `RewardFunction.__call__`."""
        scored = await self.scorer.score_all_async(_rollouts(prompts, completions, given))
        return _rewards(scored, given)


def reward_function(
    rubric: Rubric,
    *,
    name: str = "rubric",
    asynchronous: bool | None = None,
    concurrency: int = 256,
    on_error: Literal["unscored", "raise"] = "unscored",
) -> RewardFunction:
    """A tree as a reward function.

    Args:
        rubric: the tree.
        name: how TRL calls the metric.
        asynchronous: whether it is a coroutine function; by default where the tree has async nodes.
        concurrency: rollouts in progress at once, if the tree has async nodes.
        on_error: as in `Scorer`.
    """
    scorer = Scorer(rubric, concurrency=concurrency, on_error=on_error)
    if rubric.is_async_tree if asynchronous is None else asynchronous:
        return AsyncRewardFunction(scorer, name)
    return RewardFunction(scorer, name)


def _rollouts(prompts: Sequence[Any], completions: Sequence[Any], given: dict[str, Any]) -> list[Trajectory]:
    columns = {
        name: values
        for name, values in given.items()
        if name not in _NOT_COLUMNS and isinstance(values, list | tuple) and len(values) == len(prompts)
    }
    tasks: list[dict[str, Any]] = [{name: values[i] for name, values in columns.items()} for i in range(len(prompts))]
    for task in tasks:
        task.pop("completion_ids", None)
    return [
        trajectory_of(prompt, completion, task=task)
        for prompt, completion, task in zip(prompts, completions, tasks, strict=True)
    ]


def _rewards(scored: list[Scored], given: dict[str, Any]) -> list[float | None]:
    log_metric: Callable[[str, float], None] | None = given.get("log_metric")
    if log_metric is not None and scored:
        for name, value in means_of(scored).items():
            log_metric(f"rubric/{name}", value)
    return [one.reward for one in scored]


def means_of(scored: Sequence[Scored]) -> dict[str, float]:
    """The mean of each component over the rollouts that have it, and the share of rollouts without a reward."""
    values: dict[str, list[float]] = {}
    for one in scored:
        for path, score in one.scores.items():
            if score is not None:
                values.setdefault(path, []).append(score)
    means = {path: fsum(found) / len(found) for path, found in values.items()}
    return {**means, "unscored": sum(one.reward is None for one in scored) / len(scored)}
