"""Parquet and Arrow: rows are records, absent stays absent, and what is written is read back."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics.formats import FormatProblem, read, write_jsonl, write_parquet
from rubrics.trajectory import Step, Trajectory, wrap

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "here"},
    {"role": "assistant", "content": "Here."},
]


def trajectories(path: Path | list[Path], format: str | None = None) -> list[Trajectory]:
    items = list(read(path, format))
    assert not [str(item) for item in items if isinstance(item, FormatProblem)]
    return [item for item in items if isinstance(item, Trajectory)]


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
written = st.builds(
    Trajectory,
    id=texts,
    task=json_values.map(wrap),
    initial=json_values.map(wrap),
    steps=st.lists(
        st.builds(Step, json_values.map(wrap), json_values.map(wrap), st.none() | st.floats(-2, 2), objects)
    ),
    end=st.sampled_from(["terminated", "truncated", "error", "abandoned", None]),
    reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    reduction=st.sampled_from(["sum", "last", None]),
    source=st.just({"format": "x", "path": "y", "line": 1}),
    metadata=objects,
)


@given(st.lists(written, max_size=4, unique_by=lambda trajectory: trajectory.id))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, given: list[Trajectory]) -> None:
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    assert write_parquet(path, given) == len(given)
    assert trajectories(path, "jsonl") == given


def test_parquet_and_jsonl_hold_the_same(tmp_path: Path) -> None:
    odd = Trajectory(
        "a",
        task='{"not": "decoded"}',
        steps=[Step({"text": "[1]"}, {"mixed": [1, "two", None, {"a": []}]}, reward=float("nan"))],
        reward=float("inf"),
        metadata={"x": float("nan")},
    )
    write_jsonl(tmp_path / "t.jsonl", [odd, Trajectory("b")])
    write_parquet(tmp_path / "t.parquet", [odd, Trajectory("b")])
    lines, rows = trajectories(tmp_path / "t.jsonl"), trajectories(tmp_path / "t.parquet")
    for one, other in zip(lines, rows, strict=True):
        one.source = other.source = None
        assert one == other
    assert rows[0].task == '{"not": "decoded"}'
    assert rows[0].metadata["not_finite"] == ["steps.0.reward", "reward", "metadata.x"]


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    assert write_parquet(path, []) == 0
    assert trajectories(path, "jsonl") == []
    with pytest.raises(FileExistsError):
        write_parquet(path, [])


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"steps\.0\.action cannot be written") as error:
        write_parquet(tmp_path / "t.parquet", [Trajectory("bad", steps=[Step(object.__new__, {})])])
    assert error.value.__notes__ == ["in the trajectory 'bad'"]
    with pytest.raises(ValueError, match="half a character"):
        write_parquet(tmp_path / "u.parquet", [Trajectory("\ud800")])


def test_row_groups_are_written_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rubrics.formats.tables._GROUP_BYTES", 1000)
    many = (Trajectory(f"t{number}", task="x" * 300, source={}) for number in range(150))
    path = tmp_path / "t.parquet"
    assert write_parquet(path, many) == 150
    assert pq.ParquetFile(path).num_row_groups > 10
    assert [item.id for item in trajectories(path)] == [f"t{number}" for number in range(150)]


def test_structs_are_records_in_which_absent_stays_absent(tmp_path: Path) -> None:
    path = parquet(tmp_path / "chats.parquet", [{"messages": MESSAGES, "reward": 1.0}, {"messages": MESSAGES[:1]}])
    first, second = trajectories(path)
    assert first.reward == 1.0
    assert second.reward is None
    assert "name" not in first.initial.messages[0]
    assert "tool_calls" not in first.initial.messages[0]
    assert first.steps[0].action == {"content": None, "tool_calls": [{"id": "c1", "name": "find", "arguments": {}}]}
    assert first.steps[1].action == {"content": "Here.", "tool_calls": []}
    assert first.source is not None and second.source is not None
    assert (first.source["line"], second.source["line"]) == (1, 2)


def test_json_text_is_decoded_where_a_format_has_lists_or_objects_and_nowhere_else(tmp_path: Path) -> None:
    row = {
        "task_id": 1,
        "reward": 1.0,
        "info": json.dumps({"task": {"a": 1}, "reward_info": {"info": {"r": 1.0}}}),
        "traj": json.dumps(MESSAGES),
    }
    (tau,) = trajectories(parquet(tmp_path / "tau.parquet", [row]))
    assert (tau.task, tau.end, tau.metadata["components"]) == ({"a": 1}, "terminated", {"r": 1.0})
    answer = {"example_id": 0, "prompt": "Say JSON.", "completion": '{"a": 1}', "answer": '[{"b": 1}]', "reward": 1.0}
    (v0,) = trajectories(parquet(tmp_path / "v0.parquet", [{**answer, "is_completed": True}]))
    assert v0.steps[0].action.content == '{"a": 1}'
    assert v0.task.answer == '[{"b": 1}]'
    (numbers,) = trajectories(parquet(tmp_path / "v1.parquet", [{**answer, "completion": "[1, 2]"}]))
    assert numbers.steps[0].action.content == "[1, 2]"


def test_nan_is_none_and_told(tmp_path: Path) -> None:
    rows = [{"messages": json.dumps(MESSAGES), "reward": float("nan")}, {"messages": '[{"role": "user", "x": NaN}]'}]
    first, second = trajectories(parquet(tmp_path / "chats.parquet", rows))
    assert first.reward is None
    assert first.metadata["not_finite"] == ["reward"]
    assert second.metadata["not_finite"] == ["messages.0.x"]


def test_values_that_json_does_not_know_become_text(tmp_path: Path) -> None:
    import datetime
    import decimal

    row = {
        "messages": MESSAGES,
        "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "image": b"\xff\x00",
        "price": decimal.Decimal("1.5"),
        "day": datetime.date(2026, 1, 2),
    }
    (item,) = trajectories(parquet(tmp_path / "chats.parquet", [row]))
    told = {name: item.metadata[name] for name in ("at", "image", "price", "day")}
    assert told == {"at": "2026-01-02T00:00:00+00:00", "image": "/wA=", "price": 1.5, "day": "2026-01-02"}


def test_a_row_that_python_cannot_hold_hides_no_other(tmp_path: Path) -> None:
    ids = pa.array([b"a", b"\xff", b"c"]).cast(pa.binary())
    broken = pa.StringArray.from_buffers(3, ids.buffers()[1], ids.buffers()[2])
    path = tmp_path / "chats.parquet"
    pq.write_table(pa.table({"id": broken, "messages": [MESSAGES] * 3}), path)
    first, problem, last = read(path)
    assert isinstance(first, Trajectory) and isinstance(last, Trajectory) and isinstance(problem, FormatProblem)
    assert (first.id, last.id, problem.line) == ("a", "c", 2)
    assert problem.message.startswith("the row cannot be read: 'utf-8' codec can't decode byte 0xff")


def test_a_map_is_an_object(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.float64()))
    table = pa.table({"messages": [MESSAGES], "scores": pa.array([[("a", [1.0, None]), ("b", None)]], kind)})
    pq.write_table(table, tmp_path / "chats.parquet")
    (item,) = trajectories(tmp_path / "chats.parquet")
    assert item.metadata["scores"] == {"a": [1.0, None]}


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_arrow_files_and_streams_are_tables_too(tmp_path: Path, kind: str) -> None:
    table = pa.Table.from_pylist([{"messages": MESSAGES, "id": f"a{number}"} for number in range(3)])
    path = tmp_path / "chats.arrow"
    with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert [item.id for item in trajectories(path)] == ["a0", "a1", "a2"]


def test_a_compressed_table_is_read(tmp_path: Path) -> None:
    plain = parquet(tmp_path / "chats.parquet", [{"messages": MESSAGES, "id": "a"}])
    packed = tmp_path / "chats.parquet.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [item.id for item in trajectories(packed)] == ["a"]


def test_a_stream_that_is_cut_gives_what_stands_before(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"messages": MESSAGES, "id": f"a{number}"} for number in range(40)])
    whole = tmp_path / "whole.arrow"
    with pa.ipc.new_stream(whole, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    path = tmp_path / "cut.arrow"
    path.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    *good, problem = read(path)
    assert [item.id for item in good if isinstance(item, Trajectory)] == [f"a{number}" for number in range(20)]
    assert isinstance(problem, FormatProblem)
    assert problem.line == 20
    assert problem.message.startswith("the table cannot be read behind row 20: ")


def test_a_parquet_file_that_is_cut_is_a_problem(tmp_path: Path) -> None:
    path = parquet(tmp_path / "chats.parquet", [{"messages": MESSAGES}])
    path.write_bytes(path.read_bytes()[:-20])
    (problem,) = read(path)
    assert isinstance(problem, FormatProblem)
    assert problem.message.startswith("the table cannot be read: ")


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
@given(data=st.data())
def test_damage_is_a_problem_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damage") / "t.arrow"
    table = pa.Table.from_pylist([{"messages": MESSAGES, "id": f"a{number}"} for number in range(9)])
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(8, len(content) - 1))
    content[at : at + data.draw(st.integers(1, 40))] = data.draw(st.binary(max_size=40))
    path.write_bytes(content)
    assert all(isinstance(item, Trajectory | FormatProblem) for item in read(path))


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "chats.parquet", [{"messages": MESSAGES}])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (problem,) = read(path)
    assert "pip install 'rubrics[parquet]'" in str(problem)
    with pytest.raises(ImportError, match=r"pip install 'rubrics\[parquet\]'"):
        write_parquet(tmp_path / "t.parquet", [])


def saved_dataset(folder: Path, ids: list[str]) -> None:
    """As `datasets.Dataset.save_to_disk` lays it out."""
    folder.mkdir(parents=True)
    names = []
    for number, id in enumerate(ids):
        table = pa.Table.from_pylist([{"messages": MESSAGES, "id": id}])
        names.append(f"data-{number:05}-of-{len(ids):05}.arrow")
        with pa.ipc.new_stream(folder / names[-1], table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}, "splits": {}}))
    (folder / "cache-1a2b.arrow").write_bytes((folder / names[0]).read_bytes())


def test_a_saved_dataset_is_its_data_files(tmp_path: Path) -> None:
    saved_dataset(tmp_path / "set/train", ["a", "b"])
    saved_dataset(tmp_path / "set/test", ["c"])
    (tmp_path / "set/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert [item.id for item in trajectories(tmp_path / "set/train")] == ["a", "b"]
    assert [item.id for item in trajectories(tmp_path / "set")] == ["c", "a", "b"]


def test_a_data_file_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    saved_dataset(tmp_path / "set", ["a", "b"])
    (tmp_path / "set/data-00000-of-00002.arrow").unlink()
    problem, item = read(tmp_path / "set")
    assert isinstance(item, Trajectory) and isinstance(problem, FormatProblem)
    assert problem.message == "cannot be read: No such file or directory"


def test_a_dataset_as_the_hub_has_it_is_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in (0, 1):
        parquet(tmp_path / f"data/train-0000{number}-of-00002.parquet", [{"messages": MESSAGES, "id": f"h{number}"}])
    (tmp_path / "README.md").write_text("---\n---\n")
    (tmp_path / "state.json").write_text('{"step": 3}')
    assert [item.id for item in trajectories(tmp_path)] == ["h0", "h1"]


def test_the_real_file_and_what_it_was_made_of_say_the_same(shared_data: Path) -> None:
    rows = trajectories(shared_data / "trajectories/parquet/tau_airline_12.parquet")
    results = trajectories(shared_data / "trajectories/tau_bench/gpt-4o-airline.first12.json")
    assert len(rows) == 12
    assert [row.reward for row in rows] == [result.reward for result in results]
    for row, result in zip(rows, results, strict=True):
        assert [step.action for step in row.steps] == [step.action for step in result.steps]
