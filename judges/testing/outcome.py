"""What makes a suite red: one rule, for pytest and for `judges test`.

A row is red where there is no verdict, where one of its questions reached no model, where it is stale, or where it is
marked `must` and the judge does not agree.
Any other disagreement counts in the figures alone, or a judge that is right in nine of ten cases would be red for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from judges.testing.comparing import Side, changes
from judges.testing.figures import Figures, decisions_of
from judges.testing.golden import GoldenError
from judges.testing.rates import is_unreached
from judges.testing.results import Case, SuiteReport, spoken
from judges.verdict import FailureKind

_NAMED = 5  # rows named in a message about several
_RECORD = "to record what is missing: pytest --judge-record=new, judges test --record=new"


class Problem(NamedTuple):
    """One thing that makes a suite red.

    Attributes:
        what: a row's id, `snapshot`, `flips[NAME]`, the name of a threshold's figure, or `baseline`.
        message: what is wrong, and what to do.
    """

    what: str
    message: str

    def __str__(self) -> str:
        return f"{self.what}: {self.message}"


def problems_of(
    report: SuiteReport, figures: Figures, baseline: SuiteReport | None = None, strict: bool = False
) -> list[Problem]:
    """All that makes a suite red; nothing where it is green.

    Args:
        report: the suite, judged.
        figures: of it.
        baseline: an earlier report of the suite, none of whose verdicts may have changed.
        strict: whether a threshold that is not decided is a problem as well.

    Raises:
        GoldenError: a threshold is of no figure of this suite.
    """
    rows = ((case.row.id, problem_of_row(report, case)) for case in report.cases)
    return [
        *problems_of_snapshot(report),
        *(Problem(id, message) for id, message in rows if message is not None),
        *problems_of_extractor(report),
        *problems_of_perturbations(report),
        *_of_thresholds(report, figures, strict),
        *(problems_of_baseline(report, baseline) if baseline is not None else ()),
    ]


def problem_of_row(report: SuiteReport, case: Case) -> str | None:
    """What is wrong with one row; None where nothing is."""
    row = case.row
    if case.stale:
        return (
            "its prompt is not the one of the snapshot, so its verdict is stale and nothing was asked; look at the "
            "difference, then update the snapshots"
        )
    status = report.status(case)
    if status == "no verdict":
        silent = [order for order in case.orders if all(answer.failure for answer in case.of(order))]
        answer = next((answer for answer in case.answers if answer.order in silent), None)
        if answer is None:
            return "there is no verdict, and none was asked for"
        order = f", order {answer.order}" if len(report.orders) > 1 else ""
        hint = f"; {_RECORD}" if answer.failure == "not_recorded" else ""
        return f"there is no verdict{order}: {answer.failure}: {answer.message}{hint}"
    if missed := case.unreached:
        kinds, hint = _told([answer.failure for answer in missed])
        return f"{len(missed)} of {len(case.answers)} questions have no reply ({kinds}): {missed[0].message}{hint}"
    if row.must and status != "agrees":
        said = [f"{spoken(case.said(order))}{f' ({order})' if len(case.orders) > 1 else ''}" for order in case.orders]
        reason = next((answer.reason for answer in case.answers if answer.reason), None)
        because = f"; it says: {reason}" if reason else ""
        return (
            f"this row must agree ({case.place}): people say {spoken(row.gold)}, the judge {', '.join(said)}{because}"
        )
    return None


def problems_of_snapshot(report: SuiteReport) -> Iterator[Problem]:
    """Whether the prompts are those of the snapshot."""
    snapshot = report.snapshot
    then = "update the snapshots (judges test --update-snapshots, pytest --judge-update-snapshots)"
    if snapshot.state == "changed":
        which = f"what is sent about {_rows(snapshot.stale)}" if snapshot.stale else "the template, though no row,"
        yield Problem(
            "snapshot",
            f"{which} is not what {snapshot.path} holds. Where this is meant, {then}.\n{snapshot.difference}",
        )
    elif snapshot.state == "new":
        there = "" if snapshot.known else ", and is not there yet; what records replies writes it"
        yield Problem(
            "snapshot",
            f"{snapshot.path} does not hold what is sent about {_rows(snapshot.added)}{there}: look at it, and {then}",
        )


def problems_of_extractor(report: SuiteReport) -> Iterator[Problem]:
    """Replies that are read as what they do not say."""
    for check in report.extractor:
        if not check.is_right:
            read = check.failure or spoken(check.label)
            asked = "no verdict" if check.expected is None else spoken(check.expected)
            yield Problem("extractor", f"{check.name}: {check.reply!r} is read as {read}, and gives {asked}")


def problems_of_questions(report: SuiteReport) -> Iterator[Problem]:
    """Questions about rows that reached no model: figures say nothing then. One problem for all of them."""
    cases = [case for case in report.cases if case.unreached]
    if cases:
        missed = [answer for case in cases for answer in case.unreached]
        told, hint = _told([answer.failure for answer in missed])
        asked = sum(len(case.answers) for case in report.cases)
        rows = _rows(case.row.id for case in cases)
        yield Problem("questions", f"{len(missed)} of {asked} questions have no reply ({told}): {rows}{hint}")


def problems_of_perturbations(report: SuiteReport) -> Iterator[Problem]:
    """Changed questions that reached no model: they are no flips."""
    for flips in report.perturbations:
        missed = [each for each in flips.verdicts if is_unreached(each.failure)]
        if missed:
            told, hint = _told([each.failure for each in missed])
            yield Problem(
                f"flips[{flips.name}]",
                f"{len(missed)} of {len(flips.verdicts)} changed questions have no reply ({told}): "
                f"{_rows(each.id for each in missed)}{hint}",
            )


def _told(failures: Sequence[FailureKind | None]) -> tuple[str, str]:
    """Failures by kind, and what to do about them."""
    kinds = Counter(failures)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return told, f"; {_RECORD}" if kinds["not_recorded"] else ""


def _of_thresholds(report: SuiteReport, figures: Figures, strict: bool) -> Iterator[Problem]:
    for name, decision in decisions_of(report, figures).items():
        if decision.outcome == "FAIL" or (strict and decision.outcome == "INCONCLUSIVE"):
            yield Problem(name, str(decision))


def problems_of_baseline(report: SuiteReport, baseline: SuiteReport) -> Iterator[Problem]:
    """The verdicts that are not those of an earlier report."""
    try:
        changed = changes(baseline, report).changed
    except GoldenError as error:
        yield Problem("baseline", str(error))
        return
    if changed:
        several = len(report.orders) > 1
        told = [
            f"  {each.id}{f' ({each.order})' if several else ''}: {_said(each.old)} → {_said(each.new)}"
            for each in changed
        ]
        yield Problem("baseline", "\n".join([f"{len(told)} verdicts are not those of the baseline", *told]))


def _said(side: Side) -> str:
    return side.failure or spoken(side.label)


def _rows(ids: Iterable[str]) -> str:
    listed = list(dict.fromkeys(ids))
    named = ", ".join(listed[:_NAMED])
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{'row' if len(listed) == 1 else 'rows'} {named}{more}"
