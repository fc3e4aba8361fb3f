"""Our own JSONL: what is written reads back, and what is wrong is named with file, line and field."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.formats import FormatError, FormatProblem, read, write_jsonl, write_parquet
from rubrics.trajectory import Record, Step, Trajectory

TEXT = st.text(st.characters(codec=None))  # also what UTF-8 cannot hold: halves of surrogate pairs
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
REWARDS = st.none() | st.floats(allow_nan=False, allow_infinity=False)

TRAJECTORIES = st.builds(
    Trajectory,
    id=TEXT,
    task=JSON,
    initial=JSON,
    steps=st.lists(st.builds(Step, JSON, JSON, REWARDS, OBJECTS), max_size=3),
    end=st.sampled_from(["terminated", "truncated", "error", "abandoned", None]),
    reward=REWARDS,
    reduction=st.sampled_from(["sum", "last", None]),
    source=OBJECTS,
    metadata=OBJECTS,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(trajectories=st.lists(TRAJECTORIES, max_size=3, unique_by=lambda trajectory: trajectory.id))
def test_what_is_written_reads_back_exactly(trajectories: list[Trajectory], tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.unlink(missing_ok=True)
    assert write_jsonl(path, trajectories) == len(trajectories)
    back = list(read(path, format="jsonl"))
    if trajectories:
        assert back == trajectories
        assert repr(back) == repr(trajectories)  # 1 is not 1.0, and -0.0 not 0.0
    else:
        assert [str(item) for item in back] == [f"{path}:1: the file is empty"]


def write(path: Path, *lines: Any) -> Path:
    path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return path


def step(**more: Any) -> dict[str, Any]:
    return {"action": {"text": "x"}, "observation": {"text": "y"}, **more}


def row(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": id, "steps": [step()], **more}


def test_a_line_becomes_a_trajectory_of_records(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", row(task={"goal": {"n": 1}}, reward=1, end="truncated", reduction="last"))
    (trajectory,) = read(path)
    assert isinstance(trajectory, Trajectory)
    assert trajectory.task.goal.n == 1
    assert trajectory.steps[0].action.text == "x"
    assert type(trajectory.steps[0].observation) is Record
    assert trajectory.reward == 1.0
    assert trajectory.end == "truncated"
    assert trajectory.source == {"format": "jsonl", "path": str(path), "line": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": 1, "steps": []}, "id: expected a valid string, found 1"),
        ({"steps": []}, "id: missing"),
        ({"id": "a"}, "steps: missing"),
        ({"id": "a", "steps": {}}, "steps: expected a valid list, found {}"),
        ({"id": "a", "steps": [3]}, "steps.0: expected a valid dictionary, found 3"),
        ({"id": "a", "steps": [{"action": 1}]}, "steps.0.observation: missing"),
        ({"id": "a", "steps": [step(reward="0.5")]}, "steps.0.reward: expected a valid number, found '0.5'"),
        (row(reward=True), "reward: expected a valid number, found True"),
        (row(rewards=1.0), "rewards: no such field (your own fields go into metadata)"),
        (row(end="done"), "end: expected 'terminated', 'truncated', 'error' or 'abandoned', found 'done'"),
        (row(reduction="mean"), "reduction: expected 'sum' or 'last', found 'mean'"),
        (row(metadata=[]), "metadata: expected a valid dictionary, found []"),
        (b'{"id": "a", "steps": [], "reward": 1e999}\n', "reward: expected a finite number, found inf"),
        (["a"], "the line: expected a valid dictionary, found ['a']"),
        (b"nonsense\n", "not JSON: Expecting value (column 1)"),
        (b'{"id": "a", "ste', "not JSON: Unterminated string starting at (column 13); the file ends in"),
        (b'{"id": "\xff", "steps": []}\n', "not UTF-8: invalid start byte (byte 9 of the line)"),
        (b'{"id": "a", "task": ' + b"[" * 100_000 + b"\n", "JSON that cannot be read: maximum recursion depth"),
        (b'{"id": "a", "task": ' + b"9" * 10_000 + b"}\n", "JSON that cannot be read: Exceeds the limit"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path / "runs.jsonl", row("good-1"), b"\n", row("good-2"), line)
    *good, problem = read(path)
    assert [item.id for item in good if isinstance(item, Trajectory)] == ["good-1", "good-2"]
    assert isinstance(problem, FormatProblem)
    assert (problem.path, problem.line) == (str(path), 4)
    assert problem.message.startswith(message)
    assert str(problem).startswith(f"{path}:4: {message}")


def test_a_bad_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    problem, good = read(write(tmp_path / "runs.jsonl", b'{"id": "cut\n', row("good")))
    assert isinstance(problem, FormatProblem)
    assert problem.line == 1
    assert isinstance(good, Trajectory)


def test_several_faults_of_a_line_come_at_once(tmp_path: Path) -> None:
    (problem,) = read(write(tmp_path / "runs.jsonl", {"id": 1, "steps": [], "end": "x", "a": 1, "b": 2, "c": 3}))
    assert str(problem).count(";") == 3
    assert str(problem).endswith("and 2 more")


def test_nan_and_infinity_are_read_as_null_and_noted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "runs.jsonl",
        b'{"id": "a", "reward": NaN, "steps": '
        b'[{"action": [1, -Infinity], "observation": {"loss": NaN}, "reward": Infinity}]}\n',
        {"id": "b", "steps": [], "task": "NaN is a word, and so is Infinity"},
    )
    first, second = read(path)
    assert isinstance(first, Trajectory)
    assert first.reward is None
    assert first.steps == [Step([1, None], {"loss": None}, None)]
    assert first.metadata["not_finite"] == ["reward", "steps.0.action.1", "steps.0.observation.loss", "steps.0.reward"]
    assert isinstance(second, Trajectory)
    assert second.metadata == {}


def test_what_is_not_finite_is_written_as_null_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    write_jsonl(path, [Trajectory("a", steps=[Step(math.inf, {"loss": math.nan}, 1.0)], metadata={"x": 1})])
    assert "NaN" not in path.read_text()
    (back,) = read(path)
    assert isinstance(back, Trajectory)
    assert back.steps == [Step(None, {"loss": None}, 1.0)]
    assert back.metadata == {"x": 1, "not_finite": ["steps.0.action", "steps.0.observation.loss"]}


def test_whole_numbers_of_any_length_are_read_exactly_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    numbers = [int("9" * digits) for digits in (18, 19, 20, 21, 40)]
    lines = [
        {"id": "x" * shift, "steps": [{"action": {"n": number}, "observation": None}]}
        for number in numbers
        for shift in range(1, 20)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [one.steps[0].action.n for one in read(path) if isinstance(one, Trajectory)]
    assert found == [number for number in numbers for _ in range(1, 20)]


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row("a")).encode() + b"\r\n\r\n" + json.dumps(row("b")).encode())
    assert [item.id for item in read(path) if isinstance(item, Trajectory)] == ["a", "b"]


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    write_jsonl(path, [Trajectory("a", task="one\u2028two\u0085three\x0bfour")])
    (back,) = read(path)
    assert isinstance(back, Trajectory)
    assert back.task == "one\u2028two\u0085three\x0bfour"


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", row())
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        write_jsonl(path, (item for item in read(path) if isinstance(item, Trajectory)))
    assert path.read_bytes() == before


def test_a_trajectory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"steps\.0\.action") as caught:
        write_jsonl(tmp_path / "runs.jsonl", [Trajectory("a"), Trajectory("bad", steps=[Step(object(), 1)])])
    assert caught.value.__notes__ == ["in the trajectory 'bad'"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": 7}, "id: expected a valid string, found 7"),
        ({"reward": "1"}, "reward: expected a valid number, found '1'"),
        ({"end": "done"}, "end: expected 'terminated', 'truncated', 'error' or 'abandoned', found 'done'"),
        ({"steps": [Step(1, 2, True)]}, "steps.0.reward: expected a valid number, found True"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, more: Any, message: str) -> None:
    wrong = Trajectory(**{"id": "t", **more})
    for write, name in ((write_jsonl, "t.jsonl"), (write_parquet, "t.parquet")):
        with pytest.raises(FormatError, match=message) as caught:
            write(tmp_path / name, [wrong])
        assert caught.value.__notes__ == [f"in the trajectory {wrong.id!r}"]
