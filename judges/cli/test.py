"""`judges test`: suites, without pytest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges.cli.options import BudgetOption, LiveOption, PriceOption, Record, RecordOption, SamplesOption, YesOption
from judges.cli.running import judged, sending_of, suite_files
from judges.cli.said import BAD_INPUT, RED, complain, refused, refusing
from rubrics.files import input_of
from rubrics.shown import printable

if TYPE_CHECKING:
    from judges.testing.outcome import Problem
    from judges.testing.report import Assessed
    from judges.testing.results import SuiteReport
    from judges.testing.suite import Suite

_SHOWN = 20  # messages about rows of one suite, on a terminal
_NAMED = 5  # rows that one names
_COMPARED = 3  # requests that are not recorded that are compared with their nearest


def run(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Suites, *.judge.yaml, or folders that hold some.", show_default=False),
    ],
    record: RecordOption = Record.none,
    live: LiveOption = False,
    yes: YesOption = False,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="MODEL", help="In place of the suites' own; several make a matrix.", show_default=False
        ),
    ] = None,
    samples: SamplesOption = None,
    budget_usd: BudgetOption = None,
    price: PriceOption = None,
    update_snapshots: Annotated[
        bool, typer.Option("--update-snapshots", help="Take the prompts as they are now for right.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail where a threshold is not decided.")] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Write a report: .json, .md or .html; may be given several times.", show_default=False
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="REPORT.json", help="Fail where a verdict is not that of a report.", show_default=False),
    ] = None,
) -> None:
    """Judge the golden sets of suites, and hold the figures against their thresholds.

    By default nothing is sent: replies come from the cassettes.

    Exit code 1: a threshold fails (with --strict: or is not decided), a row has no verdict or not every answer, or must
    agree and does not, a prompt is not the one of the snapshot, a verdict is not that of the baseline. 2: something
    could not be read or written, or there is no suite.
    """
    with refusing():
        from judges.testing.report import assess, check_ending
        from judges.testing.results import read_reports
        from judges.testing.suite import Suite

        for path in report or ():
            check_ending(path)
        files = suite_files(paths)
        sending = sending_of(record, live, price, update_snapshots=update_snapshots)
        before = None if baseline is None else read_reports(baseline)
        suites = [Suite.load(file, model=model, samples=samples) for file in files for model in models or (None,)]
        for path in report or ():
            if input_of(path, [file for suite in suites for file in suite.files]) is not None:
                raise refused(f"{path} is a file of a suite; give the report another name")
        reports = judged(suites, sending, usd=budget_usd, yes=yes)
        assessed = assess(reports, before)
        problems = [_problems(each, before, strict) for each in assessed]
        told = ["\n".join(_told(*each)) for each in zip(suites, reports, problems, strict=True) if each[-1]]
    _print(assessed, told)
    _write(report or (), assessed)
    raise typer.Exit(RED if any(problems) else 0)


def _problems(each: Assessed, baseline: Sequence[SuiteReport] | None, strict: bool) -> list[Problem]:
    from judges.testing.comparing import baseline_of
    from judges.testing.outcome import problems_of

    old = None if baseline is None else baseline_of(each.report, baseline)
    if baseline is not None and old is None:
        complain(f"{each.report.title} is not in the baseline")
    return problems_of(each.report, each.figures, old, strict)


def _told(suite: Suite, report: SuiteReport, problems: Sequence[Problem]) -> Iterator[str]:
    """What makes a suite red, rows with one message together; of the first requests that are not recorded, what they
    differ in from those that are."""
    from judges.testing.cassettes import why_not_recorded

    yield f"{report.title}: {len(problems)} problem{'' if len(problems) == 1 else 's'}"
    rows = {case.row.id: case for case in report.cases}
    alike: dict[str, list[str]] = {}
    for what, message in problems:
        if what in rows:
            alike.setdefault(message, []).append(what)
        else:
            yield _indented(f"{what}: {message}", 2)
    for message, ids in list(alike.items())[:_SHOWN]:
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        yield _indented(f"{', '.join(ids[:_NAMED])}{more}: {message}", 2)
    if len(alike) > _SHOWN:
        yield f"  and {sum(map(len, list(alike.values())[_SHOWN:]))} more rows"
    missing = [case for case in report.cases if any(answer.failure == "not_recorded" for answer in case.answers)]
    nearest = [near for case in missing[:_COMPARED] if (near := why_not_recorded(suite, case)) is not None]
    for near in {_changed(near): near for near in reversed(nearest)}.values():  # the first of each kind
        yield _indented(near, 2)


def _changed(near: str) -> str:
    """What a difference is about: the lines that are on one side alone."""
    lines = [line for line in near.split("\n") if line.startswith(("+", "-"))]
    return "\n".join(lines[2:]) or near


def _indented(text: str, by: int) -> str:
    return f"{' ' * by}{text}".replace("\n", f"\n{' ' * (by + 2)}")


def _print(assessed: Sequence[Assessed], told: Sequence[str]) -> None:
    from rich.console import Console

    from judges.testing.report import summary

    console = Console(highlight=False)
    console.print(summary(assessed, width=console.width), soft_wrap=True)
    for each in told:
        typer.echo(f"\n{printable(each)}")
    number = len(assessed)
    typer.echo(
        f"\n{len(told)} of {number} suites failed" if told else f"\n{number} suite{'' if number == 1 else 's'} passed"
    )


def _write(paths: Sequence[Path], assessed: Sequence[Assessed]) -> None:
    from judges.testing.report import write_report

    failed = False
    for path in paths:
        try:
            write_report(assessed, path)
        except OSError as error:
            complain(f"{path}: cannot be written: {error.strerror or error}")
            failed = True
        else:
            complain(f"{path} is written")
    if failed:
        raise typer.Exit(BAD_INPUT)
