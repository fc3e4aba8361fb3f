"""Runs of suites that several tests share."""

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from judges import Binary, Judge
from judges.testing import sharing
from judges.testing.golden import GoldenError
from judges.testing.running import Sending
from judges.testing.sharing import Runs
from judges.testing.suite import Suite
from tests.judges.testing.scripts import Script, golden


def test_results_that_cannot_be_kept_are_not_paid_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test of a suite asks for its results: a full disk must not make each of them judge the suite."""

    def full(path: Path) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(sharing, "replacing", full)
    client = Script(lambda shown: {"score": True})
    judge = Judge("{{ reply | untrusted }}", Binary(), reason=False, model="m", client=client)
    rows = golden(*({"inputs": {"reply": f"{i}"}, "label": True} for i in range(4)))
    runs, suite = Runs(tmp_path, Sending(live=True)), Suite.of(judge, rows, name="s")
    for _ in range(3):
        with pytest.raises(GoldenError, match=r"the results cannot be kept in .*: No space left on device"):
            runs.judged(suite)
    assert len(client.requests) == 4
