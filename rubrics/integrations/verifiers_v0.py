"""verifiers before 0.4, its environments of datasets and rubrics: a tree as a `vf.Rubric`, a reward function as a leaf.

    env = vf.SingleTurnEnv(dataset=dataset, rubric=TreeRubric(tree, unscored="error"))

Each state is a rollout of the tree: `self.task` is its row (answer, info, …), each assistant's message an action. The
reward is `state["reward"]`, components are `state["metrics"]["rubric/format"]`.

verifiers itself has no place for a rollout without a reward: it counts a function that raises as 0.0, its sums and its
pass@k fail on None, and its report averages whatever there is. So the author chooses, see `TreeRubric`.

For tasks and traces (the package `verifiers.v1`) see `rubrics.integrations.verifiers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from math import fsum, nan
from typing import Any, Literal, NoReturn

from rubrics.engine.frames import FRAME
from rubrics.engine.journal import Pair
from rubrics.formats.verifiers_v0 import ROW, chat_message, failed
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import RewardFunction
from rubrics.rollouts.scoring import Fill, Scored, Scorer, checked_fill, filled
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import End, Trajectory

try:
    from verifiers.legacy import Error, Parser, Rubric as VerifiersRubric
    from verifiers.legacy.types import State
    from verifiers.legacy.utils.message_utils import normalize_messages
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.verifiers_v0 needs verifiers 0.3.1, which does not import here ({error}); "
        "pip install 'verifiers>=0.3.1,<0.4'"
    ) from error

_LIVE: ContextVar[Mapping[str, State]] = ContextVar("verifiers_states", default={})  # noqa: B039 (never changed)


class NoRewardError(Error):
    """In `state["error"]`: the rollout went well, but the tree has no reward for it."""


class TreeRubric(VerifiersRubric):
    """A tree in the place of a `vf.Rubric`, alone or beside others in a `vf.RubricGroup`.

    Args:
        rubric: the tree.
        unscored: what becomes of a rollout without a reward. `"error"`: `state["error"]` says why, and the reward is
            NaN: trainers leave out a rollout with an error, and an average over it is loud. `"raise"`: the whole batch
            fails. A number: that is its reward.
        name: what the names of metrics begin with.
        parser: as in `vf.Rubric`.
        concurrency: rollouts in progress at once, if the tree has async nodes.
    """

    def __init__(
        self,
        rubric: Rubric,
        *,
        unscored: Literal["error"] | Fill,
        name: str = "rubric",
        parser: Parser | None = None,
        concurrency: int = 256,
    ) -> None:
        super().__init__(parser=parser)
        self.scorer = Scorer(rubric, concurrency=concurrency, on_error="log")  # a group is one task's rollouts
        self.unscored = checked_fill(unscored, "error")
        self.name = name

    def add_reward_func(self, func: Any, weight: float = 1.0) -> NoReturn:
        """Refused: what is to be added belongs into the tree, or into another rubric of a `vf.RubricGroup`."""
        raise TypeError(
            f"a TreeRubric takes no function ({getattr(func, '__name__', func)}): make it a leaf of the tree with "
            "VerifiersFunction, or put it into a vf.Rubric beside this one with env.add_rubric"
        )

    add_metric = add_reward_func

    async def score_rollout(self, state: State) -> None:
        """Set a state's reward and metrics."""
        (scored,) = await self._scored([state])
        self._set(state, scored)

    async def score_group(self, states: list[State]) -> None:
        """Set the rewards, advantages (to the mean of those that have a reward) and metrics of a group of states."""
        rewards = [self._set(state, scored) for state, scored in zip(states, await self._scored(states), strict=True)]
        paid = [reward for reward in rewards if reward == reward]
        mean = fsum(paid) / len(paid) if paid else nan
        for state, reward in zip(states, rewards, strict=True):
            state["advantage"] = reward - mean
            for step in state["trajectory"]:
                if step["advantage"] is None:
                    step["advantage"] = state["advantage"]
                if step["reward"] is None:
                    step["reward"] = reward

    async def _scored(self, states: Sequence[State]) -> list[Scored]:
        trajectories = [trajectory_of_state(state) for state in states]
        token = _LIVE.set({trajectory.id: state for trajectory, state in zip(trajectories, states, strict=True)})
        try:
            return await self.scorer.score_all_async(trajectories)
        finally:
            _LIVE.reset(token)

    def _set(self, state: State, scored: Scored) -> float:
        if scored.reward is None and self.unscored == "error":
            reward = nan
            if state.get("error") is None:
                state["error"] = NoRewardError(scored.reason)
        else:
            reward = filled(scored, self.unscored)
        prefix = f"{self.name}/"
        metrics = {prefix + path: score for path, score in scored.scores.items() if score is not None}
        state.update(reward=reward, metrics=metrics)
        return reward


