"""Two reports over the same rows: a run against its baseline, or two prompts or models against each other.

Rows are the same where id and inputs are. Their gold labels are those of the new report, so that a row that was given
another label since is held against that on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any

from judges.scale import Scale
from judges.testing.classification import is_label
from judges.testing.comparisons import Paired, mcnemar, sign_flip
from judges.testing.figures import Figures, figures_of
from judges.testing.golden import GoldenError
from judges.testing.intervals import Interval
from judges.testing.results import Answer, Case, Order, SuiteReport
from judges.verdict import FailureKind


@dataclass(frozen=True, slots=True)
class Side:
    """What one report says of a row, in one order.

    Attributes:
        label: by `Case.said`; None where there is none.
        reason: of the first answer with that label, or else of the first one.
        failure: why there was no verdict at all; None for an abstention, and where samples are undecided.
        right: whether the label is the gold label.
    """

    label: Any
    reason: str | None
    failure: FailureKind | None
    right: bool


@dataclass(frozen=True, slots=True)
class ChangedVerdict:
    """A verdict that is another one than before.

    Attributes:
        id, order: of the row, and of the pair.
        gold: the row's gold value in the new report.
        old, new: both verdicts.
    """

    id: str
    order: Order
    gold: Any
    old: Side
    new: Side


@dataclass(frozen=True, slots=True)
class ChangedFigure:
    """A figure whose estimate is another one than before; None on the side that does not have it."""

    name: str
    old: Interval | None
    new: Interval | None


@dataclass(frozen=True)
class Changes:
    """What changed between two reports.

    Attributes:
        old, new: the reports.
        changed: the verdicts that changed, in the order of the new report.
        only_old, only_new: ids that only one has.
        other: ids whose inputs are others than before; they are not compared.
        stale: ids of which one report has no verdict because the prompt is not the one of its snapshot; they are not
            compared.
        regraded: ids of compared rows whose gold value is another one than before.
        compared: the verdicts that were compared, one a row and order.
        paired: whether one is right more often, the new against the old: `a_better` counts the items on which the new
            one is. McNemar's exact test where each row has one answer, else a sign-flip test over rows. No verdict is
            not right.
    """

    old: SuiteReport
    new: SuiteReport
    changed: tuple[ChangedVerdict, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    other: tuple[str, ...]
    stale: tuple[str, ...]
    regraded: tuple[str, ...]
    compared: int
    paired: Paired

    @cached_property
    def figures(self) -> tuple[ChangedFigure, ...]:
        """The figures that differ, in the order of the new report."""
        return changed_figures(figures_of(self.old), figures_of(self.new))

    @property
    def better(self) -> tuple[ChangedVerdict, ...]:
        """The verdicts that are right now and were not."""
        return tuple(each for each in self.changed if each.new.right and not each.old.right)

    @property
    def worse(self) -> tuple[ChangedVerdict, ...]:
        """The verdicts that were right and are not any more."""
        return tuple(each for each in self.changed if each.old.right and not each.new.right)


def changes(old: SuiteReport, new: SuiteReport) -> Changes:
    """Compare two reports, row by row.

    Raises:
        GoldenError: the suites ask for verdicts that cannot be compared.
    """
    _refuse_others(old, new)
    before = {case.row.id: case for case in old.cases}
    other, stale, regraded = [], [], []
    changed: list[ChangedVerdict] = []
    items: list[str] = []
    scores: list[tuple[float, float]] = []
    once = True
    for case in new.cases:
        id = case.row.id
        if (then := before.get(id)) is None:
            continue
        if not _is_same(then, case):
            other.append(id)
            continue
        if then.stale or case.stale:
            stale.append(id)
            continue
        if not is_label(then.row.gold, case.row.gold):
            regraded.append(id)
        graded = then.model_copy(update={"row": case.row})
        for order in case.orders:
            if not then.of(order):
                continue
            sides = _side(graded, order, new.tolerance), _side(case, order, new.tolerance)
            if _differ(*sides):
                changed.append(ChangedVerdict(id, order, case.row.gold, *sides))
            items.append(id)
            scores.append((_share(case, order, new.tolerance), _share(graded, order, new.tolerance)))
            once = once and len(then.of(order)) == len(case.of(order)) == 1
    now = {case.row.id for case in new.cases}
    return Changes(
        old,
        new,
        tuple(changed),
        tuple(id for id in before if id not in now),
        tuple(case.row.id for case in new.cases if case.row.id not in before),
        tuple(other),
        tuple(stale),
        tuple(regraded),
        len(items),
        _paired(items, scores, once),
    )


def baseline_of(report: SuiteReport, baseline: Sequence[SuiteReport]) -> SuiteReport | None:
    """The report of a baseline that is of the same suite: of the same model, if several were asked."""
    suites = [each for each in baseline if each.suite == report.suite]
    for name in ("path", "model"):
        if len(suites) > 1:
            suites = [each for each in suites if getattr(each, name) == getattr(report, name)] or suites
    return suites[0] if len(suites) == 1 else None


def changed_figures(old: Figures, new: Figures) -> tuple[ChangedFigure, ...]:
    """The figures whose estimates differ; those of perturbations are called `flips[NAME]`."""
    before, now = _by_name(old), _by_name(new)
    found = (ChangedFigure(name, before.get(name), now.get(name)) for name in [*now, *(before.keys() - now.keys())])
    return tuple(each for each in found if not _is_equal(each.old, each.new))


def _by_name(figures: Figures) -> dict[str, Interval]:
    return figures.intervals | {f"flips[{name}]": flips for name, flips in figures.flips.items()}


def _is_equal(a: Interval | None, b: Interval | None) -> bool:
    if a is None or b is None:
        return False
    if a.estimate is None or b.estimate is None:
        return a.estimate is b.estimate
    return abs(a.estimate - b.estimate) <= 1e-12


def _refuse_others(old: SuiteReport, new: SuiteReport) -> None:
    if old.kind != new.kind:
        raise GoldenError(f"{old.title} asks for {old.kind}, and {new.title} for {new.kind}: nothing can be compared")
    if old.on is not None and new.on is not None and _span(old.on) != _span(new.on):
        raise GoldenError(f"{old.title} and {new.title} are on different scales: {old.on!r} and {new.on!r}")


def _span(scale: Scale) -> tuple[Any, ...]:
    return type(scale), getattr(scale, "low", None), getattr(scale, "high", None)


def _is_same(old: Case, new: Case) -> bool:
    if old.row.inputs == new.row.inputs and old.row.reply == new.row.reply:
        return True
    # One that was read from a report has dates as texts, and NaN as none.
    asked = [case.row.model_dump(mode="json", include={"inputs", "reply"}) for case in (old, new)]
    return asked[0] == asked[1]


def _side(case: Case, order: Order, tolerance: float) -> Side:
    answers = case.of(order)
    label = case.said(order)
    meant = next((each for each in answers if label is not None and is_label(each.label, label)), answers[0])
    failed = all(each.failure is not None for each in answers)
    right = case.agrees(Answer(order=order, label=label), tolerance)
    return Side(label, meant.reason, answers[0].failure if failed else None, right)


def _differ(old: Side, new: Side) -> bool:
    if old.label is None or new.label is None:
        return old.label is not new.label or (old.failure is None) != (new.failure is None)
    return not is_label(old.label, new.label)


def _share(case: Case, order: Order, tolerance: float) -> float:
    """Of the samples that are right."""
    answers = case.of(order)
    return fsum(case.agrees(each, tolerance) for each in answers) / len(answers)


def _paired(items: Sequence[str], scores: Sequence[tuple[float, float]], once: bool) -> Paired:
    now, before = [each for each, _ in scores], [each for _, each in scores]
    if once and len(set(items)) == len(items):
        return mcnemar(now, before)
    return sign_flip(now, before, clusters=items)
