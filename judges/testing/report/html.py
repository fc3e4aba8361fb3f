"""A report as one page of HTML (see `rubrics.pages`): figures, pictures, and the rows with what was said of them.

Every row is in it, with its texts cut where they are long: those of rows that agree first. Of sets so large that this
does not do, rows that agree are left out, and the page says how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judges.scale import Numeric
from judges.testing.comparing import Changes
from judges.testing.intervals import Interval
from judges.testing.report.assessed import (
    STATUSES,
    Assessed,
    assess,
    misread_words,
    number_of,
    outcomes,
    paired_words,
    reasoned,
)
from judges.testing.report.data import decided, point
from judges.testing.results import Answer, Case, SuiteReport
from rubrics.pages import framed
from rubrics.shown import Cut

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("words.js", "pictures.js", "suite.js", "cases.js", "main.js")

_MOST = 2_000_000  # characters of all rows
_LONGEST = ((4_000, 4_000), (4_000, 1_000), (2_000, 400), (1_000, 200), (400, 100))
"""Characters of a text, of a row that does not agree and of one that does; the first with which the rows fit."""
_POINTS = 3_000  # drawn of golden and judged numbers
_BINS = 20
_SIGNED = ("kappa", "spearman", "kendall_tau_b", "verbosity", "people_alpha", "lift")
_UNBOUNDED = ("mean_absolute_error", "cost", "seconds")


def page_parts(
    reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None
) -> Iterator[str]:
    """The page, in parts.

    Args:
        reports: of the suites, assessed or not (see `assess`).
        baseline: the reports of an earlier run.

    Raises:
        GoldenError: a threshold is of no figure of its suite.
    """
    assessed = assess(reports, baseline)
    room = _MOST // max(1, len(assessed))
    data = {
        "outcomes": outcomes(assessed),
        "statuses": STATUSES,
        "suites": [_suite(each, room) for each in assessed],
    }
    names = [each.report.title for each in assessed]
    title = "Judge tests: " + ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
    yield from framed(_PAGE, _SCRIPTS, title=title, data=data)


def _suite(each: Assessed, room: int) -> dict[str, Any]:
    report, figures = each.report, each.figures
    rows, left_out, cut = _rows(each, room)
    was = {change.name: None if change.old is None else change.old.estimate for change in each.figures_changed}
    return {
        "title": report.title,
        "kind": report.kind,
        "facts": _facts(report),
        "notes": _notes(each),
        "difference": report.snapshot.difference if report.snapshot.state == "changed" else "",
        "counts": each.counts,
        "decisions": [
            {
                "figure": _figure(name, decision.figure),
                **decided(decision),
                "reason": reasoned(decision),
                "limits": [limit.at_least, limit.at_most],
            }
            for name, decision in each.decisions.items()
            for limit in [each.asked(name)]
        ],
        "figures": [
            {**_figure(name, interval), **({"was": was[name]} if name in was else {})}
            for name, interval in figures.intervals.items()
        ],
        "compared": each.changes is not None,
        "confusion": None if figures.confusion is None else asdict(figures.confusion),
        "curve": [point(bin) for bin in figures.curve],
        "scores": _scores(report),
        "points": _points(report),
        "perturbations": [
            {
                "name": flips.name,
                "description": flips.description,
                "flipped": len(each.flipped(flips)),
                "lifted": each.lifted(flips),
                "lift": None if (lift := each.lifts.get(flips.name)) is None else _figure("lift", lift),
                "figure": _figure(f"flips[{flips.name}]", figures.flips[flips.name]),
                "outcome": outcome.outcome if (outcome := each.decisions.get(f"flips[{flips.name}]")) else None,
            }
            for flips in report.perturbations
        ],
        "changes": None if each.changes is None else _changes(each.changes),
        "left_out": left_out,
        "cut": cut,
        "cases": rows,
    }


def _facts(report: SuiteReport) -> list[list[str]]:
    asked = number_of(report.samples, "answer") + (" in each of two orders" if len(report.orders) > 1 else "")
    facts = {
        "prompt": report.prompt,
        "golden set": report.golden,
        "suite": report.path,
        "scale": None if report.on is None else repr(report.on),
        "asked of a row": asked if report.model else None,
        "tolerance": f"{report.tolerance:g}" if report.tolerance else None,
        "run": f"{report.at:%Y-%m-%d %H:%M} UTC",
    }
    return [[name, fact] for name, fact in facts.items() if fact]


def _notes(each: Assessed) -> list[str]:
    report, notes = each.report, []
    if report.stale:
        rows = number_of(len(report.stale), "row")
        notes.append(f"The prompt is not the one of the snapshot for {rows}; nothing was asked about them.")
    elif report.snapshot.state == "changed":
        notes.append("The prompt is not the one of the snapshot.")
    if each.failures:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in each.failures.items())
        notes.append(f"No verdict in {sum(each.failures.values()):,} of {each.answers:,} answers: {kinds}.")
    if misread := misread_words(each):
        notes.append(f"{misread[0].upper()}{misread[1:]}.")
    if each.incomparable:
        notes.append(f"Not compared to the baseline: {each.incomparable}.")
    return notes


def _figure(name: str, found: Interval) -> dict[str, Any]:
    """A figure with the ends of the axis on which it is drawn; null where it has none."""
    plain = name.removeprefix("linear_").removeprefix("quadratic_")
    span = None if name in _UNBOUNDED else [-1, 1] if plain in _SIGNED else [0, 1]
    return {
        "name": name,
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "clusters": found.clusters,
        "why": found.why,
        "detectable": found.detectable(),
        "span": span,
    }


def _changes(found: Changes) -> dict[str, Any]:
    apart = {
        "only in the baseline": found.only_old,
        "new": found.only_new,
        "with other inputs": found.other,
        "with another gold value": found.regraded,
        "with a stale prompt": found.stale,
    }
    return {
        "compared": found.compared,
        "changed": len(found.changed),
        "better": len(found.better),
        "worse": len(found.worse),
        "paired": paired_words(found),
        "apart": [[name, ids[:50], len(ids)] for name, ids in apart.items() if ids],
    }


# -- pictures ---------------------------------------------------------------------------------------------------------


def _scores(report: SuiteReport) -> dict[str, Any] | None:
    """How often each score was given, by gold label: bins of [0, 1]."""
    if report.kind == "rankings" or isinstance(report.on, Numeric):
        return None
    on = report.on
    labels: list[Any] = ["a", "tie", "b"] if report.kind == "pairs" else list(on.labels) if on is not None else []
    if not 0 < len(labels) <= 12:
        return None
    bins = {json.dumps(label): [0] * _BINS for label in labels}
    unjudged = dict.fromkeys(bins, 0)
    for case in report.cases:
        gold = json.dumps(case.row.gold)
        for answer in case.answers:
            if answer.score is None:
                unjudged[gold] += 1
            else:
                bins[gold][min(_BINS - 1, int(answer.score * _BINS))] += 1
    return {"labels": labels, "bins": list(bins.values()), "unjudged": list(unjudged.values())}


def _points(report: SuiteReport) -> dict[str, Any] | None:
    """Golden and judged numbers."""
    if not isinstance(report.on, Numeric):
        return None
    points = [
        [case.row.gold, answer.label] for case in report.cases for answer in case.answers if answer.label is not None
    ]
    return {"low": report.on.low, "high": report.on.high, "of": len(points), "points": points[:_POINTS]}


# -- rows -------------------------------------------------------------------------------------------------------------


def _rows(each: Assessed, room: int) -> tuple[list[dict[str, Any]], int, int]:
    """The rows, how many were left out, and how many texts were cut."""
    flips: dict[str, list[dict[str, Any]]] = {}
    for perturbation in each.report.perturbations:
        for flip in each.flipped(perturbation):
            of = {"name": perturbation.name, **flip.model_dump(exclude={"id"}, exclude_none=True)}
            flips.setdefault(flip.id, []).append(of)
    was: dict[str, list[dict[str, Any]]] = {}
    for change in each.changes.changed if each.changes is not None else ():
        old = {"order": change.order, "label": change.old.label, "reason": change.old.reason}
        was.setdefault(change.id, []).append({**old, "failure": change.old.failure})
    for longest in _LONGEST:
        apart, same = (Cut(most) for most in longest)
        rows = []
        for case in each.report.cases:
            agrees = each.statuses[case.row.id] == "agrees"
            more = {"flips": flips.get(case.row.id), "was": was.get(case.row.id)}
            rows.append(_row(each, case, more, same if agrees else apart))
        sizes = [len(json.dumps(row, ensure_ascii=False)) for row in rows]
        if sum(sizes) <= room:
            return rows, 0, apart.texts + same.texts
    kept = []
    for row, size in sorted(zip(rows, sizes, strict=True), key=lambda pair: pair[0]["status"] == "agrees"):
        room -= size
        if room < 0:
            break
        kept.append(row)
    return kept, len(rows) - len(kept), apart.texts + same.texts


def _row(each: Assessed, case: Case, more: dict[str, Any], cut: Cut) -> dict[str, Any]:
    row = case.row
    found = {
        "id": cut.text(row.id),
        "status": each.statuses[row.id],
        "place": cut.text(case.place),
        "gold": row.gold,
        "people": row.annotators,
        "tags": row.tags,
        "source": row.source,
        "must": row.must,
        "inputs": row.inputs,
        "answers": [_answer(answer) for answer in case.answers],
        **more,
    }
    given: dict[str, Any] = cut.value({name: value for name, value in found.items() if value or name == "gold"})
    return given


def _answer(answer: Answer) -> dict[str, Any]:
    found = {
        "order": answer.order,
        "sample": answer.sample,
        "label": answer.label,
        "score": answer.score,
        "reason": answer.reason,
        "reply": answer.reply,
        "failure": answer.failure,
        "message": answer.message,
        "probabilities": [list(pair) for pair in answer.probabilities] or None,
    }
    return {name: value for name, value in found.items() if value is not None}
