"""A run as tables: what is missing is null, never NaN."""

import json
import math
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import Evaluation, Usage
from rubrics.formats import FormatError
from rubrics.rescoring import MissingExtraError, Row, to_arrow, to_pandas, to_polars, write_parquet
from tests.rescoring.runs import row, tree

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

USAGE = {"calls": 2, "total_tokens": 30, "cost": 0.5}
RUN = [
    row(
        "a",
        0.5,
        {"x": 1.0, "y": "skipped"},
        group=7,
        usage=USAGE,
        components={"db": 1.0, "said": None},
        step_rewards={"values": [0.25, None], "emitted": []},
        source={"path": "a.jsonl", "line": 3},
        content="c",
        rubric="r",
        recorded_reward=1.0,
    ),
    row("b", None, {"x": "error"}, status="error", group="task", reasons={"x": "boom"}, reason="step 1 of 1: boom"),
    Row("c", "unfinished", reason="it goes on"),
    Row(None, "unreadable", reason="x.jsonl:9: not JSON"),
]


def test_one_row_a_trajectory() -> None:
    table = to_arrow(RUN).to_pylist()
    assert [each["trajectory"] for each in table] == ["a", "b", "c", None]
    assert [each["status"] for each in table] == ["scored", "error", "unfinished", "unreadable"]
    assert [each["reward"] for each in table] == [0.5, None, None, None]
    assert [each["group"] for each in table] == ["7", "task", None, None]
    assert table[0]["step_rewards"] == [0.25, None]
    assert json.loads(table[0]["components"]) == {"db": 1.0, "said": None}
    assert json.loads(table[0]["source"]) == {"path": "a.jsonl", "line": 3}
    assert (table[0]["calls"], table[0]["total_tokens"], table[0]["cost"]) == (2, 30, 0.5)
    assert (table[1]["calls"], table[1]["cost"], table[1]["components"]) == (None, None, None)


def test_one_row_a_node_in_the_long_table() -> None:
    table = to_arrow(RUN, long=True).to_pylist()
    assert [(each["trajectory"], each["step"], each["path"], each["status"], each["score"]) for each in table] == [
        ("a", 1, "", "scored", 0.5),
        ("a", 1, "x", "scored", 1.0),
        ("a", 1, "y", "skipped", None),
        ("b", None, "", "unscored", None),  # the step that raised is not in the row as a number
        ("b", None, "x", "error", None),
    ]
    assert table[4]["reason"] == "boom"


def test_steps_count_from_one_and_unpaid_ones_have_no_nodes() -> None:
    run = [row("a", 0.5, evaluations=[tree({"": 0.25}), None, tree({"": 0.5})], steps=3)]
    assert [(each["step"], each["score"]) for each in to_arrow(run, long=True).to_pylist()] == [(1, 0.25), (3, 0.5)]
    assert [each["step"] for each in to_arrow([row("a", 0.5, steps=3)], long=True).to_pylist()] == [3]


def test_pending_nodes_have_their_intermediate_reward_and_metadata_is_json() -> None:
    odd: dict[Any, Any] = {"reply": "\ud800", "nan": math.nan, 3: {"x": object}, "big": 2**70}
    node = Evaluation("", "Judge", "pending", 0.1, "so far", odd, 0.5, Usage(1, cost=0.25))
    (table,) = to_arrow([Row("a", "unscored", evaluation=node)], long=True).to_pylist()
    assert (table["status"], table["score"], table["duration"], table["cost"]) == ("pending", 0.1, 0.5, 0.25)
    metadata = json.loads(table["metadata"], parse_constant=lambda name: pytest.fail(name))
    assert (metadata["reply"], metadata["nan"], metadata["big"]) == ("\ud800", None, 2**70)


def test_polars_and_pandas_keep_null() -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    frame = to_polars(RUN)
    assert frame["reward"].dtype == polars.Float64
    assert frame["reward"].null_count() == 3
    assert not frame["reward"].is_nan().any()
    long = to_pandas(RUN, long=True)
    assert list(long["score"].isna()) == [False, False, True, True, True]
    assert long["score"].iloc[2] is pandas.NA
    assert long.groupby("path")["score"].mean()["x"] == 1.0


