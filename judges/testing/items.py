"""`*.judge.yaml` files as tests: the prompts, the rows, the thresholds, and the verdicts of a baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from judges.testing.cases import JudgeCase, raise_any, settle
from judges.testing.golden import GoldenRow
from judges.testing.outcome import (
    problems_of_baseline,
    problems_of_extractor,
    problems_of_perturbations,
    problems_of_snapshot,
)
from judges.testing.plugin import session_of
from judges.testing.running import check_suite
from judges.testing.session import Session
from judges.testing.suite import Suite
from rubrics.score import RubricError


class JudgeFile(pytest.File):
    """A `*.judge.yaml` file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Its tests: one for the prompts, one a row, one a threshold; once a model."""
        session = session_of(self.config)
        for model in session.models:
            try:
                suite = Suite.load(self.path, model=model, samples=session.samples)
                check_suite(suite)
            except RubricError as error:
                raise self.CollectError(str(error)) from None
            of = "" if model is None else f"-{model}"
            make = {"suite": suite, "judges": session}
            if suite.snapshot is not None and suite.subject.prompt is not None and model in (None, session.models[0]):
                yield SnapshotItem.from_parent(self, name="snapshot", **make)
                yield ExtractorItem.from_parent(self, name="extractor", **make)
            for row in suite.golden:
                yield RowItem.from_parent(self, name=f"row[{row.id}{of}]", row=row, **make)
            for name in [*suite.thresholds, *(f"flips[{each}]" for each, held in suite.perturbations.items() if held)]:
                yield ThresholdItem.from_parent(self, name=f"threshold[{name}{of}]", figure=name, **make)
            if session.baseline is not None:
                yield BaselineItem.from_parent(self, name=f"baseline{of and f'[{model}]'}", **make)


class _Item(pytest.Item):
    def __init__(self, *, name: str, parent: JudgeFile, suite: Suite, judges: Session, **given: Any) -> None:
        # Told as a text, so that what stands in brackets is one parameter, as --lf reads it back.
        super().__init__(name=name, parent=parent, nodeid=f"{parent.nodeid}::{name}", **given)
        self.suite, self.judges = suite, judges

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What a suite cannot do, as its text: nothing of ours in the traceback helps."""
        if isinstance(excinfo.value, RubricError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands."""
        return self.path, None, f"{self.suite.name}: {self.name}"


class SnapshotItem(_Item):
    """Whether the prompts are those of the snapshot."""

    def runtest(self) -> None:
        """Fail where they are not."""
        raise_any(problems_of_snapshot(self.judges.judged(self.suite).report))


class ExtractorItem(_Item):
    """Whether replies in the forms that models give are read as what they say."""

    def runtest(self) -> None:
        """Fail where they are not."""
        raise_any(problems_of_extractor(self.judges.judged(self.suite).report))


class RowItem(_Item):
    """A row: see `JudgeCase.check`."""

    def __init__(self, *, row: GoldenRow, **given: Any) -> None:
        super().__init__(**given)
        self.row = row

    def runtest(self) -> None:
        """Hold it against people's answer."""
        judged = self.judges.judged(self.suite)
        JudgeCase(self.suite, judged, judged.report[self.row.id]).check()


class ThresholdItem(_Item):
    """A figure that was asked for."""

    def __init__(self, *, figure: str, **given: Any) -> None:
        super().__init__(**given)
        self.figure = figure

    def runtest(self) -> None:
        """Hold it against its threshold."""
        judged = self.judges.judged(self.suite)
        raise_any(each for each in problems_of_perturbations(judged.report) if each.what == self.figure)
        settle(self.figure, judged.decisions[self.figure], self.judges.strict)


class BaselineItem(_Item):
    """Whether verdicts are those of the baseline."""

    def runtest(self) -> None:
        """Fail where they changed."""
        report = self.judges.judged(self.suite).report
        before = self.judges.previous(report)
        if before is None:
            pytest.skip(f"the baseline has no suite {report.title}")
        raise_any(problems_of_baseline(report, before))
