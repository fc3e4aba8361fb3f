"""`rubrics rescore`: recorded trajectories in, one row each out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from rubrics import formats, rescoring
from rubrics.rescoring import LoadError, Row, Summary, load_rubric, load_types

_SHOWN = 20  # messages of one kind on a terminal; all of them are in the rows

RUBRIC_RAISED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class AssumedEnd(StrEnum):
    terminated = "terminated"
    truncated = "truncated"


def rescore(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Trajectory files.", show_default=False)],
    rubric: Annotated[
        str,
        typer.Option(
            metavar="PATH_OR_MODULE:FACTORY",
            help="The rubric: a function that returns a tree, or the tree itself, in a file or module.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="OUT.jsonl", help="Where the rows go.", show_default=False)],
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="The files' format; by default their content tells.")
    ] = None,
    types: Annotated[
        str | None,
        typer.Option(
            metavar="PATH_OR_MODULE:ACTION,OBSERVATION",
            help="Classes to make actions and observations of; by default the rubric gets records.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Trajectories in progress at once, for a rubric with async nodes.")
    ] = 32,
    assume_end: Annotated[
        AssumedEnd | None, typer.Option(help="Score trajectories that do not say how they ended, as ended like this.")
    ] = None,
    show: Annotated[
        str, typer.Option(metavar="ID", help="The trajectory whose tree is printed: an id, 'first' or 'none'.")
    ] = "first",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
) -> None:
    """Score recorded trajectories again under a rubric.

    One row a trajectory is written to OUT as it is done, with the recorded reward beside the new one.

    Exit code 1: the rubric raised on some of them. Exit code 2: something could not be read or loaded; every other
    row is written all the same.
    """
    try:
        tree = load_rubric(rubric)
        classes = load_types(types) if types else None
        trajectories = formats.read(files, format)
    except (LoadError, formats.FormatError) as error:
        raise _refused(str(error)) from None
    _check_output(out, [*files, Path(rubric.rpartition(":")[0] or rubric)], overwrite)
    try:
        file = out.open("wb" if overwrite else "xb")
    except OSError as error:
        raise _refused(f"{out}: cannot be written: {error.strerror or error}") from None

    end: rescoring.AssumedEnd | None = assume_end.value if assume_end else None
    rows = rescoring.rescore(trajectories, tree, concurrency=concurrency, assume_end=end, types=classes)
    summary, shown = Summary(), None
    problems = _Problems()
    written = 0
    try:
        with file:
            for row in _with_progress(rows, summary):
                row, line = _line(row)
                file.write(line)
                file.flush()
                written += 1
                summary.add(row)
                problems.add(row)
                if shown is None and (row.id == show or (show == "first" and row.status == "scored")):
                    shown = row
    except KeyboardInterrupt:
        problems.report(out)
        _complain(f"interrupted; the first {written} rows are in {out}")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        problems.report(out)
        raise _refused(f"{out}: cannot be written after row {written}: {error.strerror or error}") from None
    problems.report(out)
    _print(summary, shown, show)
    raise typer.Exit(problems.exit_code)


def _line(row: Row) -> tuple[Row, bytes]:
    """A row and its line. A node's metadata can hold what nothing can write, such as a list that holds itself."""
    try:
        return row, row.to_json()
    except Exception as error:
        reason = f"the result cannot be written as JSON: {type(error).__name__}: {error}"
        row = replace(row, status="error", reward=None, reason=reason, evaluation=None, step_rewards=None)
        return row, row.to_json()


def _refused(message: str) -> typer.Exit:
    _complain(message)
    return typer.Exit(BAD_INPUT)


def _complain(message: str) -> None:
    typer.echo(f"rubrics: {_printable(message)}", err=True)


def _printable(text: str) -> str:
    """Text from a trajectory as it may be shown: a terminal obeys control characters."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _check_output(out: Path, sources: Iterable[Path], overwrite: bool) -> None:
    if not out.exists():
        return
    for source in sources:
        if source.exists() and out.samefile(source):
            raise _refused(f"{out} is one of the inputs; recordings and rubrics are never overwritten")
    if not overwrite:
        raise _refused(f"{out} exists; choose another file, or give --overwrite")


def _with_progress(rows: Iterable[Row], summary: Summary) -> Iterator[Row]:
    """The rows, with a line on the terminal that says how far the run is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from rows
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} trajectories, {task.fields[failed]} failed"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, failed=0)
        for row in rows:
            yield row
            progress.update(task, advance=1, failed=summary.statuses["error"] + summary.statuses["unreadable"])


class _Problems:
    """Rows that went wrong: the first few are named, all are counted."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self.raised: list[str] = []
        self.counts = {"unreadable": 0, "error": 0}

    def add(self, row: Row) -> None:
        if row.status not in self.counts:
            return
        self.counts[row.status] += 1
        messages = self.unreadable if row.status == "unreadable" else self.raised
        if len(messages) < _SHOWN:
            messages.append(f"{row.id}: {row.reason}" if row.status == "error" else f"{row.reason}")

    @property
    def exit_code(self) -> int:
        return BAD_INPUT if self.counts["unreadable"] else RUBRIC_RAISED if self.counts["error"] else 0

    def report(self, out: Path) -> None:
        for status, messages in (("error", self.raised), ("unreadable", self.unreadable)):
            for message in messages:
                _complain(message)
            if (more := self.counts[status] - len(messages)) > 0:
                _complain(f"and {more} more like this: the rows in {out} with the status {status!r}")


def _print(summary: Summary, shown: Row | None, wanted: str) -> None:
    console = Console(highlight=False)
    if shown is not None and shown.evaluation is not None:
        console.print(Text(_printable(f"{shown.id}: reward {shown.reward}, recorded {shown.recorded_reward}")))
        console.print(shown.evaluation.tree())
        console.print()
    elif wanted not in ("first", "none"):
        _complain(f"no tree to show: {shown.reason}" if shown else f"no trajectory has the id {wanted!r}")
    if summary.components:
        console.print(summary.table())
    console.print(Text(summary.describe()))
