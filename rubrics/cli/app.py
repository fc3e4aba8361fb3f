"""The command line as a whole: one file a subcommand."""

from __future__ import annotations

from typing import Annotated

import typer

from rubrics import __version__
from rubrics.cli.convert import convert
from rubrics.cli.diff import diff
from rubrics.cli.doctor import doctor
from rubrics.cli.formats import formats
from rubrics.cli.reaggregate import reaggregate
from rubrics.cli.rescore import rescore
from rubrics.cli.spec import diff_spec, schema, show
from rubrics.cli.table import table

app = typer.Typer(
    name="rubrics",
    help="Composable reward rubrics for LLM agents.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they can hold keys
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rubrics {__version__}")
        raise typer.Exit


@app.callback()
def rubrics(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Composable reward rubrics for LLM agents."""


for command in (rescore, diff, table, reaggregate, convert, formats, show, schema, diff_spec, doctor):
    app.command(command.__name__.replace("_", "-"))(command)
