"""Steps that a tree cannot score, in the middle and at the end, and what the agent is told of them."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")

from openenv.core import GenericEnvClient

from rubrics import (
    ByEvidence,
    EpisodeOverError,
    Evaluation,
    Rubric,
    RubricError,
    Score,
    Sequential,
    TrajectoryRubric,
    WeightedSum,
)
from rubrics.formats import read
from tests.integrations.board import (
    Length,
    Move,
    Sleeps,
    Told,
    ToldAsyncEnv,
    ToldAsyncOnAsyncTree,
    ToldEnv,
    ToldSyncOnAsyncTree,
    make_and_reset,
    serving,
)

TOLD = [ToldEnv, ToldSyncOnAsyncTree, ToldAsyncEnv, ToldAsyncOnAsyncTree]
HINTS = {
    "fail": "legal.rubric: ValueError",
    "abstain": "legal.rubric is unscored",
    "nothing": "legal.rubric is unscored",
}


@pytest.mark.parametrize("environment", TOLD, ids=lambda environment: environment.__name__)
def test_without_a_reward_in_the_middle_and_at_the_end(environment: Any) -> None:
    with serving(environment) as url, GenericEnvClient(base_url=url).sync() as client:
        client.reset()
        for t, say in enumerate(HINTS, start=1):
            result = client.step({"say": say})
            assert result.reward is None
            assert result.observation["text"] == f"move {t}"  # the agent gets its observation
            report = result.metadata["rubric"]
            assert report["status"] == ("error" if say == "fail" else "unscored")
            assert report["reason"] == HINTS[say]
            assert "Paris" not in json.dumps(result.metadata)
        last = client.step({"last": True})
        assert last.reward == pytest.approx(0.5 + 0.5 * 0.4)  # the delayed node saw all four steps
        assert last.metadata["rubric"]["scores"] == pytest.approx({"legal": 1.0, "legal.rubric": 1.0, "length": 0.4})
        rewards = last.metadata["rubric"]["step_rewards"]
        assert rewards["emitted"] == [None, None, None, pytest.approx(0.7)]
        assert rewards["total"] is None  # a sum with an unknown part is not known
        assert rewards["values"] == [None] * 4

        client.reset()
        client.step({})
        with pytest.raises(RuntimeError, match=r"legal\.rubric: ValueError: boom, the answer is Paris"):
            client.step({"say": "fail", "last": True})
        with pytest.raises(RuntimeError, match=r"the episode is over \(terminated after 2 steps\): reset first"):
            client.step({})
        client.reset()
        with pytest.raises(RuntimeError, match=r"legal\.rubric is unscored: no word on Paris"):
            client.step({"say": "abstain", "last": True})
        client.reset()
        assert client.step({"last": True}).reward == pytest.approx(0.55)


@pytest.mark.parametrize("environment", [ToldEnv, ToldAsyncOnAsyncTree], ids=lambda environment: environment.__name__)
def test_on_error_and_on_final_error(environment: Any) -> None:
    class Loud(environment):
        on_error = "raise"
        on_final_error = "null"

    with serving(Loud) as url, GenericEnvClient(base_url=url).sync() as client:
        client.reset()
        with pytest.raises(RuntimeError, match=r"legal\.rubric: ValueError: boom"):
            client.step({"say": "fail"})
        last = client.step({"last": True})
        assert last.reward == pytest.approx(0.5 + 0.5 * 0.2)  # the step that failed counts
        client.reset()
        last = client.step({"say": "abstain", "last": True})
        assert last.reward is None
        assert last.done
        assert last.metadata["rubric"]["reason"] == "legal.rubric is unscored"
        assert last.metadata["rubric"]["step_rewards"]["total"] is None


def test_a_step_after_the_end_is_not_even_taken() -> None:
    environment = ToldEnv()
    environment.reset()
    environment.step(Move(last=True))
    with pytest.raises(EpisodeOverError):
        environment.step(Move())
    assert environment.moves == 1


def test_expose(caplog: pytest.LogCaptureFixture) -> None:
    class Full(ToldEnv):
        expose = "full"

    class Silent(ToldEnv):
        expose = "none"

    for environment, reason in ((Full, "legal.rubric: ValueError: boom, the answer is Paris"), (Silent, None)):
        with serving(environment) as url, GenericEnvClient(base_url=url).sync() as client:
            client.reset()
            report = (client.step({"say": "fail"}).metadata or {}).get("rubric")
            last = client.step({"last": True})
            assert last.reward == pytest.approx(0.6)
            if reason is None:
                assert report is None
                assert not last.metadata
            else:
                assert report["reason"] == reason
                assert Evaluation.from_dict(last.metadata["rubric"]["evaluation"])["legal.rubric"].score == 1.0
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2  # with a traceback
    assert all(record.exc_info for record in caplog.records if record.levelno == logging.WARNING)


def test_a_credit_that_fails_is_a_failure_of_the_last_step(tmp_path: Path) -> None:
    class Cites(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            return Score(1.0, metadata={"evidence": [7]})

    class Env(ToldEnv):
        rubric = Cites(credit=ByEvidence())
        record_to = tmp_path / "runs.jsonl"

    environment = Env()
    environment.reset()
    with pytest.raises(RubricError, match="CreditError: evidence cites 7 of 1 steps"):
        environment.step(Move(last=True))
    environment.on_final_error = "null"
    environment.reset()
    seen = environment.step(Move(last=True))
    assert seen.reward is None
    assert seen.metadata["rubric"]["reason"] == "Cites: CreditError"
    assert [item.end for item in read([Env.record_to])] == ["terminated"] * 2


def test_the_message_names_the_node_whatever_failed_in_it() -> None:
    class Halves(Rubric):
        def __init__(self):
            super().__init__()
            self.judge = Told()

        def forward(self, action, observation):
            return self.judge(action, observation) / 2

    class Watches(Rubric):
        def observe(self, action, observation):
            raise LookupError("lost")

        def forward(self, action, observation):
            return 1.0

    class Env(ToldEnv):
        on_error = "raise"
        rubric = WeightedSum({"halves": Halves(), "one": Told()}, {"halves": 0.5, "one": 0.5})

    with pytest.raises(RubricError, match=r"^halves: TypeError: .*; child 'judge' is unscored.*: no word on Paris$"):
        make_and_reset(Env).step(Move(say="abstain"))
    Env.rubric = Watches()
    with pytest.raises(RubricError, match=r"^Watches: LookupError: lost$"):
        make_and_reset(Env).step(Move())


async def test_a_step_whose_scoring_is_cancelled_is_in_the_trajectory() -> None:
    class Env(ToldAsyncEnv):
        rubric = Sequential(Sleeps(), Length())

    environment = Env()
    await environment.reset_async()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(environment.step_async(Move(wait=30)), 0.02)
    seen = await environment.step_async(Move(last=True))
    assert seen.reward == 0.2
