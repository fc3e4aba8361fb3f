"""Rollouts as trainers and evaluators have them, a prompt and a completion, scored by a tree.

`trajectory_of` makes a trajectory of one, `Scorer` a scoring function of a tree, and `RewardFunction` a leaf of a
function. Every adapter in `rubrics.integrations` for a trainer or an evaluator is made of these.
"""

from rubrics.rollouts.conversations import trajectory_of, trajectory_of_output
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Scored, Scorer

__all__ = ["RewardFunction", "Scored", "Scorer", "trajectory_of", "trajectory_of_output"]
