"""`rubrics doctor`: what will spoil a training run, before it starts."""

from __future__ import annotations

import itertools
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rubrics.cli.options import AllowImport, prices
from rubrics.cli.said import refused
from rubrics.formats import FormatError, read
from rubrics.rescoring import (
    AssumedEnd,
    ConditionError,
    LoadError,
    OutputError,
    condition,
    judging,
    load_rubric,
    load_types,
    read_rows,
)
from rubrics.rescoring.where import expression

FOUND = 1


class Gravity(StrEnum):
    error = "error"
    warning = "warning"
    note = "note"


class End(StrEnum):
    terminated = "terminated"
    truncated = "truncated"


def doctor(
    rubric: Annotated[
        str,
        typer.Argument(
            metavar="RUBRIC", help="A file of data, .yaml or .json, or PATH_OR_MODULE:FACTORY.", show_default=False
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TRAJECTORIES", help="Trajectory files, folders.", show_default=False),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="RUN.jsonl", help="Rows of a run of this rubric: nothing is scored again but attacks."),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="What episodes are held against, such as 'metadata.solved'. [default: the recorded reward]",
            show_default=False,
        ),
    ] = None,
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
    assume_end: Annotated[
        End | None, typer.Option(help="Score trajectories that do not say how they ended, as ended like this.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Only trajectories like this, such as 'steps < 50'.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many trajectories.")] = None,
    attacks: Annotated[bool, typer.Option("--attacks/--no-attacks", help="Try exploits.")] = True,
    ask_models: Annotated[bool, typer.Option("--ask-models", help="Let the rubric's judges ask their models.")] = False,
    budget_usd: Annotated[
        float | None, typer.Option(min=0.0, metavar="DOLLARS", help="What the judges may spend.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,REPLY", help="Dollars a million tokens, for models whose price litellm does not know."
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Where verdicts are kept, so that nothing is asked twice.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    fail_on: Annotated[Gravity, typer.Option(help="The least severity that makes the exit code 1.")] = Gravity.error,
    allow_import: AllowImport = None,
) -> None:
    """Find what will spoil a training run before it starts.

    From the tree alone: nodes that never run, gates that cannot pass or fail, weights that cannot matter, wrong
    ranges, judges before cheap checks, missing time limits, unfenced prompts. From trajectories: nodes that never
    vary, groups that teach nothing, redundant nodes, one node that decides all, length bias, disagreement with the
    outcome, missing scores, a reward that rises after the task is done. From attacks: answers paid for nothing.

    Exit code 0: nothing of that severity was found. 1: something was. 2: something could not be read or loaded.
    """
    from rubrics.doctor import examine

    try:
        tree = load_rubric(rubric, allow_import=allow_import or ())
        classes = load_types(types) if types else None
        held = expression(outcome) if outcome else None
        wanted = condition(where) if where else None
        priced = judging.price_of(*prices(price)) if price is not None else None
        if missing := next((path for path in files or () if not path.exists()), None):
            raise refused(f"{missing}: No such file or directory")
        episodes: Any = None
        if files:
            episodes = read(files, format=format)
            if wanted is not None:
                episodes = (each for each in episodes if not hasattr(each, "steps") or wanted(each))
            episodes = itertools.islice(episodes, limit)
        assumed: AssumedEnd | None = assume_end.value if assume_end is not None else None
        kept = judging.store_of(store, False)
        with judging.equipped(tree, kept, judging.budget_of(budget_usd), priced):
            found = examine(
                tree,
                episodes,
                rows=read_rows(rows) if rows is not None else None,
                outcome=held,
                types=classes,
                assume_end=assumed,
                attack=attacks,
                ask_models=ask_models,
            )
    except (LoadError, FormatError, ConditionError, OutputError, ValueError) as error:
        raise refused(str(error)) from None
    except OSError as error:
        raise refused(f"{error.filename}: {error.strerror or error}") from None
    typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else found.text())
    gravities = [each.value for each in Gravity]
    if found.worst is not None and gravities.index(found.worst) <= gravities.index(fail_on.value):
        raise typer.Exit(FOUND)
