"""`judges compare`: two judges, or two versions of a prompt, on the same rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges.cli.options import (
    BudgetOption,
    GoldenOption,
    LiveOption,
    ModelOption,
    PriceOption,
    Record,
    RecordOption,
    SamplesOption,
    YesOption,
)
from judges.cli.running import judged, sending_of, suite_of
from judges.cli.said import RED, complain, refused, refusing
from rubrics.shown import printable

if TYPE_CHECKING:
    from judges.testing.comparing import ChangedVerdict, Changes, Side
    from judges.testing.results import Case, SuiteReport

_REASON = 200  # characters of a reason


class Split(StrEnum):
    train = "train"
    dev = "dev"
    test = "test"
    all = "all"


def compare(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="A report (.json), a suite or a prompt file.", show_default=False)
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.", show_default=False)],
    golden: GoldenOption = None,
    split: Annotated[
        Split | None, typer.Option(help="The rows that are judged, of suites and prompts.", show_default=False)
    ] = None,
    cassette: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Recorded replies of both. [default: those of the suite, of a prompt cassettes/NAME.jsonl]",
            show_default=False,
        ),
    ] = None,
    record: RecordOption = Record.none,
    live: LiveOption = False,
    yes: YesOption = False,
    model: ModelOption = None,
    samples: SamplesOption = None,
    budget_usd: BudgetOption = None,
    price: PriceOption = None,
    top: Annotated[int, typer.Option(min=0, help="Changed verdicts to print.")] = 20,
) -> None:
    """Compare two judges on the rows that both judged: which verdicts changed, and whether one is right more often.

    Says what the smallest difference is that so many rows would have shown, so that "they do not differ" and "there are
    too few rows" read differently.

    Exit code 1: a suite or prompt gave no verdict, or not every answer, on some rows. 2: something could not be read
    or compared.
    """
    with refusing():
        if a.suffix == b.suffix == ".json":
            pairs = _paired(_read(a), _read(b))
        else:
            sending = sending_of(record, live, price)
            suites = [
                suite_of(path, golden, model=model, samples=samples, split=split and split.value, cassette=cassette)
                for path in (a, b)
            ]
            old, new = judged(suites, sending, usd=budget_usd, yes=yes)
            pairs = [(old, new)]
        code = 0
        for number, (old, new) in enumerate(pairs):
            typer.echo(("\n" if number else "") + printable("\n".join(_told(old, new, top))))
            code = max(code, *(_complete(each) for each in (old, new)))
    raise typer.Exit(code)


def _read(path: Path) -> list[SuiteReport]:
    from judges.testing.results import read_reports

    return read_reports(path)


def _paired(old: list[SuiteReport], new: list[SuiteReport]) -> list[tuple[SuiteReport, SuiteReport]]:
    """The suites of two reports that are compared: where each has one, those; else those of one name and model."""
    from judges.testing.comparing import baseline_of

    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    pairs = [(before, each) for each in new if (before := baseline_of(each, old)) is not None]
    for each in new:
        if all(each is not after for _, after in pairs):
            complain(f"{each.title} is in one report alone")
    if not pairs:
        raise refused("the reports have no suite in common")
    return pairs


def _without(report: SuiteReport) -> list[Case]:
    """The rows of a side that have no verdict."""
    return [case for case in report.cases if case.stale or report.status(case) == "no verdict"]


def _complete(report: SuiteReport) -> int:
    """The exit code of a side: whether all its rows have a verdict, and all their questions a reply."""
    silent = _without(report)
    missing = silent + [case for case in report.cases if case.unreached and case not in silent]
    if missing:
        what = "no verdict" if missing == silent else "not every answer"
        answer = next((answer for case in missing for answer in case.answers if answer.failure), None)
        why = f", such as {answer.failure}: {answer.message}" if answer else ": their prompts are not the snapshot's"
        complain(f"{report.title}: {what} on {len(missing)} of {len(report.cases)} rows{why}")
    return RED if missing else 0


def _told(old: SuiteReport, new: SuiteReport, top: int) -> list[str]:
    from judges.testing.comparing import changes
    from judges.testing.report.assessed import number_of

    found = changes(old, new)
    names = [report.title for report in (old, new)]
    if names[0] == names[1] and old.prompt != new.prompt:
        names = [f"{report.title}, {report.prompt}" for report in (old, new)]
    lines = [f"A: {names[0]}", f"B: {names[1]}"]
    silent = [side for side, report in (("A", old), ("B", new)) if len(_without(report)) == len(report.cases)]
    if silent:  # no verdict is not right: two of these would be as right as each other
        return [*lines, f"nothing can be compared: {' and '.join(silent)} gave no verdict on any row"]
    lines.append(f"{found.compared} answers were compared, and {len(found.changed)} are others")
    for side, report in (("A", old), ("B", new)):
        if missing := [case.row.id for case in _without(report) if not case.stale]:
            lines.append(f"  without a verdict of {side}, which counts as not right: {number_of(len(missing), 'row')}")
    for what, ids in (
        ("only of A", found.only_old),
        ("only of B", found.only_new),
        ("with other inputs", found.other),
        ("with a stale prompt", found.stale),
        ("with another gold value", found.regraded),
    ):
        if ids:
            more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
            lines.append(f"  {len(ids)} rows {what}: {', '.join(ids[:5])}{more}")
    lines += _test(found)
    if found.changed and top:
        lines += ["", "changed verdicts" if len(found.changed) <= top else f"changed verdicts, the first {top}"]
        several = len(new.orders) > 1
        for each in found.changed[:top]:
            lines += _changed(each, several)
    return lines


def _test(found: Changes) -> list[str]:
    """The paired test, in words."""
    paired, difference = found.paired, found.paired.difference
    if difference.estimate is None or paired.p_value is None:
        return [f"whether one is right more often cannot be said: {difference.why or 'nothing can be compared'}"]
    test = {"mcnemar": "McNemar's exact test", "sign-flip": "sign-flip test over rows"}[paired.test]
    interval = ""
    if difference.low is not None and difference.high is not None:
        interval = f" (95 % between {difference.low:+.3f} and {difference.high:+.3f})"
    lines = [
        f"right: B more than A by {difference.estimate:+.3f}{interval}; B is better on {paired.a_better} rows, A on "
        f"{paired.b_better}; p = {paired.p_value:.3g} ({test})"
    ]
    if paired.detectable is not None:
        n = difference.clusters
        lines.append(f"the smallest difference that {n} such rows find (power 80 %): {paired.detectable:.3f}")
        if paired.p_value >= 0.05:
            lines.append("no difference was found; a smaller one than that may be there all the same")
    return lines


def _changed(each: ChangedVerdict, several: bool) -> list[str]:
    from judges.testing.results import spoken

    order = f" ({each.order})" if several else ""
    verdict = "better" if each.new.right and not each.old.right else "worse" if each.old.right else "as wrong"
    told = [f"  {each.id}{order}: people say {spoken(each.gold)}, A {_said(each.old)}, B {_said(each.new)}: {verdict}"]
    for name, side in (("A", each.old), ("B", each.new)):
        if side.reason:
            line = " ".join(side.reason.split())
            told.append(f"    {name}: {line if len(line) <= _REASON else f'{line[:_REASON]}…'}")
    return told


def _said(side: Side) -> str:
    from judges.testing.results import spoken

    return side.failure or spoken(side.label)
