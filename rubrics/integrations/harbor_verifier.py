"""Harbor: a tree as the verifier of trials, run by Harbor itself instead of in the task's container.

    harbor run … --verifier rubrics.integrations.harbor_verifier:RubricVerifier \
        --verifier-kwarg rubric=rubric.py --verifier-kwarg unscored=raise

The tree, its requirements and the keys of its judges stay out of the container. It sees the rollout and not the
container's files: checks of those belong into `tests/test.sh`, see `rubrics.integrations.harbor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rubrics.integrations.harbor import forget_reward, read_one, write_rewards
from rubrics.rescoring.load import load_rubric
from rubrics.rollouts.scoring import Fill, Scorer, checked_fill

try:
    from harbor.models.verifier.result import VerifierResult
    from harbor.verifier.base import BaseVerifier
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.harbor_verifier needs Harbor 0.26, which does not import here ({error}); "
        "pip install 'rubrics[harbor]' on Python 3.12 or later"
    ) from error


class RubricVerifier(BaseVerifier):
    """Scores a trial's rollout with a tree, and writes `reward.json` and `reward-details.json` as in the container.

    Where there is no reward it raises `RubricError`: the trial has failed and Harbor leaves it out of means.

    Args:
        rubric: `PATH_OR_MODULE:FACTORY`; a path is looked for in the task's `tests` folder first, so that each task may
            have its own.
        unscored: `"raise"`, or the number for a rollout (or one of `metrics`) without a score.
        metrics: as in `rubrics.integrations.harbor.verify`.
        trajectory: the rollout's file, in the agent's logs.
        assume_end: how the rollout ended if the file does not say so; without it such a rollout is unscored.
        harbor: what Harbor gives every verifier.
    """

    def __init__(
        self,
        *,
        rubric: str,
        unscored: Fill,
        metrics: Sequence[str] = (),
        trajectory: str = "trajectory.json",
        assume_end: Literal["terminated", "truncated"] | None = None,
        **harbor: Any,
    ) -> None:
        super().__init__(**harbor)
        self.rubric = rubric
        self.unscored = checked_fill(unscored)
        self.metrics = [metrics] if isinstance(metrics, str) else list(metrics)
        self.trajectory = trajectory
        self.assume_end = assume_end

    async def verify(self) -> VerifierResult:
        """Score the rollout.

        Raises:
            RubricError: there is no reward, or the tree or the rollout cannot be loaded.
        """
        return VerifierResult(rewards=await asyncio.to_thread(self._verify))

    def _verify(self) -> dict[str, float]:
        folder = self.trial_paths.verifier_dir
        forget_reward(folder)
        trajectory = read_one(self.trial_paths.agent_dir / self.trajectory)
        trajectory.end = trajectory.end or self.assume_end
        scored = Scorer(load_rubric(self._located()), record=True).score(trajectory)
        return write_rewards(scored, self.unscored, self.metrics, folder)

    def _located(self) -> str:
        path, colon, name = self.rubric.partition(":")
        own = Path(self.task.paths.tests_dir, path)
        return f"{own}{colon}{name}" if own.is_file() else self.rubric
