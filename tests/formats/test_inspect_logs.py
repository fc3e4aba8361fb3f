"""Inspect's logs: zip files member by member, whole or not; grades that are numbers, and those that are none.

Logs that Inspect itself wrote are in tests/integrations/test_inspect_ai.py.
"""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, strategies as st

from rubrics.formats import FormatProblem, read
from rubrics.trajectory import Trajectory

EVAL = {"task": "sums", "model": "m", "run_id": "r", "dataset": {"sample_ids": ["b", "a", 10, 9]}}
HEADER = {"version": 2, "status": "success", "eval": EVAL, "plan": {}}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 times 7?", "source": "input"}]
CALL = {"id": "c1", "function": "multiply", "arguments": {"a": 6, "b": 7}}
TOLD = {"role": "tool", "content": "42", "tool_call_id": "c1", "function": "multiply"}
SAID = {"role": "assistant", "content": "42", "source": "generate", "id": "m9", "model": "m"}
MESSAGES = [*ASKED, {**SAID, "id": "m1", "content": "", "tool_calls": [CALL]}, TOLD, SAID]


def sample(id: Any = "a", epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "epoch": epoch,
        "input": "6 times 7?",
        "target": "42",
        "messages": MESSAGES,
        "output": {"model": "m", "choices": [{"message": SAID, "stop_reason": "stop"}]},
        "scores": {"match": {"value": "C", "answer": "42"}},
        "metadata": {"level": 2},
        **more,
    }


def json_log(folder: Path, *samples: Any, **more: Any) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps({**HEADER, "samples": list(samples), **more}, indent=2))
    return path


def eval_log(folder: Path, *samples: dict[str, Any], header: Any = HEADER) -> Path:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", json.dumps({"version": 2, "eval": EVAL, "plan": {}}))
        for item in samples:
            log.writestr(f"samples/{item['id']}_epoch_{item['epoch']}.json", json.dumps(item))
        log.writestr("summaries.json", "[]")
        if header is not None:
            log.writestr("header.json", json.dumps(header))
    return path


def only(path: Path) -> Any:
    (item,) = read(path)
    return item


def trajectories(path: Path) -> list[Trajectory]:
    return [item for item in read(path) if isinstance(item, Trajectory)]


@pytest.mark.parametrize("write", [json_log, eval_log])
def test_a_sample_in_an_epoch_is_an_episode(tmp_path: Path, write: Any) -> None:
    trajectory = only(write(tmp_path, sample(epoch=2)))
    assert trajectory.id == "log/a/2"
    assert trajectory.task == {
        "input": "6 times 7?",
        "target": "42",
        "choices": [],
        "metadata": {"level": 2},
        "sample_id": "a",
        "epoch": 2,
    }
    assert [message.role for message in trajectory.initial.messages] == ["system", "user"]
    first, last = trajectory.steps
    assert first.action == {
        "content": "",
        "tool_calls": [{"id": "c1", "name": "multiply", "arguments": {"a": 6, "b": 7}}],
    }
    assert first.observation.messages == [{"role": "tool", "content": "42", "tool_call_id": "c1", "name": "multiply"}]
    assert last.action == {"content": "42", "tool_calls": []}, "no ids and no models"
    assert (trajectory.end, trajectory.reward, last.observation.done) == ("terminated", 1.0, True)
    assert trajectory.metadata["components"] == {"match": 1.0}
    assert (trajectory.metadata["group"], trajectory.metadata["trial"]) == ("a", 2)
    assert (trajectory.metadata["model"], trajectory.metadata["status"]) == ("m", "success")


def test_samples_come_in_the_order_of_the_dataset(tmp_path: Path) -> None:
    samples = [sample(9), sample("z"), sample("a", 2), sample(10), sample("a", 1), sample("b")]
    ids = [item.id for item in trajectories(eval_log(tmp_path, *samples))]
    assert ids == ["log/b/1", "log/a/1", "log/a/2", "log/10/1", "log/9/1", "log/z/1"]


def test_examples_are_no_actions_and_a_final_output_is_one(tmp_path: Path) -> None:
    example = {"role": "assistant", "content": "like so", "source": "input"}
    path = json_log(tmp_path, sample(messages=[ASKED[0], example, ASKED[1]], input=[example]))
    trajectory = only(path)
    assert [step.action.content for step in trajectory.steps] == ["42"]
    assert len(trajectory.initial.messages) == 3
    assert trajectory.task.input == [{"role": "assistant", "content": "like so"}]


