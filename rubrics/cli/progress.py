"""How far a run is: a line on a terminal, or now and then one in a log."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rubrics.cli.said import complain
from rubrics.rescoring import Row

_EVERY = 30.0  # seconds between two lines in a log


class Meter:
    """Counts rows, and shows how many there are, how fast they come, how many failed and what they cost.

    Args:
        total: rows there will be, where that is known.
    """

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.rows = self.failed = 0
        self.cost: float | None = 0.0
        self._began = self._told = time.monotonic()
        console = Console(stderr=True)
        self._progress: Progress | None = None
        if console.is_terminal:
            columns = [SpinnerColumn(), *([BarColumn(), TimeRemainingColumn()] if total else [TimeElapsedColumn()])]
            self._progress = Progress(*columns, TextColumn("{task.fields[said]}"), console=console, transient=True)
            self._task = self._progress.add_task("", total=total, said="")

    def __enter__(self) -> Meter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, kept: int) -> None:
        """So many rows are there already."""
        self.rows = kept
        self._kept = kept
        self._began = time.monotonic()

    _kept = 0

    def add(self, row: Row) -> None:
        """One row more."""
        self.rows += 1
        self.failed += row.status in ("error", "unreadable")
        if row.usage:
            self.cost = None if self.cost is None or row.usage["cost"] is None else self.cost + row.usage["cost"]
        if self._progress is not None:
            self._progress.update(self._task, completed=self.rows, said=self.said())
        elif time.monotonic() - self._told > _EVERY:
            self._told = time.monotonic()
            complain(self.said())

    def said(self) -> str:
        """All of it in one line."""
        rate = (self.rows - self._kept) / max(time.monotonic() - self._began, 1e-9)
        rows = f"{self.rows} of {self.total} rows" if self.total else f"{self.rows} rows"
        left = f", {_time((self.total - self.rows) / rate)} left" if self.total and rate else ""
        cost = ", cost unknown" if self.cost is None else f", ${self.cost:.4f}" if self.cost else ""
        return f"{rows}, {rate:.1f}/s, {self.failed} failed{cost}{left}"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def rows_in(files: Iterable[Path], limit: int | None) -> int | None:
    """How many trajectories there are, where counting lines tells; None where it does not."""
    count = 0
    for file in files:
        if file.suffix != ".jsonl" or not file.is_file():
            return limit
        with file.open("rb") as lines:
            while block := lines.read(1 << 20):
                count += block.count(b"\n")
    return count if limit is None else min(count, limit)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C, or a polite kill, sets: what is in progress is finished. A second Ctrl-C ends at once."""
    event = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        complain("finishing what is in progress; once more ends it at once")

    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
