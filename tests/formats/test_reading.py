"""Files, formats and arrays: what is found, what is refused, and that nothing is lost by it."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.formats import FormatError, FormatProblem, Source, array, formats, read, reader, registry
from rubrics.formats.parsing import Parsed
from rubrics.trajectory import Trajectory


@pytest.fixture(autouse=True)
def only_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers that other tests may have registered are not seen, and those of a test go with it."""
    known = formats()
    monkeypatch.setattr(registry, "_readers", {name: known[name] for name in ("jsonl", "tau-bench")})


def ids(path: Path | list[Path], format: str | None = None) -> tuple[list[str], list[str]]:
    items = list(read(path, format))
    return [i.id for i in items if isinstance(i, Trajectory)], [str(i) for i in items if isinstance(i, FormatProblem)]


def line(id: str) -> str:
    return json.dumps({"id": id, "steps": []}) + "\n"


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    for format in (None, "jsonl", "tau-bench"):
        assert ids(path, format) == ([], [f"{path}:1: the file is empty"])


KNOWN = "known formats: jsonl, tau-bench"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"messages": [], "score": 1}', f"unknown format: the first record has the keys messages, score; {KNOWN}"),
        ("{}", f"unknown format: the first record has the keys (none); {KNOWN}"),
        ("[]", f"unknown format: the array is empty; {KNOWN}"),
        ("3", f"unknown format: the first record is no JSON object but int; {KNOWN}"),
        ("a text", f"not JSON: Expecting value (column 1); none of the {KNOWN}"),
    ],
)
def test_an_unknown_format_lists_the_known_ones(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "what.json"
    path.write_text(content + "\n")
    assert ids(path) == ([], [f"{path}:1: {message}"])


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(line("a"), encoding="utf-16")
    assert ids(path) == ([], [f"{path}:1: the file is UTF-16; convert it to UTF-8"])
    path.write_bytes(line("a").encode() + '{"id": "é", "steps": []}\n'.encode("latin-1") + line("b").encode())
    good, problems = ids(path)
    assert good == ["a", "b"]
    assert problems == [f"{path}:2: not UTF-8: invalid continuation byte (byte 9 of the line)"]


def test_a_format_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(FormatError, match="no format 'tau'; known formats: jsonl, tau-bench"):
        read("runs.jsonl", format="tau")


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    good, more = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    good.write_text(line("a"))
    more.write_text(line("b"))
    trajectories, problems = ids([good, tmp_path / "missing.jsonl", more])
    assert trajectories == ["a", "b"]
    assert problems == [f"{tmp_path / 'missing.jsonl'}: cannot be read: No such file or directory"]


def test_an_id_that_comes_twice_gets_a_number(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(line("a") + line("b") + line("a") + line("a#3") + line("a"))
    second.write_text(line("c") + line("b"))
    assert ids([first, second]) == (["a", "b", "a#2", "a#3", "a#4", "c", "b#2"], [])


def test_what_stands_before_the_cut_of_an_array_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text("[" + line("a").strip() + ",\n" + line("b").strip()[:20])
    trajectories, problems = ids([path])
    assert trajectories == ["a"]
    assert len(problems) == 1
    assert f"{path}:2" in problems[0]


def test_bad_values_at_the_head_of_a_file_do_not_hide_its_format(tmp_path: Path) -> None:
    path = tmp_path / "head.jsonl"
    path.write_text('1\n"s"\nnull\n' + line("a"))
    trajectories, problems = ids([path])
    assert (trajectories, len(problems)) == (["a"], 3)


# --- one reader a format ---------------------------------------------------------------------------------------------


def test_a_reader_is_one_function_with_a_decorator(tmp_path: Path) -> None:
    def convert(record: Parsed) -> Trajectory:
        if record.value["name"] == "bad":
            raise FormatError("name: it is bad")
        return Trajectory(record.value["name"])

    @reader("mine", detect=lambda record: isinstance(record, dict) and "name" in record)
    def read_mine(source: Source) -> Iterator[Trajectory | FormatProblem]:
        """My own format.

        With more to say about it.
        """
        return source.each(convert)

    assert formats()["mine"].description == "My own format."
    path = tmp_path / "mine.jsonl"
    path.write_text('{"name": "x"}\n{"name": "bad"}\n{"nom": "y"}\n[]\n{"name": "z"}\n')
    trajectories, problems = ids(path)
    assert trajectories == ["x", "z"]
    assert problems[0] == f"{path}:2: name: it is bad"
    assert problems[1] == f"{path}:3: not the shape of a record of this format: KeyError('name')"
    assert problems[2].startswith(f"{path}:4: not the shape of a record of this format: TypeError(")
    (first, *_) = read(path)
    assert isinstance(first, Trajectory)
    assert first.source == {"format": "mine", "path": str(path), "line": 1}


def test_a_reader_that_fails_costs_its_own_file_only(tmp_path: Path) -> None:
    @reader("mine", detect=lambda record: isinstance(record, dict) and "name" in record)
    def read_mine(source: Source) -> Iterator[Any]:
        """My own format."""
        for record in source.records():
            assert isinstance(record, Parsed)
            yield Trajectory(record.value["name"]) if record.value["name"] else None
            if record.value["name"] == 3:
                raise ArithmeticError("three")

    mine, ours = tmp_path / "mine.jsonl", tmp_path / "ours.jsonl"
    mine.write_text('{"name": "x"}\n{"name": 2}\n{"name": 2}\n{"name": 0}\n{"name": [1]}\n{"name": 3}\n{"name": 4}\n')
    ours.write_text(line("a"))
    trajectories, problems = ids([mine, ours])
    assert trajectories == ["x", "2", "2#2", "3", "a"]  # a number is an id, too
    assert problems == [
        f"{mine}:4: the reader 'mine' handed out None, not a Trajectory whose id is a text, or a FormatProblem",
        f"{mine}:5: the reader 'mine' handed out {Trajectory([1])!r:.80}, not a Trajectory whose id is a text, "  # type: ignore[arg-type]
        "or a FormatProblem",
        f"{mine}:6: the reader 'mine' failed: ArithmeticError: three",
    ]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(FormatError, match="a reader for the format 'jsonl' already"):
        reader("jsonl", detect=bool)(lambda source: iter(()))


def test_formats_describe_themselves() -> None:
    assert all(known.description.endswith((".", "…")) for known in formats().values())


# --- arrays ----------------------------------------------------------------------------------------------------------

NO_NAME = "Expecting property name enclosed in double quotes"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def parsed(path: Path, content: bytes) -> list[Any]:
    path.write_bytes(content)
    return list(Source(path).records())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    values=st.lists(VALUES, max_size=5),
    chunk=st.integers(1, 50),
    indent=st.sampled_from([None, 0, 2]),
    ascii=st.booleans(),
)
def test_an_array_is_read_element_by_element(
    values: list[Any], chunk: int, indent: int | None, ascii: bool, tmp_path: Path
) -> None:
    content = json.dumps(values, indent=indent, ensure_ascii=ascii).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array, "_CHUNK", chunk)
        records = parsed(tmp_path / "a.json", b" \n" + content + b"\n")
    assert [record.value for record in records] == values


