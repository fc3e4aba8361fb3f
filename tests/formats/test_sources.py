"""What a file may look like: compressed, torn, in lines, arrays and documents; always the same records."""

import bz2
import gzip
import json
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings, strategies as st

from rubrics.formats import FormatError, FormatProblem, Source, array, compression, read
from rubrics.formats.parsing import Parsed
from rubrics.trajectory import Trajectory

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def records(path: Path, content: bytes) -> tuple[list[Any], list[str]]:
    """The values that can be read, and the problems, as they are told."""
    path.write_bytes(content)
    values, problems = [], []
    try:
        for record in Source(path).records():
            if isinstance(record, Parsed):
                values.append(record.value)
            else:
                problems.append(f"{record.line}: {record.message}")
    except FormatError as error:
        problems.append(f"{error.line}: {error}")
    return values, problems


def line(id: str) -> bytes:
    return json.dumps({"id": id, "steps": []}).encode() + b"\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    values=st.lists(OBJECTS, min_size=1, max_size=5),
    form=st.sampled_from(["lines", "array", "documents"]),
    indent=st.sampled_from([None, 0, 2]),
    compress=st.sampled_from(list(COMPRESS)),
    chunk=st.integers(1, 50),
    start=st.sampled_from([b"", b"\xef\xbb\xbf", b"\n \n"]),
)
def test_records_are_the_same_in_every_encoding(
    values: list[Any], form: str, indent: int | None, compress: str, chunk: int, start: bytes, tmp_path: Path
) -> None:
    if form == "array":
        text = json.dumps(values, indent=indent)
    else:
        text = "\n".join(json.dumps(value, indent=indent if form == "documents" else None) for value in values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array, "_CHUNK", chunk)
        patch.setattr(compression, "_CHUNK", chunk)
        found = records(tmp_path / "file.json", COMPRESS[compress](start + text.encode() + b"\n"))
    assert found == (values, [])


TORN = [(1, "Expecting ':' delimiter (column 1)"), (2, "Expecting ',' delimiter (column 1)")]
EXPECTING = "2: not JSON: Expecting value (column 1)"


