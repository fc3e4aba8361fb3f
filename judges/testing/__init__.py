"""Judge prompts, tested like code.

- A *golden set* (`GoldenSet`) holds cases with the answer that people gave.
- A *suite* (`Suite`, a `*.judge.yaml` file) is a judge, a golden set, and what is asked of the figures.
- `run_suite` judges it once and keeps every answer, in a `SuiteReport`; what may be sent says `Sending`, by default
  nothing: replies come from a cassette.
- `figures_of` works out what the answers say of the judge, each figure with its uncertainty, and `decisions_of` holds
  them against thresholds. The statistics by themselves are in `judges.testing.metrics`.
- `changes` compares two reports, `write_report` writes one for people, `perturbation` makes a change that should not
  move a verdict, and `problems_of` says what makes a suite red, in pytest (`judges.testing.plugin`) and `judges test`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from judges.testing.comparing import Changes, changes
    from judges.testing.figures import Figures, decisions_of, figures_of
    from judges.testing.golden import GoldenError, GoldenRow, GoldenSet
    from judges.testing.outcome import Problem, problems_of
    from judges.testing.perturbations import perturbation
    from judges.testing.report import write_report
    from judges.testing.results import Answer, Case, Flip, Flips, ReplyCheck, SuiteReport, Threshold, read_reports
    from judges.testing.running import Sending, plan_suite, run_suite, run_suite_async
    from judges.testing.suite import Suite, SuiteFile

_HOMES = {
    "comparing": ["Changes", "changes"],
    "figures": ["Figures", "decisions_of", "figures_of"],
    "golden": ["GoldenError", "GoldenRow", "GoldenSet"],
    "outcome": ["Problem", "problems_of"],
    "perturbations": ["perturbation"],
    "report": ["write_report"],
    "results": ["Answer", "Case", "Flip", "Flips", "ReplyCheck", "SuiteReport", "Threshold", "read_reports"],
    "running": ["Sending", "plan_suite", "run_suite", "run_suite_async"],
    "suite": ["Suite", "SuiteFile"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"judges.testing.{_HOME[name]}"), name)
    raise AttributeError(f"module 'judges.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Answer",
    "Case",
    "Changes",
    "Figures",
    "Flip",
    "Flips",
    "GoldenError",
    "GoldenRow",
    "GoldenSet",
    "Problem",
    "ReplyCheck",
    "Sending",
    "Suite",
    "SuiteFile",
    "SuiteReport",
    "Threshold",
    "changes",
    "decisions_of",
    "figures_of",
    "perturbation",
    "plan_suite",
    "problems_of",
    "read_reports",
    "run_suite",
    "run_suite_async",
    "write_report",
]
