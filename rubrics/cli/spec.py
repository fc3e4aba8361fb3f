"""`rubrics show`, `rubrics schema`, `rubrics diff-spec`: rubrics as data, for people and editors."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rubrics.cli.options import AllowImport
from rubrics.cli.said import refused
from rubrics.rescoring import LoadError, load_rubric
from rubrics.rubric import Rubric
from rubrics.shown import printable

_RUBRIC = typer.Argument(
    metavar="RUBRIC", help="A file of data, .yaml or .json, or PATH_OR_MODULE:FACTORY.", show_default=False
)
DIFFERENT = 1


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    svg = "svg"
    yaml = "yaml"
    json = "json"


def show(
    rubric: Annotated[str, _RUBRIC],
    form: Annotated[
        Form, typer.Option("--as", help="In words, as a picture for docs, or as the data that 'rubrics.load' reads.")
    ] = Form.text,
    allow_import: AllowImport = None,
) -> None:
    """Print a rubric: its tree, its fingerprint, and what it needs (models, extras, the live state of an environment).

    Exit code 2: it cannot be loaded, or not be written in that form.
    """
    from rubrics import spec
    from rubrics.spec.documents import as_json, as_yaml

    tree = _loaded(rubric, allow_import)
    try:
        if form is Form.text:
            shown = spec.described(tree, color=sys.stdout.isatty())
        elif form is Form.mermaid:
            shown = spec.mermaid(tree)
        elif form is Form.svg:
            shown = spec.svg(tree, Path(rubric).name)
        else:
            data = spec.data_of(tree)
            shown = as_json(data) if form is Form.json else as_yaml(data)
    except spec.SpecError as error:
        raise refused(f"{rubric}: {error}") from None
    typer.echo(shown.rstrip("\n"))


def schema() -> None:
    """Print the JSON Schema of rubrics as data, for editors.

    In YAML, the first line '# yaml-language-server: $schema=rubric.schema.json' makes editors use it; in JSON, a key
    '$schema' does.
    """
    from rubrics import spec

    typer.echo(json.dumps(spec.schema(), indent=2, ensure_ascii=False))


def diff_spec(
    before: Annotated[str, _RUBRIC], after: Annotated[str, _RUBRIC], allow_import: AllowImport = None
) -> None:
    """Say in words what differs between two rubrics: weights, thresholds, prompts, nodes that came, went or moved.

    Exit code 0: they are the same rubric. 1: they differ. 2: one cannot be loaded.
    """
    from rubrics import spec

    changes = spec.spec_changes(_loaded(before, allow_import), _loaded(after, allow_import))
    for change in changes:
        typer.echo(printable(str(change)))
    if changes:
        raise typer.Exit(DIFFERENT)
    typer.echo("the same rubric")


def _loaded(name: str, allow_import: list[str] | None) -> Rubric:
    try:
        return load_rubric(name, allow_import=allow_import or ())
    except LoadError as error:
        raise refused(str(error)) from None
