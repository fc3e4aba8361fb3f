"""Whatever one value in a record is, its reader gives trajectories or a problem, and goes on to the next record."""

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.formats import FormatProblem, read
from rubrics.formats.jsonl import trajectory_line
from rubrics.trajectory import Trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": 1}'}}
CHAT = [
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "R", "metadata": {"reward": 0.5, "terminated": True}},
    {"role": "assistant", "content": "A"},
]
BLOCKS = [
    {"role": "user", "content": [{"type": "text", "text": "Q"}]},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "T"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "R"}]},
]
ITEMS = [
    {"type": "reasoning", "summary": [{"text": "T"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "R"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
]
STEP = {
    "step_id": 1,
    "source": "agent",
    "message": "A",
    "tool_calls": [{"tool_call_id": "c1", "function_name": "f", "arguments": {}}],
    "observation": {"results": [{"source_call_id": "c1", "content": "R"}]},
}
SIMULATION = {
    "id": "s",
    "task_id": "t",
    "termination_reason": "user_stop",
    "reward_info": {"reward": 1.0, "nl_assertions": [{"met": True}]},
    "messages": [{"role": "assistant", "content": "A", "tool_calls": [{"id": "c", "name": "f", "arguments": {}}]}],
}
TICKS = [{"agent_chunk": {"role": "assistant", "content": "A"}}, {"user_chunk": {"role": "user", "content": "Q"}}]
NODES = [
    {"parent": None, "message": {"role": "user", "content": "Q"}, "sampled": False},
    {"parent": 0, "message": {"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": "{}"}]}},
    {"parent": 1, "message": {"role": "assistant", "content": "A"}, "sampled": True},
]
TRACE = {
    "id": "t",
    "task": {"data": {"idx": 1}, "key": "k"},
    "nodes": NODES,
    "rewards": {"exact": {"score": 1.0, "weight": 1.0}},
    "timing": {"scoring": {"start": 1.0}},
    "calls": [{"finish_reason": "stop"}],
    "errors": [],
    "is_completed": True,
    "ok": True,
}
TOOL_TRACE = [{"tool_name": "f", "arguments": {}, "result": {"data": {"reward": 0.5}, "metadata": {}, "done": True}}]
ACTED = [
    {
        "id": 1,
        "source": "agent",
        "action": "run",
        "args": {"command": "ls"},
        "tool_call_metadata": {"tool_call_id": "c"},
    },
    {"id": 2, "source": "agent", "cause": 1, "observation": "run", "content": "x", "extras": {"agent_state": "error"}},
    {"source": "agent", "kind": "ActionEvent", "thought": [{"text": "T"}], "action": {"c": 1}, "tool_name": "run"},
    {"source": "environment", "kind": "ObservationEvent", "observation": {"content": [{"text": "x"}]}},
]
SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": [{"role": "user", "content": "Q"}],
    "target": ["A"],
    "messages": [
        {"role": "user", "content": "Q"},
        {"role": "tool", "content": "R", "error": {"type": "t", "message": "m"}, "function": "f"},
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "T"}, {"type": "text", "text": "A"}]},
    ],
    "output": {"choices": [{"message": {"role": "assistant", "content": "A"}, "stop_reason": "stop"}]},
    "scores": {"match": {"value": "C"}, "many": {"value": {"a": 1}}},
    "attachments": {"x": "y"},
    "events": [{"event": "model"}],
}


def events(id: str) -> dict[str, Any]:
    start = {"eventType": "rollout", "eventId": id, "task_spec": {"id": "t"}, "rollout_info": {"task_index": 0}}
    types = ("user_message", "assistant_message", "tool_call", "tool_result")
    said = [
        {
            "eventType": "message",
            "eventId": f"{id}{index}",
            "rolloutEventId": id,
            "index": index,
            "type": type,
            "content": "{}",
            "name": "f",
            "reward": 1.0,
            "isFinished": type == "tool_result",
        }
        for index, type in enumerate(types)
    ]
    return {"events": [start, *said]}


