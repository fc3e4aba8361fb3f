"""What TRL calls a reward function with, and what it can be told beside the rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import Any

from rubrics.evaluation import NO_USAGE
from rubrics.formats.parsing import FormatError
from rubrics.integrations.trl.environment import NO_TASK, RubricEnvironment
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scored
from rubrics.score import RubricError
from rubrics.trajectory import Trajectory


class Batch:
    """What TRL calls a reward function with.

    Attributes:
        trajectories: the rollouts to score; those that pay for themselves are left out.
    """

    def __init__(self, prompts: Sequence[Any], completions: Sequence[Any], given: Mapping[str, Any]) -> None:
        if len(prompts) != len(completions):
            raise RubricError(f"there are {len(prompts)} prompts for {len(completions)} completions")
        self.given = given
        environments = given.get("environments") or [None] * len(prompts)
        columns = {
            name: values
            for name, values in given.items()
            if name not in NO_TASK and isinstance(values, list | tuple) and len(values) == len(prompts)
        }
        self.paid = [isinstance(each, RubricEnvironment) and each.pays_itself for each in environments]
        self.trajectories = [
            environment.trajectory
            if isinstance(environment, RubricEnvironment)
            else _rollout(i, prompts[i], completions[i], {name: values[i] for name, values in columns.items()})
            for i, environment in enumerate(environments)
            if not self.paid[i]
        ]

    def rows(self, values: Sequence[float | None]) -> list[float | None]:
        """One value a completion, out of one a scored rollout."""
        found = iter(values)
        return [None if paid else next(found) for paid in self.paid]

    def log(self, name: str, scored: Sequence[Scored]) -> None:
        """Give the trainer what there is to know beside the rewards, where it takes any."""
        log_metric: Callable[[str, float], None] | None = self.given.get("log_metric")
        log_extra: Callable[[str, list[Any]], None] | None = self.given.get("log_extra")
        if log_metric is not None and scored:
            for path, mean in _means(scored).items():
                log_metric(f"{name}/{path}/mean", mean)
            log_metric(f"{name}/unscored", sum(one.reward is None for one in scored) / len(scored))
            if cost := sum((one.usage for one in scored), NO_USAGE).cost:
                log_metric(f"{name}/cost", cost / len(scored))
        if log_extra is not None:
            said = iter([one.feedback() for one in scored])
            log_extra(f"{name}/feedback", [None if paid else next(said) for paid in self.paid])


def _means(scored: Sequence[Scored]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for one in scored:
        for path, score in one.scores.items():
            if score is not None:
                values.setdefault(path, []).append(score)
    return {path: fsum(found) / len(found) for path, found in values.items()}


def _rollout(row: int, prompt: Any, completion: Any, task: dict[str, Any]) -> Trajectory:
    try:
        return trajectory_of(prompt, completion, task=task)
    except FormatError as error:
        raise FormatError(f"row {row} of the batch: {error}") from None
