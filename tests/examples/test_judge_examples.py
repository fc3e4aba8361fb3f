"""The examples with judges replay their recordings: no key, no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def printed_by(example: str, folder: Path) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_BASE", "_MODEL"))}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_best_of_n(tmp_path: Path) -> None:
    pytest.importorskip("choix")
    # Three, two, one and no wins of three, half a win each way beforehand: the last sentence is the worst answer.
    assert printed_by("best_of_n.py", tmp_path) == [
        "1. 0.70  Sunlight is made of all colours. The air scatters blue light",
        "2. 0.57  The sky is blue.",
        "3. 0.43  Rayleigh scattering goes with the inverse fourth power of th",
        "4. 0.30  Because the sea is blue and the sky is its mirror.",
        "6 of 6 pairs got the same answer in both orders",
    ]


def test_health_checklist(tmp_path: Path) -> None:
    assert printed_by("health_checklist.py", tmp_path) == [
        "careful: 0.81  (waits, daily_limit)",  # 13 of 16 points
        "brief: 0.00  (nothing)",  # the recorded model is a small one, and misses that it waits
        "careless: 0.00  (daily_limit, takes_more_now)",  # 5 - 9 points, clipped
    ]


def test_support_env(tmp_path: Path) -> None:
    pytest.importorskip("openenv")
    assert printed_by("support_env.py", tmp_path) == [
        "kind:",
        "  reward 1.00  names_the_order=1.0 friendly=1.0 helps=1.0",
        "  reward 1.00  names_the_order=1.0 friendly=1.0 helps=1.0",
        "rude:",
        "  reward 0.00  names_the_order=1.0 friendly=0.0 helps=0.0",
        "  reward 0.50  names_the_order=1.0 friendly=0.0 helps=1.0",
        "sloppy:",
        "  reward 0.00  names_the_order=0.0 friendly=None helps=None",
        "  reward 1.00  names_the_order=1.0 friendly=1.0 helps=1.0",
    ]


def test_recordings_hold_no_address_of_a_machine() -> None:
    for recording in (ROOT / "examples" / "cassettes").glob("*.jsonl"):
        text = recording.read_text(encoding="utf-8")
        assert "127.0.0.1" not in text
        assert "localhost" not in text
