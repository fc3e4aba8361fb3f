"""`TrajectoryJudge`: a judge of a finished episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from judges.aggregate import aggregated
from judges.asking import Options, refuse_unknown, together
from judges.form import SingleForm
from judges.judge import Judge
from judges.leaf import OnFailure, as_score, checked_on_failure, require_given
from judges.prompt import Prompt
from judges.scale import Scale
from judges.transcript import Transcript, checked_budget, transcript
from judges.verdict import JudgeConfigError, JudgeFailure, PromptError, Verdict
from rubrics.delayed import TrajectoryRubric
from rubrics.engine.frames import FRAME, current_episode
from rubrics.score import Score

if TYPE_CHECKING:
    from rubrics.credit import Credit

GIVEN = ("trajectory", "task", "end")
DEFAULT = """\
Judge how well an agent did its task. Its steps are numbered from 0.
{% if task is not none %}
The task:
{{ task | untrusted }}
{% endif %}
The trajectory:
{{ trajectory | untrusted }}
{% if end == "truncated" %}The episode was cut off here; the agent had not ended it.
{% endif %}"""


class TrajectoryJudge(TrajectoryRubric):
    """A delayed node whose score is a judge's verdict on the whole episode.

    The judge answers `reason, evidence, score`: the evidence is a list of step indexes, kept in the score's metadata,
    so that `credit=ByEvidence()` pays the steps that decided. It may cite only steps that were shown.

    Args:
        prompt: a template that sees `trajectory`, `task` and `end` (`"terminated"` or `"truncated"`), and must show the
            first.
        scale, reason, samples: of the judge (see `Judge`). Of several samples, all must answer, the mean is the score,
            and the evidence is that of the sample whose reason is given.
        evidence: whether evidence is asked for.
        token_budget: the most tokens the trajectory may take, by the estimate of `judges.estimate_tokens`. Long values
            are cut in the middle first, then steps in the middle are left out; the text says so. The first and the last
            step are always shown.
        intermediate_reward, credit: see `rubrics.TrajectoryRubric`.
        on_failure: what becomes of a failure: `"raise"` a `JudgeError`, or `"unscored"`.
        options: the model and how it is asked (see `Options`).

    Raises:
        PromptError: the template is wrong, uses a name that it is not given, or does not show the trajectory.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        prompt: str | Prompt | Path = DEFAULT,
        scale: Scale | None = None,
        *,
        reason: bool = True,
        evidence: bool = True,
        samples: int = 1,
        token_budget: int = 8000,
        intermediate_reward: float = 0.0,
        credit: Credit | None = None,
        on_failure: OnFailure = "raise",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(intermediate_reward, credit)
        refuse_unknown(options, "TrajectoryJudge")
        if not evidence and type(credit).__name__ == "ByEvidence":
            raise JudgeConfigError(
                "TrajectoryJudge: credit=ByEvidence() needs the evidence that evidence=False leaves out"
            )
        self.on_failure = checked_on_failure(on_failure, "TrajectoryJudge")
        self.token_budget = checked_budget(token_budget, "TrajectoryJudge")
        self.evidence = evidence
        self.judge = Judge(prompt, scale, reason=reason, samples=samples, **options)
        require_given(self.judge, GIVEN)
        if "trajectory" not in self.judge.variables:
            raise PromptError("the template of a TrajectoryJudge must show trajectory")
        if evidence:
            self.judge.use(SingleForm(self.judge.scale, reason, evidence=()))

    def extra_repr(self) -> str:
        """The judge: its prompt and its scale."""
        return repr(self.judge)

    async def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> Score:
        """The verdict on the episode, as a score with `metadata["evidence"]`."""
        episode = current_episode()
        frame = FRAME.get()
        initial = None if episode is None else episode.initial
        end = None if frame is None else frame.run.ending
        shown = transcript(trajectory, initial, self.token_budget)
        return as_score(await self._verdict(shown, end), self.on_failure)

    async def _verdict(self, shown: Transcript, end: str | None) -> Verdict | JudgeFailure:
        judge = self.judge
        form = SingleForm(judge.scale, judge.reason, shown.shown) if self.evidence else judge.form
        rendered = judge.prompt.render({"trajectory": shown.pieces, "task": self.task, "end": end})
        if judge.samples == 1:
            return await judge.ask(rendered, form)
        answers = await together(*(judge.ask(rendered, form, number) for number in range(judge.samples)))
        return aggregated(answers, "mean", quorum=judge.samples)
