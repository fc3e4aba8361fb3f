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
}
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
    path.write_text(f"{json.dumps(record)}\n{json.dumps(RECORDS[format])}\n")
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
