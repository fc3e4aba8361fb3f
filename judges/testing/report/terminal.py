"""A report for a terminal: a few lines a suite, 80 columns wide or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from judges.testing.decisions import Outcome
from judges.testing.intervals import Interval
from judges.testing.report.assessed import (
    Assessed,
    asked_for,
    assess,
    counted,
    misread_words,
    number_of,
    paired_words,
    reasoned,
)
from judges.testing.results import Flips, SuiteReport
from rubrics.evaluation import Usage
from rubrics.shown import printable

if TYPE_CHECKING:
    from rich.text import Text

_IDS = 5
_NAME = 26  # columns of a figure's name


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a summary.

    Attributes:
        text: without a line break; what a terminal would obey is escaped.
        outcome: of the decision it tells, for its colour.
        title: whether it names a suite.
    """

    text: str
    outcome: Outcome | None = None
    title: bool = False


def summary_lines(
    reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None, width: int = 80
) -> list[Line]:
    """The summary as plain lines, none wider than `width` (from 60), but for names that are.

    Args:
        reports: of the suites, assessed or not (see `assess`).
        baseline: the reports of an earlier run.
        width: columns.

    Raises:
        GoldenError: a threshold is of no figure of its suite.
    """
    lines: list[Line] = []
    for each in assess(reports, baseline):
        lines += [*([Line("")] if lines else []), *_suite(each, max(60, width))]
    return lines


def summary(
    reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None, width: int = 80
) -> Text:
    """The summary in colours, for a rich console; args and errors are those of `summary_lines`."""
    from rich.text import Text

    tones = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow", None: ""}
    lines = summary_lines(reports, baseline, width)
    return Text("\n").join(Text(line.text, "bold" if line.title else tones[line.outcome]) for line in lines)


def _suite(each: Assessed, width: int) -> Iterator[Line]:
    report = each.report
    yield Line(_cut(_plain(report.title), width), title=True)
    of = [name for name in (report.prompt, report.golden) if name]
    if of:
        yield from _said(" on ".join(of), width)
    yield from _said(f"{number_of(len(report.cases), 'row')}: {counted(each.counts)}", width)
    if each.failures:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in each.failures.items())
        yield from _said(f"no verdict in {sum(each.failures.values()):,} of {each.answers:,} answers: {kinds}", width)
    yield from _figures(each, width)
    for name, decision in each.decisions.items():
        if decision.outcome != "PASS":
            words = f"{decision.outcome} {_plain(name)}: {reasoned(decision)}"
            yield from (Line(line.text, decision.outcome) for line in _said(words, width))
    for flips in report.perturbations:
        yield from _said(_flipped(each, flips), width)
    if misread := misread_words(each):
        yield from (Line(line.text, "FAIL") for line in _said(misread, width))
    yield from _stale(each, width)
    apart = each.cases("disagrees")
    if apart:
        yield from _said(f"disagrees: {_ids([case.row.id for case in apart])}", width)
    yield from _changes(each, width)
    yield from _said(_spent(each), width)


