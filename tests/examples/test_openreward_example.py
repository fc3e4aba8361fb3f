"""The example on OpenReward runs as a script: on the wire and offline its rubric pays the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openreward")

ROOT = Path(__file__).resolve().parents[2]

PRINTED = """\
careful: A1, A2
  read_invoices paid not paid  credited 0.27
  flag          paid 0.20      credited 0.47
  submit        paid 0.80      credited 0.27
  total 1.00, offline the same
careful: B1, B2, B3
  read_invoices paid not paid  credited 0.20
  flag          paid 0.20      credited 0.40
  flag          paid 0.20      credited 0.40
  submit        paid 0.80      credited 0.20
  total 1.20, offline the same
hasty: A1, A2
  flag          paid -0.20     credited -0.20
  submit        paid 0.00      credited 0.00
  total -0.20, offline the same
hasty: B1, B2, B3
  flag          paid 0.20      credited 0.40
  submit        paid 0.40      credited 0.20
  total 0.60, offline the same
"""


def test_invoice_audit(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "invoice_audit.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (PRINTED, "")
