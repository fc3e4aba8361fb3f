"""`rubrics table`: a run as a Parquet file, for those who ask their own questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rubrics.cli.said import refused
from rubrics.formats import FormatError
from rubrics.rescoring import MissingExtraError, write_parquet


def table(
    run: Annotated[Path, typer.Argument(metavar="RUN.jsonl", help="A file that `rubrics rescore` wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.parquet", help="Where the table goes.")],
    long: Annotated[bool, typer.Option("--long", help="One row for every node of every recorded step.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write a run as a Parquet table: one row a trajectory or, with --long, one a node.

    Exit code 2: something could not be read or written.
    """
    if out.exists():
        if run.exists() and out.samefile(run):
            raise refused(f"{out} is the input; runs are never overwritten")
        if not overwrite:
            raise refused(f"{out} exists; choose another file, or give --overwrite")
    try:
        count = write_parquet(run, out, long=long, overwrite=overwrite)
    except (MissingExtraError, FormatError) as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"{error.filename or out}: {error.strerror or error}") from None
    typer.echo(f"{out}: {count} rows")
