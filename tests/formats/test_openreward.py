"""OpenReward's rollout events: mixed rollouts, turns out of events, rewards that loggers repeat."""

import json
from pathlib import Path
from typing import Any

import pytest

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory


def start(id: str = "r1", **more: Any) -> dict[str, Any]:
    return {
        "eventType": "rollout",
        "eventId": id,
        "runName": "run",
        "environment": "quiz",
        "task_spec": {"id": "t7", "question": "2+2?"},
        **more,
    }


def message(index: int, type: str, content: Any = "", *, of: str = "r1", **more: Any) -> dict[str, Any]:
    return {
        "eventType": "message",
        "eventId": f"{of}-{index}",
        "rolloutEventId": of,
        "index": index,
        "type": type,
        "content": content,
        "isFinished": False,
        "metadata": {},
        **more,
    }


QUIZ = [
    start(),
    message(0, "system_message", "You answer."),
    message(1, "user_message", "2+2?"),
    message(2, "reasoning", "add", summary="sum"),
    message(3, "assistant_message", "I note it."),
    message(4, "tool_call", '{"text": "think"}', name="note", callId="c1"),
    message(5, "tool_call", "{}", name="look", callId="c2"),
    message(6, "tool_result", "noted", callId="c1", reward=0.0),
    message(7, "tool_result", "seen", callId="c2"),
    message(8, "tool_call", '{"answer": "4"}', name="submit", callId="c3"),
    {"eventType": "rollout_update", "eventId": "r1", "rollout_info": {"task_index": 0}},
    message(9, "tool_result", "correct", callId="c3", reward=0.9, isFinished=True),
]


def written(folder: Path, events: list[Any]) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def only(folder: Path, events: list[Any]) -> Any:
    (item,) = read(written(folder, events))
    return item


def test_what_is_said_between_two_answers_is_one_action(tmp_path: Path) -> None:
    trajectory = only(tmp_path, QUIZ)
    first, second = trajectory.steps
    assert first.action == {
        "content": "I note it.",
        "reasoning_content": "add",
        "tool_calls": [
            {"id": "c1", "name": "note", "arguments": {"text": "think"}},
            {"id": "c2", "name": "look", "arguments": {}},
        ],
    }
    assert [reply.tool_call_id for reply in first.observation.messages] == ["c1", "c2"]
    assert second.action.tool_calls[0].arguments == {"answer": "4"}
    assert [step.reward for step in trajectory.steps] == [0.0, 0.9]
    assert [step.observation.done for step in trajectory.steps] == [False, True]
    assert trajectory.initial.content == "You answer.\n\n2+2?"
    assert trajectory.task.question == "2+2?"
    assert (trajectory.id, trajectory.end, trajectory.reward, trajectory.reduction) == ("r1", "terminated", 0.9, "last")
    assert trajectory.metadata["group"] == 0
    assert trajectory.metadata["rollout_info"] == {"task_index": 0}
    assert trajectory.metadata["environment"] == "quiz"


def test_the_same_events_in_batches_in_any_order_and_twice_are_the_same_rollout(tmp_path: Path) -> None:
    plain = only(tmp_path, QUIZ)
    batches = [{"events": list(reversed(QUIZ[:7]))}, {"events": QUIZ[5:]}]
    batched = only(tmp_path, batches)
    assert (batched.steps, batched.reward, batched.metadata) == (plain.steps, plain.reward, plain.metadata)


def test_rollouts_may_be_mixed(tmp_path: Path) -> None:
    other = [{**event, "eventId": event["eventId"].replace("r1", "r2")} for event in QUIZ]
    other = [{**event, "rolloutEventId": "r2"} if "rolloutEventId" in event else event for event in other]
    mixed = [event for pair in zip(QUIZ, other, strict=True) for event in pair]
    first, second = read(written(tmp_path, mixed))
    assert isinstance(first, Trajectory) and isinstance(second, Trajectory)
    assert (first.id, second.id) == ("r1", "r2")
    assert first.steps == second.steps


def test_a_reward_that_stands_on_each_block_of_a_message_counts_once(tmp_path: Path) -> None:
    events = [
        start(),
        message(0, "user_message", "go"),
        message(1, "reasoning", "hm", reward=0.5, isFinished=True),
        message(2, "assistant_message", "done", reward=0.5, isFinished=True),
    ]
    trajectory = only(tmp_path, events)
    assert (trajectory.reward, [step.reward for step in trajectory.steps]) == (0.5, [0.5])
    assert trajectory.end == "terminated"


