"""Perturbations: changes that should not move a verdict, and how many verdicts they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judges.testing.golden import GoldenError, GoldenRow
from judges.testing.questions import ask_all
from judges.testing.results import Case, Flip, Flips
from judges.testing.suite import Suite
from rubrics.evaluation import NO_USAGE


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A change of a row that should not move the verdict on it.

    Attributes:
        name, description: for people.
        change: the changed row; None where it does not apply.
    """

    name: str
    description: str
    change: Callable[[GoldenRow, str], GoldenRow | None]


async def flips_of(name: str, suite: Suite, cases: Sequence[Case]) -> Flips:
    """Try a perturbation on the rows that were judged.

    Raises:
        GoldenError: there is none of that name, or the suite does not say which input is the response.
    """
    perturbation = PERTURBATIONS.get(name)
    if perturbation is None:
        raise GoldenError(f"there is no perturbation {name!r}; there are {', '.join(PERTURBATIONS)}")
    if suite.response is None:
        raise GoldenError(f"suite {suite.name}: perturbations need to know which input is the response: response: NAME")
    judged = [case for case in cases if not case.stale and suite.asks(case.row)]
    changed = {case.row.id: row for case in judged if (row := perturbation.change(case.row, suite.response))}
    answered = await ask_all(suite, list(changed.values()))
    verdicts = []
    for case in judged:
        for order in suite.orders if case.row.id in changed else ():
            after = Case(row=case.row, place=case.place, answers=tuple(answered[case.row.id]))
            failure = next((answer.failure for answer in after.of(order) if answer.failure), None)
            shown = str(changed[case.row.id].inputs[suite.response])
            verdicts.append(
                Flip(
                    id=case.row.id,
                    order=order,
                    before=case.said(order),
                    after=after.said(order),
                    failure=failure,
                    changed=shown,
                )
            )
    usage = sum((answer.usage for answers in answered.values() for answer in answers), NO_USAGE)
    return Flips(
        name=name,
        description=perturbation.description,
        threshold=suite.perturbations[name],
        verdicts=tuple(verdicts),
        usage=usage,
    )


def _padded(row: GoldenRow, response: str) -> GoldenRow | None:
    text = row.inputs.get(response)
    if not isinstance(text, str):
        return None
    padding = "This is my answer to the question, and I have taken the time to write it down in full."
    return row.model_copy(update={"inputs": {**row.inputs, response: f"{text}\n\n{padding}"}})


PERTURBATIONS = {
    each.name: each for each in (Perturbation("padding", "a sentence that says nothing is added", _padded),)
}
