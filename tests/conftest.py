"""What all tests share: hypothesis profiles, and real files that lie outside the repository."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"  # else its client and server ask the network for their version
os.environ["OPENREWARD_LOG_LEVEL"] = "ERROR"  # else each request is a line of output

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
