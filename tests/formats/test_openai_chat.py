"""OpenAI chats: the messages are the steps, and what people put beside them is the rest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.formats import FormatProblem, Source, read, reader, registry
from rubrics.formats.chat import message_of
from rubrics.trajectory import Trajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "Z9"}'}}
CHAT = [
    {"role": "user", "content": "Where is my order?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "sent"},
    {"role": "assistant", "content": "It was sent."},
]


def only(path: Path, *records: Any) -> Any:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (item,) = read(path)
    return item


def test_messages_are_steps_and_nothing_more_is_known(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "chats.jsonl", {"messages": CHAT})
    assert isinstance(trajectory, Trajectory)
    assert trajectory.id == "chats/1"
    assert trajectory.source == {"format": "openai-chat", "path": str(tmp_path / "chats.jsonl"), "line": 1}
    assert trajectory.initial.content == "Where is my order?"
    assert [step.action.tool_calls for step in trajectory.steps] == [
        [{"id": "c1", "name": "find", "arguments": {"id": "Z9"}}],
        [],
    ]
    assert (trajectory.end, trajectory.reward, trajectory.task) == (None, None, None)
    assert trajectory.metadata == {"components": {}}


def test_what_stands_beside_the_messages(tmp_path: Path) -> None:
    trajectory = only(
        tmp_path / "chats.jsonl",
        {
            "id": 7,
            "messages": CHAT,
            "reward": -1,
            "score": 0.5,
            "components": {"format": True, "judge": None, "note": "x"},
            "task_id": "t-3",
            "answer": "sent",
            "is_correct": True,
            "truncated": True,
        },
    )
    assert (trajectory.id, trajectory.reward, trajectory.end) == ("7", -1.0, "truncated")
    assert trajectory.task == {"answer": "sent"}
    assert trajectory.steps[-1].observation.done is False
    assert trajectory.metadata["group"] == "t-3"
    assert trajectory.metadata["components"] == {"format": 1.0, "judge": None}
    assert trajectory.metadata["is_correct"] is True


@pytest.mark.parametrize(
    ("finish", "end"), [("stop", "terminated"), ("length", "truncated"), ("tool_calls", None), (None, None)]
)
def test_a_completion_finishes_the_conversation(tmp_path: Path, finish: str | None, end: str | None) -> None:
    choices = [{"message": CHAT[-1], "finish_reason": finish}]
    trajectory = only(tmp_path / "chats.jsonl", {"messages": CHAT[:-1], "choices": choices})
    assert [step.action.content for step in trajectory.steps] == [None, "It was sent."]
    assert trajectory.end == end
    assert trajectory.steps[-1].observation.done is (end == "terminated")


def test_a_task_may_be_an_object_of_its_own(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "a.jsonl", {"messages": CHAT, "task": {"goal": {"n": 1}}, "end": "error"})
    assert trajectory.task.goal.n == 1
    assert trajectory.end == "error"


@pytest.mark.parametrize("form", ["array", "lines"])
def test_a_file_of_messages_is_one_conversation(tmp_path: Path, form: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(CHAT, indent=1) if form == "array" else "\n".join(map(json.dumps, CHAT)))
    (trajectory,) = read(path)
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.id, len(trajectory.steps)) == ("talk/2" if form == "array" else "talk/1", 2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"messages": "hi"}, "messages: expected a list of chat messages, found 'hi'"),
        ({"messages": CHAT, "reward": "1"}, "reward: expected a number, found '1'"),
        ({"messages": CHAT, "end": "done"}, "end: expected one of terminated, truncated, error, abandoned or null"),
        ({"text": "hi"}, "expected an object with messages"),
        (3, "expected an object with messages"),
    ],
)
def test_a_bad_record_is_named_and_the_others_are_read(tmp_path: Path, more: Any, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"messages": CHAT}, more, {"messages": CHAT}])))
    first, problem, last = read(path)
    assert isinstance(first, Trajectory)
    assert isinstance(last, Trajectory)
    assert isinstance(problem, FormatProblem)
    assert str(problem).startswith(f"{path}:2: {message}")


def test_a_nan_is_no_reward_and_is_told(tmp_path: Path) -> None:
    trajectory = only(tmp_path / "a.jsonl", {"messages": CHAT, "reward": float("nan")})
    assert trajectory.reward is None
    assert trajectory.metadata["not_finite"] == ["reward"]


def calling(name: str, arguments: dict[str, int]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def test_a_format_that_extends_chats_is_asked_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_readers", dict(registry.formats()))

    @reader("mine", detect=lambda record: isinstance(record, dict))
    def read_mine(source: Source) -> Iterator[Trajectory | FormatProblem]:
        """Chats with a mood."""
        return source.each(lambda record: Trajectory(record.value["mood"]))

    assert only(tmp_path / "a.jsonl", {"messages": CHAT, "mood": "good"}).id == "good"
    assert only(tmp_path / "b.jsonl", {"id": "ours", "steps": []}).source["format"] == "jsonl"


TEXT = st.text(max_size=8)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": TEXT}),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": TEXT, "content": TEXT}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT | st.none(), "reasoning_content": TEXT}),
        st.builds(calling, TEXT, st.dictionaries(TEXT, st.integers())),
    ),
    min_size=1,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=MESSAGES)
def test_no_message_is_lost(messages: list[dict[str, Any]], tmp_path: Path) -> None:
    trajectory = only(tmp_path / "a.jsonl", {"messages": messages})
    back = [*trajectory.initial.messages]
    for step in trajectory.steps:
        back += [message_of(step.action), *step.observation.messages]
    assert back == messages
