"""Options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

AllowImport = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import",
        metavar="MODULE",
        help="A module, a package or a .py file that a rubric in YAML or JSON may import; may be given several times.",
        show_default=False,
    ),
]


def prices(text: str, option: str = "--price") -> tuple[float, float]:
    """The two numbers of an option `PROMPT,REPLY`, in dollars a million tokens.

    Raises:
        ValueError: it is something else.
    """
    try:
        prompt, reply = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"{option} is two numbers, such as 0.25,2.0, not {text!r}") from None
    return prompt, reply
