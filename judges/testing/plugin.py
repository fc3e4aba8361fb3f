"""The pytest plugin. It imports the rest of `judges` only when a test asks for it: see the page "Judge tests".

- `*.judge.yaml` files are collected: their prompts, rows, thresholds and perturbations are tests.
- A test with the marker `judge_suite(golden, …)` and the fixture `judge_case` runs once a row, one with `judge_report`
  once for the whole set. Both ask the judge that the fixture `judge` of the test's own gives.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from judges.testing.cases import JudgeCase, JudgeReport
    from judges.testing.session import Session

_ENDING = ".judge.yaml"
_SESSION = pytest.StashKey["Session"]()
_FOLDER = pytest.StashKey[Path]()
_REPORTS = (".json", ".md", ".html")
_FIXTURES = ("judge_case", "judge_report")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("judges", "judge tests")
    option = group.addoption
    option(
        "--judge-record",
        choices=["none", "once", "new", "all", "rewrite"],
        default="none",
        help="what may be sent and recorded: nothing (default), all where there is no cassette, what is not recorded "
        "yet, everything again, or everything into an empty cassette",
    )
    option("--judge-live", action="store_true", help="ask the model about everything, without a cassette")
    option("--judge-model", action="append", metavar="MODEL", help="in place of the suites' own; several make a matrix")
    option("--judge-samples", type=int, metavar="K", help="how often each row is asked, in place of the suites' own")
    option("--judge-budget-usd", type=float, metavar="USD", help="what all suites may spend together")
    option(
        "--judge-price", metavar="PROMPT,REPLY", help="US dollars per million tokens, of models without a known price"
    )
    option(
        "--judge-report",
        action="append",
        metavar="FILE",
        help="write a report: .json, .md or .html; may be given several times",
    )
    option("--judge-baseline", metavar="REPORT", help="a JSON report: verdicts that changed since then fail")
    option("--judge-update-snapshots", action="store_true", help="take the prompts as they are now for right")
    option("--judge-strict", action="store_true", help="a threshold that is not decided fails")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "judge_suite(golden, *, judge='judge', samples=, orders=, min_n=, thresholds=, response=, …): the golden set "
        "of a test with the fixture judge_case or judge_report, and how it is judged",
    )

    for path in map(Path, config.getoption("judge_report") or ()):
        if path.suffix not in _REPORTS:
            raise pytest.UsageError(f"--judge-report={path}: a report ends in {', '.join(_REPORTS)}")
    samples, usd = config.getoption("judge_samples"), config.getoption("judge_budget_usd")
    if samples is not None and samples < 1:
        raise pytest.UsageError(f"--judge-samples={samples}: a row is asked at least once")
    if usd is not None and not usd >= 0.0:  # NaN is none either
        raise pytest.UsageError(f"--judge-budget-usd={usd}: a budget is 0 or more")
    baseline = config.getoption("judge_baseline")
    if baseline is not None and not Path(baseline).is_file():
        raise pytest.UsageError(f"--judge-baseline={baseline}: there is no such file")
    if config.getoption("judge_live") and config.getoption("judge_record") != "none":
        raise pytest.UsageError("--judge-live uses no cassette; leave out --judge-record")


def session_of(config: pytest.Config) -> Session:
    """What the tests of this process share."""
    from judges.testing.session import Session

    if _SESSION not in config.stash:
        config.stash[_SESSION] = Session(config, _folder(config))
    return config.stash[_SESSION]


def _folder(config: pytest.Config) -> Path:
    """The folder that the processes of this session share. It is made when a suite is judged."""
    given: str | None = getattr(config, "workerinput", {}).get("judge_runs")
    if given is not None:
        return Path(given)
    if _FOLDER not in config.stash:
        config.stash[_FOLDER] = Path(tempfile.gettempdir()) / f"judge-runs-{uuid4().hex}"
    return config.stash[_FOLDER]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not file_path.name.endswith(_ENDING):
        return None
    from judges.testing.items import JudgeFile

    collector: pytest.Collector = JudgeFile.from_parent(parent, path=file_path)
    return collector


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if any(name in metafunc.fixturenames for name in _FIXTURES):
        session_of(metafunc.config).parametrize(metafunc)


@pytest.fixture
def judge_case(request: pytest.FixtureRequest) -> JudgeCase:
    """A row of the golden set and what the judge says of it; `JudgeCase.check` follows the test."""
    return session_of(request.config).case(request)


@pytest.fixture
def judge_report(request: pytest.FixtureRequest) -> JudgeReport:
    """What the judge says of the whole golden set; `JudgeReport.check` follows the test."""
    return session_of(request.config).report(request)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    result = yield
    for name in _FIXTURES:
        if name in pyfuncitem.funcargs and name in pyfuncitem.fixturenames:
            check = getattr(pyfuncitem.funcargs[name], "check", None)
            if check is not None:
                check()
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # of xdist: a worker is about to start
    node.workerinput["judge_runs"] = str(_folder(node.config))


@pytest.hookimpl(trylast=True)  # after the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("collectonly"):  # nothing was judged, and an older report stays
        return
    if not hasattr(session.config, "workerinput") and _folder(session.config).exists():
        judges = session_of(session.config)
        judges.write_reports()
        if judges.unwritten and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _folder(config).exists():
        session_of(config).tell(terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FOLDER in config.stash:  # this process made it
        shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