def span(trace: str) -> dict[str, Any]:
    parts = [{"type": "text", "content": "A"}, {"type": "tool_call", "id": "c", "name": "f", "arguments": {}}]
    score = {"gen_ai.evaluation.name": "exact", "gen_ai.evaluation.score.value": 1.0}
    return {
        "context": {"trace_id": trace, "span_id": "1"},
        "parent_id": None,
        "start_time": "1",
        "end_time": "2",
        "status": {"status_code": "OK"},
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "stop"}],
        },
        "events": [{"name": "gen_ai.evaluation.result", "attributes": score}],
    }


RECORDS: dict[str, dict[str, Any]] = {
    "openai-chat": {"messages": CHAT, "choices": [{"message": CHAT[3], "finish_reason": "stop"}], "components": {}},
    "openai-responses": {"request": {"input": ITEMS[:1]}, "response": {"output": ITEMS, "status": "completed"}},
    "anthropic": {"system": "S", "messages": BLOCKS, "stop_reason": "end_turn"},
    "nemo-gym": {"responses_create_params": {"input": "Q"}, "response": {"output": ITEMS}, "reward": 1.0},
    "eval-protocol": {
        "messages": CHAT,
        "input_metadata": {"row_id": "r", "dataset_info": {}},
        "rollout_status": {"code": 100, "details": [{"metadata": {}}]},
        "evaluation_result": {"score": 1.0, "metrics": {"m": {"score": 1.0}}},
    },
    "atif": {"schema_version": "ATIF-v1.6", "agent": {}, "steps": [STEP]},
    "tau2": {"tasks": [{"id": "t"}], "simulations": [SIMULATION, {**SIMULATION, "messages": None, "ticks": TICKS}]},
    "openenv": {
        "episode_id": "e",
        "messages": CHAT,
        "reward": 1.0,
        "done": True,
        "tool_trace": TOOL_TRACE,
        "verify_metrics": {"m": 1.0},
        "task": {"id": "t"},
    },
    "openreward": events("r"),
    "verifiers": {"id": "e", "env": {"id": "x"}, "task": {}, "group": {"id": "g"}, "traces": [TRACE]},
    "verifiers-v0": {
        "example_id": 0,
        "prompt": CHAT[:1],
        "completion": CHAT[1:],
        "reward": 1.0,
        "metrics": {"m": 1.0},
        "error": None,
        "is_completed": True,
    },
    "swe-agent": {
        "environment": "main",
        "trajectory": [{"action": "ls", "observation": "x", "thought": "T", "state": {}}],
        "history": [{"role": "system", "content": "S"}],
        "info": {"exit_status": "submitted", "submission": "diff"},
        "replay_config": {"problem_statement": {"id": "p"}},
    },
    "openhands": {
        "instance_id": "i",
        "history": ACTED,
        "error": None,
        "test_result": {"report": {"resolved": True}},
        "comment_success": [True],
    },
    "otel": span("a"),
    "inspect": {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [SAMPLE]},
}
NEXT = {"openreward": events("s"), "otel": span("b")}  # where records of one id are one episode
ODD = [None, 3, -1.5, True, "x", "", {}, [None], [{}], [[]], {"a": None}, {"role": 3}, float("nan"), 10**30]


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, item in inner for found in places(item, (*place, key)))]


@st.composite
def odd_records(draw: st.DrawFn) -> tuple[str, Any]:
    """A record in which one value is another, or missing."""
    format = draw(st.sampled_from(list(RECORDS)))
    record = copy.deepcopy(RECORDS[format])
    *way, key = draw(st.sampled_from(places(record)[1:]))
    holder: Any = record
    for step in way:
        holder = holder[step]
    if draw(st.booleans()):
        holder[key] = draw(st.sampled_from(ODD))
    else:
        del holder[key]
    return format, record


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd=odd_records())
def test_an_odd_record_is_read_or_named_and_the_next_is_read(odd: tuple[str, Any], tmp_path: Path) -> None:
    format, record = odd
    path = tmp_path / "odd.jsonl"
    path.write_text(f"{json.dumps(record)}\n{json.dumps(NEXT.get(format, RECORDS[format]))}\n")
    items = list(read(path, format))
    last = items[-1]
    assert isinstance(last, Trajectory)
    assert last.steps
    for item in items:
        if isinstance(item, FormatProblem):
            assert item.line == 1
        else:
            assert item.reward is None or type(item.reward) is float
            assert isinstance(item.metadata["components"], dict)
            assert json.loads(trajectory_line(item))["id"] == item.id
