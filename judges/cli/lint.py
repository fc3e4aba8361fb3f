"""`judges lint`: what a prompt file shows to be wrong before anybody is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from judges.cli.running import suite_files
from judges.cli.said import RED, refusing
from rubrics.shown import printable


def lint(
    prompts: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROMPT_OR_SUITE",
            help="Prompt files, suites that use them, or folders of suites.",
            show_default=False,
        ),
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings as well.")] = False,
) -> None:
    """Look over prompts: a line for each finding, with file and line, how bad it is, and what to do.

    Looks for values printed without a fence, names that nothing gives a value to, words that contradict the scale or
    ask for another form of reply, no way to abstain, examples of one label, a missing name or version, and fixed text
    after the values. Given a suite, it knows the suite's scale and golden set.

    Exit code 1: there are errors or, with --strict, warnings. 2: a suite could not be read.
    """
    from judges.testing.lint import lint as look_over
    from judges.testing.report.assessed import number_of

    with refusing():
        paths = [file for path in prompts for file in (_within(path) if path.is_dir() else [path])]
        found = list(dict.fromkeys(finding for path in paths for finding in look_over(path)))  # suites share prompts
    for finding in found:
        typer.echo(printable(str(finding)))
    counts = Counter(finding.level for finding in found)
    errors, warned = number_of(counts["error"], "error"), number_of(counts["warning"], "warning")
    typer.echo(f"{number_of(len(paths), 'prompt')}: {errors}, {warned}, {counts['info']} info")
    raise typer.Exit(RED if counts["error"] or (strict and counts["warning"]) else 0)


def _within(folder: Path) -> list[Path]:
    """The suites of a folder that have a prompt."""
    from judges.testing.suite import read_suite

    return [file for file in suite_files([folder]) if read_suite(file).prompt is not None]
