"""`GroupJudge`: a ranking by a judge as the reward of a group of trajectories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from judges.compare import Comparison, Grades, GroupwiseJudge, PairwiseJudge
from judges.leaf import OnFailure, checked_on_failure
from judges.ranking import By, Method, Ranking, check_ranking, rank_group
from judges.transcript import checked_budget, transcript
from judges.verdict import JudgeConfigError, JudgeError, JudgeFailure
from rubrics.group import GroupRubric, GroupScores
from rubrics.trajectory import Trajectory


class GroupJudge(GroupRubric):
    """Scores the trajectories of a group by comparing them.

    Args:
        judge: a `PairwiseJudge`, whose comparisons are made into a ranking, or a `GroupwiseJudge`.
        method, by, prior, seed: of the ranking (see `rank_group`).
        show: what of a trajectory is compared; by default all of its steps, within `token_budget`.
        token_budget: the most tokens of each trajectory, by the estimate of `judges.estimate_tokens`.
        on_failure: what becomes of a failure: `"raise"` a `JudgeError`, or `"unscored"`: the whole group is.

    Raises:
        JudgeConfigError: an argument is none of these.
    """

    def __init__(
        self,
        judge: PairwiseJudge | GroupwiseJudge,
        *,
        method: Method = "round_robin",
        by: By = "win_rate",
        prior: float = 0.5,
        seed: int = 0,
        show: Callable[[Trajectory], Any] | None = None,
        token_budget: int = 4000,
        on_failure: OnFailure = "raise",
    ) -> None:
        if not isinstance(judge, (PairwiseJudge, GroupwiseJudge)):
            raise JudgeConfigError(f"a GroupJudge takes a PairwiseJudge or a GroupwiseJudge, not {judge!r}")
        check_ranking(method, by, prior)
        self.judge = judge
        self.method: Method = method
        self.by: By = by
        self.prior, self.seed = prior, seed
        self.show = show
        self.token_budget = checked_budget(token_budget, "GroupJudge")
        self.on_failure = checked_on_failure(on_failure, "GroupJudge")

    async def score_group(self, group: Sequence[Trajectory], task: Any = None) -> GroupScores:
        """The scores of a group, with the ranking in the metadata.

        Raises:
            JudgeError: a question failed, and failures are to be raised.
        """
        candidates = [self._shown(trajectory) for trajectory in group]
        found: Ranking | Grades | JudgeFailure
        if isinstance(self.judge, PairwiseJudge):
            found = await rank_group(
                candidates, self.judge, method=self.method, by=self.by, prior=self.prior, seed=self.seed, task=task
            )
        else:
            found = await self.judge.grade(candidates, task=task)
        if isinstance(found, JudgeFailure):
            if self.on_failure == "raise":
                raise JudgeError(found)
            told = (str(found),) * len(group)
            return GroupScores((None,) * len(group), told, found.usage, {"failure": found.kind})
        if isinstance(found, Grades):
            return GroupScores(found.scores, found.reasons, found.usage, {"order": list(found.order)})
        reasons = tuple(_record_of(found.comparisons, index) for index in range(len(group)))
        metadata: dict[str, Any] = {"order": list(found.order), "wins": [list(row) for row in found.wins]}
        if found.strengths is not None:
            metadata["strengths"] = list(found.strengths)
        return GroupScores(found.scores, reasons, found.usage, metadata)

    def _shown(self, trajectory: Trajectory) -> Any:
        if self.show is not None:
            return self.show(trajectory)
        steps = [(step.action, step.observation) for step in trajectory.steps]
        return transcript(steps, trajectory.initial, self.token_budget).pieces


def _record_of(comparisons: dict[tuple[int, int], Comparison], index: int) -> str:
    """A candidate's games in words."""
    won = drawn = lost = 0
    for (i, j), game in comparisons.items():
        if index in (i, j):
            drawn += game.winner is None
            won += game.winner == ("a" if index == i else "b")
            lost += game.winner == ("b" if index == i else "a")
    return f"{won} won, {drawn} drawn, {lost} lost"
