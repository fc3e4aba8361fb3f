"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Record(StrEnum):
    none = "none"
    once = "once"
    new = "new"
    all = "all"
    rewrite = "rewrite"


class Order(StrEnum):
    given = "given"
    swapped = "swapped"


RecordOption = Annotated[
    Record,
    typer.Option(
        help="What may be sent, and is recorded in the cassette: none: nothing; once: everything, where there is no "
        "cassette; new: what is not recorded yet; all: everything again; rewrite: the same, into an empty cassette."
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option("--live", help="Send everything, without a cassette. Says first what it costs."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="With --live: do not ask before anything is sent.")]
BudgetOption = Annotated[
    float | None, typer.Option(min=0.0, metavar="DOLLARS", help="What may be spent in all.", show_default=False)
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        metavar="PROMPT,REPLY",
        help="Dollars a million tokens, for models whose price litellm does not know.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None, typer.Option(metavar="MODEL", help="In place of the one in the file.", show_default=False)
]
SamplesOption = Annotated[
    int | None, typer.Option(min=1, metavar="K", help="How often each row is asked.", show_default=False)
]
GoldenOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The golden set, for prompt files.", show_default=False)
]
