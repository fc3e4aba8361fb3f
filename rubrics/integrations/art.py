"""ART (openpipe-art): a tree sets the rewards of trajectories and of groups of them.

    scorer = GroupScorer(tree, unscored="drop")
    groups = await art.gather_trajectory_groups(…, after_each=scorer)

Each `art.Trajectory` is a rollout of the tree: `self.task` is its metadata and that of its group, each assistant's
message an action. The reward is `trajectory.reward`, components are `trajectory.metrics["rubric/format"]`, reasons are
in `trajectory.logs`. A reward has to be a number there, so the author chooses what becomes of a rollout without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import End, Trajectory

try:
    import art
    from art.trajectories import PydanticException
    from openai.types.chat.chat_completion import Choice
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.art needs openpipe-art 0.5, which does not import here ({error}); "
        "pip install 'rubrics[art]'"
    ) from error


class GroupScorer:
    """A tree as a function of groups, for `after_each` of `art.gather_trajectory_groups`. Groups are changed in place.

    Args:
        rubric: the tree.
        unscored: what becomes of a rollout without a reward. `"drop"`: it is taken out of its group, and
            `group.exceptions` says why, as ART does it with a rollout that raised. `"raise"`: scoring the group fails.
            A number: that is its reward.
        name: what the names of metrics begin with.
        concurrency: rollouts in progress at once, if the tree has async nodes.
    """

    def __init__(
        self,
        rubric: Rubric,
        *,
        unscored: Literal["drop"] | Fill,
        name: str = "rubric",
        concurrency: int = 256,
    ) -> None:
        self.scorer = Scorer(rubric, concurrency=concurrency, on_error="log")  # a group is one task's rollouts
        self.unscored = checked_fill(unscored, "drop")
        self.name = name

    async def __call__(self, group: art.TrajectoryGroup) -> art.TrajectoryGroup:
        """Set the rewards of a group; it is returned.

        Raises:
            RubricError: a rollout has no reward, and the rule is `"raise"`.
        """
        trajectories = list(group.trajectories)
        kept = []
        for trajectory, scored in zip(trajectories, await self._scored(trajectories, group.metadata), strict=True):
            if scored.reward is None and self.unscored == "drop":
                kind = RubricError if scored.error is None else type(scored.error)
                group.exceptions.append(PydanticException(type=str(kind), message=scored.reason or "", traceback=""))
            else:
                self._set(trajectory, scored, filled(scored, self.unscored))
                kept.append(trajectory)
        group.trajectories = kept
        return group

    async def score(self, trajectory: art.Trajectory) -> art.Trajectory:
        """Set the reward of one trajectory, such as at the end of a rollout; it is returned.

        Raises:
            RubricError: it has no reward, and the rule is `"raise"` or `"drop"`: ART leaves a rollout that raises out
                of its group.
        """
        (scored,) = await self._scored([trajectory], {})
        self._set(trajectory, scored, filled(scored, "raise" if self.unscored == "drop" else self.unscored))
        return trajectory

    async def _scored(self, trajectories: Sequence[art.Trajectory], metadata: Mapping[str, Any]) -> list[Scored]:
        return await self.scorer.score_all_async([trajectory_of_art(one, metadata) for one in trajectories])

    def _set(self, trajectory: art.Trajectory, scored: Scored, reward: float) -> None:
        trajectory.reward = reward
        for path, score in scored.scores.items():
            if score is not None:
                trajectory.metrics[f"{self.name}/{path}"] = score
        if scored.usage and scored.usage.cost is not None:
            trajectory.metrics[f"{self.name}/cost"] = scored.usage.cost
        trajectory.log(scored.feedback())


# -- its trajectory as ours -------------------------------------------------------------------------------------------


def trajectory_of_art(trajectory: art.Trajectory, metadata: Mapping[str, Any] | None = None) -> Trajectory:
    """The trajectory of an `art.Trajectory`.

    What stands before the first `Choice` is the prompt (without one, what stands before the first assistant's
    message). The end is `"truncated"` where the last `Choice` was cut off at its length.

    Args:
        trajectory: ART's.
        metadata: of its group; the trajectory's own goes before it.

    Raises:
        ValueError: it has additional histories, of which no order is known.
    """
    if trajectory.additional_histories:
        raise ValueError("a trajectory with additional histories cannot be scored: their order is not known")
    task = {**(metadata or {}), **trajectory.metadata}
    messages = trajectory.messages()
    choices = [i for i, said in enumerate(trajectory.messages_and_choices) if isinstance(said, Choice)]
    replies = choices or [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    last = trajectory.messages_and_choices[choices[-1]] if choices else None
    end: End = "truncated" if isinstance(last, Choice) and last.finish_reason == "length" else "terminated"
    if not replies:
        return Trajectory(id="", task=task, end=end)
    return trajectory_of(messages[: replies[0]], messages[replies[0] :], task=task, end=end)