@pytest.mark.parametrize(
    ("content", "values", "problems"),
    [
        (b'{\n "a": 1\n}\n', [{"a": 1}], []),
        (b'{\n "a": 1\n}\n{"b": 2}\n{\n}', [{"a": 1}, {"b": 2}, {}], []),
        (b'{\n "a": 1,\n', [], ["3: the file ends in the middle of a JSON document; the value starts at line 1"]),
        (
            b'{\n "a": 1\n}\n{\n "b": x\n}\n',
            [{"a": 1}],
            ["5: not JSON: Expecting value; the value starts at line 4"],
        ),
        (b'"id": "a", "x": 1}\n{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}], ["1: not JSON: Extra data (column 5)"]),
        (
            b'{"id": "a", "ste\n{"a": 1}\n{"b": 2}\n',
            [{"a": 1}, {"b": 2}],
            ["1: not JSON: Invalid control character at (column 17)"],
        ),
        (b'{"a"\n{"b": 2\n{"c": 3}\n', [{"c": 3}], [f"{n}: not JSON: {m}" for n, m in TORN]),
        (b'{"a": 1}{"b": 2}\n{"c": \n{"d": 4}\n', [{"a": 1}, {"b": 2}, {"d": 4}], [EXPECTING]),
        (b'{"a": 1}}\n{"b": 2}\n{"c": 3}\n', [{"a": 1}, {"b": 2}, {"c": 3}], ["1: not JSON: Expecting value"]),
        (b'{"a": 1,\n"b": tru', [], ["2: the file ends in the middle of a JSON document; the value starts at line 1"]),
        (b'{"a"\n{"b"\n{"c"\n', [], ["2: not JSON: Expecting ':' delimiter; the value starts at line 1"]),
        (
            b'{"a": 1}\n{"b": ',
            [{"a": 1}],
            ["2: not JSON: Expecting value (column 7); the file ends in the middle of this line"],
        ),
        (b'{"a": 1}\n\n"x\n{"b": 2}', [{"a": 1}, {"b": 2}], ["3: not JSON: Invalid control character at (column 3)"]),
    ],
)
def test_torn_lines_and_documents(tmp_path: Path, content: bytes, values: list[Any], problems: list[str]) -> None:
    assert records(tmp_path / "file.json", content) == (values, problems)


# --- compression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [("gzip", "gzip"), ("zstd", "Zstandard")])
def test_what_stands_before_a_cut_in_compressed_data_is_read(tmp_path: Path, kind: str, name: str) -> None:
    content = b"".join(COMPRESS[kind](line(f"run-{number}")) for number in range(5))  # as appending writes them
    assert records(tmp_path / "runs.gz", content)[1] == []
    values, problems = records(tmp_path / "runs.gz", content[:-3])
    assert [value["id"] for value in values][:4] == ["run-0", "run-1", "run-2", "run-3"]
    assert problems[-1].endswith(f"the {name} data end in the middle: the file was cut off")
    assert problems[-1].split(":")[0] in ("4", "5")


def test_a_cut_in_the_middle_of_an_array_is_told_with_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_bytes(gzip.compress(b"[" + line("a") + b"," + line(os.urandom(50_000).hex()) + b"]")[:-20])
    first, *problems = read(path)
    assert isinstance(first, Trajectory)
    (problem,) = problems
    assert isinstance(problem, FormatProblem)
    assert problem.message.startswith("the gzip data end in the middle: the file was cut off; the file ends in the mi")


def test_damaged_data_are_told(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(line("a")) + gzip.compress(line("b")) + b"\0" * 64)
    assert records(tmp_path / "runs.gz", bytes(content))[1] == []
    content += b"garbage"
    values, (problem,) = records(tmp_path / "runs.gz", bytes(content))
    assert [value["id"] for value in values] == ["a", "b"]
    assert problem.startswith("2: the gzip data are damaged: ")


def test_an_empty_file_stays_empty_when_compressed(tmp_path: Path) -> None:
    for compress in COMPRESS.values():
        assert records(tmp_path / "empty", compress(b"")) == ([], ["1: the file is empty"])


def test_the_package_for_zstandard_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.jsonl.zst").write_bytes(COMPRESS["zstd"](line("a")))
    (problem,) = read(tmp_path / "a.jsonl.zst")
    assert isinstance(problem, FormatProblem)
    assert problem.message.endswith("pip install 'rubrics[zstd]'")


@pytest.mark.parametrize(("compress", "kind"), [(bz2.compress, "bzip2"), (lzma.compress, "xz")])
def test_another_compression_is_named_and_not_passed_over(tmp_path: Path, compress: Any, kind: str) -> None:
    path = tmp_path / f"runs.jsonl.{'bz2' if kind == 'bzip2' else kind}"
    path.write_bytes(compress(line("a")))
    for where in (path, tmp_path):
        (problem,) = read(where)
        assert str(problem) == f"{path}: the file is compressed with {kind}, which is not read; decompress it first"


@pytest.mark.parametrize("name", ["airline.json", "airline.json.gz", "airline.jsonl.zst", "airline.traj", "airline"])
def test_the_stem_says_nothing_of_the_encoding(name: str) -> None:
    assert Source(Path("runs.d") / name).stem == "airline"


@pytest.mark.slow
def test_a_line_of_100_mb_is_a_line(tmp_path: Path) -> None:
    long = json.dumps({"id": "long", "steps": [], "task": "x" * 100_000_000}).encode() + b"\n"
    path = tmp_path / "long.jsonl"
    path.write_bytes(line("a") + long + line("b"))
    assert [item.id for item in read(path) if isinstance(item, Trajectory)] == ["a", "long", "b"]
