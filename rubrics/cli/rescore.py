"""`rubrics rescore`: recorded trajectories in, one row each out."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rubrics import formats
from rubrics.cli.options import AllowImport, prices
from rubrics.cli.progress import Meter, rows_in, stopping
from rubrics.cli.said import BAD_INPUT, INTERRUPTED, OUT_OF_BUDGET, RUBRIC_RAISED, complain, refused
from rubrics.rescoring import (
    ConditionError,
    DryRun,
    Finished,
    LoadError,
    Row,
    load_any_rubric,
    load_types,
    plan_files,
    read_rows,
    rescore_files,
)
from rubrics.rescoring.job import store_beside
from rubrics.rescoring.output import refuse_inputs
from rubrics.score import RubricError
from rubrics.shown import printable

_SHOWN = 20  # messages of one kind on a terminal; all of them are in the rows


class AssumedEnd(StrEnum):
    terminated = "terminated"
    truncated = "truncated"


class Recorded(StrEnum):
    last = "last"
    steps = "steps"


class Engine(StrEnum):
    local = "local"
    ray = "ray"


class OnError(StrEnum):
    row = "row"
    stop = "stop"


def rescore(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Trajectory files, folders.", show_default=False)],
    rubric: Annotated[
        str,
        typer.Option(
            metavar="RUBRIC",
            help="The rubric: PATH_OR_MODULE:FACTORY, a function that returns a tree or the tree itself, in a file or "
            "module; or a file of data, .yaml or .json.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="OUT.jsonl", help="Where the rows go.", show_default=False)
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
        AssumedEnd | None, typer.Option(help="Score trajectories that do not say how they ended, as ended like this.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Only trajectories like this, such as 'reward < 0.5 and end == \"terminated\"'. Names: id, source, "
            "reward, end, steps, group, task, metadata.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many trajectories.")] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="What the trajectories of a group share, such as 'task.id'. [default: the group in their metadata, "
            "numbers within each file; 'group' joins numbers over files]",
            show_default=False,
        ),
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(min=2, help="For a group rubric: how many members each group should have.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what it would cost; ask nothing.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with OUT: rows that are there stay.")] = False,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Go on with OUT: make only the rows again that failed.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Trajectories in progress at once, for a rubric with async nodes.")
    ] = 32,
    budget_usd: Annotated[
        float | None, typer.Option(min=0.0, metavar="DOLLARS", help="What the judges may spend in this run.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,REPLY", help="Dollars a million tokens, for models whose price litellm does not know."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Where verdicts are kept, so that nothing is asked twice; 'none' keeps nothing. "
            "[default: OUT.verdicts.jsonl]",
            show_default=False,
        ),
    ] = None,
    ask_again: Annotated[bool, typer.Option("--ask-again", help="Ask models also what the store holds.")] = False,
    record: Annotated[
        Recorded | None,
        typer.Option(
            help="Which steps' evaluations a row holds. [default: steps for a rubric with async nodes, else last]",
            show_default=False,
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="What a rubric that raises does: make a row that says so, or stop the run.")
    ] = OnError.row,
    engine: Annotated[
        Engine, typer.Option(help="Score in this process, or in workers of Ray (of RAY_ADDRESS, else on this machine).")
    ] = Engine.local,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes of Ray. [default: one for each of its CPUs]", show_default=False),
    ] = None,
    worker_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Replace a worker that answers nothing for so long, and score what it had again. [default: wait]",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        str, typer.Option(metavar="ID", help="The trajectory whose tree is printed: an id, 'first' or 'none'.")
    ] = "first",
    allow_import: AllowImport = None,
) -> None:
    """Score recorded trajectories again under a rubric.

    One row a trajectory is written to OUT as it is done, with the recorded reward beside the new one. Ctrl-C finishes
    what is in progress; --resume goes on, also after a crash.

    Exit code 1: the rubric raised on some of them. 2: something could not be read, loaded or written; every other row
    is written all the same. 3: the budget is used up. 130: interrupted.
    """
    try:
        tree = load_any_rubric(rubric, allow_import=allow_import or ())
        classes = load_types(types) if types else None
    except LoadError as error:
        raise refused(str(error)) from None
    chosen: dict[str, Any] = {
        "format": format,
        "types": classes,
        "where": where,
        "limit": limit,
        "group_by": group_by,
        "group_size": group_size,
        "assume_end": assume_end and assume_end.value,
        "price": _price(price),
    }
    if dry_run:
        beside = Path(os.devnull) if store is None and out is None else _store(store, out)  # a store, yet an empty one
        _plan(files, tree, beside, {**chosen, "ask_again": ask_again})
        return
    if out is None:
        raise refused("say where the rows go: --out OUT.jsonl (or --dry-run, to see what there is to do)")
    try:
        refuse_inputs(out, [Path(rubric.rpartition(":")[0] or rubric)])
    except RubricError as error:
        raise refused(str(error)) from None
    shown = _Shown(show)
    problems = _Problems()

    def note(row: Row) -> None:
        meter.add(row)
        shown.add(row)
        problems.add(row)

    with stopping() as stop, Meter(rows_in(files, limit) if where is None else None) as meter:
        try:
            finished = rescore_files(
                files,
                tree,
                out,
                resume=resume,
                only_failed=only_failed,
                overwrite=overwrite,
                concurrency=concurrency,
                budget_usd=budget_usd,
                store=_store(store, out),
                ask_again=ask_again,
                record=record.value if record else None,
                on_error=on_error.value,
                engine=engine.value,
                workers=workers,
                worker_timeout=worker_timeout,
                stop=stop,
                on_row=note,
                on_begin=meter.begin,
                **chosen,
            )
        except KeyboardInterrupt:
            meter.__exit__()
            complain(f"ended at once; the rows so far are in {out}, and --resume goes on")
            raise typer.Exit(INTERRUPTED) from None
        except (RubricError, ValueError, ImportError) as error:
            problems.report(out)
            written = f" ({meter.rows} rows are in {out})" if meter.rows else ""
            raise refused(f"{error}{written}") from None
    problems.report(out)
    _print(finished, shown, problems, out, where)
    raise typer.Exit(_exit_code(finished, problems))


def _price(price: str | None) -> tuple[float, float] | None:
    if price is None:
        return None
    try:
        return prices(price)
    except ValueError as error:
        raise refused(str(error)) from None


def _store(store: str | None, out: Path | None) -> Path | None:
    if store == "none" or (store is None and out is None):
        return None
    if store is not None:
        return Path(store)
    assert out is not None
    return store_beside(out)


class _Shown:
    """The row whose tree is printed."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.row: Row | None = None

    def add(self, row: Row) -> None:
        first = self.wanted == "first" and row.status == "scored"
        if self.row is None and (row.id == self.wanted or first):
            self.row = row


