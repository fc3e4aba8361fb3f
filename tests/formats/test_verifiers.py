"""Results of verifiers, before 0.4 and since: messages of its own form, rewards that have to be told apart from 0."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

# --- before 0.4 ------------------------------------------------------------------------------------------------------

FLAT_CALL = {"id": "c1", "name": "calc", "arguments": '{"x": "2+2"}'}
PROMPT = [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "2+2?"}]
COMPLETION = [
    {"role": "assistant", "content": "", "tool_calls": [json.dumps(FLAT_CALL)]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "4"},
]


def rollout(**more: Any) -> dict[str, Any]:
    return {
        "example_id": 5,
        "prompt": PROMPT,
        "completion": COMPLETION,
        "answer": "4",
        "info": {"level": 2},
        "task": "sums",
        "reward": 1.0,
        "error": None,
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "metrics": {"exact": 1.0, "judge": None},
        "exact": 1.0,
        **more,
    }


def only(path: Path, data: Any) -> Any:
    path.write_text(json.dumps(data) + "\n")
    (item,) = read(path)
    return item


def test_a_rollout_is_its_completion_and_the_row_its_task(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "results.jsonl", rollout())
    assert trajectory.id == "results/5"
    assert trajectory.task == {"example_id": 5, "answer": "4", "info": {"level": 2}, "task": "sums"}
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    first, second = trajectory.steps
    assert first.action == {"content": "", "tool_calls": [{"id": "c1", "name": "calc", "arguments": {"x": "2+2"}}]}
    assert first.observation.content == "4"
    assert second.observation.done is True
    assert (trajectory.end, trajectory.reward) == ("terminated", 1.0)
    assert trajectory.metadata["components"] == {"exact": 1.0, "judge": None}
    assert trajectory.metadata["group"] == 5


@pytest.mark.parametrize(
    "call", [FLAT_CALL, {"id": "c1", "type": "function", "function": dict(list(FLAT_CALL.items())[1:])}]
)
def test_calls_may_be_objects(tmp_path: Path, call: dict[str, Any]) -> None:
    completion = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    trajectory = only(tmp_path / "results.jsonl", rollout(completion=completion))
    assert trajectory.steps[0].action.tool_calls == [{"id": "c1", "name": "calc", "arguments": {"x": "2+2"}}]


def test_prompt_and_completion_may_be_text_and_examples_are_no_actions(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "results.jsonl", rollout(prompt="2+2?", completion="4"))
    assert trajectory.initial.messages == [{"role": "user", "content": "2+2?"}]
    assert [step.action.content for step in trajectory.steps] == ["4"]
    example = [*PROMPT, {"role": "assistant", "content": "like so"}, {"role": "user", "content": "now"}]
    trajectory = only(tmp_path / "results.jsonl", rollout(prompt=example))
    assert len(trajectory.initial.messages) == 4
    assert len(trajectory.steps) == 2


ERROR = {"error": "InfraError", "message": "broke", "error_chain_repr": "", "error_chain_str": ""}


@pytest.mark.parametrize(
    ("more", "end", "reward"),
    [
        ({"error": ERROR, "reward": 0.0}, "error", None),
        ({"error": ERROR | {"error": "NoRewardError"}, "reward": float("nan")}, "terminated", None),
        ({"is_truncated": True, "reward": 0.0}, "truncated", 0.0),
        ({"stop_condition": "timeout_reached", "reward": -1.0}, "truncated", -1.0),
        ({"is_completed": False, "reward": 0.0}, None, None),
        ({"reward": None}, "terminated", None),
        ({"completion": None, "error": ERROR, "reward": 0.0}, "error", None),
    ],
)
def test_what_failed_is_no_zero_and_what_was_cut_off_is_scored(
    tmp_path: Path, more: dict[str, Any], end: str | None, reward: float | None
) -> None:
    trajectory = only(tmp_path / "results.jsonl", rollout(**more))
    assert (trajectory.end, trajectory.reward) == (end, reward)
    if reward is None and more["reward"] == 0.0:
        assert trajectory.metadata["reward"] == 0.0
    assert all(step.observation.done is (end == "terminated") for step in trajectory.steps[-1:])


def test_older_files_do_not_say_how_it_ended(tmp_path: Path) -> None:
    record = {name: rollout()[name] for name in ("example_id", "prompt", "completion", "reward", "answer")}
    trajectory = only(tmp_path / "results.jsonl", record)
    assert (trajectory.end, trajectory.reward) == (None, 1.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"completion": {"a": 1}}, "completion: expected text or a list of chat messages, found {'a': 1}"),
        ({"completion": [3]}, "expected a message with a role, found 3"),
        ({"completion": [{"role": "assistant", "tool_calls": ["{"]}]}, "tool_calls: not JSON: "),
        ({"reward": "1"}, "reward: expected a number, found '1'"),
        ({"example_id": None}, "example_id: missing"),
    ],
)
def test_a_bad_rollout_is_named(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    problem = only(tmp_path / "results.jsonl", rollout(**more))
    assert isinstance(problem, FormatProblem)
    assert problem.message.startswith(message)


def test_the_real_file_before_0_4(shared_data: Path) -> None:
    items = list(read(shared_data / "trajectories/verifiers/v0_results.jsonl"))
    trajectories = [item for item in items if isinstance(item, Trajectory)]
    assert [item.id for item in trajectories] == ["v0_results/0", "v0_results/0#2", "v0_results/1"]
    assert [item.reward for item in trajectories] == [1.0, 0.0, 0.0]
    assert [item.metadata["group"] for item in trajectories] == [0, 0, 1]
    assert {item.end for item in trajectories} == {"terminated"}
    assert trajectories[0].steps[0].action.tool_calls[0].arguments == {"x": "2+2"}
    assert trajectories[0].task.answer == "4"


# --- since 0.4 -------------------------------------------------------------------------------------------------------


def node(role: str, content: Any, parent: int | None, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {"parent": parent, "message": message, "sampled": role == "assistant", **more}


CALL = {"id": "c1", "type": "function", "name": "calc", "arguments": '{"x": "2+2"}'}
NODES = [
    {"message": {"role": "system", "content": "Use tools."}, "sampled": False},
    node("user", "2+2?", 0),
    node("assistant", None, 1, message={"tool_calls": [CALL], "reasoning_content": "hm", "provider_state": {"x": 1}}),
    node("tool", "4", 2, message={"tool_call_id": "c1"}),
    node("assistant", "4", 3),
]
TASK = {"type": "MathTask", "data": {"idx": 0, "prompt": "2+2?", "answer": "4"}, "key": "k0"}


def trace(**more: Any) -> dict[str, Any]:
    return {
        "id": "t1",
        "task": TASK,
        "nodes": NODES,
        "rewards": {"exact": {"score": 1.0, "weight": 1.0}, "brevity": {"score": 0.5, "weight": 0.2}},
        "metrics": {"num_turns": 2.0},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
        **more,
    }


def episode(*traces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "e1", "env": {"id": "math"}, "task": TASK, "ok": True, "errors": [], "traces": list(traces), **more}


def test_a_trace_of_an_episode_is_a_trajectory_and_its_total_is_added_up(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "traces.jsonl", episode(trace()))
    assert trajectory.id == "t1"
    assert trajectory.reward == 1.1
    assert trajectory.metadata["components"] == {"exact": 1.0, "brevity": 0.5}
    assert trajectory.metadata["weights"] == {"exact": 1.0, "brevity": 0.2}
    assert (trajectory.metadata["group"], trajectory.metadata["episode"]) == ("k0", "e1")
    assert trajectory.task.answer == "4"
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    first, last = trajectory.steps
    assert first.action == {
        "content": None,
        "tool_calls": [{"id": "c1", "name": "calc", "arguments": {"x": "2+2"}}],
        "reasoning_content": "hm",
    }
    assert (last.observation.done, trajectory.end) == (True, "terminated")


def test_traces_may_stand_alone_and_several_agents_are_several_trajectories(tmp_path: Path) -> None:
    assert only(tmp_path / "trace.json", trace()).id == "t1"
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(episode(trace(), trace(id="t2"), group={"id": "g"})) + "\n")
    items = [item for item in read(path) if isinstance(item, Trajectory)]
    assert [(item.id, item.metadata["group"]) for item in items] == [("t1", "g"), ("t2", "g")]


def test_an_episode_that_failed_before_an_agent_began_is_kept(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "traces.jsonl", episode(ok=False, errors=[{"type": "BootError", "message": "x"}]))
    assert (trajectory.id, trajectory.end, trajectory.reward, trajectory.steps) == ("e1", "error", None, [])


def test_a_conversation_that_branched_has_the_steps_of_its_last_branch(tmp_path: Path) -> None:
    nodes = [
        *NODES[:3],
        # The harness sent the first reply back in other words: a copy that is not marked as sampled.
        {"parent": 1, "message": {"role": "assistant", "content": "calc(2+2)"}, "sampled": False},
        node("tool", "4", 3, message={"tool_call_id": "c1"}),
        node("assistant", "four", 4),
    ]
    trajectory = only(tmp_path / "traces.jsonl", episode(trace(nodes=nodes)))
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    assert [step.action.content for step in trajectory.steps] == ["calc(2+2)", "four"]


FAILED = [{"type": "ToolError", "message": "x"}]


@pytest.mark.parametrize(
    ("more", "end", "reward"),
    [
        ({"rewards": {}}, "terminated", None),
        ({"rewards": {"exact": {"score": 1.0}, "judge": None}}, "terminated", None),
        ({"rewards": {"penalty": {"score": -1.0, "weight": 2.0}}}, "terminated", -2.0),
        ({"stop_condition": "max_turns"}, "truncated", 1.1),
        ({"stop_condition": "agent_timeout", "ok": False}, "truncated", None),
        (
            {"calls": [{"finish_reason": "stop"}, {"finish_reason": "length"}, {"error": {"type": "x"}}]},
            "truncated",
            1.1,
        ),
        ({"errors": FAILED, "ok": False, "rewards": {}}, "error", None),
        ({"errors": FAILED, "ok": False, "timing": {"scoring": {"start": 5.0}}}, "terminated", None),
        ({"is_completed": False, "ok": False, "rewards": {}}, None, None),
        ({"nodes": [], "rewards": {}}, "terminated", None),
    ],
)
def test_a_missing_score_is_no_zero(
    tmp_path: Path, more: dict[str, Any], end: str | None, reward: float | None
) -> None:
    trajectory = only(tmp_path / "traces.jsonl", episode(trace(**more)))
    assert (trajectory.end, trajectory.reward) == (end, reward)
    if "judge" in (more.get("rewards") or {}):
        assert trajectory.metadata["components"] == {"exact": 1.0, "judge": None}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            episode(trace(nodes=[node("user", "x", 3)])),
            "traces.0.nodes.0.parent: expected a node before this one, found 3",
        ),
        (episode(trace(rewards={"a": {"score": "1"}})), "traces.0.rewards.a.score: expected a number, found '1'"),
        (episode(trace(id=None)), "traces.0.id: expected a text, found None"),
        (trace(nodes=[{"parent": None}]), "not the shape of a record of this format: KeyError('message')"),
    ],
)
def test_a_bad_trace_is_named(tmp_path: Path, record: Any, message: str) -> None:
    problem = only(tmp_path / "traces.jsonl", record)
    assert isinstance(problem, FormatProblem)
    assert problem.message == message


def test_a_bad_trace_does_not_hide_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(episode(trace(), trace(id=3))) + "\n")
    good, problem = read(path)
    assert isinstance(good, Trajectory) and isinstance(problem, FormatProblem)
    assert problem.message == "traces.1.id: expected a text, found 3"


def test_the_real_file_since_0_4(shared_data: Path) -> None:
    first, second = read(shared_data / "trajectories/verifiers/v1_run")
    assert isinstance(first, Trajectory) and isinstance(second, Trajectory)
    assert (first.reward, second.reward) == (1.1, 0.1)
    assert first.end == second.end == "terminated"
    assert (len(first.steps), first.task.answer) == (2, "4")
    assert first.steps[0].action.tool_calls[0].arguments == {"x": "2+2"}
    assert (first.metadata["group"], second.metadata["group"]) == ("k0", "k1")
