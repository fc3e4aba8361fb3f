"""A report with its figures and decisions, worked out once for all forms in which it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from judges.testing.comparing import ChangedFigure, Changes, baseline_of, changed_figures, changes
from judges.testing.decisions import Decision, Outcome
from judges.testing.figures import Figures, decisions_of, figures_of
from judges.testing.golden import GoldenError
from judges.testing.intervals import Interval, mean
from judges.testing.results import Case, Flip, Flips, ReplyCheck, Status, SuiteReport, Threshold
from rubrics.evaluation import NO_USAGE, Usage

Shown = Status | Literal["stale"]
STATUSES: tuple[Shown, ...] = ("agrees", "disagrees", "abstains", "no verdict", "stale")
OUTCOMES: tuple[Outcome, ...] = ("PASS", "FAIL", "INCONCLUSIVE")
_NEVER = ("abstention_rate", "format_failure_rate", "refusal_rate", "truncation_rate", "unreached_rate")
_SPENT = ("cost", "seconds")


@dataclass(frozen=True)
class Assessed:
    """A report of a suite, and what follows from it.

    Attributes:
        report: the report.
        figures: its figures.
        decisions: on its thresholds; `flips[NAME]` for a perturbation.
        changes: against a baseline; None without one.
        figures_changed: the figures that differ from the baseline's.
        incomparable: why it cannot be compared to its baseline.
    """

    report: SuiteReport
    figures: Figures
    decisions: dict[str, Decision]
    changes: Changes | None = None
    figures_changed: tuple[ChangedFigure, ...] = ()
    incomparable: str | None = None

    @cached_property
    def statuses(self) -> dict[str, Shown]:
        """What became of each row, by id."""
        return {
            case.row.id: "stale" if case.stale else self.report.status(case)  # nothing was asked about a stale one
            for case in self.report.cases
        }

    @cached_property
    def counts(self) -> dict[Shown, int]:
        """How many rows became what; of all."""
        found = Counter(self.statuses.values())
        return {status: found[status] for status in STATUSES if found[status] or status in ("agrees", "disagrees")}

    def cases(self, *statuses: Shown) -> list[Case]:
        """The rows of which this became."""
        return [case for case in self.report.cases if self.statuses[case.row.id] in statuses]

    @cached_property
    def failures(self) -> dict[str, int]:
        """How many answers are no verdict, by kind, the most frequent first."""
        kinds = Counter(a.failure for case in self.report.cases for a in case.answers if a.failure is not None)
        return {str(kind): count for kind, count in kinds.most_common()}

    @property
    def answers(self) -> int:
        """How many questions there were."""
        return sum(len(case.answers) for case in self.report.cases)

    @property
    def replayed(self) -> int:
        """How many of the answers were there already, in the cassette or in the golden set."""
        answers = [answer for case in self.report.cases for answer in case.answers]
        return sum(answer.cached and answer.failure != "not_recorded" for answer in answers)

    @property
    def worth(self) -> Usage:
        """What the answers took when they were sent."""
        return sum((answer.worth for case in self.report.cases for answer in case.answers), NO_USAGE)

    @cached_property
    def main_figures(self) -> dict[str, Interval]:
        """The figures without those that say nothing: rates of what never happened, what another figure says too."""
        found = self.figures.intervals
        labels = sum(name.startswith("recall[") for name in found)
        return {name: each for name, each in found.items() if name in self.decisions or _tells(name, found, labels)}

    def asked(self, name: str) -> Threshold:
        """The threshold of a decision."""
        flips = {f"flips[{each.name}]": each.threshold for each in self.report.perturbations if each.threshold}
        return (self.report.thresholds | flips)[name]

    def flipped(self, flips: Flips) -> list[Flip]:
        """The verdicts that a perturbation moved."""
        return [flip for flip in flips.verdicts if flip.flipped]

    def lifted(self, flips: Flips) -> int | None:
        """How many verdicts moved towards what the perturbation would gain by; None where that is not known."""
        if all(flip.lift is None for flip in flips.verdicts):
            return None
        return sum(flip.lift is not None and flip.lift > 0.0 for flip in self.flipped(flips))

    @cached_property
    def lifts(self) -> dict[str, Interval]:
        """The mean lift of scores, in [-1, 1], by perturbation, where it is known."""
        return {
            flips.name: mean([flip.lift for flip in flips.verdicts], clusters=[flip.id for flip in flips.verdicts])
            for flips in self.report.perturbations
            if self.lifted(flips) is not None
        }

    @property
    def misread(self) -> list[ReplyCheck]:
        """The forms of reply that are read as what they do not say."""
        return [check for check in self.report.extractor if not check.is_right]


def _tells(name: str, found: dict[str, Interval], labels: int) -> bool:
    if name in _SPENT or (name in _NEVER and found[name].estimate in (0.0, None)):
        return False
    if name == "verdict_rate":
        return found[name].estimate not in (1.0, None)
    if name == "accuracy_of_parsed":
        return found[name].estimate != found["accuracy"].estimate
    if name.startswith("recall["):
        return labels == 3 or (labels == 2 and "true_positive_rate" not in found)
    return labels <= 3 if name.startswith("precision[") else True


def assess(reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None) -> list[Assessed]:
    """Work out figures and decisions of reports, and what changed against a baseline.

    Args:
        reports: of the suites; one that was assessed before stays as it is.
        baseline: the reports of an earlier run, for instance by `read_reports`.

    Raises:
        GoldenError: a threshold is of no figure of its suite.
    """
    return [each if isinstance(each, Assessed) else _assessed(each, baseline or ()) for each in reports]


def _assessed(report: SuiteReport, baseline: Sequence[SuiteReport]) -> Assessed:
    figures = figures_of(report)
    decisions = decisions_of(report, figures)
    old = baseline_of(report, baseline)
    if old is None:
        return Assessed(report, figures, decisions)
    try:
        found = changes(old, report)
    except GoldenError as error:
        return Assessed(report, figures, decisions, incomparable=str(error))
    return Assessed(report, figures, decisions, found, changed_figures(figures_of(old), figures))


# -- words ------------------------------------------------------------------------------------------------------------


def counted(counts: dict[Shown, int]) -> str:
    """How many rows became what, in words."""
    several = {"agrees": "agree", "disagrees": "disagree", "abstains": "abstain", "no verdict": "without a verdict"}
    alone = {"no verdict": "without a verdict"}
    return ", ".join(f"{n:,} {(alone if n == 1 else several).get(status, status)}" for status, n in counts.items())


def number_of(count: int, name: str) -> str:
    """So many of them."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def misread_words(each: Assessed) -> str | None:
    """Which forms of reply are misread; None where none is."""
    if not each.misread:
        return None
    names = ", ".join(dict.fromkeys(check.name for check in each.misread))
    forms = number_of(len(each.report.extractor), "form")
    return f"the extractor misreads {len(each.misread):,} of {forms} of reply: {names}"