TEXT = st.none() | st.text(st.characters(codec=None), max_size=8)
FLOAT = st.none() | st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.builds(
        Row,
        id=TEXT,
        status=st.sampled_from(["scored", "unscored", "unfinished", "error", "unreadable"]),
        reward=FLOAT,
        recorded_reward=FLOAT,
        steps=st.integers(0, 9),
        reason=TEXT,
        group=st.none() | st.integers() | st.text(),
        evaluation=st.none()
        | st.builds(tree, st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["skipped", 0.5, 1]))),
        components=st.none() | st.dictionaries(st.text(st.characters(codec=None)), FLOAT),
    ),
    max_size=5,
)


def as_text(value: str | None) -> str | None:
    return value if value is None else value.encode(errors="backslashreplace").decode()


@given(ROWS)
def test_a_parquet_file_holds_what_the_rows_hold(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = tmp_path_factory.mktemp("tables") / "run.parquet"
    assert write_parquet(rows, path) == len(rows)
    table = pq.read_table(path).to_pylist()
    assert [each["trajectory"] for each in table] == [as_text(row.id) for row in rows]
    assert [(each["reward"], each["recorded_reward"]) for each in table] == [
        (row.reward, row.recorded_reward) for row in rows
    ]
    assert [each["reason"] for each in table] == [as_text(row.reason) for row in rows]
    assert [each["components"] and json.loads(each["components"]) for each in table] == [row.components for row in rows]
    assert path.parent.joinpath("run.parquet.part").exists() is False
    nodes = [(row, node) for row in rows for node in (row.evaluation.nodes() if row.evaluation else ())]
    long = path.with_name("long.parquet")
    assert write_parquet(rows, long, long=True) == len(nodes)
    assert pq.read_schema(long).field("score").type == pa.float64()
    assert [(each["path"], each["status"], each["score"]) for each in pq.read_table(long).to_pylist()] == [
        (node.path, node.status, node.score) for _, node in nodes
    ]


def test_a_file_is_read_and_written_part_by_part(tmp_path: Path) -> None:
    run, out = tmp_path / "run.jsonl", tmp_path / "run.parquet"
    run.write_bytes(b"".join(row(str(n), n / 5000, {"x": 1.0}).to_json() for n in range(5000)))
    assert write_parquet(run, out, long=True) == 10_000
    assert pq.ParquetFile(out).num_row_groups == 3
    assert to_arrow(out.with_name("run.jsonl")).num_rows == 5000


def test_an_empty_run_is_an_empty_table() -> None:
    assert to_arrow([]).num_rows == 0
    assert to_arrow([], long=True).column_names[:3] == ["trajectory", "step", "path"]
    assert to_arrow([Row("a", "unfinished")], long=True).num_rows == 0


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_bytes(row("a", 0.5).to_json() + b"nonsense\n")
    with pytest.raises(FormatError, match=r"run\.jsonl:2: not JSON"):
        write_parquet(run, tmp_path / "run.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]

    def interrupted() -> Iterable[Row]:
        yield row("a", 0.5)
        raise KeyboardInterrupt

    (tmp_path / "old.parquet").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_parquet(interrupted(), tmp_path / "old.parquet", overwrite=True)
    assert (tmp_path / "old.parquet").read_text() == "old"


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_bytes(row("a", 0.5).to_json())
    with pytest.raises(FileExistsError, match="the file exists"):
        write_parquet(run, run)
    assert write_parquet(run, tmp_path / "run.parquet") == 1
    assert write_parquet(run, tmp_path / "run.parquet", overwrite=True) == 1


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "parquet"), ("polars", "polars"), ("pandas", "pandas")])
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, module: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    ask = {"pyarrow": to_arrow, "polars": to_polars, "pandas": to_pandas}[module]
    with pytest.raises(MissingExtraError, match=rf"this needs {module}: pip install 'rubrics\[{extra}\]'"):
        ask([])


def test_nothing_heavy_is_imported_before_it_is_asked_for() -> None:
    code = "import rubrics.rescoring, sys; print({'pyarrow', 'polars', 'pandas', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