def test_what_did_not_finish_is_unfinished_and_no_reward_is_none(tmp_path: Path) -> None:
    trajectory = only(tmp_path, QUIZ[:6])
    assert (trajectory.end, trajectory.reward, trajectory.reduction) == (None, None, None)
    assert trajectory.metadata["group"] == "t7"
    assert trajectory.steps[-1].observation.done is False


def test_a_rollout_without_messages_and_messages_without_a_rollout_are_kept(tmp_path: Path) -> None:
    empty, headless = read(written(tmp_path, [start("r0"), *QUIZ[1:10]]))
    assert isinstance(empty, Trajectory) and isinstance(headless, Trajectory)
    assert (empty.id, empty.steps, empty.end) == ("r0", [], None)
    assert (headless.id, len(headless.steps), headless.task) == ("r1", 2, None)


def test_a_bare_nan_is_no_reward_and_ends_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, [*QUIZ, message(10, "tool_result", "", callId="c4", reward=float("nan"))])
    assert "NaN" in path.read_text()
    (trajectory,) = read(path)
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.reward, len(trajectory.steps)) == (0.9, 2)
    assert trajectory.metadata["not_finite"] == ["messages.10.reward"]


def test_steps_behind_the_finish_are_not_hidden(tmp_path: Path) -> None:
    trajectory = only(tmp_path, [*QUIZ, message(10, "assistant_message", "and more")])
    assert [step.observation.done for step in trajectory.steps] == [False, True, False]


def test_scores_of_a_rubric_environment_are_components_and_out_of_sight(tmp_path: Path) -> None:
    told = {"rubric": {"status": "scored", "scores": {"tests": 1.0, "style": None}}}
    events = [*QUIZ[:-1], {**QUIZ[-1], "metadata": told}]
    trajectory = only(tmp_path, events)
    assert trajectory.metadata["components"] == {"tests": 1.0, "style": None}
    assert [step.metadata for step in trajectory.steps] == [{}, {"events": [told]}]
    assert "rubric" not in str(trajectory.steps[1].observation)


def test_what_was_too_large_is_referred_to(tmp_path: Path) -> None:
    events = [*QUIZ[:10], message(9, "tool_result", None, callId="c3", contentReference="s3://x")]
    trajectory = only(tmp_path, events)
    assert trajectory.steps[-1].observation.messages[0].content_reference == "s3://x"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"eventType": "message"}, "expected a rollout, message or rollout_update event with its id"),
        ({"eventType": "other", "eventId": "x"}, "expected a rollout, message or rollout_update event with its id"),
        (3, "expected a rollout, message or rollout_update event with its id, found 3"),
    ],
)
def test_a_bad_event_is_named_and_the_others_are_read(tmp_path: Path, bad: Any, message: str) -> None:
    for events, line in (([*QUIZ[:3], bad, *QUIZ[3:]], 4), ([{"events": [*QUIZ[:3], bad, *QUIZ[3:]]}], 1)):
        problem, trajectory = read(written(tmp_path, events))
        assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
        assert (problem.line, problem.message[: len(message)]) == (line, message)
        assert trajectory.reward == 0.9


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (message(3, "video", of="r2"), "messages.3.type: no such type of message: 'video'"),
        (message(3, "assistant_message", of="r2", reward="1"), "messages.3.reward: expected a number, found '1'"),
    ],
)
def test_a_bad_rollout_hides_no_other(tmp_path: Path, bad: Any, text: str) -> None:
    problem, trajectory = read(written(tmp_path, [bad, *QUIZ]))
    assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
    assert (problem.line, problem.message) == (1, text)


def test_a_file_that_is_cut_gives_what_stands_before(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(json.dumps([*QUIZ])[:-30])
    problem, trajectory = read(path)
    assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
    assert "the file ends in the middle of the array" in problem.message
    assert (len(trajectory.steps), trajectory.end) == (2, None)


def test_the_real_file(shared_data: Path) -> None:
    (trajectory,) = read(shared_data / "trajectories/openreward")
    assert isinstance(trajectory, Trajectory)
    assert (trajectory.end, trajectory.reward, len(trajectory.steps)) == ("terminated", 0.9, 2)
    assert [step.reward for step in trajectory.steps] == [0.0, 0.9]
    assert trajectory.metadata["not_finite"] == ["messages.7.reward"]
    assert trajectory.metadata["group"] == 0
