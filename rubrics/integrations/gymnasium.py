"""Gymnasium: a wrapper whose reward is that of a tree.

    env = RubricReward(gym.make("CartPole-v1"), tree, unscored="raise")
    envs = gym.make_vec("CartPole-v1", 8, "sync", wrappers=[partial(RubricReward, rubric=tree, unscored="raise")])

Each `reset` starts an episode of the tree, each `step` is a step of it. Nodes see the action as the agent gave it, and
as the observation a `Record` of all that the environment answered:

    {"observation": array([…]), "reward": 1.0, "terminated": False, "truncated": False, "info": {…}}

so that the environment's own reward can be a leaf, and so that the end is known: put the wrapper outside of whatever
ends episodes (`gym.make` puts its `TimeLimit` inside), and inside of whatever resets by itself (`Autoreset`).

`step` returns the tree's reward in place of the environment's, and `info["rubric"]`, plain values that vector
environments batch like any other:

    {"status": "scored", "env_reward": 1.0, "scores": {"upright": 1.0, "style": None}, "reasons": {…},
     "reason": …why there is no reward…, "usage": {…}, "step_rewards": {…at the end…}}
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

from rubrics.hosting.hosted import HostedSession
from rubrics.rollouts.scoring import Fill, checked_fill
from rubrics.rubric import Rubric
from rubrics.trajectory import Record, wrap

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.utils import RecordConstructorArgs
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.gymnasium needs Gymnasium 1, which does not import here ({error}); "
        "pip install 'rubrics[gymnasium]'"
    ) from error


class RubricReward(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment whose reward is that of a tree.

    `step` waits for a tree with async nodes. A step after the end raises `EpisodeOverError`, one before `reset`
    `gymnasium.error.ResetNeeded`. Many wrapped environments may share one tree, each with an episode of its own; a tree
    whose nodes keep state on themselves has to be made for each. A copied or pickled environment shares no episode with
    its original, and has to be reset.

    Args:
        env: the environment.
        rubric: the tree.
        unscored: what `step` does where the tree fails or cannot judge the step, the last one of an episode like any
            other, since Gymnasium has no place for "no reward". `"raise"`: `RubricError`; the trajectory holds the step
            and the episode goes on. A number: that is the reward, and `info["rubric"]` says `"unscored"` or `"error"`
            and why; at the end `info["rubric"]["step_rewards"]["total"]` is None, so such an episode can be left out.
        record_to: a file to which each episode is appended at its end, as a line of our trajectory JSONL that `rubrics
            rescore` reads. An episode cut off by `close` or `reset` is written with the end "abandoned", unless it has
            no steps. Arrays become lists there: nodes that compute with them write `np.asarray(…, dtype=np.float64)`.
        snapshot_steps: True for agents or environments that change an action or observation after they handed it over:
            the trajectory then holds deep copies.

    Attributes:
        rubric: the environment's own view of the tree: `env.rubric.get_rubric("upright").last_score`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        rubric: Rubric,
        *,
        unscored: Fill,
        record_to: str | PathLike[str] | None = None,
        snapshot_steps: bool = False,
    ) -> None:
        if not isinstance(rubric, Rubric):
            raise TypeError(f"expected a tree (an instance of rubrics.Rubric), not {rubric!r:.80}")
        unscored = checked_fill(unscored)
        RecordConstructorArgs.__init__(
            self,
            rubric=rubric,
            unscored=unscored,
            record_to=record_to,
            snapshot_steps=snapshot_steps,
            _disable_deepcopy=True,  # environments made of this one's spec share its tree
        )
        gymnasium.Wrapper.__init__(self, env)
        self.rubric = rubric.session()
        self.unscored = unscored
        self.record_to = record_to
        self.snapshot_steps = snapshot_steps
        self.expose: Literal["scores", "full", "none"] = "full"
        self.on_error: Literal["null", "raise"] = "raise" if unscored == "raise" else "null"
        self.on_final_error = self.on_error
        self._hosted: HostedSession | None = None

    def task_of(self, options: dict[str, Any] | None, observation: Any, info: dict[str, Any]) -> Any:
        """The task of the episode that begins, which nodes read as `self.task`.

        Args:
            options: as given to `reset`.
            observation, info: what the environment's `reset` returned.

        Returns:
            `info["task"]` or `options["task"]`, the first there is; else None. Override it for anything else.
        """
        return info["task"] if "task" in info else (options or {}).get("task")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and start an episode of the tree; one that was running is abandoned."""
        if self._hosted is not None:
            self._hosted.abandon()
        observation, info = self.env.reset(seed=seed, options=options)
        if self._hosted is None:
            name = None if self.env.spec is None else self.env.spec.id
            self._hosted = HostedSession(self, "gymnasium", environment=name or type(self.env.unwrapped).__name__)
        initial = Record(observation=observation, info=info)
        self._hosted.begin(task=wrap(self.task_of(options, observation, info)), initial=initial)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step; its reward is the tree's.

        Raises:
            RubricError: there is no reward, and `unscored` is `"raise"`.
            EpisodeOverError: the episode has ended.
            gymnasium.error.ResetNeeded: there was no reset.
        """
        if self._hosted is None:
            raise ResetNeeded(f"{type(self).__name__}.step before reset: there is no episode to judge")
        episode = self._hosted.running()
        observation, reward, terminated, truncated, info = self.env.step(action)
        answer = Record(
            observation=observation,
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=info,
        )
        report = self._hosted.score(episode, action, answer)
        paid = float(self.unscored if report.reward is None else report.reward)
        return (
            observation,
            paid,
            terminated,
            truncated,
            {**info, "rubric": {**report.in_words(), "env_reward": answer["reward"]}},
        )

    def close(self) -> None:
        """Close the environment; an episode that is still running ends as abandoned."""
        if self._hosted is not None:
            self._hosted.close()
        super().close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "rubric": self.rubric.rubric, "_hosted": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.rubric = state["rubric"].session()
