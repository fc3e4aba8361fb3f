"""`Checklist`: many criteria over one response, each a node with its own verdict, reason and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Literal, Unpack

from judges.asking import Asked, Asker, Options
from judges.form import Answer, KeyedForm
from judges.io import Itself, shared
from judges.judge import Judge, fixed_messages, prompt_from, question
from judges.leaf import GIVEN, OnFailure, as_score, checked_on_failure, episode_so_far
from judges.prompt import Prompt
from judges.scale import Binary, Scale
from judges.verdict import JudgeConfigError, JudgeFailure, PromptError, Verdict
from rubrics.containers.weighted_sum import WeightedSum
from rubrics.engine.frames import of_this_run
from rubrics.evaluation import NO_USAGE, Usage
from rubrics.rubric import Rubric
from rubrics.score import Score

_WORK = """
{% if task is not none %}
The task:
{{ task | untrusted }}

{% endif %}
The response:
{{ action | untrusted }}
"""
ONE = f"""\
Decide whether a response meets a criterion.
{_WORK}
The criterion: {{{{ criterion | trusted }}}}

Does the response meet it?
"""
ONE_OF_A_WHOLE = ONE.replace(
    "The criterion:",
    """\
{% if above %}The criterion is a part of the last of these, each of which is a part of the one before:
{% for text in above %}- {{ text | trusted }}
{% endfor %}
{% endif %}The criterion:""",
)
MANY = (
    "Decide for each of these criteria whether a response meets it. Judge each by itself.\n\n"
    "Criteria:\n{{ criteria | trusted }}\n" + _WORK
)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing to look for.

    Attributes:
        text: what must be so, in words for the model.
        weight: the points it is worth; negative for a fault.
        id: its name in the tree and on the wire; by default `criterion_0`, `criterion_1`, …
        scale: how it is answered; by default the checklist's.
    """

    text: str
    weight: float = 1.0
    id: str | None = None
    scale: Scale | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise JudgeConfigError(f"a criterion is a text, not {self.text!r}")
        weight = self.weight
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not isfinite(weight):
            raise JudgeConfigError(f"the weight of the criterion {self.text!r} is a finite number, not {weight!r}")
        if self.id is not None and not isinstance(self.id, str):
            raise JudgeConfigError(f"the id of the criterion {self.text!r} is a text, not {self.id!r}")
        if self.scale is not None and not isinstance(self.scale, Scale):
            raise JudgeConfigError(f"the scale of the criterion {self.text!r} is a Scale, not {self.scale!r}")


