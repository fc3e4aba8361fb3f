"""What the commands say on a terminal, and their exit codes: those of `rubrics`, under another name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from rubrics.cli import said

RED, BAD_INPUT, INTERRUPTED = 1, said.BAD_INPUT, said.INTERRUPTED

complain = partial(said.complain, program="judges")
refused = partial(said.refused, program="judges")


@contextmanager
def refusing() -> Iterator[None]:
    """What the library refuses within, or warns of, is said in a line; a refusal ends the command."""
    from judges.prompt import PromptWarning
    from judges.store import StoreWarning
    from rubrics.score import RubricError

    otherwise = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, (PromptWarning, StoreWarning)):
            complain(str(message))
        else:
            otherwise(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except RubricError as error:
            raise refused(str(error)) from None
        except KeyboardInterrupt:
            complain("interrupted; what was recorded so far stays in the cassettes")
            raise typer.Exit(INTERRUPTED) from None
