"""`judges cassette`: what recorded replies there are, and which are asked for no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges.cli.running import suite_files, suite_of
from judges.cli.said import refused, refusing
from rubrics.shown import printable

if TYPE_CHECKING:
    from judges.testing.cassettes import Entry

cassette = typer.Typer(name="cassette", help="Recorded replies: list, show and prune them.", no_args_is_help=True)

_KEY = 10  # characters of a key that are shown
_WORDS = 60  # characters of a reply
_SHOWN = 5  # dropped entries that are named
_HEAD = ["key", "when", "model", "endpoint", "sample", "tokens", "cost", "end", "reply"]
_NUMBERS = ("sample", "tokens", "cost")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The cassette.", show_default=False)]


@cassette.command(name="list")
def list_(file: File) -> None:
    """List the recorded replies: what was asked whom and when, how it ended, what it took, and its first words.

    Of a request that was recorded again, the last one is listed. Exit code 2: the cassette could not be read.
    """
    from judges.testing.cassettes import current, read_cassette

    with refusing():
        entries = read_cassette(file)
    alive = current(entries)
    rows = [_HEAD, *([printable(cell) for cell in _cells(entry)] for entry in alive)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows if alive else ():
        cells = (
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=True)
        )
        typer.echo("  ".join(cells).rstrip())
    typer.echo(printable(_summed(file, entries, alive)))


def _cells(entry: Entry) -> list[str]:
    facts, reply = entry.facts, entry.reply
    usage = None if reply is None else reply.usage
    return [
        entry.line.key[:_KEY],
        entry.line.at[:16].replace("T", " "),
        str(facts["model"]),
        str(facts["endpoint"]),
        str(facts["sample"]),
        "" if usage is None else f"{usage.total_tokens:,}",
        "" if usage is None or not usage.cost else f"${usage.cost:.5f}",
        _end(entry),
        _first(reply.text if reply else str(entry.line.outcome)),
    ]


def _first(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"{line[: _WORDS - 1]}…"


def _end(entry: Entry) -> str:
    """How it ended: the finish reason, or the kind of failure."""
    return str(getattr(entry.line.outcome, "kind", None) or (entry.reply and entry.reply.finish_reason) or "")


def _summed(file: Path, entries: list[Entry], alive: list[Entry]) -> str:
    failed = sum(entry.reply is None for entry in alive)
    told = [f"{file}: {len(alive)} recorded requests"]
    told += [f"{failed} of them failed"] if failed else []
    if old := len(entries) - len(alive):
        told.append(f"{old} recorded again since")
    if shards := len({entry.path for entry in entries} - {file}):
        told.append(f"{shards} further files beside it")
    return ", ".join(told)


@cassette.command()
def show(
    file: File,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The first characters of its key.", show_default=False)
    ] = None,
    suite: Annotated[
        Path | None, typer.Option(metavar="SUITE", help="The suite of the case.", show_default=False)
    ] = None,
    case: Annotated[str | None, typer.Option(metavar="ID", help="A row of the suite.", show_default=False)] = None,
) -> None:
    """Show one exchange in full: the request, each message with its role, and the reply.

    Name it by its key, or by a row and the suite that asks about it (then all its orders and samples are shown).

    Exit code 2: there is no such exchange, or something could not be read.
    """
    from judges.testing.cassettes import current, read_cassette

    with refusing():
        entries = current(read_cassette(file))
        if key is not None and case is None and suite is None:
            found = [entry for entry in entries if entry.line.key.startswith(key)]
            if len(found) > 1:
                raise refused(f"{len(found)} keys begin with {key!r}: give more of it")
        elif key is None and case is not None and suite is not None:
            keys = _keys(suite, case, file)
            found = [entry for entry in entries if entry.line.key in keys]
        else:
            raise refused("which exchange? Give the first characters of its KEY, or --suite SUITE --case ID")
    if not found:
        raise refused(f"{file} holds no such exchange; `judges cassette list {file}` lists them")
    for number, entry in enumerate(found):
        typer.echo(("\n" if number else "") + printable(_whole(entry)))


def _keys(path: Path, case: str, file: Path) -> set[str]:
    """The keys of what a suite asks about a row."""
    from judges.store import request_key

    suite = suite_of(path, cassette=file)
    if suite.subject.asker is None or case not in {row.id for row in suite.golden}:
        raise refused(f"{path}: there is no row {case!r} that a model is asked about")
    endpoint = suite.subject.asker.exchanger.endpoint
    asked = [(order, sample) for order in suite.orders for sample in range(suite.samples)]
    return {request_key(endpoint, suite.subject.request(suite.golden[case], *each)) for each in asked}


def _whole(entry: Entry) -> str:
    facts = {"key": entry.line.key, "file": entry.place, "at": entry.line.at, **entry.facts}
    lines = [f"{name}: {fact if isinstance(fact, str) else json.dumps(fact)}" for name, fact in facts.items()]
    for message in entry.messages:
        lines += ["", f"[{message['role']}]", message["content"]]
    lines += ["", f"[{'reply' if entry.reply else 'failure'}: {_end(entry)}]"]
    lines.append(entry.reply.text if entry.reply else str(entry.line.outcome))
    if entry.reply is not None:
        lines += ["", f"usage: {json.dumps(entry.reply.usage.to_dict())}"]
    return "\n".join(lines)


@cassette.command()
def prune(
    file: File,
    suites: Annotated[
        list[Path] | None,
        typer.Option(
            "--suite", metavar="SUITE", help="A suite, or a folder of some, that replays it.", show_default=False
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="A model that the suites are run with.", show_default=False),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="How often each row is asked.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be dropped; change nothing.")] = False,
) -> None:
    """Drop what was recorded again since and, given the suites that replay it, what none of them asks for any more.

    Files that other processes wrote beside it are merged into it. It is replaced as a whole, or not at all.

    Exit code 2: something could not be read or written, or another process is writing to it.
    """
    from judges.testing.cassettes import prune as pruned

    if (models or samples) and not suites:
        raise refused("--model and --samples say how the suites are run: give --suite")
    with refusing():
        each = (
            [
                suite_of(path, model=model, samples=samples)
                for path in suite_files(suites or ())
                for model in models or (None,)
            ]
            if suites
            else []
        )
        found = pruned(file, each, dry_run=dry_run)
    for why, entries in (("recorded again since", found.superseded), ("asked for by no suite", found.unasked)):
        if entries:
            named = ", ".join(entry.line.key[:_KEY] for entry in entries[:_SHOWN])
            more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
            typer.echo(f"{len(entries)} {why}: {named}{more}")
    merged = f", {len(found.shards)} further files merged" if found.shards else ""
    typer.echo(printable(f"{file}: {len(found.kept)} entries {'would be kept' if dry_run else 'kept'}{merged}"))
