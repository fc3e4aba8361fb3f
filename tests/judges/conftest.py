"""What the tests of judges share: a server that misbehaves on demand, and a small real model."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from judges import ChatClient
from tests.judges import local_model
from tests.judges.clients import BOTH, GOOD, KEY, Client
from tests.judges.loopback import LoopbackServer, text

NO_MODEL = "no local model: "


@pytest.fixture
def loopback() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        yield server


@pytest.fixture(params=BOTH.values(), ids=BOTH.keys())
def client(request: pytest.FixtureRequest, loopback: LoopbackServer) -> Client:
    """Makes a client of the loopback server, which gives a good answer unless it is told otherwise."""
    loopback.default = text(GOOD)

    def make(**options: Any) -> ChatClient:
        made: ChatClient = request.param(loopback.url, KEY, **options)
        return made

    return make


@pytest.fixture(scope="session")
def smollm2() -> Iterator[local_model.LocalModel]:
    """SmolLM2-135M-Instruct behind llama.cpp's server: it obeys a schema, and cannot judge."""
    try:
        weights = local_model.fetch("smollm2")
    except local_model.Unavailable as error:
        if os.environ.get("CI") and local_model.installed():
            raise
        pytest.skip(f"{NO_MODEL}{error}")
    with local_model.serving("smollm2", weights) as model:
        yield model


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it loudly: `-q` alone would not tell why tests were skipped."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr]
    if missing := [reason for reason in reasons if NO_MODEL in reason]:
        terminalreporter.write_line(f"{len(missing)} tests of a real model were NOT run. {missing[0]}", yellow=True)