# -- a state as a trajectory ------------------------------------------------------------------------------------------


def trajectory_of_state(state: Mapping[str, Any]) -> Trajectory:
    """The trajectory of a state, or of a saved output of a rollout, which has the same names.

    Its task is the row: all that the dataset had but the prompt. The end is `"truncated"` where verifiers says so
    (`is_truncated`) or the rollout ran out of time, and `"error"` where the state has an error.
    """
    known = dict(state)  # a State looks each of its keys up twice
    row = known.get("input") or {name: known[name] for name in ROW if name in known}
    task = {name: value for name, value in row.items() if name != "prompt"}
    end: End = "terminated"
    if failed(known.get("error")):
        end = "error"
    elif known.get("is_truncated") or known.get("stop_condition") == "timeout_reached":
        end = "truncated"
    id = known.get("trajectory_id")
    completion = known.get("completion")
    if not completion:
        return Trajectory(id=id or "", task=task, end=end)
    return trajectory_of(_messages(row.get("prompt")), _messages(completion), task=task, end=end, id=id)


def _messages(messages: Any) -> Any:
    """In OpenAI's form, where verifiers has its own: the calls of tools are flat."""
    if not isinstance(messages, list):
        return messages
    return [_message(message) for message in messages]


def _message(message: Any) -> dict[str, Any]:
    return chat_message(message if isinstance(message, dict) else _dumped(message))


def _dumped(message: Any) -> dict[str, Any]:
    fields = {}
    for name, value in message.__dict__.items():
        if value.__class__ is str:
            fields[name] = value
        elif value is not None:
            return message.model_dump(exclude_none=True)  # type: ignore[no-any-return]
    if message.__pydantic_extra__:
        return message.model_dump(exclude_none=True)  # type: ignore[no-any-return]
    return fields  # all text, as nearly all messages are: a tenth of the time


# -- a reward function as a leaf --------------------------------------------------------------------------------------


class VerifiersFunction(RewardFunction):
    """A reward function of verifiers as a leaf, which judges the whole rollout once it has ended.

        tree = WeightedSum({"exact": VerifiersFunction(exact), "judge": …}, {"exact": 0.5, "judge": 0.5})

    It is called with what its parameters name, as by verifiers: `prompt`, `completion`, `answer`, `info`, `task`,
    `parser`, a column of the dataset, and `state`, which exists only within `TreeRubric`, so that a function that
    wants it cannot score recordings (`needs_live_state`). What it raises is no 0.0, as it is in verifiers.

    Args:
        function: of one rollout; functions of groups (`completions`, `states`, …) are refused.
        parser: given to functions that name it; by default a plain `vf.Parser`.
    """

    def __init__(self, function: Callable[..., Any], *, parser: Parser | None = None) -> None:
        super().__init__(function, messages=True)
        if VerifiersRubric()._is_group_func(function):
            raise TypeError(f"{self.name} is a function of whole groups; a leaf judges one rollout")
        self.parser = Parser() if parser is None else parser
        names, everything = self._parameters
        self.needs_live_state = names.get("state", False)
        self._shares = not everything and names.keys().isdisjoint({"parser", "state"})

    def known(self, trajectory: list[Pair]) -> dict[str, Any]:
        """What the function can ask for, by name."""
        known = {"answer": "", "info": {}, **super().known(trajectory), "parser": self.parser}
        known["prompt"] = normalize_messages(known["prompt"])
        known["completion"] = normalize_messages(known["completion"])
        frame = FRAME.get()
        episode = None if frame is None else frame.run.episode
        state = None if episode is None else _LIVE.get().get(episode.id)
        if state is not None:
            known["state"] = state
        elif self.needs_live_state:
            raise RubricError(f"{self.name} needs the state of a live rollout, and there is none")
        return known