class Checklist(WeightedSum):
    """Points for criteria: Σ weight · score / Σ positive weights.

    Penalties can take it below 0; wrap it in `rubrics.Clip(checklist, 0, 1)` where that is not wanted.

    Where several criteria are asked in one call, it is sent once a step, and those that wait for it share its cost.

    Args:
        criteria: `Criterion`s, or mere texts, each worth one point.
        prompt: a template. It sees `action`, `observation`, `task` and `episode`, and must show `criterion` (a text)
            or, where several are asked at once, `criteria` (a list in words, each with its id).
        calls: `"per_criterion"`, `"all"` in one call, or how many criteria a call asks.
        scale: how criteria are answered; by default `Binary()`.
        reason: whether a reason is asked for.
        expected, samples, min_mass: of the judge (see `Judge`); only with a call for each criterion.
        on_failure: what becomes of a failure: `"raise"` a `JudgeError`, or `"unscored"`.
        on_unscored: what an unscored criterion makes of the sum (see `rubrics.WeightedSum`).
        options: the model and how it is asked (see `judges.Options`).

    Raises:
        PromptError: the template is wrong, uses a name that it is not given, or does not show what is asked.
        JudgeConfigError: anything else is.
        StructureError: an id is no name for a node, or no weight is positive.

    Attributes:
        criteria: as given, each with its id.
    """

    criteria: tuple[Criterion, ...] = ()

    def __init__(
        self,
        criteria: Sequence[Criterion | str],
        prompt: str | Prompt | Path | None = None,
        *,
        calls: Literal["per_criterion", "all"] | int = "per_criterion",
        scale: Scale | None = None,
        reason: bool | None = None,
        expected: bool = False,
        samples: int = 1,
        min_mass: float = 0.5,
        on_failure: OnFailure = "raise",
        on_unscored: Literal["unscored", "renormalize"] = "unscored",
        **options: Unpack[Options],
    ) -> None:
        listed = _named(criteria)
        per_call = _per_call(calls, len(listed))
        single = calls == "per_criterion"
        written = prompt_from(prompt if prompt is not None else ONE if single else MANY)
        asked_for = "criterion" if single else "criteria"
        written.require((*GIVEN, asked_for))
        if asked_for not in written.variables:
            raise PromptError(f"the template of this Checklist must show {asked_for}")
        usual = scale or written.scale or Binary()
        if not isinstance(usual, Scale):
            raise JudgeConfigError(f"the scale of a checklist is a Scale, such as Binary(), not {usual!r}")
        checked_on_failure(on_failure, "Checklist")
        leaves: dict[str, Rubric] = {}
        if single:
            judges: dict[Scale, Judge] = {}
            for criterion in listed:
                asked = criterion.scale or usual
                if asked not in judges:
                    judges[asked] = Judge(
                        written, asked, reason=reason, expected=expected, samples=samples, min_mass=min_mass, **options
                    )
                leaves[str(criterion.id)] = CriterionJudge(criterion, judges[asked], on_failure)
        else:
            if expected or samples != 1:
                raise JudgeConfigError("expected and samples need a call for each criterion")
            asker = Asker(written.model, written.sampling, written.hash, **options)
            for start in range(0, len(listed), per_call):
                batch = Batch(listed[start : start + per_call], written, usual, reason is not False, asker)
                for criterion in batch.criteria:
                    leaves[str(criterion.id)] = CriterionJudge(criterion, batch, on_failure)
        weights = {str(criterion.id): criterion.weight for criterion in listed}
        super().__init__(leaves, weights, normalize="positive", on_unscored=on_unscored)
        self.criteria = tuple(listed)


class CriterionJudge(Rubric):
    """One criterion of a `Checklist`: a leaf whose score is the verdict on it."""

    is_async = True

    def __init__(self, criterion: Criterion, judge: Judge | Batch, on_failure: OnFailure = "raise") -> None:
        super().__init__()
        self.criterion = criterion
        self.judge = judge
        self.on_failure = checked_on_failure(on_failure, type(self).__name__)
        self._sees_episode = "episode" in judge.variables
        if self._sees_episode:
            self._set(_remembers=True)

    def extra_repr(self) -> str:
        """The text of the criterion."""
        return repr(self.criterion.text)

    async def forward(self, action: Any, observation: Any) -> Score:
        """The verdict on the criterion, as a score."""
        inputs = {"action": action, "observation": observation, "task": self.task}
        if self._sees_episode:
            inputs["episode"] = episode_so_far(action, observation)
        if isinstance(self.judge, Judge):
            verdict = await self.judge.judge(criterion=self.criterion.text, **inputs)
        else:
            verdict = await self.judge.verdict_on(str(self.criterion.id), inputs)
        return as_score(verdict, self.on_failure)


