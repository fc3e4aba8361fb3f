"""The examples on OpenEnv run as scripts, and print what their rubrics give."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openenv")

ROOT = Path(__file__).resolve().parents[2]


def printed_by(example: str, folder: Path) -> list[str]:
    command = [sys.executable, str(ROOT / "examples" / example)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_code_review(tmp_path: Path) -> None:
    assert printed_by("code_review.py", tmp_path) == [
        "change 0: stats.py, test_stats.py",
        "  open   setup.py   reward -0.10",
        "  open   stats.py   reward  0.00",
        "  review stats.py   reward  1.00",
        "    open                             skipped",
        "    review                           1.00",
        "    review.cites_line                1.00",
        "    review.cites_line.rubric         1.00",
        "    review.suggestion_parses         1.00",
        "    review.suggestion_parses.rubric  1.00",
        "    review.quality                   1.00",
        "    review.quality.finds_bug         1.00",
        "    review.quality.brief             1.00",
        "  total 0.90",
        "change 1: cart.py",
        "  open   cart.py    reward  0.00",
        "  review cart.py    reward  0.00",
        "    open                             skipped",
        "    review                           0.00",
        "    review.cites_line                1.00",
        "    review.cites_line.rubric         1.00",
        "    review.suggestion_parses         0.00",
        "    review.suggestion_parses.rubric  0.00",
        "    review.quality                   skipped",
        "    review.quality.finds_bug         skipped",
        "    review.quality.brief             skipped",
        "  total 0.00",
    ]


def test_guessing_env(tmp_path: Path) -> None:
    # 0.8 · 1 for finding it, credited with gamma 0.9, and 0.2 · 0.4 for doing so with the fourth of six guesses
    lines = printed_by("guessing_env.py", tmp_path)
    assert sorted(lines[:3]) == [
        "careless: rewards 0.000 -0.050 0.000 0.880, credited 0.583 0.598 0.720 0.880",
        "found: rewards 0.000 0.000 0.000 0.880, credited 0.583 0.648 0.720 0.880",
        "lost: rewards 0.000 0.000 0.000 0.000 0.000 0.000, credited 0.000 0.000 0.000 0.000 0.000 0.000",
    ]
    assert lines[3:] == [
        "careless offline: reward 0.830, the same as online",
        "found offline: reward 0.880, the same as online",
        "lost offline: reward 0.000, the same as online",
    ]
