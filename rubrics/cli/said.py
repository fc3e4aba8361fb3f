"""What the commands say on a terminal, and their exit codes."""

from __future__ import annotations

import typer

from rubrics.shown import printable

RUBRIC_RAISED, BAD_INPUT, OUT_OF_BUDGET, INTERRUPTED = 1, 2, 3, 130


def refused(message: str, program: str = "rubrics") -> typer.Exit:
    """Say what is wrong with what was asked for; raise what this returns."""
    complain(message, program)
    return typer.Exit(BAD_INPUT)


def complain(message: str, program: str = "rubrics") -> None:
    """Say something on standard error."""
    typer.echo(f"{program}: {printable(message)}", err=True)