def test_reasoning_has_its_own_key_and_errors_of_tools_are_told(tmp_path: Path) -> None:
    parts = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "reasoning", "reasoning": "x9z", "redacted": True, "summary": "short"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    failed = {**TOLD, "content": "", "error": {"type": "timeout", "message": "too slow"}}
    messages = [*ASKED, {**SAID, "id": "m1", "content": parts, "tool_calls": [CALL]}, failed, SAID]
    trajectory = only(json_log(tmp_path, sample(messages=messages)))
    first = trajectory.steps[0]
    assert (first.action.content, first.action.reasoning_content) == ("one\n\ntwo", "hm\n\nshort")
    assert first.observation.messages[0].error == {"type": "timeout", "message": "too slow"}


@pytest.mark.parametrize("where", ["attachments", "transcript"])
def test_attachments_are_put_in_their_place(tmp_path: Path, where: str) -> None:
    held = {"ed96": "6 times 7?" * 100}
    protocol = "attachment" if where == "attachments" else "tc"
    messages = [{"role": "user", "content": [{"type": "text", "text": f"{protocol}://ed96"}]}, SAID]
    attachments = {"attachments": held} if where == "attachments" else {"transcript": {"events": [], "content": held}}
    data = sample(messages=messages, input=f"{protocol}://ed96", target="attachment://missing", **attachments)
    trajectory = only(json_log(tmp_path, data))
    assert trajectory.initial.content == held["ed96"]
    assert trajectory.task.input == held["ed96"]
    assert trajectory.task.target == "attachment://missing"


@pytest.mark.parametrize(
    ("scores", "reward", "components"),
    [
        ({}, None, {}),
        (None, None, {}),
        ({"match": {"value": "I"}}, 0.0, {"match": 0.0}),
        ({"match": {"value": "P"}}, 0.5, {"match": 0.5}),
        ({"match": {"value": "N"}}, 0.0, {"match": 0.0}),
        ({"match": {"value": True}}, 1.0, {"match": 1.0}),
        ({"match": {"value": -1}}, -1.0, {"match": -1.0}),
        ({"match": {"value": "No"}}, 0.0, {"match": 0.0}),
        ({"match": {"value": "0.25"}}, 0.25, {"match": 0.25}),
        ({"match": {"value": "GRADE: C"}}, None, {"match": None}),
        ({"match": {"value": "nan"}}, None, {"match": None}),
        ({"match": {"value": float("nan"), "reason": "scoring_failed"}}, None, {"match": None}),
        ({"tree": {"value": {"reward": 0.75, "style": None}}}, 0.75, {"tree/style": None}),
        ({"tree": {"value": {"reward": float("nan"), "style": 1.0}}}, None, {"tree/style": 1.0}),
        ({"many": {"value": {"a": "C", "b": 0}}}, None, {"many/a": 1.0, "many/b": 0.0}),
        ({"many": {"value": [1, "I"]}}, None, {"many/0": 1.0, "many/1": 0.0}),
        ({"one": {"value": 1}, "two": {"value": 0}}, None, {"one": 1.0, "two": 0.0}),
        ({"one": {"value": 1}, "tree": {"value": {"reward": 0.5}}}, 0.5, {"one": 1.0}),
    ],
)
def test_what_a_score_is_worth(tmp_path: Path, scores: Any, reward: float | None, components: dict[str, Any]) -> None:
    trajectory = only(json_log(tmp_path, sample(scores=scores)))
    assert (trajectory.reward, trajectory.metadata["components"]) == (reward, components)
    assert trajectory.end == "terminated", "unscored is not unfinished, and not failed"


def test_a_log_of_the_first_versions_has_one_score(tmp_path: Path) -> None:
    data = {name: value for name, value in sample().items() if name != "scores"} | {"score": {"value": "C"}}
    trajectory = only(json_log(tmp_path, data))
    assert (trajectory.reward, trajectory.metadata["components"]) == (1.0, {"score": 1.0})


EVENTS = [{"event": "model"}, {"event": "sample_limit"}]


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"error": {"message": "boom", "traceback": ""}}, "error"),
        ({"limit": {"type": "message", "limit": 5}}, "truncated"),
        ({"output": {"choices": [{"message": SAID, "stop_reason": "max_tokens"}]}}, "truncated"),
        ({"events": EVENTS}, "truncated"),
        ({"events": EVENTS[::-1]}, "terminated"),
        ({"events": EVENTS, "limit": None}, "terminated"),
        ({"output": {"choices": []}}, "terminated"),
    ],
)
def test_how_it_ended(tmp_path: Path, more: dict[str, Any], end: str) -> None:
    trajectory = only(json_log(tmp_path, sample(**more)))
    assert trajectory.end == end
    assert trajectory.steps[-1].observation.done is (end == "terminated")


