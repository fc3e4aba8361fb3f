"""NeMo-Gym's `verify` by a tree. Where its package is not installed, its requests are stood in for."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rubrics import RubricError, TrajectoryRubric, WeightedSum
from rubrics.formats import FormatError, read
from rubrics.formats.responses import messages_of_items
from rubrics.integrations.nemo_gym import Verifier, rollout_of
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Trajectory
from tests.leaves import AsyncFixed, Boom, Fixed

OUTPUT: list[dict[str, Any]] = [
    {"id": "r1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "I should look it up."}]},
    {"id": "f1", "type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": "6 * 7"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "42"},
    {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is 42.", "annotations": []}],
    },
]
CONVERSATION = [
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I should look it up.",
        "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": '{"q": "6 * 7"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "It is 42."},
]


class Correct(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[Any]) -> float:
        return float(self.task.expected in trajectory[-1][0].content)


class Searched(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[Any]) -> float:
        calls = [call for action, _ in trajectory for call in action.tool_calls]
        return float([call.name for call in calls] == ["search"] and calls[0].arguments.q == "6 * 7")


TREE = WeightedSum({"correct": Correct(), "searched": Searched()}, {"correct": 0.75, "searched": 0.25})


def request(output: Any = OUTPUT, expected: str = "42", **response: Any) -> Any:
    """What `verify` gets, with the attributes that NeMo-Gym's models have."""
    return SimpleNamespace(
        responses_create_params=SimpleNamespace(input="What is 6 * 7?", instructions="Use the tools."),
        response=SimpleNamespace(output=output, **{"status": "completed", "incomplete_details": None, **response}),
        model_dump=lambda exclude: {"expected": expected},
    )


async def test_the_fields_of_the_response() -> None:
    fields = await Verifier(TREE)(request())
    assert fields["reward"] == 1.0
    assert fields["reward_components"] == {"correct": 1.0, "searched": 1.0}
    assert fields["rubric"]["status"] == "scored"
    assert fields["rubric"]["usage"]["calls"] == 0
    assert (await Verifier(TREE)(request(expected="41")))["reward"] == 0.25


def test_a_rollout_in_a_file_is_the_rollout_that_was_judged(tmp_path: Path) -> None:
    asked = {"responses_create_params": {"input": "What is 6 * 7?", "instructions": "Use the tools."}, "expected": "42"}
    judged = {**asked, "response": {"output": OUTPUT, "status": "completed"}, "reward": 1.0}
    (tmp_path / "runs.jsonl").write_text(json.dumps(judged))
    (tmp_path / "runs_materialized_inputs.jsonl").write_text(json.dumps(asked))
    (recorded,) = read(tmp_path / "runs.jsonl")
    live = rollout_of(request())
    assert isinstance(recorded, Trajectory)
    assert (recorded.task, recorded.initial, recorded.steps, recorded.end) == (
        live.task,
        live.initial,
        live.steps,
        live.end,
    )
    assert rescore_one(recorded, TREE).reward == 1.0