class _Problems:
    """Rows that went wrong: the first few are named, all are counted."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self.raised: list[str] = []
        self.unscored: str | None = None
        self.counts = {"unreadable": 0, "error": 0}

    def add(self, row: Row) -> None:
        if row.status == "unscored" and self.unscored is None:
            self.unscored = f"{row.id}: {row.reason}"
        if row.status not in self.counts:
            return
        self.counts[row.status] += 1
        messages = self.unreadable if row.status == "unreadable" else self.raised
        if len(messages) < _SHOWN:
            messages.append(f"{row.id}: {row.reason}" if row.status == "error" else f"{row.reason}")

    def report(self, out: Path) -> None:
        for status, messages in (("error", self.raised), ("unreadable", self.unreadable)):
            for message in messages:
                complain(message)
            if (more := self.counts[status] - len(messages)) > 0:
                complain(f"and {more} more like this: the rows in {out} with the status {status!r}")


def _exit_code(finished: Finished, problems: _Problems) -> int:
    if finished.stopped == "interrupted":
        return INTERRUPTED
    if finished.stopped == "budget":
        return OUT_OF_BUDGET
    if problems.counts["unreadable"]:
        return BAD_INPUT
    return RUBRIC_RAISED if problems.counts["error"] else 0


def _kept(out: Path, wanted: str) -> Row | None:
    """The row that is to be shown, of those that were there already."""
    if wanted in ("first", "none"):
        return None
    return next((row for row in read_rows(out) if row.id == wanted), None)


def _print(finished: Finished, shown: _Shown, problems: _Problems, out: Path, where: str | None) -> None:
    is_stdout = os.path.samestat(os.stat(out), os.fstat(1))  # which the rows have for themselves then
    console = Console(highlight=False, stderr=is_stdout)
    row = shown.row or (_kept(out, shown.wanted) if finished.kept and not is_stdout else None)
    if row is not None and row.evaluation is not None:
        console.print(
            Text(printable(f"{row.id}: reward {_rounded(row.reward)}, recorded {_rounded(row.recorded_reward)}"))
        )
        console.print(row.evaluation.tree())
        console.print()
    elif shown.wanted not in ("first", "none"):
        complain(f"no tree to show: {row.reason}" if row else f"no trajectory has the id {shown.wanted!r}")
    summary = finished.summary
    if summary.components:
        console.print(summary.table())
    console.print(Text(summary.describe()))
    if problems.unscored is not None:
        console.print(Text(f"unscored, for example, {printable(problems.unscored)}"))
    if finished.kept:
        console.print(Text(f"{finished.kept} rows were there already, {finished.written} are new"))
    if summary.cost is None:
        console.print(Text("cost: unknown, since no price of a model is known: give --price PROMPT,REPLY"))
    elif summary.cost:
        console.print(Text(f"cost: ${summary.cost:.4f}"))
    if finished.aside is not None:
        complain(f"the rows of the rubric before are in {finished.aside}")
    if finished.split:
        complain(
            f"{finished.split} group numbers stand in several files, and count in each by itself; where files are "
            "shards of one run, --group-by group joins them"
        )
    if where is not None and not summary.statuses.total():
        complain(f"no trajectory meets --where {where!r}")
    if failed := summary.statuses["error"]:
        complain(f"{failed} rows are errors; --only-failed makes them again, and no others")
    if finished.others:
        complain(f"{finished.others} rows in {out} are of trajectories that this run did not come to; they stay")
    why = {
        "interrupted": "interrupted",
        "budget": "the budget is used up",
        "error": f"stopped at the first error: {finished.row.id if finished.row else None}",
    }
    if finished.stopped is not None:
        rows = finished.kept + finished.written
        complain(f"{why[finished.stopped]}; {rows} rows are in {out}, and --resume goes on")


def _rounded(reward: float | None) -> float | None:
    return None if reward is None else round(reward, 6)


def _plan(files: list[Path], tree: Any, store: Path | None, chosen: dict[str, Any]) -> None:
    limit = chosen["limit"]
    with Meter(rows_in(files, limit) if chosen["where"] is None else None) as meter:
        try:
            found = plan_files(files, tree, store=store, on_row=meter.add, **chosen)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except (ConditionError, formats.FormatError) as error:
            raise refused(str(error)) from None
    for reason in found.reasons:
        complain(reason)
    _print_plan(found)
    if found.trajectories["unreadable"]:
        raise typer.Exit(BAD_INPUT)
    raise typer.Exit(RUBRIC_RAISED if found.trajectories["error"] else 0)


def _print_plan(found: DryRun) -> None:
    console = Console(highlight=False)
    counts = ", ".join(f"{number} {status}" for status, number in sorted(found.trajectories.items()))
    total = found.trajectories.total()
    console.print(Text(f"{total} trajectories ({counts or 'none'}), {found.steps} steps, {found.nodes} nodes"))
    if found.judges is None:
        console.print("no judges: nothing would be asked of a model")
        return
    table = Table(title="What models would be asked", title_justify="left")
    table.add_column("model", overflow="fold")
    for name in ("calls", "in the store", "repeated", "prompt tokens", "reply tokens", "cost, about", "cost, at most"):
        table.add_column(name, justify="right")
    models = dict(sorted(found.judges.models.items()))
    for model, planned in [*models.items(), *([("total", found.judges.total)] if len(models) > 1 else [])]:
        table.add_row(
            Text(model),
            *(f"{number:,}" for number in (planned.calls, planned.stored, planned.repeated, planned.prompt_tokens)),
            f"{planned.completion_tokens:,} – {planned.most_completion_tokens:,}",
            *("unknown" if cost is None else f"${cost:.4f}" for cost in (planned.cost, planned.most_cost)),
        )
    console.print(table)
    if found.judges.total.cost is None:
        console.print("the price of a model is unknown to litellm: give --price PROMPT,REPLY")