def test_a_scorer_that_failed_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    begun = [{"event": "span_begin", "name": "solvers"}, {"event": "span_begin", "name": "scorers"}]
    failed = sample(error={"message": "judge is down"}, events=begun)
    path = json_log(tmp_path, failed, {**failed, "epoch": 2, "limit": {"type": "message"}})
    one, two = trajectories(path)
    assert (one.end, one.reward, one.metadata["components"]) == ("terminated", None, {"match": 1.0})
    assert (two.end, two.reward) == ("truncated", None)


def test_a_bare_nan_is_named_by_its_place_in_its_own_sample(tmp_path: Path) -> None:
    odd = sample("b", scores={"match": {"value": float("nan")}})
    results = {"scores": [{"metrics": {"accuracy": {"value": float("nan")}}}]}
    for path in (json_log(tmp_path, odd, sample(), results=results), eval_log(tmp_path, odd, sample())):
        assert "NaN" in path.read_text(errors="replace") or path.suffix == ".eval"
        first, second = trajectories(path)
        assert first.metadata["not_finite"] == ["scores.match.value"]
        assert "not_finite" not in second.metadata
        assert (first.reward, second.reward) == (None, 1.0)


def test_a_log_without_samples_has_no_episodes(tmp_path: Path) -> None:
    path = json_log(tmp_path)
    assert list(read(path)) == []
    path.write_text(json.dumps({**HEADER, "status": "started", "results": {"x": float("nan")}}, indent=4))
    assert list(read(path)) == []
    assert list(read(eval_log(tmp_path))) == []


def test_a_run_that_was_broken_off_has_no_header(tmp_path: Path) -> None:
    trajectory = only(eval_log(tmp_path, sample(), header=None))
    assert (trajectory.reward, trajectory.metadata["task"]) == (1.0, "sums")
    assert "status" not in trajectory.metadata


def damaged(path: Path, name: str) -> None:
    """Other bytes in the middle of a member."""
    with zipfile.ZipFile(path) as log:
        info = log.getinfo(name)
    data = bytearray(path.read_bytes())
    at = info.header_offset + 30 + len(name) + info.compress_size // 2
    data[at : at + 20] = b"\0" * 20
    path.write_bytes(data)


def test_a_member_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    path = eval_log(tmp_path, sample("b"), sample("a"), sample(9))
    damaged(path, "samples/a_epoch_1.json")
    first, problem, last = read(path)
    assert isinstance(first, Trajectory) and isinstance(last, Trajectory) and isinstance(problem, FormatProblem)
    assert (first.id, last.id) == ("log/b/1", "log/9/1")
    assert problem.message.startswith("samples/a_epoch_1.json: is damaged")


def test_a_damaged_header_costs_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    path = eval_log(tmp_path, sample())
    damaged(path, "header.json")
    problem, trajectory = read(path)
    assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
    assert problem.message.startswith("header.json: is damaged")
    assert trajectory.reward == 1.0


def test_of_a_zip_file_that_was_cut_off_all_whole_members_are_read(tmp_path: Path) -> None:
    path = eval_log(tmp_path, *(sample(id) for id in ("b", "a", 9)))
    with zipfile.ZipFile(path) as log:
        last = log.getinfo("samples/9_epoch_1.json")
    for cut, place in (
        (last.header_offset + 60, "it ends in the middle of samples/9_epoch_1.json"),
        (last.header_offset + 10, "most likely it was cut off"),
    ):
        short = tmp_path / "cut.eval"
        short.write_bytes(path.read_bytes()[:cut])
        first, second, problem = read(short)
        assert isinstance(first, Trajectory) and isinstance(second, Trajectory) and isinstance(problem, FormatProblem)
        assert (first.id, second.id) == ("cut/b/1", "cut/a/1")
        assert "no readable table of contents" in problem.message
        assert place in problem.message


@given(data=st.data())
def test_damage_anywhere_is_a_problem_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = eval_log(tmp_path_factory.mktemp("damage"), sample("b"), sample("a"))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(40, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(min_size=1, max_size=40))
    path.write_bytes(content)
    assert all(isinstance(item, Trajectory | FormatProblem) for item in read(path))