async def test_the_reward_is_that_of_the_conversation_everywhere() -> None:
    prompt = [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": "What is 6 * 7?"}]
    other = trajectory_of(prompt, CONVERSATION, task={"expected": "42"}, id="x")
    trajectory = rollout_of(request())
    trajectory.id = "x"
    assert trajectory == other
    reward = (await Verifier(TREE)(request()))["reward"]
    assert reward == Scorer(TREE).score(other).reward == rescore_one(trajectory, TREE).reward


async def test_many_at_once_under_an_async_tree() -> None:
    verifier = Verifier(WeightedSum({"judge": AsyncFixed(0.5), "correct": Correct()}, {"judge": 0.5, "correct": 0.5}))
    rewards = await asyncio.gather(*(verifier(request(expected=str(n))) for n in range(41, 44)))
    assert [fields["reward"] for fields in rewards] == [0.5, 1.0, 0.5]  # the judge is asked about both messages


@pytest.mark.parametrize("value", [None, Boom("broken")])
async def test_without_a_reward_there_is_an_error(value: Any) -> None:
    with pytest.raises(Exception, match="judge") as caught:
        await Verifier(WeightedSum({"judge": Fixed(value)}, {"judge": 1.0}))(request())
    assert type(caught.value).__name__ in ("RubricError", "JudgeError")  # the latter where NeMo-Gym is installed


async def test_an_exception_may_go_on() -> None:
    with pytest.raises(Boom):
        await Verifier(Fixed(Boom()), on_error="raise")(request())


async def test_ends_are_kept_apart() -> None:
    assert rollout_of(request(incomplete_details={"reason": "max_output_tokens"})).end == "truncated"
    assert rollout_of(request(status="incomplete")).end == "truncated"
    assert rollout_of(request(status=None)).end == "terminated"
    with pytest.raises(Exception, match="the end of the rollout is 'error'"):
        await Verifier(TREE)(request(status="failed"))


# -- items of the Responses API ---------------------------------------------------------------------------------------


def test_items_become_messages() -> None:
    assert messages_of_items(OUTPUT) == CONVERSATION
    assert messages_of_items("hello") == [{"role": "user", "content": "hello"}]
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},
        {"type": "web_search_call", "id": "w1", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "run", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "file"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
        {"type": "message", "role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "u"}]},
    ]
    assert messages_of_items(items) == [
        {"role": "user", "content": "a\n\nb"},
        {
            "role": "assistant",
            "content": None,
            "refusal": "I will not.",
            "items": [items[2]],
            "tool_calls": [{"id": "c2", "function": {"name": "run", "arguments": "ls"}}],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "file"},
        {"role": "assistant", "content": "one\n\ntwo"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "u"}]},
    ]


def test_items_that_are_none_are_refused() -> None:
    for items, place in ((None, "output"), ({}, "output"), ([3], "output.0"), ([{"content": "x"}], "output.0")):
        with pytest.raises(FormatError, match=place):
            messages_of_items(items)
    with pytest.raises(FormatError, match="no assistant's message"):
        rollout_of(request(output=[]))


def test_the_models_of_openai_are_read() -> None:
    responses = pytest.importorskip("openai.types.responses")
    made = responses.Response.model_validate(
        {
            "id": "x",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": [item for item in OUTPUT if item["type"] != "function_call_output"],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    (message,) = messages_of_items(made.output)
    assert message == {**CONVERSATION[0], "content": "It is 42."}


# -- NeMo-Gym itself --------------------------------------------------------------------------------------------------


def test_a_resources_server_answers_with_the_trees_reward() -> None:
    base = pytest.importorskip("nemo_gym.base_resources_server")
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from nemo_gym.judge import judge_failsafe

    class AnswerRequest(base.BaseVerifyRequest):  # type: ignore[misc, name-defined]
        expected: str

    class AnswerResponse(base.BaseMultiRewardVerifyResponse):  # type: ignore[misc, name-defined]
        expected: str
        rubric: dict[str, Any]

    verifier = Verifier(TREE)

    class AnswerServer(base.SimpleResourcesServer):  # type: ignore[misc, name-defined]
        async def verify(self, body: AnswerRequest) -> AnswerResponse:
            return AnswerResponse(**body.model_dump(), **await verifier(body))

    app = FastAPI()
    app.post("/verify")(judge_failsafe(AnswerServer.model_construct().verify))
    body = {
        "responses_create_params": {"input": "What is 6 * 7?"},
        "expected": "42",
        "response": {
            "id": "x",
            "created_at": 0,
            "model": "m",
            "object": "response",
            "output": OUTPUT,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        },
    }
    with TestClient(app) as client:
        answer = client.post("/verify", json=body).json()
        assert answer["reward"] == 1.0
        assert answer["reward_components"] == {"correct": 1.0, "searched": 1.0}
        assert answer["rubric"]["status"] == "scored"
        failed = {**body["response"], "status": "failed"}
        answer = client.post("/verify", json={**body, "response": failed}).json()
        assert answer["_ng_failure_class"] == "judge_failed"
        assert "the end of the rollout is 'error'" in answer["_ng_failure_judge_error"]


def test_without_nemo_gym_the_error_is_ours() -> None:
    try:
        import nemo_gym.judge  # noqa: F401
    except ImportError:
        with pytest.raises(RubricError):
            asyncio.run(Verifier(Fixed(None))(request()))
