"""What surprises users of OpenEnv, and what ours does about it."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")

from openenv.core import GenericEnvClient

from rubrics import (
    EpisodeError,
    Gate,
    Rubric,
    Sequential,
)
from rubrics.formats import read
from tests.integrations.board import (
    BlockingWired,
    Length,
    Move,
    Sleeps,
    Told,
    ToldEnv,
    make_and_reset,
    serving,
)


def post(url: str, data: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def test_over_http_each_request_gets_a_new_environment() -> None:
    class StepLevel(ToldEnv):
        rubric = Gate(Told())

    with serving(BlockingWired) as url:
        post(f"{url}/reset", {})
        for last in (False, False, True):  # the whole is scored as if the last step were the only one
            reply = post(f"{url}/step", {"action": {"number": 4, "last": last}})
        assert reply["metadata"]["credit"] == [4 / 97]
    with serving(StepLevel) as url:
        assert post(f"{url}/step", {"action": {}})["reward"] == 1.0
    with serving(ToldEnv) as url, pytest.raises(urllib.error.HTTPError) as caught:  # ours says so
        post(f"{url}/step", {"action": {}})
    caught.value.close()
    with pytest.raises(EpisodeError, match="Over HTTP each request gets a new environment"):
        ToldEnv().step(Move())


def test_scoring_past_the_clients_timeout_loses_the_episode(tmp_path: Path) -> None:
    class Slow(ToldEnv):
        rubric = Sequential(Sleeps(), Length())
        record_to = tmp_path / "runs.jsonl"

    with serving(Slow) as url:
        with GenericEnvClient(base_url=url, message_timeout_s=0.2).sync() as client:
            client.reset()
            with pytest.raises(TimeoutError):
                client.step({"wait": 1.0})
            with pytest.raises(Exception, match="CAPACITY_REACHED"):  # the session lingers until its step is scored
                client.reset()
        for _ in range(500):
            if Slow.record_to.exists():
                break
            time.sleep(0.02)
    (trajectory,) = read([Slow.record_to])
    assert (trajectory.end, trajectory.reward) == ("abandoned", None)


def test_a_step_level_node_behind_a_delayed_one_runs_at_the_end() -> None:
    class Counted(Rubric):
        calls = 0

        def forward(self, action, observation):
            Counted.calls += 1
            return 1.0

    class Env(ToldEnv):
        rubric = Sequential({"length": Length(), "behind": Counted()})

    environment = make_and_reset(Env)
    assert "behind" in environment.step(Move()).metadata["rubric"]["scores"]
    assert Counted.calls == 0
    assert environment.step(Move(last=True)).reward == 1.0
    assert Counted.calls == 1
