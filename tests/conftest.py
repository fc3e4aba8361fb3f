"""What all tests share: hypothesis profiles, real files that lie outside the repository, and a real browser."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"  # else its client and server ask the network for their version
os.environ["OPENREWARD_LOG_LEVEL"] = "ERROR"  # else each request is a line of output

CHROMIUM = Path("/usr/bin/chromium")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No deadline anywhere: a busy machine is not a failing test. In CI the examples are the same at every run.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the fixture `shared_data`, and skip all that bear the mark where there are no data."""
    absent = pytest.mark.skip(reason="../shared/data is absent")
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("shared_data")
        if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
            item.add_marker(absent)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real files beside the repository, `../shared/data`."""
    return SHARED_DATA


@pytest.fixture(scope="module")  # no longer: Playwright's loop counts as running in this thread
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET.split())
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page from disk. At the end, it has asked the network for nothing and complained of nothing."""
    contexts, requests, complaints = [], [], []

    def visit(path: Path, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("main:not([hidden])")
        return page

    yield visit
    titles = [page.title() for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith("file://")] == []
    assert len(requests) == len(contexts)  # the pages themselves, and nothing beside them
    assert complaints == []
    assert "owned" not in titles
