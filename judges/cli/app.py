"""The command line as a whole: one file a subcommand. Each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from judges.cli.cassette import cassette
from judges.cli.compare import compare
from judges.cli.lint import lint
from judges.cli.render import render
from judges.cli.test import run
from rubrics import __version__

app = typer.Typer(
    name="judges",
    help="LLM judges, tested like code.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they can hold keys
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"judges {__version__}")
        raise typer.Exit


@app.callback()
def judges(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """LLM judges, tested like code."""


app.command("test")(run)
for command in (render, compare, lint):
    app.command()(command)
app.add_typer(cassette)