def test_a_member_that_is_no_json_or_no_sample_is_named(tmp_path: Path) -> None:
    path = eval_log(tmp_path, sample("b"))
    with zipfile.ZipFile(path, "a") as log:
        log.writestr("samples/a_epoch_1.json", "{")
        log.writestr("samples/10_epoch_1.json", "[]")
        log.writestr("samples/9_epoch_1.json", b"\xff")
        log.writestr("samples/8_epoch_1.json", '{"id": 8, "messages": 3}')
        log.writestr("samples/7_epoch_1.json", '{"id": 7}')
    first, *problems = read(path)
    assert isinstance(first, Trajectory)
    assert [problem.message for problem in problems if isinstance(problem, FormatProblem)] == [
        "samples/a_epoch_1.json: not JSON: Expecting property name enclosed in double quotes (column 2)",
        "samples/10_epoch_1.json: the sample: expected an object, found []",
        "samples/9_epoch_1.json: not UTF-8: invalid start byte",
        "samples/8_epoch_1.json: messages: expected a list, found 3",
        "samples/7_epoch_1.json: expected a sample with id and messages",
    ]


def zstd_member(name: str, text: str) -> tuple[bytes, bytes]:
    """A member as zip files have it that are compressed with Zstandard, and its entry in the table of contents."""
    frames = [zstandard.compress(part) for part in (text.encode()[:40], text.encode()[40:])]
    data, crc = b"".join(frames), zlib.crc32(text.encode())
    sizes = crc.to_bytes(4, "little") + len(data).to_bytes(4, "little") + len(text.encode()).to_bytes(4, "little")
    common = b"\x3f\0\0\0" + (93).to_bytes(2, "little") + b"\0\0\x21\0" + sizes + len(name).to_bytes(2, "little")
    local = b"PK\x03\x04" + common + b"\0\0" + name.encode() + data
    return local, b"PK\x01\x02\x3f\0" + common + b"\0" * 16


def test_members_may_be_compressed_with_zstandard(tmp_path: Path) -> None:
    names = {"samples/b_epoch_1.json": sample("b"), "samples/a_epoch_1.json": sample()}
    data, table = b"", b""
    for name, item in names.items():
        local, entry = zstd_member(name, json.dumps(item))
        table += entry[:-4] + len(data).to_bytes(4, "little") + name.encode()
        data += local
    end = b"PK\x05\x06" + b"\0" * 4 + (2).to_bytes(2, "little") * 2
    end += len(table).to_bytes(4, "little") + len(data).to_bytes(4, "little") + b"\0\0"
    path = tmp_path / "log.eval"
    path.write_bytes(data + table + end)
    assert [item.id for item in trajectories(path)] == ["log/b/1", "log/a/1"]
    path.write_bytes(data)
    assert [item.id for item in trajectories(path)] == ["log/b/1", "log/a/1"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "samples.0: the sample: expected an object, found 3"),
        (sample(scores=[3]), "samples.0: scores: expected an object, found [3]"),
        (sample(messages=["x"]), ""),  # Inspect says it in its own words where it is installed
    ],
)
def test_a_bad_sample_is_named_and_the_others_are_read(tmp_path: Path, data: Any, message: str) -> None:
    problem, trajectory = read(json_log(tmp_path, data, sample()))
    assert isinstance(problem, FormatProblem) and isinstance(trajectory, Trajectory)
    assert problem.message.startswith(message)


def test_other_files_are_no_logs(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    (problem,) = read(path, "inspect")
    assert "expected a log with version, status, eval and a list of samples" in str(problem)
    other = tmp_path / "other.eval"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("word/document.xml", "<x/>")
    (problem,) = read(other)
    assert isinstance(problem, FormatProblem)


def test_the_real_files(shared_data: Path) -> None:
    items = list(read(shared_data / "trajectories/inspect"))
    assert [item for item in items if isinstance(item, FormatProblem)] == []
    found = [item for item in items if isinstance(item, Trajectory)]
    assert [item.id for item in found] == [
        "input-task/1/1",
        "log_tool_call_error/1/4",
        *(f"popularity/{number}/1" for number in range(1, 11)),
    ]
    assert [item.reward for item in found] == [1.0] + [None] * 11
    assert [len(item.steps) for item in found] == [1, 0, *[1] * 10]
    assert {item.end for item in found} == {"terminated"}
    assert " ".join(item.steps[0].action.content for item in found[2:]) == "Yes No No No Yes No No No Yes No"
    assert list(read(shared_data / "trajectories/inspect/log_with_nan.txt")) == []