@pytest.mark.parametrize(
    ("content", "good", "problem"),
    [
        (b'[1, 2, {"a": ', 2, (1, "the file ends in the middle of the array")),
        (b"[1,\n2,\n3", 3, (3, "the file ends in the middle of the array")),
        (b"[1,\n2,\n", 2, (3, "the file ends in the middle of the array")),
        (b'[1,\n"ab', 1, (2, "the file ends in the middle of the array")),
        (b"[1,\n2 3]", 2, (2, "not JSON: '3' between two elements of the array")),
        (b"[1,\n2]\n[3]", 2, (3, "not JSON: '[' behind the end of the array")),
        (b"[1,\n{\n'a': 2}, 3" + b" " * 100 + b"]", 1, (3, f"not JSON: {NO_NAME}; the value starts at line 2")),
        (b'[1,\n"\xff", 2]', 1, (2, "not UTF-8: invalid start byte")),
        (b"[1, 2, NaN]", 3, None),
    ],
)
def test_a_broken_array_gives_what_comes_before(
    tmp_path: Path, content: bytes, good: int, problem: tuple[int, str] | None
) -> None:
    records: list[Any] = []
    path = tmp_path / "a.json"
    path.write_bytes(content)

    def collect() -> None:
        records.extend(Source(path).records())

    if problem is None:
        collect()
        assert records[-1] == Parsed(1, None, [""])
        return
    source = Source(path).records()
    with pytest.raises(FormatError) as caught:
        for record in source:
            records.append(record)
    assert len(records) == good
    assert (caught.value.line, str(caught.value)) == problem


def test_elements_know_their_line(tmp_path: Path) -> None:
    records = parsed(tmp_path / "a.json", b'\n[\n  {"a":\n 1},\n\n  2, 3\n]')
    assert [(record.line, record.value) for record in records] == [(3, {"a": 1}), (6, 2), (6, 3)]


def test_a_long_array_does_not_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "x" * 10_000}] * 1_000))  # 10 MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in Source(path).records()) == 1_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_large_element_is_read_in_linear_time(tmp_path: Path) -> None:
    records = parsed(tmp_path / "a.json", json.dumps(["x" * 5_000_000, 1]).encode())
    assert len(records[0].value) == 5_000_000
    assert records[1].value == 1
