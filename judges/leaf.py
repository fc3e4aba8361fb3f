"""`LLMJudge`: a judge as a leaf of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

from judges.asking import Options
from judges.judge import Judge, Judging
from judges.prompt import Prompt
from judges.scale import Scale
from judges.verdict import JudgeConfigError, JudgeError, JudgeFailure, PromptError, Verdict
from rubrics.engine.frames import add_usage, current_episode
from rubrics.rubric import Rubric
from rubrics.score import Score, Unscored
from rubrics.trajectory import Step

OnFailure = Literal["raise", "unscored"]
GIVEN = ("action", "observation", "task", "episode")


@dataclass(frozen=True, slots=True)
class EpisodeSoFar:
    """What a template sees of the episode: a copy, with the step that is judged as the last."""

    task: Any
    initial: Any
    steps: list[Step]


class LLMJudge(Rubric):
    """A leaf whose score is a judge's verdict on the step.

    The template sees `action`, `observation`, `task` and `episode` (`episode.steps`, `episode.initial`). The record of
    the node holds the verdict's reason, its label and what it cost. An abstention is unscored.

    Args:
        prompt: a template, a `Prompt`, the path of a prompt file, or a `Judge` or `Jury` that is ready made.
        scale, reason, expected, samples, min_mass: of the judge (see `Judge`).
        on_failure: what becomes of a failure: `"raise"` a `JudgeError`, or `"unscored"`.
        options: the model and how it is asked (see `Options`).

    Raises:
        PromptError: the template is wrong, or uses a name that it is not given.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        prompt: str | Prompt | Path | Judging,
        scale: Scale | None = None,
        *,
        reason: bool | None = None,
        expected: bool | None = None,
        samples: int | None = None,
        min_mass: float | None = None,
        on_failure: OnFailure = "raise",
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        self.on_failure = checked_on_failure(on_failure, type(self).__name__)
        chosen = {"reason": reason, "expected": expected, "samples": samples, "min_mass": min_mass}
        given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        self.judge: Judging
        if isinstance(prompt, (str, Prompt, Path)):
            self.judge = Judge(prompt, scale, **given, **options)
        else:
            if not hasattr(prompt, "judge") or not hasattr(prompt, "variables"):
                raise PromptError(
                    f"{type(self).__name__} takes a template, a Prompt, a path or a judge, not {prompt!r}"
                )
            if scale is not None or given or options:
                raise JudgeConfigError(f"{type(self).__name__}: a judge that is ready made takes no further arguments")
            self.judge = prompt
        if type(self).inputs is LLMJudge.inputs:  # else only the values themselves tell
            require_given(self.judge, GIVEN)
        self._sees_episode = "episode" in self.judge.variables
        if self._sees_episode:
            self._set(_remembers=True)  # so that its steps belong to an episode from the first call on

    def extra_repr(self) -> str:
        """The judge: its prompt and its scale."""
        return repr(self.judge)

    async def forward(self, action: Any, observation: Any) -> Score:
        """The verdict on the step, as a score."""
        inputs = {"action": action, "observation": observation, "task": self.task}
        if self._sees_episode:
            inputs["episode"] = episode_so_far(action, observation)
        return as_score(await self.judge.judge(**{**inputs, **self.inputs(action, observation)}), self.on_failure)

    def inputs(self, action: Any, observation: Any) -> Mapping[str, Any]:
        """Further values for the template, for subclasses: what is worked out of the step, such as the final answer."""
        return {}


def episode_so_far(action: Any, observation: Any) -> EpisodeSoFar:
    """What a template sees of the episode that is running."""
    episode = current_episode()
    if episode is None:
        return EpisodeSoFar(None, None, [Step(action, observation)])
    trajectory = episode.trajectory
    before = trajectory.steps[: len(episode._journal.actions) - 1]  # the journal has the step that is judged already
    return EpisodeSoFar(episode.task, trajectory.initial, [*before, Step(action, observation)])


def require_given(judge: Judging, given: tuple[str, ...]) -> None:
    """Refuse a judge whose template uses names that a leaf does not give.

    Raises:
        PromptError: it uses another.
    """
    if unknown := sorted(set(judge.variables).difference(given)):
        raise PromptError(
            f"the template uses {', '.join(map(repr, unknown))}; in a tree it is given {', '.join(given)}"
        )


def checked_on_failure(value: str, who: str) -> OnFailure:
    """`"raise"` or `"unscored"`."""
    if value not in ("raise", "unscored"):
        raise JudgeConfigError(f"{who}: on_failure is 'raise' or 'unscored', not {value!r}")
    return value  # type: ignore[return-value]


def as_score(verdict: Verdict | JudgeFailure, on_failure: OnFailure) -> Score:
    """A verdict as the score of the node that is running, with its cost in the record.

    Raises:
        JudgeError: there is none, and failures are to be raised.
        Unscored: there is none, or the judge abstained.
    """
    add_usage(verdict.usage)
    if isinstance(verdict, JudgeFailure):
        if on_failure == "raise":
            raise JudgeError(verdict)
        raise Unscored(str(verdict), {"failure": verdict.kind, **_known(model=verdict.model, reply=verdict.reply)})
    metadata = details(verdict)
    if verdict.score is None:
        raise Unscored(f"the judge abstained: {verdict.reason}" if verdict.reason else "the judge abstained", metadata)
    return Score(verdict.score, verdict.reason, metadata)


def details(verdict: Verdict) -> dict[str, Any]:
    """What the record of a node holds of a verdict, as plain JSON values."""
    found = _known(
        label=verdict.label,
        model=verdict.model,
        reply=verdict.reply,
        cached=verdict.cached or None,
        agreement=verdict.agreement,
        abstained=verdict.abstained or None,
    )
    for name, value in verdict.metadata.items():
        found[name] = {str(key): part for key, part in value.items()} if isinstance(value, Mapping) else value
    if verdict.samples:
        found["samples"] = [
            {"failure": sample.kind, "message": sample.message}
            if isinstance(sample, JudgeFailure)
            else _known(score=sample.score, label=sample.label, reason=sample.reason)
            for sample in verdict.samples
        ]
    return found


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