class Batch:
    """Criteria that are asked in one call, which their nodes share."""

    def __init__(self, criteria: Sequence[Criterion], prompt: Prompt, usual: Scale, reason: bool, asker: Asker) -> None:
        self.criteria, self.prompt, self.asker = tuple(criteria), prompt, asker
        self.scales = {str(criterion.id): criterion.scale or usual for criterion in criteria}
        self.form = KeyedForm(self.scales, reason)
        self._fixed = fixed_messages(prompt, self.form)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the inputs that the template uses."""
        return self.prompt.variables

    @cached_property
    def listing(self) -> str:
        """The criteria, in words."""
        return "\n".join(f"- {criterion.id}: {criterion.text}" for criterion in self.criteria)

    async def verdict_on(self, criterion: str, inputs: Mapping[str, Any]) -> Verdict | JudgeFailure:
        """The verdict on one criterion, out of the call that all of them share."""
        shown = [given for name, given in inputs.items() if name != "episode"]
        call = of_this_run((id(self), *map(id, shown)), lambda: _Call(shown))
        call.waiting += 1
        try:
            if call.asked is None:
                await shared(asyncio.get_running_loop(), Itself(call), lambda: self._ask(call, inputs))
            assert call.asked is not None
            return self._part(criterion, call.asked, call.share())
        finally:
            call.waiting -= 1

    async def _ask(self, call: _Call, inputs: Mapping[str, Any]) -> None:
        rendered = self.prompt.render({**inputs, "criteria": self.listing})
        messages = [*self._fixed, question(rendered, self.form)]
        call.asked = await self.asker.ask(messages, self.form, rendered.untrusted)
        call.unpaid = call.asked.usage

    def _part(self, criterion: str, asked: Asked, usage: Usage) -> Verdict | JudgeFailure:
        if asked.failure is not None:
            return replace(asked.failure, usage=usage)
        assert asked.found is not None and asked.reply is not None
        answer: Answer = asked.found.answer[criterion]
        score = self.scales[criterion].score(answer.label)
        return Verdict(score, answer.label, answer.reason, usage, asked.reply.model, cached=asked.cached)


class _Call:
    """A call that criteria of one run share.

    Attributes:
        shown: what is judged; kept, so that no other object of the run gets the id of one of these.
        asked: what came of it; None while it is under way.
        waiting: how many criteria wait for it, or have just got it.
        unpaid: the part of its cost that no criterion has been charged yet.
    """

    def __init__(self, shown: Sequence[Any]) -> None:
        self.shown = shown
        self.asked: Asked | None = None
        self.waiting = 0
        self.unpaid = NO_USAGE

    def share(self) -> Usage:
        """What one of those that wait is charged: an equal part, so that the last one's is all that is left."""
        whole, waiting = self.unpaid, self.waiting
        counts = [field.name for field in fields(Usage) if field.name != "cost"]
        cost = None if whole.cost is None else whole.cost / waiting
        part = Usage(**{name: -(-getattr(whole, name) // waiting) for name in counts}, cost=cost)
        left = {name: getattr(whole, name) - getattr(part, name) for name in counts}
        self.unpaid = Usage(**left, cost=None if whole.cost is None or cost is None else whole.cost - cost)
        return part


def _named(criteria: Sequence[Criterion | str]) -> list[Criterion]:
    if isinstance(criteria, (str, Mapping)) or not isinstance(criteria, Sequence) or not criteria:
        raise JudgeConfigError(f"a checklist is a list of criteria, one or more, not {criteria!r}")
    listed: list[Criterion] = []
    for i, given in enumerate(criteria):
        criterion = Criterion(given) if isinstance(given, str) else given
        if not isinstance(criterion, Criterion):
            raise JudgeConfigError(f"criterion {i} is a Criterion or a text, not {given!r}")
        listed.append(criterion if criterion.id is not None else replace(criterion, id=f"criterion_{i}"))
    ids = [criterion.id for criterion in listed]
    if doubled := sorted({str(id) for id in ids if ids.count(id) > 1}):
        raise JudgeConfigError(f"criteria share the id {', '.join(doubled)}")
    return listed


def _per_call(calls: Any, count: int) -> int:
    if calls == "per_criterion":
        return 1
    if calls == "all":
        return count
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise JudgeConfigError(f"calls is 'per_criterion', 'all' or how many criteria a call asks, not {calls!r}")
    return calls