def _figures(each: Assessed, width: int) -> Iterator[Line]:
    shown = each.main_figures | {f"flips[{name}]": found for name, found in each.figures.flips.items()}
    clustered = any(found.n != found.clusters for found in shown.values())
    heads = ["figure", "estimate", "95 % interval", "n", *(["items"] if clustered else [])]
    rows = [[_cut(_plain(name), _NAME), *_numbers(found, clustered)] for name, found in shown.items()]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        return "  ".join(
            [f"  {first:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(rest, widths[1:], strict=True))]
        )

    yield Line(line(heads))
    for (name, _), row in zip(shown.items(), rows, strict=True):
        decision = each.decisions.get(name)
        if decision is None:
            yield Line(line(row))
        else:
            words = f"{line(row)}  {decision.outcome}"
            asked = f" {asked_for(each.asked(name))}"
            fits = len(words) + len(asked) <= width
            yield Line(words + asked if fits else words, decision.outcome)


def _numbers(found: Interval, clustered: bool) -> list[str]:
    estimate = "–" if found.estimate is None else f"{found.estimate:.3f}"
    bounds = "–" if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"
    return [estimate, bounds, f"{found.n:,}", *([f"{found.clusters:,}"] if clustered else [])]


def _flipped(each: Assessed, flips: Flips) -> str:
    if not flips.verdicts:
        return f"{flips.name} changes nothing of any row"
    moved, lifted = each.flipped(flips), each.lifted(flips)
    said = f"{flips.name} flipped {len(moved):,} of {each.figures.flips[flips.name].n:,} verdicts"
    if moved and lifted is not None:
        said += f", lifted {lifted:,}"
    return f"{said}: {_ids([flip.id for flip in moved])}" if moved else said


def _stale(each: Assessed, width: int) -> Iterator[Line]:
    report = each.report
    update = "--judge-update-snapshots takes the prompt for right"
    if report.stale:
        yield from _said(f"stale prompts, so nothing was asked: {_ids(report.stale)}; {update}", width)
    elif report.snapshot.state == "changed":
        yield from _said(f"the prompt is not the one of the snapshot; {update}", width)
    elif report.snapshot.state == "new":
        known = len(report.cases) - len(report.snapshot.added)
        yield from _said(f"the snapshot knows the prompts of {known:,} rows; {update}", width)


def _changes(each: Assessed, width: int) -> Iterator[Line]:
    if each.incomparable:
        yield from _said(f"no comparison to the baseline: {each.incomparable}", width)
    if (found := each.changes) is None:
        return
    changed = f"against the baseline {len(found.changed):,} of {found.compared:,} verdicts changed"
    ids = list(dict.fromkeys(change.id for change in found.changed))
    yield from _said(f"{changed}{f': {_ids(ids)}' if ids else ''}", width)
    yield from _said(f"  {paired_words(found)}", width)
    apart = {"only in the baseline": found.only_old, "new": found.only_new, "with other inputs": found.other}
    apart |= {"with another gold value": found.regraded}
    if any(apart.values()):
        rows = "; ".join(f"{name}: {_ids(ids)}" for name, ids in apart.items() if ids)
        yield from _said(f"  rows {rows}", width)


def _spent(each: Assessed) -> str:
    usage, worth = each.report.usage, each.worth
    all_of_them = each.replayed == each.answers
    about = " about changed inputs" if all_of_them else ""
    said = f"{number_of(usage.calls, 'request')} sent{about}, {_dollars(usage)}" if usage.calls else "nothing was sent"
    if each.replayed:
        said += f"; {'all' if all_of_them else f'{each.replayed:,} of {each.answers:,}'} answers replayed"
        if worth.calls:
            said += f", which took {number_of(worth.calls, 'request')}, {_dollars(worth)}"
    seconds = each.figures.intervals.get("seconds")
    if seconds is not None and seconds.estimate is not None:
        said += f"; {seconds.estimate:.2f} s an answer"
    return said


def _dollars(usage: Usage) -> str:
    return "at a price that is not known" if usage.cost is None else f"${usage.cost:.4f}"


def _ids(ids: Sequence[str]) -> str:
    different = list(dict.fromkeys(ids))
    shown = ", ".join(_cut(_plain(id), 40) for id in different[:_IDS])
    return shown if len(different) <= _IDS else f"{shown} and {len(different) - _IDS:,} more"


def _said(words: str, width: int) -> Iterator[Line]:
    """Words in as many lines as they need, those after the first further in."""
    indent = " " * (2 + len(words) - len(words.lstrip()))
    lines: Iterable[str] = wrap(
        _plain(words),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=True,
        break_on_hyphens=False,
    )
    yield from map(Line, lines)


def _plain(text: str) -> str:
    return printable(" ".join(text.split()))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
