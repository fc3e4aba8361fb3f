"""Runs of suites in a test session of one or several processes: each suite is judged once, by whoever comes first.

The processes share a folder. Whoever holds its lock judges a suite and leaves the result there for the others; the lock
dies with its process. One suite is judged at a time, so that limits on requests hold across processes, and what was
spent is written down after every request, so that a budget holds as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import FileIO
from pathlib import Path

from pydantic import ValidationError

from judges.runs import Plan, RunBudget
from judges.store import Mode
from judges.testing.decisions import Decision
from judges.testing.figures import Figures, decisions_of, figures_of
from judges.testing.golden import GoldenError
from judges.testing.results import SuiteReport
from judges.testing.running import Sending, cassette_of, plan_suite, run_suite
from judges.testing.suite import Suite
from rubrics.evaluation import Usage
from rubrics.files import locked, replacing
from rubrics.score import RubricError

_WAIT = 0.05  # seconds between two looks at the lock


class Judged:
    """A suite that was judged.

    Attributes:
        report: all answers.
    """

    def __init__(self, report: SuiteReport) -> None:
        self.report = report

    @cached_property
    def figures(self) -> Figures:
        """Its figures."""
        return figures_of(self.report)

    @cached_property
    def decisions(self) -> dict[str, Decision]:
        """Its thresholds, decided.

        Raises:
            GoldenError: a threshold is of no figure of this suite.
        """
        return decisions_of(self.report, self.figures)


@dataclass
class Runs:
    """The suites of a session.

    Args:
        folder: what the processes share.
        sending: what may be sent. Its budget is taken from `usd`.
        usd: what all suites may spend together, in US dollars.
        announce: is told of a suite, and of what it will send, before anything is sent.
    """

    folder: Path
    sending: Sending
    usd: float | None = None
    announce: Callable[[Suite, Plan], None] | None = None
    _known: dict[str, Judged] = field(default_factory=dict)
    _unkept: dict[str, str] = field(default_factory=dict)

    def judged(self, suite: Suite) -> Judged:
        """A suite's results. The first who asks judges it; others wait.

        Raises:
            GoldenError: the suite cannot be judged: whoever tried it first tells why, and the others say the same. Or
                its results cannot be kept.
        """
        key = suite.key
        if key in self._unkept:  # each test would pay for it again
            raise GoldenError(self._unkept[key])
        if key not in self._known:
            found = self.folder / f"{key}.json"
            with FileIO(self.folder / "lock", "ab") as lock:
                while not found.exists() and not locked(lock):
                    time.sleep(_WAIT)
                if not found.exists():
                    self._keep(key, found, self._judge(suite))
            self._known[key] = self._read(found)
        return self._known[key]

    def all(self) -> list[Judged]:
        """Everything that was judged, by name and model."""
        found = [self._read(path) for path in self.folder.glob("*.json") if "report" in json.loads(path.read_bytes())]
        return sorted(found, key=lambda judged: (judged.report.path or "", judged.report.title))

    def _judge(self, suite: Suite) -> str:
        try:
            if self.sending.sends and self.announce is not None:
                plan = plan_suite(suite, self.sending)
                if plan.total.calls:
                    self.announce(suite, plan)
            budget = None if self.usd is None else _KeptBudget(self.usd, self.folder / "spent")
            report = run_suite(suite, replace(self.sending, mode=self._mode(suite), budget=budget))
        except Exception as error:  # each process is to say the same, and none to try it again
            kind = "" if isinstance(error, RubricError) else f"{type(error).__name__}: "  # ours say what is wrong
            return json.dumps({"error": f"{kind}{error}"})
        return json.dumps({"report": report.to_dict()})

    def _mode(self, suite: Suite) -> Mode:
        """That of the session; a cassette that the session has begun by itself goes on with what is new."""
        mode, cassette = self.sending.mode, cassette_of(suite)
        if cassette is None or mode not in ("once", "rewrite"):
            return mode
        begun = self.folder / "begun"
        known = begun.read_text(encoding="utf-8").splitlines() if begun.exists() else []
        if str(cassette) in known:
            return "new"
        if mode == "rewrite" or not (cassette.exists() and cassette.stat().st_size):
            begun.write_text("\n".join([*known, str(cassette)]), encoding="utf-8")
        return mode

    def _keep(self, key: str, path: Path, text: str) -> None:
        try:
            with replacing(path) as whole:
                whole.write_text(text, encoding="utf-8", errors="surrogatepass")
        except OSError as error:
            why = error.strerror or str(error)
            self._unkept[key] = f"the results cannot be kept in {self.folder}: {why} (TMPDIR names another place)"
            raise GoldenError(self._unkept[key]) from None

    def _read(self, path: Path) -> Judged:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
        if "error" in data:
            raise GoldenError(data["error"])
        try:
            return Judged(SuiteReport.model_validate(data["report"]))
        except ValidationError as error:  # a value of a row that JSON changes
            raise GoldenError(f"the results cannot be shared between processes: {error}") from None


class _KeptBudget(RunBudget):
    """A budget that goes on from what other processes spent, and writes down what it spends."""

    def __init__(self, usd: float, path: Path) -> None:
        super().__init__(usd=usd)
        self.path = path
        if path.exists():
            self._spent = Usage(**json.loads(path.read_bytes()))

    def settle(self, reservation: object, usage: Usage) -> None:
        """As `Budget.settle`."""
        super().settle(reservation, usage)  # type: ignore[arg-type]
        with replacing(self.path) as whole:  # a process that dies here must not take the account with it
            whole.write_text(json.dumps(self.spent.to_dict()))
