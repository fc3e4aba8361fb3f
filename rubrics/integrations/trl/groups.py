"""A group rubric as a reward function of TRL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rubrics.group import BatchScores, GroupRubric, IncompleteGroupError, score_groups
from rubrics.integrations.trl.batch import Batch


class GroupRewardFunction:
    """A group rubric in the place of a reward function, see `group_reward_function`.

    Attributes:
        __name__: how TRL calls its metric.
    """

    def __init__(self, rubric: GroupRubric, size: int, name: str, concurrency: int) -> None:
        self.rubric, self.size, self.concurrency = rubric, size, concurrency
        self.__name__ = name

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """The rewards of a batch, in order; None for a completion without one."""
        batch = Batch(prompts, completions, given)
        if any(batch.paid):
            raise TypeError("environments with a rubric of their own pay for themselves: leave it out of the class")
        groups = self._groups(prompts)
        found = await score_groups(
            self.rubric, batch.trajectories, groups, size=self.size, concurrency=self.concurrency
        )
        self._log(batch, found)
        return list(found.scores)

    def _groups(self, prompts: Sequence[Any]) -> list[int]:
        """Groups as TRL forms them: as many completions in a row as there are generations of a prompt."""
        for row, prompt in enumerate(prompts):
            first = row - row % self.size
            if prompt != prompts[first]:
                raise IncompleteGroupError(
                    f"rows {first} and {row} of the batch have different prompts, and should be of one group of "
                    f"{self.size}: size must be the trainer's num_generations, and each process must hold whole "
                    "groups (a per_device_train_batch_size that is a multiple of it)"
                )
        return [row // self.size for row in range(len(prompts))]

    def _log(self, batch: Batch, found: BatchScores) -> None:
        if (log_metric := batch.given.get("log_metric")) is not None and found.scores:
            log_metric(f"{self.__name__}/unscored", found.scores.count(None) / len(found.scores))
            if found.usage.cost:
                log_metric(f"{self.__name__}/cost", found.usage.cost / len(found.scores))
        if (log_extra := batch.given.get("log_extra")) is not None:
            log_extra(f"{self.__name__}/feedback", [reason or "" for reason in found.reasons])


def group_reward_function(
    rubric: GroupRubric, *, size: int, name: str = "group_rubric", concurrency: int = 16
) -> GroupRewardFunction:
    """A group rubric, such as a `judges.GroupJudge`, as a reward function that compares the completions of a prompt.

    It is a coroutine function, for `GRPOTrainer` and `RLOOTrainer`. Completions that are the same are judged once;
    where all are the same there is nothing to compare, and their reward is None, as is that of a group that could not
    be scored: it counts in no baseline and does not move the policy. Metrics: `{name}/unscored`, `{name}/cost`; the
    table of completions has a column `{name}/feedback`.

    Args:
        rubric: judges a group.
        size: the trainer's `num_generations`. Each process must hold whole groups.
        name: how TRL calls the metric.
        concurrency: groups judged at once.
    """
    if not isinstance(rubric, GroupRubric):
        raise TypeError(f"expected an instance of rubrics.GroupRubric, not {rubric!r:.80}")
    if size < 2:
        raise ValueError(f"a group of {size} has nothing to compare: size is the trainer's num_generations")
    return GroupRewardFunction(rubric, size, name, concurrency)
