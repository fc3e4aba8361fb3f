"""`RequirementJudge`: one requirement of a rubric from elsewhere (`rubrics.importers`), answered by a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from judges.asking import Options
from judges.checklist import ONE_OF_A_WHOLE
from judges.judge import prompt_from
from judges.leaf import LLMJudge, OnFailure
from judges.prompt import Prompt
from judges.scale import Binary, Scale, scale_from
from rubrics.importers.requirement import Requirement


class RequirementJudge(LLMJudge):
    """A leaf that asks a model whether, or how far, a requirement is met.

    Args:
        requirement: in words.
        prompt: a template that shows `criterion`, the requirement, and may show `above`, a list, `action`,
            `observation`, `task` and `episode`; by default that of a `Checklist`, with what is above.
        scale: how it is answered; by default yes or no.
        above: the requirements that it is a part of, the whole first.
        on_failure, options: see `LLMJudge`.

    Raises:
        PromptError: the template is wrong.
        JudgeConfigError: anything else is.
    """

    def __init__(
        self,
        requirement: str,
        prompt: str | Prompt | Path = ONE_OF_A_WHOLE,
        scale: Scale | None = None,
        *,
        above: Sequence[str] = (),
        on_failure: OnFailure = "raise",
        **options: Unpack[Options],
    ) -> None:
        written = prompt_from(prompt)
        written.require(("action", "observation", "task", "episode", "criterion", "above"))
        super().__init__(written, scale or written.scale or Binary(), on_failure=on_failure, **options)
        self.requirement, self.above = requirement, tuple(above)

    def extra_repr(self) -> str:
        """The requirement."""
        return repr(self.requirement)

    def inputs(self, action: Any, observation: Any) -> Mapping[str, Any]:
        """The requirement and those above it, for the template."""
        return {"criterion": self.requirement, "above": self.above}


def judged_by(
    prompt: str | Prompt | Path = ONE_OF_A_WHOLE, *, on_failure: OnFailure = "raise", **options: Unpack[Options]
) -> Callable[[Requirement], RequirementJudge]:
    """What makes a judge of each requirement, for the `leaf` of `rubrics.importers`; each is asked on its own scale.

    Args:
        prompt, on_failure, options: see `RequirementJudge`.
    """
    written = prompt_from(prompt)

    def leaf(requirement: Requirement) -> RequirementJudge:
        scale = None if requirement.scale is None else scale_from(requirement.scale)
        return RequirementJudge(
            requirement.text, written, scale, above=requirement.above, on_failure=on_failure, **options
        )

    return leaf
