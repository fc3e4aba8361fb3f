"""SkyRL-gym: a text environment that a tree scores, without a line of scoring in it.

    class AnswerEnv(RubricTextEnv):
        rubric = make_rubric()                     # one tree for all rollouts
        unscored = "raise"                         # or a number

        def step(self, action):
            return BaseTextEnvStepOutput(observations=[], reward=0.0, done=True, metadata={})

    class ScoredGSM8k(RubricTextEnv, GSM8kEnv):    # an environment that exists
        rubric = make_rubric()
        unscored = 0.0

Nodes see the steps that readers of chat logs make (`rubrics.formats.chat`): the action has the agent's text as
`content`, the observation has `messages`, their text as `content`, and `done`; besides, `reward` and `metadata` as the
environment's own `step` returned them. `self.task` is the row of the dataset, SkyRL's `extras`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from os import PathLike
from typing import Any, Literal
from weakref import WeakSet

from rubrics.formats.chat import chat_observation
from rubrics.hosting.hosted import HostedSession, SessionOf, prepare
from rubrics.hosting.wrapping import outermost, written
from rubrics.rollouts.scoring import Fill, checked_fill
from rubrics.rubric import Rubric
from rubrics.score import EpisodeError, Unscored
from rubrics.session import Session
from rubrics.trajectory import Record, wrap

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError as error:
    raise ImportError(
        f"rubrics.integrations.skyrl_gym needs SkyRL-gym 0.4, which does not import here ({error}); "
        "pip install 'rubrics[skyrl-gym]'"
    ) from error


def _init(init: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(init)
    def begun(self: RubricTextEnv, prompt: Any) -> Any:
        with outermost(self) as first:
            if not first:
                return init(self, prompt)
            if (hosted := self._rubrics_hosted) is not None:
                hosted.abandon()
            answer = init(self, prompt)
            if hosted is None:
                hosted = self._rubrics_hosted = HostedSession(self, "skyrl_gym")
            hosted.begin(task=wrap(self.task_of(prompt)), initial=chat_observation(answer[0]))
            return answer

    return begun


def _step(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def scored(self: RubricTextEnv, action: str) -> Any:
        with outermost(self) as first:
            if not first:
                return step(self, action)
            hosted = self._rubrics_hosted
            if hosted is None:
                raise EpisodeError(f"{type(self).__name__}.step before init: there is no episode to judge")
            episode = hosted.running()
            output = step(self, action)
            said = output.get("postprocessed_action")  # SkyRL puts it in place of what the agent said
            observation = Record(
                chat_observation(output["observations"], done=bool(output["done"])),
                reward=output.get("reward"),
                metadata=output.get("metadata"),
            )
            report = hosted.score(episode, Record(content=action if said is None else said, tool_calls=[]), observation)
            paid = float(self.unscored if report.reward is None else report.reward)
            return {
                **output,
                "reward": paid,
                "metadata": {**(output.get("metadata") or {}), "rubric": report.in_words()},
            }

    return scored


def _close(close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(close)
    def closed(self: RubricTextEnv) -> Any:
        if self._rubrics_hosted is not None:
            self._rubrics_hosted.close()
        return close(self)

    return closed


class RubricTextEnv(BaseTextEnv):
    """A SkyRL-gym environment that a rubric scores. Authors write `step`, and `init` where they need one.

    `step` returns the tree's reward in place of the author's, and `metadata["rubric"]`: status, scores and reasons by
    path, and the rewards of the steps at the end. It waits for a tree with async nodes, in one of SkyRL's threads
    (`max_env_workers` above 0). A step after the end raises `EpisodeOverError`. As a first base class it scores an
    environment that exists; overriding methods may call `super()`, only the outermost call is scored.

    An episode that SkyRL cuts off (the context is full) never sees its end: it is abandoned, unscored, and SkyRL keeps
    the rewards that its steps were paid, of a delayed node the intermediate ones.

    Attributes:
        rubric: the tree, given in the class body; on an environment its own view of it.
        unscored: what `step` does where the tree fails or cannot judge the step, since SkyRL has no place for "no
            reward"; it has to be given with the tree. `"raise"`: `RubricError`. A number: that is the reward, and the
            metadata and metrics say so.
        record_to: a file to which each episode is appended at its end, which `rubrics rescore` reads.
        snapshot_steps: True for environments that change an observation after they returned it.
    """

    rubric: Rubric | Session | None = SessionOf(None)  # type: ignore[assignment]
    unscored: Fill
    record_to: str | PathLike[str] | None = None
    snapshot_steps: bool = False
    expose: Literal["scores", "full", "none"] = "full"
    on_error: Literal["null", "raise"] = "raise"
    on_final_error: Literal["null", "raise"] = "raise"
    _rubrics_extras: Any = None
    _rubrics_hosted: HostedSession | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self._rubrics_extras = kwargs.get("extras")  # an author's __init__ need not keep them
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        prepare(cls)
        if cls.rubric is not None:
            if not hasattr(cls, "unscored"):
                raise TypeError(f"{cls.__name__}.unscored is missing: 'raise', or the reward where there is none")
            cls.unscored = checked_fill(cls.unscored)
            cls.on_error = cls.on_final_error = "raise" if cls.unscored == "raise" else "null"
        for name, surround in _SURROUND.items():
            method = written(cls, name, _BASES)
            if method is not None and method not in _surrounded:
                method = surround(method)
                _surrounded.add(method)
                setattr(cls, name, method)

    def task_of(self, prompt: list[dict[str, Any]]) -> Any:
        """The task of the episode that begins, which rubrics read as `self.task`. Called after `init`.

        Args:
            prompt: as given to `init`.

        Returns:
            The `extras` that the environment was made with, the row of the dataset; None where it got none.
        """
        return self._rubrics_extras

    @_init
    def init(self, prompt: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Start an episode of the tree; the first prompt is the episode's `initial`."""
        begun: tuple[list[dict[str, Any]], dict[str, Any]] = super().init(prompt)
        return begun

    @_close
    def close(self) -> None:
        """End an episode that is still running as abandoned."""
        super().close()

    def get_metrics(self) -> dict[str, Any]:
        """Scores of the last step as `rubric/<path>`, and `rubric/unscored`: 1 for an episode without a reward.

        A node without a score has no entry, so SkyRL's means leave it out.
        """
        metrics = dict(super().get_metrics())
        if self._rubrics_hosted is not None:
            episode = self._rubrics_hosted.session.episode_now
            for path, outcome in episode.last_outcomes().items():
                if path and outcome is not None and not isinstance(outcome, Unscored):
                    metrics[f"rubric/{path}"] = float(outcome)
            metrics["rubric/unscored"] = float(episode.total is None)
        return metrics


_BASES: tuple[type, ...] = (RubricTextEnv, *BaseTextEnv.__mro__)
_SURROUND: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "init": _init,
    "step": _step,
    "close": _close,
}
_surrounded: WeakSet[Callable[..., Any]] = WeakSet()
