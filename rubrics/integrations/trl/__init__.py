"""TRL: a tree as a reward function of `GRPOTrainer` (and of the other online trainers), or as an environment's reward.

    trainer = GRPOTrainer(model=…, reward_funcs=reward_function(tree), train_dataset=dataset, …)

Each completion is a rollout of one tree: `self.task` is its row of the dataset (every column but the prompt),
`episode.initial` the prompt, each assistant's message an action. A rollout without a reward is `None`, which TRL leaves
out of its group's baseline and gives the advantage 0.

    functions, weights = component_functions(tree)       # one reward function for each child of a WeightedSum

    class Guessing(RubricEnvironment):                   # environment_factory=Guessing: each tool call is a step
        rubric = tree

    group_reward_function(group_rubric, size=8)          # a reward relative to the other completions of a prompt

    BatchRewardFunction(think_format_reward)             # the reverse: a reward function of TRL as a leaf

TRL itself is not imported here; tried with the releases named in docs/hosts.md.
"""

from rubrics.integrations.trl.components import (
    AsyncComponentRewardFunction,
    ComponentRewardFunction,
    component_functions,
)
from rubrics.integrations.trl.environment import RubricEnvironment
from rubrics.integrations.trl.groups import GroupRewardFunction, group_reward_function
from rubrics.integrations.trl.rewards import (
    AsyncTreeRewardFunction,
    BatchRewardFunction,
    TreeRewardFunction,
    reward_function,
)

__all__ = [
    "AsyncComponentRewardFunction",
    "AsyncTreeRewardFunction",
    "BatchRewardFunction",
    "ComponentRewardFunction",
    "GroupRewardFunction",
    "RubricEnvironment",
    "TreeRewardFunction",
    "component_functions",
    "group_reward_function",
    "reward_function",
]
