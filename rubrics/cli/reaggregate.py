"""`rubrics reaggregate`: other weights and thresholds over a finished run, without asking anything again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rubrics.cli.options import AllowImport
from rubrics.cli.said import complain, refused
from rubrics.files import replacing
from rubrics.formats import FormatError
from rubrics.rescoring import LoadError, Summary, load_rubric, read_rows, reaggregate as again

_SHOWN = 5  # unscored rows that are named on a terminal


def reaggregate(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="The rows of a run.", show_default=False)],
    rubric: Annotated[
        str,
        typer.Option(
            metavar="RUBRIC",
            help="The rubric with other weights or thresholds, of the same leaves: PATH_OR_MODULE:FACTORY, or a file "
            "of data, .yaml or .json.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="OUT.jsonl", help="Where the rows go.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    allow_import: AllowImport = None,
) -> None:
    """Change weights, thresholds and containers over a finished run. No leaf and no model is asked.

    A row is unscored, and says why, where the new rubric needs what was not recorded. Compare with 'rubrics diff RUN
    OUT'. Exit code 2: something could not be read, loaded or written.
    """
    if out.exists() and run.exists() and out.samefile(run):
        raise refused(f"{out} is the run itself; old rows are never overwritten")
    if out.exists() and not overwrite:
        raise refused(f"{out} exists; choose another file, or give --overwrite")
    try:
        tree = load_rubric(rubric, allow_import=allow_import or ())
        with replacing(out) as part, part.open("wb") as file:  # OUT stays until the run has been read through
            summary = Summary()
            for row in again(read_rows(run), tree):
                file.write(row.to_json())
                summary.add(row)
                if row.status == "unscored" and summary.statuses["unscored"] <= _SHOWN:
                    complain(f"{row.id}: {row.reason}")
    except (LoadError, FormatError) as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"{error.filename or out}: {error.strerror or error}") from None
    console = Console(highlight=False)
    if summary.components:
        console.print(summary.table())
    console.print(Text(summary.describe()))
    if (more := summary.statuses["unscored"] - _SHOWN) > 0:
        complain(f"and {more} more that are unscored; each row in {out} says why")
