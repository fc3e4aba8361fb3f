"""The figures of a suite: what its verdicts say of the judge, each with its interval, and the decisions on them.

The names are those that `thresholds:` uses. Which a suite has depends on what its rows ask; see the page "Judge tests".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from judges.scale import Binary, Likert, Numeric
from judges.testing.agreement import kappa_interval, kendall_tau_b, mean_absolute_error, spearman, tau_b
from judges.testing.bias import (
    both_orders_accuracy,
    consistency,
    first_position_rate,
    self_agreement,
    unanimity,
    verbosity,
)
from judges.testing.calibration import Bin, brier_score, expected_calibration_error, reliability_curve
from judges.testing.classification import (
    Confusion,
    accuracy,
    accuracy_of_parsed,
    confusion,
    is_label,
    precision,
    recall,
    true_negative_rate,
    true_positive_rate,
)
from judges.testing.decisions import Decision, decide
from judges.testing.golden import GoldenError, index_of, ratings_of
from judges.testing.intervals import Interval, mean, proportion
from judges.testing.rates import answer_rates
from judges.testing.reliability import Level, alpha_interval
from judges.testing.results import Answer, Case, SuiteReport, spoken

_FEW = 12
"""Labels up to which each has its precision and recall."""
_RATES = {
    "verdict": "verdict_rate",
    "abstention": "abstention_rate",
    "format": "format_failure_rate",
    "refusal": "refusal_rate",
    "truncation": "truncation_rate",
    "unreached": "unreached_rate",
}

NOT_AT_LEAST = frozenset(
    [
        *(name for name in _RATES.values() if name != "verdict_rate"),
        *("mean_absolute_error", "expected_calibration_error", "brier_score", "cost", "seconds"),
        *("first_position_rate", "verbosity"),
    ]
)
"""Figures of which more is no better: a threshold says which bound it is."""


@dataclass(frozen=True)
class Figures:
    """The figures of a suite.

    Attributes:
        intervals: by name, in the order in which they are shown.
        confusion: of gold and judged labels, where there are few.
        curve: of reliability, where there are probabilities.
        flips: the share of verdicts that flip, by perturbation.
    """

    intervals: dict[str, Interval]
    confusion: Confusion | None
    curve: tuple[Bin, ...]
    flips: dict[str, Interval]


def figures_of(report: SuiteReport) -> Figures:
    """Work them out."""
    answers = [(case, answer) for case in report.cases for answer in case.answers]
    kinds = {"labels": _labels, "pairs": _pairs, "rankings": _rankings}
    intervals = dict(kinds[report.kind](report, answers))
    if report.samples > 1 and report.kind != "rankings":
        asked = [(case, order) for case in report.cases for order in case.orders]
        table = [[answer.label for answer in case.of(order)] for case, order in asked]
        rows = [case.row.id for case, _ in asked]
        agreed = self_agreement(table, clusters=rows), unanimity(table, clusters=rows)
        intervals |= dict(zip(("self_agreement", "unanimity"), agreed, strict=True))
    people = _people(report)
    if people is not None:
        intervals["people_alpha"] = people
    items = [case.row.id for case, _ in answers]
    rates = answer_rates([answer.verdict for _, answer in answers], clusters=items)
    intervals |= {_RATES[name]: rate for name, rate in rates.items()}
    sent = [(case.row.id, answer) for case, answer in answers if answer.worth.calls or answer.seconds is not None]
    if sent:
        of = [id for id, _ in sent]
        intervals["cost"] = mean([answer.worth.cost for _, answer in sent], clusters=of)
        intervals["seconds"] = mean([answer.seconds for _, answer in sent], clusters=of)
    return Figures(intervals, _confusion(report, answers), _curve(answers), _flips(report))


def decisions_of(report: SuiteReport, figures: Figures) -> dict[str, Decision]:
    """The thresholds of a suite and of its perturbations (`flips[NAME]`), decided.

    Raises:
        GoldenError: a threshold is of no figure of this suite.
    """
    decided: dict[str, Decision] = {}
    refuse_unknown(report, figures)
    for name, limit in report.thresholds.items():
        found = figures.intervals[name]
        decided[name] = decide(found, at_least=limit.at_least, at_most=limit.at_most, min_n=report.min_n)
    for flips in report.perturbations:
        if (held := flips.threshold) is not None:
            found = figures.flips[flips.name]
            decided[f"flips[{flips.name}]"] = decide(
                found, at_least=held.at_least, at_most=held.at_most, min_n=report.min_n
            )
    return decided


def refuse_unknown(report: SuiteReport, figures: Figures) -> None:
    """Refuse thresholds of what is no figure.

    Raises:
        GoldenError: there is one.
    """
    for name in report.thresholds:
        if name not in figures.intervals:
            near = get_close_matches(name, figures.intervals, 1)
            hint = f"; {near[0]!r} is meant, perhaps" if near else ""
            raise GoldenError(
                f"suite {report.suite}: there is no figure {name!r} to hold against a threshold{hint}; there are "
                f"{', '.join(figures.intervals)}"
            )


Answers = Sequence[tuple[Case, Answer]]


def _labels(report: SuiteReport, answers: Answers) -> Iterator[tuple[str, Interval]]:
    gold, judged, items = _columns(answers)
    scale = report.on
    numeric = isinstance(scale, (Likert, Numeric))
    if isinstance(scale, Numeric) or report.tolerance:
        right = [case.agrees(answer, report.tolerance) for case, answer in answers]
        yield "accuracy", proportion(right, items)
        parsed = [each if answer.label is not None else None for each, (_, answer) in zip(right, answers, strict=True)]
        yield "accuracy_of_parsed", proportion(parsed, items)
    else:
        yield "accuracy", accuracy(gold, judged, clusters=items)
        yield "accuracy_of_parsed", accuracy_of_parsed(gold, judged, clusters=items)
    labels = _few_labels(report)
    if isinstance(scale, Binary) or report.positive is not None:
        positive = True if report.positive is None else report.positive
        yield "true_positive_rate", true_positive_rate(gold, judged, positive, clusters=items)
        yield "true_negative_rate", true_negative_rate(gold, judged, positive, clusters=items)
    for label in labels:
        yield f"precision[{spoken(label)}]", precision(gold, judged, label, clusters=items)
        yield f"recall[{spoken(label)}]", recall(gold, judged, label, clusters=items)
    if labels:
        yield "kappa", kappa_interval(gold, judged, labels=labels, clusters=items)
    if isinstance(scale, Likert):
        for weights in ("linear", "quadratic"):
            yield f"{weights}_kappa", kappa_interval(gold, judged, weights, labels, clusters=items)
    if numeric:
        yield "spearman", spearman(gold, judged, clusters=items)
        yield "kendall_tau_b", kendall_tau_b(gold, judged, clusters=items)
        yield "mean_absolute_error", mean_absolute_error(gold, judged, clusters=items)
    if report.response is not None and scale is not None:
        lengths = [_length(case.row.inputs.get(report.response)) for case, _ in answers]
        truth = [scale.score(case.row.gold) for case, _ in answers]
        yield "verbosity", verbosity([answer.score for _, answer in answers], lengths, truth, clusters=items)
    yield from _calibration(answers)


def _pairs(report: SuiteReport, answers: Answers) -> Iterator[tuple[str, Interval]]:
    gold, judged, items = _columns(answers)
    yield "accuracy", accuracy(gold, judged, clusters=items)
    if cases := [case for case in report.cases if len(case.orders) == 2]:
        truths = [case.row.gold for case in cases]
        picks = [[case.said("given"), case.said("swapped")] for case in cases]
        yield "both_orders_accuracy", both_orders_accuracy(truths, picks)
        yield "consistency", consistency(picks)
        yield "first_position_rate", first_position_rate(picks)
        if any(answer.probabilities for _, answer in answers):  # of letters alone it is the accuracy of both orders
            yield "winner_accuracy", accuracy(truths, [_winner(case) for case in cases])
    yield "accuracy_of_parsed", accuracy_of_parsed(gold, judged, clusters=items)
    yield "kappa", kappa_interval(gold, judged, labels=["a", "b", "tie"], clusters=items)
    lengths = [
        None
        if (a := _length(case.row.inputs.get("a"))) is None or (b := _length(case.row.inputs.get("b"))) is None
        else a - b
        for case, _ in answers
    ]
    truth = [{"a": 1.0, "tie": 0.5, "b": 0.0}[case.row.gold] for case, _ in answers]
    yield "verbosity", verbosity([answer.score for _, answer in answers], lengths, truth, clusters=items)
    yield from _calibration(answers)


def _winner(case: Case) -> str | None:
    """Who wins by the mean score over all orders and samples, as `PairwiseJudge` has it; None without a verdict."""
    scores = [answer.score for answer in case.answers if answer.score is not None]
    if not scores or len(scores) < len(case.answers):
        return None
    mean = sum(scores) / len(scores)
    return "a" if mean > 0.5 else "b" if mean < 0.5 else "tie"


def _rankings(report: SuiteReport, answers: Answers) -> Iterator[tuple[str, Interval]]:
    items = [case.row.id for case, _ in answers]
    yield "accuracy", proportion([case.agrees(answer) for case, answer in answers], items)
    taus: list[float | None] = []
    for case, answer in answers:
        candidates, ranking = case.row.inputs["candidates"], case.row.gold
        places = [index_of(name, candidates) for name in ranking]
        graded = None if answer.label is None else [answer.label[place] for place in places]
        usable = graded is not None and all(grade is not None for grade in graded)
        taus.append(tau_b(list(range(len(places), 0, -1)), graded) if usable and graded is not None else None)
    yield "kendall_tau_b", mean(taus, clusters=items)


def _calibration(answers: Answers) -> Iterator[tuple[str, Interval]]:
    predicted, happened, items = _predictions(answers)
    if predicted:
        yield "expected_calibration_error", expected_calibration_error(predicted, happened, clusters=items)
        yield "brier_score", brier_score(predicted, happened, clusters=items)


def _curve(answers: Answers) -> tuple[Bin, ...]:
    predicted, happened, items = _predictions(answers)
    return reliability_curve(predicted, happened, clusters=items) if predicted else ()


def _predictions(answers: Answers) -> tuple[list[float], list[bool], list[str]]:
    """What was given the most probability, and whether it was right; of yes and no, the probability of yes."""
    predicted, happened, items = [], [], []
    for case, answer in answers:
        if not answer.probabilities:
            continue
        named = [(label, p) for label, p in answer.probabilities]
        yes = next(((label, p) for label, p in named if label is True), None)
        label, p = yes or max(named, key=lambda each: each[1])
        predicted.append(min(1.0, p))
        happened.append(is_label(label, case.row.gold))
        items.append(case.row.id)
    return predicted, happened, items


def _columns(answers: Answers) -> tuple[list[Any], list[Any], list[str]]:
    gold = [case.row.gold for case, _ in answers]
    return gold, [answer.label for _, answer in answers], [case.row.id for case, _ in answers]


def _few_labels(report: SuiteReport) -> list[Any]:
    if report.kind == "pairs":
        return ["a", "b", "tie"]
    labels = list(report.on.labels) if report.on is not None and not isinstance(report.on, Numeric) else []
    return labels if len(labels) <= _FEW else []


def _confusion(report: SuiteReport, answers: Answers) -> Confusion | None:
    labels = _few_labels(report)
    gold, judged, _ = _columns(answers)
    return confusion(gold, judged, labels) if labels and report.kind != "rankings" else None


def _flips(report: SuiteReport) -> dict[str, Interval]:
    return {
        flips.name: proportion([each.flipped for each in flips.verdicts], [each.id for each in flips.verdicts])
        for flips in report.perturbations
    }


def _people(report: SuiteReport) -> Interval | None:
    """Krippendorff's alpha of the annotators, where rows have some."""
    if report.kind == "rankings" or not any(case.row.annotators for case in report.cases):
        return None
    level: Level = (
        "interval" if isinstance(report.on, Numeric) else "ordinal" if isinstance(report.on, Likert) else "nominal"
    )
    return alpha_interval(ratings_of(case.row for case in report.cases), level)


def _length(value: Any) -> int | None:
    """Characters of a response."""
    return None if value is None else len(value if isinstance(value, str) else repr(value))
