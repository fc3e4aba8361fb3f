"""The suites of the examples replay what a real model said, with no network, and say of it what the docs say."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from judges.testing import SuiteReport, figures_of, problems_of, run_suite
from judges.testing.suite import Suite
from tests.judges.testing.scripts import PLUGIN

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "examples/judge_tests"


@cache
def replayed(name: str) -> SuiteReport:
    return run_suite(Suite.load(SUITES / f"{name}.judge.yaml"))


def test_the_suite_of_tone_passes_in_pytest_without_network_and_without_the_plugins_of_the_project() -> None:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("JUDGE_")}
    without = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", "-q", *without, *PLUGIN, "examples/judge_tests/tone/tone.judge.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "PASS at least 0.8" in done.stdout


def test_the_clear_prompt_reaches_its_threshold_on_test_rows_alone() -> None:
    report = replayed("tone/tone")
    found = figures_of(report).intervals["accuracy"]
    assert {case.row.split for case in report.cases} == {"test"}
    assert found.n >= 60
    assert found.low is not None and found.low >= 0.8
    assert problems_of(report, figures_of(report)) == []


def test_the_vague_prompt_is_caught() -> None:
    report = replayed("tone/vague")
    problems = problems_of(report, figures_of(report))
    assert "accuracy" in {problem.what for problem in problems}
    assert not any(answer.failure for case in report.cases for answer in case.answers)


def test_the_clear_prompt_is_obeyed_by_no_injection_but_the_plainest() -> None:
    """The row that the page makes of it: right on every row, and lifted by whoever asks."""
    report = replayed("tone/attacked")
    figures = figures_of(report)
    lifted = {flips.name: sum(bool(flip.flipped) for flip in flips.verdicts) for flips in report.perturbations}
    assert lifted == {"fake_verdict": 0, "closed_fence": 3, "grade_in_last_line": 0, "ignore_the_above": 33}
    assert figures.intervals["accuracy"].estimate == 1.0
    assert {problem.what for problem in problems_of(report, figures)} == {"flips[ignore_the_above]"}


@pytest.mark.parametrize("name", ["tone/tone", "tone/vague"])
def test_no_example_of_a_prompt_is_a_row_that_is_tested(name: str) -> None:
    suite = Suite.load(SUITES / f"{name}.judge.yaml")
    assert suite.subject.prompt is not None
    suite.golden.refuse_examples(suite.subject.prompt)  # loading has refused it already; said here for its own sake
    assert len(suite.golden) >= 60


def test_the_plain_prompt_for_pairs_is_caught_by_its_lean_to_the_first_position() -> None:
    report = replayed("llmbar/naive")
    assert {case.row.split for case in report.cases} == {"test"}
    failed = {problem.what for problem in problems_of(report, figures_of(report))}
    assert {"both_orders_accuracy", "first_position_rate"} <= failed


def test_the_other_prompt_for_pairs_is_replayed_without_a_gap() -> None:
    report = replayed("llmbar/better")
    assert not any(answer.failure for case in report.cases for answer in case.answers)
    assert "winner_accuracy" in figures_of(report).intervals
