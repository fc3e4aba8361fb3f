"""From the command line to suites, and from suites to what became of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from judges.cli.options import Record
from judges.cli.said import complain, refused

if TYPE_CHECKING:
    from judges.testing.results import SuiteReport
    from judges.testing.running import Sending
    from judges.testing.suite import Suite

ENDING = ".judge.yaml"


def suite_files(paths: Iterable[Path]) -> list[Path]:
    """The suites among paths and in the folders among them, each once; hidden folders are left out."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            within = sorted(path.rglob(f"*{ENDING}"))
            found += [file for file in within if not any(part[0] == "." for part in file.relative_to(path).parts)]
        elif path.name.endswith(ENDING):
            found.append(path)
        else:
            raise refused(f"{path}: a suite is a file *{ENDING}, or a folder that holds some")
    if not found:
        raise refused(f"there is no *{ENDING} in {', '.join(map(str, paths))}")
    return list(dict.fromkeys(found))


def suite_of(
    path: Path,
    golden: Path | None = None,
    *,
    model: str | None = None,
    samples: int | None = None,
    split: str | None = None,
    cassette: Path | None = None,
) -> Suite:
    """A suite out of its file, or out of a prompt file and a golden set.

    Args:
        path: a `*.judge.yaml`, or a prompt file.
        golden: the golden set; of a suite in place of its own.
        model, samples: in place of the file's.
        split: the rows that are judged; by default those of the suite, else the test rows.
        cassette: in place of the suite's.
    """
    from judges.testing.suite import Suite, SuiteFile, read_suite

    if path.name.endswith(ENDING):
        said = read_suite(path)
    elif golden is None:
        raise refused(f"{path}: a prompt is judged on a golden set: give --golden FILE, or a suite *{ENDING}")
    else:
        said = SuiteFile(prompt=path.name, golden="")
    changed = {
        **({} if golden is None else {"golden": str(golden.absolute())}),
        **({} if split is None else {"split": split}),
        **({} if cassette is None else {"cassette": str(cassette.absolute())}),
    }
    suite = Suite.read(path, said.model_copy(update=changed), model=model, samples=samples)
    return suite if path.name.endswith(ENDING) else replace(suite, path=None, snapshot=None)


def sending_of(record: Record, live: bool, price: str | None, *, update_snapshots: bool = False) -> Sending:
    """What a run may send."""
    from judges.clients.protocol import Price
    from judges.testing.running import Sending
    from rubrics.cli.options import prices

    if live and record is not Record.none:
        raise refused("--live uses no cassette; leave out --record")
    try:
        priced = None if price is None else Price(*prices(price))
    except ValueError as error:
        raise refused(str(error)) from None
    return Sending(record.value, live, price=priced, update_snapshots=update_snapshots)


def on_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def judged(suites: Sequence[Suite], sending: Sending, *, usd: float | None, yes: bool) -> list[SuiteReport]:
    """Judge suites, one after another. What is to be sent is said first and, with --live, asked for."""
    from rich.console import Console

    from judges.testing.running import announcement, plan_suite
    from judges.testing.sharing import Runs

    calls = 0
    for suite in suites if sending.sends else ():
        plan = plan_suite(suite, sending)
        if plan.total.calls:
            complain(announcement(suite, plan))
        calls += plan.total.calls
    if sending.live and calls and not yes and on_terminal():
        typer.confirm("Send it?", abort=True, err=True)
    reports = []
    console = Console(stderr=True)
    with TemporaryDirectory(prefix="judge-runs-") as folder:
        runs = Runs(Path(folder), sending, usd)
        for suite in suites:
            with console.status(f"judging {len(suite.golden):,} rows of {suite.name}"):  # on a terminal alone
                reports.append(runs.judged(suite).report)
    return reports
