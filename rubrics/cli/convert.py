"""`rubrics convert`: trajectories of any format in, our JSONL or Parquet out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from rubrics import formats
from rubrics.cli.said import BAD_INPUT, INTERRUPTED, complain, refused
from rubrics.files import input_of, replacing
from rubrics.formats import FormatError, FormatProblem
from rubrics.shown import printable
from rubrics.trajectory import Trajectory

_SHOWN = 20  # problems on a terminal; all are counted

Write = Callable[[Path, Iterable[Trajectory]], int]


def convert(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Trajectory files, folders.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(metavar="OUT.jsonl|OUT.parquet", help="Where the trajectories go.", show_default=False),
    ],
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="The files' format; by default their content tells.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write recorded trajectories of any format as our JSONL, or as Parquet.

    Reading OUT gives the same trajectories, and each says where it was recorded. OUT appears once it is complete.

    Exit code 2: something could not be read or written; every trajectory that can be read is written all the same.
    """
    write = _writer(out)
    try:
        items = formats.read(files, format)
    except FormatError as error:
        raise refused(str(error)) from None
    if out.exists() and input_of(out, files) is not None:
        raise refused(f"{out} is one of the inputs; recordings are never overwritten")
    if out.exists() and not overwrite:
        raise refused(f"{out} exists; choose another file, or give --overwrite")
    found = _Found()
    try:
        with replacing(out) as part:
            count = write(part, found.good(items))
            if not count:
                part.unlink(missing_ok=True)  # OUT stays as it is
    except KeyboardInterrupt:
        complain(f"interrupted; {out} was not written")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        raise refused(f"{out}: cannot be written: {error.strerror or error}") from None
    except (TypeError, ValueError) as error:  # of a reader from elsewhere, that hands out what JSON cannot hold
        raise refused("; ".join([str(error), *getattr(error, "__notes__", ())])) from None
    found.report()
    typer.echo(printable(f"{out}: {found.described()}" if count else "no trajectories; nothing was written"))
    raise typer.Exit(BAD_INPUT if found.problems else 0)


def _writer(out: Path) -> Write:
    if out.suffix == ".jsonl":
        return formats.write_jsonl
    if out.suffix == ".parquet":
        return formats.write_parquet
    raise refused(f"{out}: the name must end in .jsonl or .parquet, which says what is written")


class _Found:
    """What the inputs held: trajectories are counted and passed on, problems are counted and the first few kept."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.rewards = self.repaired = self.problems = 0
        self.first: list[FormatProblem] = []

    def good(self, items: Iterable[Trajectory | FormatProblem]) -> Iterator[Trajectory]:
        for item in items:
            if isinstance(item, FormatProblem):
                self.problems += 1
                if len(self.first) < _SHOWN:
                    self.first.append(item)
                continue
            self.ends[item.end or "unfinished"] += 1
            self.rewards += item.reward is not None
            self.repaired += "repaired" in item.metadata
            yield item

    def described(self) -> str:
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        repaired = f"; {self.repaired} were repaired, see 'repaired' in their metadata" if self.repaired else ""
        return f"{self.ends.total()} trajectories ({ends}), {self.rewards} with a reward{repaired}"

    def report(self) -> None:
        for problem in self.first:
            complain(str(problem))
        if (more := self.problems - len(self.first)) > 0:
            complain(f"and {more} more like this")
