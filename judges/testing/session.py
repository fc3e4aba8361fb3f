"""What the tests of one process share: the options, and the suites that were judged."""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from judges.clients.protocol import Price
from judges.runs import Plan
from judges.testing.cases import CaseFailed, JudgeCase, JudgeReport
from judges.testing.comparing import baseline_of
from judges.testing.golden import GoldenError, GoldenSet, Split
from judges.testing.report import Assessed, Line, assess, summary_lines, write_report
from judges.testing.results import SuiteReport, Threshold, read_reports
from judges.testing.running import Sending, announcement
from judges.testing.sharing import Judged, Runs
from judges.testing.subjects import Subject, Tested, with_model
from judges.testing.suite import Suite
from rubrics.cli.options import prices
from rubrics.score import RubricError

_MARKER = "judge_suite"


def _names(given: Any) -> Any:
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise ValueError("give a list of names")
    return given


def _file(given: Any) -> Any:
    if not isinstance(given, (str, Path)):
        raise ValueError("give a path")
    return given


class _Keywords(BaseModel):
    """The keywords of the marker, as `Suite.of` takes them."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    judge: str = "judge"
    name: Annotated[str, Field(min_length=1)] | None = None
    split: Split | None = "test"
    tags: Annotated[Any, AfterValidator(_names)] = ()
    scale: Any = None
    response: str | None = None
    positive: Any = None
    tolerance: Annotated[float, Field(ge=0.0)] = 0.0
    samples: Annotated[int, Field(ge=1)] = 1
    orders: Literal["both", "given"] | None = None
    thresholds: dict[str, Threshold] | None = None
    min_n: Annotated[int, Field(ge=1)] = 10
    perturbations: Annotated[Any, AfterValidator(_names)] = ()
    cassette: Annotated[Any, AfterValidator(_file)] = None
    snapshot: Annotated[Any, AfterValidator(_file)] = None


class Session:
    """The judge tests of one process.

    Args:
        config: of pytest.
        folder: what the processes of a run share.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        option = config.getoption
        self.config = config
        self.models: list[str | None] = option("judge_model") or [None]
        self.samples: int | None = option("judge_samples")
        self.strict: bool = option("judge_strict")
        self.reports = [Path(each) for each in option("judge_report") or ()]
        folder.mkdir(mode=0o700, exist_ok=True)
        self.runs = Runs(
            folder,
            Sending(
                mode=option("judge_record"),
                live=option("judge_live"),
                price=_price(option("judge_price")),
                update_snapshots=option("judge_update_snapshots"),
            ),
            usd=option("judge_budget_usd"),
            announce=self._announce,
        )
        baseline = option("judge_baseline")
        try:
            self.baseline = None if baseline is None else read_reports(baseline)
        except GoldenError as error:
            raise pytest.UsageError(f"--judge-baseline: {error}") from None
        self.unwritten: dict[Path, str] = {}
        self._golden: dict[tuple[Path, int], GoldenSet] = {}
        self._suites: dict[str, Suite] = {}

    # -- suites in Python ---------------------------------------------------------------------------------------------

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """A test a row and model, or a test a model."""
        marker = next(metafunc.definition.iter_markers(_MARKER), None)
        if marker is None:
            raise CaseFailed(
                f"{metafunc.definition.nodeid}: judge_case and judge_report need the marker "
                '@pytest.mark.judge_suite("GOLDEN SET")'
            )
        path, said = _marked(marker, metafunc.definition.path)
        models = {model: "" if model is None else model for model in self.models}
        if "judge_case" not in metafunc.fixturenames:
            names = [name or "suite" for name in models.values()]
            metafunc.parametrize("judge_report", list(models), ids=names, indirect=True)
            return
        try:
            rows = self._loaded(path).select(said.get("split", "test"), said.get("tags", ()))
        except GoldenError as error:
            raise CaseFailed(f"{metafunc.definition.nodeid}: {error}") from None
        if not len(rows):  # pytest would skip the test, and nobody would know that nothing was tested
            raise CaseFailed(f"{metafunc.definition.nodeid}: {path}: no row has the split and the tags of the marker")
        each = [(row.id, model) for model in models for row in rows]
        ids = [id if model is None else f"{id}-{model}" for id, model in each]
        metafunc.parametrize("judge_case", each, ids=ids, indirect=True)

    def case(self, request: pytest.FixtureRequest) -> JudgeCase:
        """The row of a test."""
        id, model = request.param
        suite, judged = self._judged(request, model)
        return JudgeCase(suite, judged, judged.report[id])

    def report(self, request: pytest.FixtureRequest) -> JudgeReport:
        """The suite of a test."""
        model = request.param if hasattr(request, "param") else None
        _, judged = self._judged(request, model)
        return JudgeReport(judged, self.previous(judged.report), self.strict)

    def _judged(self, request: pytest.FixtureRequest, model: str | None) -> tuple[Suite, Judged]:
        try:
            suite = self._suite(request, model)
            return suite, self.judged(suite)
        except RubricError as error:
            raise CaseFailed(f"{request.node.nodeid}: {error}") from None

    def judged(self, suite: Suite) -> Judged:
        """The results of a suite."""
        return self.runs.judged(suite)

    def _suite(self, request: pytest.FixtureRequest, model: str | None) -> Suite:
        marker = request.node.get_closest_marker(_MARKER)
        path, said = _marked(marker, request.node.path)
        judge: Tested | None = request.getfixturevalue(said.pop("judge", "judge"))
        if model is not None and judge is not None:
            judge = with_model(judge, model)
        key = repr((Subject(judge).fingerprint, path, said))
        if key not in self._suites:
            prompt = Subject(judge).prompt
            name = said.pop("name", None) or (prompt and prompt.name) or path.name.split(".")[0]
            folder = request.node.path.parent
            kept = {
                "cassette": folder / (said.pop("cassette", None) or f"cassettes/{name}.jsonl"),
                "snapshot": folder / (said.pop("snapshot", None) or f"snapshots/{name}.json"),
            }
            if self.samples is not None:
                said["samples"] = self.samples
            self._suites[key] = Suite.of(judge, self._loaded(path), name=name, path=request.node.path, **kept, **said)
        return self._suites[key]

    def _loaded(self, path: Path) -> GoldenSet:
        try:
            key = (path, path.stat().st_mtime_ns)
        except OSError as error:
            raise GoldenError(f"{path}: {error.strerror}") from None
        if key not in self._golden:
            self._golden[key] = GoldenSet.load(path)
        return self._golden[key]

    # -- what people see ----------------------------------------------------------------------------------------------

    def previous(self, report: SuiteReport) -> SuiteReport | None:
        """The same suite in the baseline."""
        return baseline_of(report, self.baseline or [])

    def _announce(self, suite: Suite, plan: Plan) -> None:
        """Say what is about to be sent, past the capture of output."""
        text = f"\njudges: {announcement(suite, plan)}\n"
        capture = self.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            sys.stderr.write(text)
            sys.stderr.flush()

    @cached_property
    def _assessed(self) -> list[Assessed]:
        return assess([judged.report for judged in self.runs.all()], self.baseline)

    def write_reports(self) -> None:
        """Write the reports that were asked for, of all suites that were judged, in whatever process."""
        for path in self.reports:
            try:
                write_report(self._assessed, path)
            except (OSError, GoldenError) as error:  # told at the end: the tests themselves have run
                self.unwritten[path] = str(error)

    def tell(self, terminal: pytest.TerminalReporter) -> None:
        """Sum up what was judged."""
        try:
            lines = summary_lines(self._assessed, width=terminal._tw.fullwidth)
        except GoldenError as error:  # a test has failed for it, and says the same
            lines = [Line(str(error))]
        if not lines:
            return
        terminal.section("judges")
        tones = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow"}
        for line in lines:
            markup = {tones[line.outcome]: True} if line.outcome else {}
            terminal.line(line.text, bold=line.title, **markup)
        for path in self.reports:
            problem = self.unwritten.get(path)
            terminal.line(f"{path} is written" if problem is None else f"{path} is not written: {problem}")


def _marked(marker: pytest.Mark | None, where: Path) -> tuple[Path, dict[str, Any]]:
    """The golden set's file, and the rest of a marker."""
    assert marker is not None
    if len(marker.args) != 1 or not isinstance(marker.args[0], (str, Path)):
        raise CaseFailed(f"{where}: judge_suite takes one golden set, a path beside the test file, and keywords")
    try:
        _Keywords.model_validate(marker.kwargs)
    except ValidationError as error:
        told = "; ".join(_told(each) for each in error.errors(include_url=False))
        raise CaseFailed(f"{where}: judge_suite: {told}") from None
    return where.parent / marker.args[0], dict(marker.kwargs)


def _told(error: Any) -> str:
    name = error["loc"][0]
    if error["type"] == "extra_forbidden":
        return f"there is no argument {name}; there are {', '.join(_Keywords.model_fields)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, error['loc']))}: {message}, got {str(error['input'])[:60]!r}"


def _price(price: str | None) -> Price | None:
    if price is None:
        return None
    try:
        return Price(*prices(price, "--judge-price"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