def asked_for(threshold: Threshold) -> str:
    """What a threshold asks for."""
    limits = {"at least": threshold.at_least, "at most": threshold.at_most}
    return ", ".join(f"{name} {limit:g}" for name, limit in limits.items() if limit is not None)


def reasoned(decision: Decision) -> str:
    """Why a decision is what it is, with the n that would decide."""
    if decision.needed is None or "would decide" in decision.reason:
        return decision.reason
    return f"{decision.reason} (about {decision.needed:,} would decide)"


def paired_words(found: Changes) -> str:
    """Whether the new one is right more often, in words: the share of rows it has more, its test, its power."""
    paired, figure = found.paired, found.paired.difference
    if figure.estimate is None:
        return "no row can be compared"
    said = f"difference in accuracy {figure.estimate:+.3f}"
    if figure.low is not None and figure.high is not None:
        said += f", 95 % interval {figure.low:+.3f} to {figure.high:+.3f}"
    named = {"mcnemar": "McNemar's exact test", "sign-flip": "sign-flip test"}[paired.test]
    if paired.p_value is not None:
        said += f", p = {paired.p_value:.3g} ({named} over {figure.clusters:,} rows: "
        said += f"{paired.a_better:,} better, {paired.b_better:,} worse)"
    if paired.detectable is not None:
        said += f"; as many rows find differences from {paired.detectable:.3f}"
    return said


def outcomes(assessed: Sequence[Assessed]) -> dict[Outcome, int]:
    """How many decisions of all suites are what."""
    found = Counter(decision.outcome for each in assessed for decision in each.decisions.values())
    return {outcome: found[outcome] for outcome in OUTCOMES if found[outcome]}
