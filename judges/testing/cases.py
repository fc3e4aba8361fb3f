"""What a test is given: a row with the judge's answers, or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from judges.testing.cassettes import why_not_recorded
from judges.testing.columns import MetricError
from judges.testing.decisions import Decision, decide
from judges.testing.golden import GoldenRow
from judges.testing.intervals import Interval
from judges.testing.outcome import (
    Problem,
    problem_of_row,
    problems_of_baseline,
    problems_of_extractor,
    problems_of_perturbations,
    problems_of_questions,
    problems_of_snapshot,
)
from judges.testing.results import Answer, Case, Status, SuiteReport, spoken
from judges.testing.sharing import Judged
from judges.testing.suite import Suite
from judges.verdict import JudgeFailure, Verdict

if TYPE_CHECKING:
    from _pytest.outcomes import Failed
else:
    Failed = pytest.fail.Exception


class CaseFailed(Failed):
    """A test of a judge fails; the text says why, and no traceback tells more."""

    __module__ = "builtins"  # as pytest's own, which it then names shortly

    def __init__(self, message: str) -> None:
        super().__init__(message, pytrace=False)


class JudgeCase:
    """A row of a golden set, and what the judge says of it.

    Attributes:
        id, row, inputs, gold: of the row.
        answers: one an order and sample.
        status: `agrees`, `disagrees`, `abstains` or `no verdict`.
    """

    def __init__(self, suite: Suite, judged: Judged, case: Case) -> None:
        self._suite, self._judged, self._case = suite, judged, case
        self.row: GoldenRow = case.row
        self.id, self.inputs, self.gold = case.row.id, case.row.inputs, case.row.gold
        self.answers: tuple[Answer, ...] = case.answers
        self.status: Status = judged.report.status(case)

    def __repr__(self) -> str:
        return f"JudgeCase({self.id!r}, {self.status})"

    @property
    def label(self) -> Any:
        """What the judge says: by most of its samples, the pair as given; None where there is no verdict."""
        return self._case.said(self.answers[0].order) if self.answers else None

    @property
    def verdict(self) -> Verdict | JudgeFailure:
        """The first answer.

        Raises:
            CaseFailed: nothing was asked, because the prompt is not the one of the snapshot.
        """
        if not self.answers:
            raise CaseFailed(f"{self.id}: {problem_of_row(self._judged.report, self._case)}")
        return self.answers[0].verdict

    def check(self) -> None:
        """Hold the row against people's answer.

        Without a verdict, and where the row says `must` and the judge does not agree, the test fails. Any other
        disagreement is expected of some rows: the test is an `xfail`, and counts in the figures.

        Raises:
            CaseFailed: the test fails.
        """
        problem = problem_of_row(self._judged.report, self._case)
        if problem is not None:
            near = why_not_recorded(self._suite, self._case)
            where = [] if self._case.place in problem else [self._case.place]
            raise CaseFailed("\n".join([problem, *where, *([near] if near else [])]))
        if self.status != "agrees":
            pytest.xfail(_told(self._case))


class JudgeReport:
    """What a judge says of a golden set: all answers, and its figures.

    Attributes:
        results: all answers.
    """

    def __init__(self, judged: Judged, baseline: SuiteReport | None = None, strict: bool = False) -> None:
        self._judged, self._baseline, self._strict = judged, baseline, strict
        self.results: SuiteReport = judged.report

    def __getitem__(self, figure: str) -> Interval:
        try:
            return self.figures[figure]
        except KeyError:
            raise KeyError(f"there is no figure {figure!r}; there are {', '.join(self.figures)}") from None

    @property
    def figures(self) -> Mapping[str, Interval]:
        """The figures, by name."""
        return self._judged.figures.intervals

    @property
    def flips(self) -> Mapping[str, Interval]:
        """The share of verdicts that flip, by perturbation."""
        return self._judged.figures.flips

    def require(self, figure: str, *, at_least: float | None = None, at_most: float | None = None) -> Decision:
        """Hold a figure against a threshold: a failed one fails the test, one that is not decided skips it (or fails
        it, with `--judge-strict`).

        Raises:
            CaseFailed: the test fails, or asks for what there is not, or questions reached no model.
        """
        raise_any(problems_of_questions(self.results))
        if figure not in self.figures:
            raise CaseFailed(f"there is no figure {figure!r}; there are {', '.join(self.figures)}")
        try:
            decision = decide(self.figures[figure], at_least=at_least, at_most=at_most, min_n=self.results.min_n)
        except MetricError as error:
            raise CaseFailed(f"{figure}: {error}") from None
        settle(figure, decision, self._strict)
        return decision

    def check(self) -> None:
        """Hold the prompts against their snapshot, the verdicts against the baseline, where there is one, replies
        against what they should give, and the figures against the thresholds of the marker. Questions that reached no
        model fail the test.

        Raises:
            CaseFailed: the test fails.
        """
        raise_any(problems_of_snapshot(self.results))
        raise_any(problems_of_questions(self.results))
        raise_any(problems_of_extractor(self.results))
        raise_any(problems_of_perturbations(self.results))
        if self._baseline is not None:
            raise_any(problems_of_baseline(self.results, self._baseline))
        undecided = []
        for name, decision in self._judged.decisions.items():
            if decision.outcome == "FAIL" or self._strict:
                settle(name, decision, self._strict)
            elif decision.outcome == "INCONCLUSIVE":
                undecided.append((name, decision))
        for name, decision in undecided:
            settle(name, decision, self._strict)


def settle(name: str, decision: Decision, strict: bool) -> None:
    """Pass, fail or skip a test by a decision.

    Raises:
        CaseFailed: it fails.
    """
    message = f"{name} {decision.figure}\n{decision}"
    if decision.outcome == "FAIL" or (strict and decision.outcome == "INCONCLUSIVE"):
        raise CaseFailed(message)
    if decision.outcome == "INCONCLUSIVE":
        pytest.skip(f"{name}: {decision}")


def raise_any(problems: Iterable[Problem]) -> None:
    """Fail for problems, where there are any.

    Raises:
        CaseFailed: there are.
    """
    if told := [str(problem.message) for problem in problems]:
        raise CaseFailed("\n".join(told))


def _told(case: Case) -> str:
    said = [f"{spoken(case.said(order))}{f' ({order})' if len(case.orders) > 1 else ''}" for order in case.orders]
    return f"{case.row.id}: people say {spoken(case.row.gold)}, the judge {', '.join(said)}"
