"""A report as JSON: all answers, which `judges.testing.results.read_reports` reads back, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from judges.testing.calibration import Bin
from judges.testing.comparing import ChangedFigure, ChangedVerdict, Changes, Side
from judges.testing.decisions import Decision
from judges.testing.intervals import Interval
from judges.testing.report.assessed import Assessed, assess
from judges.testing.results import Flips, SuiteReport

FORMAT = 1


def to_dict(reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None) -> dict[str, Any]:
    """Reports as JSON values: `{format: 1, suites: [{results, figures, decisions, flips, …}]}`.

    Of each suite, `results` is `SuiteReport.to_dict()`, `figures` its intervals by name, `decisions` its thresholds by
    the name of the figure, `statuses` what became of each row, `flips` the perturbations, `confusion` and `curve` where
    there are some, else null, and `changes` what changed against a baseline, where there is one.

    Args:
        reports: of the suites, assessed or not (see `assess`).
        baseline: the reports of an earlier run.

    Raises:
        GoldenError: a threshold is of no figure of its suite.
    """
    return {"format": FORMAT, "suites": [_suite(each) for each in assess(reports, baseline)]}


def _suite(each: Assessed) -> dict[str, Any]:
    figures = each.figures
    found = {
        "results": each.report.to_dict(),
        "figures": {name: interval.to_dict() for name, interval in figures.intervals.items()},
        "decisions": {name: decided(decision) for name, decision in each.decisions.items()},
        "statuses": each.statuses,
        "flips": {flips.name: _flips(each, flips) for flips in each.report.perturbations},
        "confusion": None if figures.confusion is None else asdict(figures.confusion),
        "curve": [point(each) for each in figures.curve] or None,
    }
    return found if each.changes is None else {**found, "changes": _changes(each.changes, each.figures_changed)}


def decided(decision: Decision) -> dict[str, Any]:
    """A decision, without its figure."""
    return {"outcome": decision.outcome, "reason": decision.reason, "needed": decision.needed}


def point(bin: Bin) -> dict[str, Any]:
    """A point of a reliability curve."""
    return {"low": bin.low, "high": bin.high, "predicted": bin.predicted, "observed": bin.observed.to_dict()}


def _flips(each: Assessed, flips: Flips) -> dict[str, Any]:
    moved = each.flipped(flips)
    return {
        "share": each.figures.flips[flips.name].to_dict(),
        "flipped": len(moved),
        "lifted": each.lifted(flips),
        "lift": _interval(each.lifts.get(flips.name)),
        "ids": list(dict.fromkeys(flip.id for flip in moved)),
    }


def _changes(found: Changes, figures: Sequence[ChangedFigure]) -> dict[str, Any]:
    paired = found.paired
    return {
        "changed": [_change(each) for each in found.changed],
        "only_old": found.only_old,
        "only_new": found.only_new,
        "other": found.other,
        "stale": found.stale,
        "regraded": found.regraded,
        "compared": found.compared,
        "paired": {
            "test": paired.test,
            "difference": paired.difference.to_dict(),
            "p_value": paired.p_value,
            "a_better": paired.a_better,
            "b_better": paired.b_better,
            "detectable": paired.detectable,
        },
        "figures": {each.name: {"old": _interval(each.old), "new": _interval(each.new)} for each in figures},
    }


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else interval.to_dict()


def _change(each: ChangedVerdict) -> dict[str, Any]:
    return {
        "id": each.id,
        "order": each.order,
        "gold": each.gold,
        "old": side(each.old),
        "new": side(each.new),
    }


def side(each: Side) -> dict[str, Any]:
    """What one report says of a row."""
    return {"label": each.label, "reason": each.reason, "failure": each.failure, "right": each.right}
