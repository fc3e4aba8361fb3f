"""A report as Markdown for a pull request: decisions, figures, what changed, and the disagreements to unfold.

Text of a case stands in code spans and in fences that are longer than any run of backticks in it, so that it is no
markup, no mention and no link, whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from judges.testing.intervals import Interval
from judges.testing.report.assessed import (
    Assessed,
    asked_for,
    assess,
    counted,
    misread_words,
    number_of,
    outcomes,
    paired_words,
    reasoned,
)
from judges.testing.results import Answer, Case, SuiteReport, spoken
from rubrics.shown import printable

_MOST = 55_000  # characters: a comment on GitHub holds 65,536
_CASES = 20  # disagreements of a suite that are shown, at most
_LONGEST = 600  # characters of a text
_NAMED = 60  # characters of an id, a label or a name
_MARKS = {"PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "❔"}


def to_markdown(reports: Sequence[SuiteReport | Assessed], baseline: Sequence[SuiteReport] | None = None) -> str:
    """Reports as Markdown, short enough for a comment: at most about 60,000 characters.

    Args:
        reports: of the suites, assessed or not (see `assess`).
        baseline: the reports of an earlier run.

    Raises:
        GoldenError: a threshold is of no figure of its suite.
    """
    assessed = assess(reports, baseline)
    said = ", ".join(f"{count} {outcome}" for outcome, count in outcomes(assessed).items())
    lines = [f"## Judge tests{f': {said}' if said else ''}", ""]
    room = _MOST
    heads: list[list[str]] = []
    for each in assessed:
        head = list(_suite(each))
        if (room := room - _size(head)) < 0:
            break
        heads.append(head)
    for each, head in zip(assessed, heads, strict=False):
        lines += [*head, *_unfolded(each, max(0, room) // len(heads))]
    if more := len(assessed) - len(heads):
        lines.append(f"{more:,} more suites are too many for a comment.")
    return "\n".join(lines).rstrip() + "\n"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _suite(each: Assessed) -> Iterator[str]:
    report = each.report
    yield f"### {code(report.title)}"
    yield ""
    of = [code(name) for name in (report.prompt, report.golden) if name]
    rows = f"{number_of(len(report.cases), 'row')}: {counted(each.counts)}."
    yield f"{' on '.join(of)}; {rows}" if of else rows
    if each.failures:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in each.failures.items())
        yield f"No verdict in {sum(each.failures.values()):,} of {each.answers:,} answers: {kinds}."
    if misread := misread_words(each):
        yield f"{misread[0].upper()}{misread[1:]}."
    if report.stale:
        rows = number_of(len(report.stale), "row")
        yield f"The prompt changed, so nothing was asked about {rows}: {_ids(report.stale)}."
    yield ""
    if each.decisions:
        yield "| | Figure | Asked | Estimate | 95 % interval | n | |"
        yield "|---|---|---|---:|:---:|---:|---|"
        for name, decision in each.decisions.items():
            numbers = " | ".join(_numbers(decision.figure))
            why = "" if decision.outcome == "PASS" else reasoned(decision)
            mark = f"{_MARKS[decision.outcome]} {decision.outcome}"
            yield f"| {mark} | {cell(name)} | {asked_for(each.asked(name))} | {numbers} | {why} |"
        yield ""
    yield from _figures(each)
    yield from _changes(each)


def _figures(each: Assessed) -> Iterator[str]:
    others = {name: found for name, found in each.main_figures.items() if name not in each.decisions}
    others |= {
        f"flips[{name}]": found for name, found in each.figures.flips.items() if f"flips[{name}]" not in each.decisions
    }
    before = {change.name: change.old for change in each.figures_changed}
    if not others:
        return
    compared = each.changes is not None
    yield f"| Figure | Estimate | 95 % interval | n |{' Baseline |' if compared else ''}"
    yield f"|---|---:|:---:|---:|{'---:|' if compared else ''}"
    for name, found in others.items():
        old = before.get(name)
        was = "–" if name in before and (old is None or old.estimate is None) else "same"
        was = f"{old.estimate:.3f}" if old is not None and old.estimate is not None else was
        yield f"| {cell(name)} | {' | '.join(_numbers(found))} |{f' {was} |' if compared else ''}"
    yield ""


def _changes(each: Assessed) -> Iterator[str]:
    if each.incomparable:
        yield f"Not compared to the baseline: {code(each.incomparable, 200)}."
        yield ""
    if (found := each.changes) is None:
        return
    changed = f"**{len(found.changed):,} of {found.compared:,} verdicts changed** against the baseline"
    yield f"{changed}; {paired_words(found)}."
    apart = {
        "only in the baseline": found.only_old,
        "new": found.only_new,
        "other inputs": found.other,
        "another gold value": found.regraded,
        "prompt changed": found.stale,
    }
    rows = "; ".join(f"{name}: {_ids(ids)}" for name, ids in apart.items() if ids)
    if rows:
        yield f"Rows {rows}."
    yield ""
    if found.changed:
        yield "| Row | Gold | Was | Is | |"
        yield "|---|---|---|---|---|"
        for change in found.changed[:_CASES]:
            order = "" if change.order == "given" else " swapped"
            better = ("worse", "", "better")[change.new.right - change.old.right + 1]
            sides = (_said(each.label, each.failure) for each in (change.old, change.new))
            yield f"| {cell(change.id)}{order} | {cell(spoken(change.gold))} | {' | '.join(sides)} | {better} |"
        if len(found.changed) > _CASES:
            yield f"| and {len(found.changed) - _CASES:,} more | | | | |"
        yield ""


def _unfolded(each: Assessed, room: int) -> Iterator[str]:
    """The disagreements and what has no verdict, as many as there is room for."""
    apart = each.cases("disagrees", "no verdict", "abstains")
    if not apart:
        return
    shown: list[str] = []
    count = 0
    for case in apart[:_CASES]:
        block = list(_case(each, case))
        if (size := _size(block)) > room:
            break
        room -= size
        shown += block
        count += 1
    total = f"{number_of(len(apart), 'row')} without the gold answer"
    some = "" if count == len(apart) else f", the first {count:,}" if count else ": too long to be shown here"
    if not count:
        yield f"{total}{some}."
        return
    yield f"<details><summary>{total}{some}</summary>"
    yield ""
    yield from shown
    yield "</details>"
    yield ""


def _case(each: Assessed, case: Case) -> Iterator[str]:
    said = [f"{_order(answer)}{_said(answer.label, answer.failure)}" for answer in case.answers[:8]]
    status = each.statuses[case.row.id]
    yield f"{code(case.row.id)} {status}: gold {code(spoken(case.row.gold))}, judged {', '.join(said) or 'nothing'}"
    yield ""
    texts = {name: _text(value) for name, value in case.row.inputs.items()}
    for answer in case.answers[:8]:
        words = answer.reason or answer.message
        if words:
            texts[f"{'reason' if answer.reason else 'why'}{f' ({name})' if (name := _named(answer)) else ''}"] = words
    if case.row.annotators:
        texts["annotators"] = _text(case.row.annotators)
    yield from fence("\n".join(f"{name}: {_short(text)}" for name, text in texts.items()))
    yield ""


def _order(answer: Answer) -> str:
    return "" if answer.order == "given" else "swapped "


def _named(answer: Answer) -> str:
    return ", ".join(
        [*(["swapped"] if answer.order == "swapped" else []), *([f"sample {answer.sample}"] if answer.sample else [])]
    )


def _said(label: Any, failure: str | None) -> str:
    return f"no verdict ({failure})" if failure else "abstains" if label is None else cell(spoken(label))


def _numbers(found: Interval) -> list[str]:
    estimate = "–" if found.estimate is None else f"{found.estimate:.3f}"
    bounds = "–" if found.low is None or found.high is None else f"{found.low:.3f} – {found.high:.3f}"
    n = f"{found.n:,}" if found.n == found.clusters else f"{found.n:,} of {found.clusters:,} rows"
    return [estimate, bounds, n]


def _ids(ids: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(code(id) for id in ids[:most])
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most:,} more"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    return spoken(value) if isinstance(value, bool | int | float | list | tuple | None) else str(value)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [… {len(text) - _LONGEST:,} characters more]"


# -- text that is no markup -------------------------------------------------------------------------------------------


def code(text: str, longest: int = _NAMED) -> str:
    """Text as a code span: on one line, within more backticks than it has in a row."""
    line = printable(" ".join(text.split())) or "(empty)"
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    ticks = "`" * (_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def cell(text: str) -> str:
    """Text as a code span in a table, whose cells a bar would end.

    A backslash before the bar keeps it in, unless the backslash is itself taken for escaped, as in `\\\\|`.
    """
    return re.sub(r"(\\*)\|", lambda found: rf"{found[1] * 2}\|", code(text))


def fence(text: str) -> list[str]:
    """Text as a block of code, in lines."""
    ticks = "`" * max(3, _run(text) + 1)
    return [f"{ticks}text", printable(text.replace("\t", "    ")), ticks]


def _run(text: str) -> int:
    return max((len(found) for found in re.findall("`+", text)), default=0)
