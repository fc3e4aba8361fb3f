"""A tree as a reward function of TRL, and a reward function of TRL as a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rubrics.integrations.trl.batch import Batch
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError


class TreeRewardFunction:
    """A tree in the place of a reward function, see `reward_function`. It can be pickled where the tree can.

    Attributes:
        scorer: scores the rollouts.
        __name__: how TRL calls its metric.
        unscored: what a rollout without a reward becomes.
    """

    def __init__(self, scorer: Scorer, name: str, unscored: Fill | None) -> None:
        self.scorer = scorer
        self.__name__ = name
        self.unscored = unscored

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> Any:
        """The rewards of a batch, in order; None for a rollout without one."""
        batch = Batch(prompts, completions, given)
        return self._rewards(batch, self.scorer.score_all(batch.trajectories))

    def _rewards(self, batch: Batch, scored: list[Scored]) -> list[float | None]:
        batch.log(self.__name__, scored)
        if self.unscored is None:
            return batch.rows([one.reward for one in scored])
        return batch.rows([filled(one, self.unscored) for one in scored])


class AsyncTreeRewardFunction(TreeRewardFunction):
    """The same as a coroutine function, which TRL runs at once with its other async ones."""

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **given: Any) -> list[float | None]:
        """As `TreeRewardFunction.__call__`."""
        batch = Batch(prompts, completions, given)
        return self._rewards(batch, await self.scorer.score_all_async(batch.trajectories))


def reward_function(
    rubric: Rubric,
    *,
    name: str = "rubric",
    asynchronous: bool | None = None,
    unscored: Fill | None = None,
    concurrency: int = 256,
    on_error: Literal["unscored", "raise"] = "unscored",
) -> TreeRewardFunction:
    """A tree as a reward function.

    Metrics, where the trainer takes any: `{name}/{path}/mean` of each node over the rollouts that it scored, the share
    `{name}/unscored` of rollouts without a reward, `{name}/cost` in US dollars a rollout where model calls cost
    something. The table of completions has a column `{name}/feedback`, scores and reasons in words.

    In a run with `environment_factory`, rollouts of a `RubricEnvironment` are scored by the tool calls that it
    recorded; one whose class has a `rubric` pays for itself and is None here. Rollouts of other environments are scored
    as conversations, tool calls included.

    Args:
        rubric: the tree.
        name: how TRL calls the metric.
        asynchronous: whether it is a coroutine function; by default where the tree has async nodes. `OnlineDPOTrainer`,
            `SDPOTrainer` and `A2POTrainer` do not await reward functions and need False; the thread waits then.
        unscored: what a rollout without a reward becomes. None is TRL's own rule in `GRPOTrainer`, `RLOOTrainer` and
            `AsyncGRPOTrainer`: it counts in no baseline and does not move the policy. The trainers that do not await
            reward functions take None for the reward 0, or fail; for them give `"raise"` or a number.
        concurrency: rollouts in progress at once, if the tree has async nodes.
        on_error: as in `Scorer`.
    """
    scorer = Scorer(rubric, concurrency=concurrency, on_error=on_error)
    kind = AsyncTreeRewardFunction if _default(asynchronous, rubric.is_async_tree) else TreeRewardFunction
    return kind(scorer, name, None if unscored is None else checked_fill(unscored))


def _default(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


class BatchRewardFunction(RewardFunction):
    """A reward function as TRL calls it, `f(prompts, completions, **columns) -> list[float | None]`, as a leaf.

    It judges one rollout at a time, so its lists have one entry each; a function that compares the completions of a
    batch does not work here. None is unscored. Columns are the keys of the task. It may be async.

    Args:
        function: the reward function.
        messages: give prompts and completions as lists of chat messages, as TRL does for conversational datasets (the
            arguments of tool calls are dicts there); by default as text.
    """

    _parsed = True

    def known(self, trajectory: Any) -> dict[str, Any]:
        """What the function can ask for, by name."""
        known = super().known(trajectory)
        del known["task"]
        prompt, completion = known.pop("prompt"), known.pop("completion")
        return {"prompts": [prompt], "completions": [completion], **{name: [known[name]] for name in known}}

    def score_trajectory(self, trajectory: Any) -> Any:
        """What the function says of the rollout."""
        rewards = super().score_trajectory(trajectory)
        return self._awaited_reward(rewards) if self.is_async else self._only(rewards)

    async def _awaited_reward(self, rewards: Any) -> Any:
        return self._only(await rewards)

    def _only(self, rewards: Any) -> Any:
        try:
            (reward,) = rewards
        except (TypeError, ValueError):
            raise RubricError(
                f"{self.name} gave {rewards!r:.80} for one completion: a list of one reward was expected"
            ) from None
        return reward.item() if hasattr(reward, "item") else reward  # of an array or a tensor
