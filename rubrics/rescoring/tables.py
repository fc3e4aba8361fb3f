"""A run as tables, for those who ask their own questions.

Two tables: one row a trajectory, and the long one, with one row for every node of every step that is recorded. What is
missing is null with a status beside it, never NaN.

    nodes = to_polars("rescored.jsonl", long=True)
    nodes.filter(pl.col("status") == "scored").group_by("path").agg(pl.col("score").mean())

Needs pyarrow: the extras `rubrics[parquet]`, `rubrics[polars]` and `rubrics[pandas]` bring it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from errno import EEXIST
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rubrics.evaluation import Evaluation
from rubrics.files import replacing
from rubrics.formats.parsing import finite, json_line
from rubrics.rescoring.rows import Row, read_rows
from rubrics.score import RubricError
from rubrics.trajectory import jsonable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_BATCH = 2_000  # trajectories that are held at once

_ROWS = {
    "trajectory": "string",
    "status": "string",
    "reward": "float64",
    "recorded_reward": "float64",
    "end": "string",
    "steps": "int64",
    "group": "string",
    "reason": "string",
    "step_rewards": "list<float64>",
    "components": "string",
    "calls": "int64",
    "total_tokens": "int64",
    "cost": "float64",
    "content": "string",
    "rubric": "string",
    "source": "string",
}
_NODES = {
    "trajectory": "string",
    "step": "int64",
    "path": "string",
    "kind": "string",
    "status": "string",
    "score": "float64",
    "reason": "string",
    "duration": "float64",
    "cost": "float64",
    "metadata": "string",
}


class MissingExtraError(RubricError, ImportError):
    """A package that is needed is not installed; the message names the extra that brings it."""


def to_polars(run: str | Path | Iterable[Row], *, long: bool = False) -> polars.DataFrame:
    """A run as a data frame of polars; see `to_arrow`."""
    frame: polars.DataFrame = _needed("polars", "polars").from_arrow(to_arrow(run, long=long))
    return frame


def to_pandas(run: str | Path | Iterable[Row], *, long: bool = False) -> pandas.DataFrame:
    """A run as a data frame of pandas, with columns of Arrow's types, so that null stays null; see `to_arrow`."""
    arrow_type = _needed("pandas", "pandas").ArrowDtype
    return to_arrow(run, long=long).to_pandas(types_mapper=arrow_type)


def to_arrow(run: str | Path | Iterable[Row], *, long: bool = False) -> pyarrow.Table:
    """A run as a table of pyarrow.

    The rows are trajectories: `trajectory` (the id), `status`, `reward`, `recorded_reward`, `end`, `steps`, `group`,
    `reason`, `step_rewards`, `components`, `calls`, `total_tokens`, `cost` (US dollars), `content`, `rubric`, `source`.

    With `long` they are nodes: `trajectory`, `step`, `path` (`""` for the root), `kind`, `status`, `score`, `reason`,
    `duration` (seconds), `cost`, `metadata`. Steps count from 1. Where a run recorded the last step only, there is that
    one; of a tree that raised, there is the step at which it did, whose number a row does not hold: it is null. A
    pending node has its intermediate reward as score.

    `components`, `source` and `metadata` are JSON texts, since their shape differs from row to row.

    Args:
        run: the file that a run wrote, or its rows.
        long: one row for every node.

    Raises:
        MissingExtraError: pyarrow is not installed.
        FormatError: a line of the file is no row.
    """
    pyarrow = _needed("pyarrow", "parquet")
    schema = _schema(long)
    return pyarrow.Table.from_batches(list(_batches(run, long)), schema)


def write_parquet(
    run: str | Path | Iterable[Row], path: str | Path, *, long: bool = False, overwrite: bool = False
) -> int:
    """Write a run to a Parquet file, a part at a time; see `to_arrow`. The file appears when it is complete.

    Args:
        run: the file that a run wrote, or its rows.
        path: the file.
        long: one row for every node.
        overwrite: replace a file that is there.

    Returns:
        The number of rows of the table.

    Raises:
        MissingExtraError: pyarrow is not installed.
        FormatError: a line of the file is no row.
        FileExistsError: there is such a file, and `overwrite` is not given.
        OSError: the file cannot be written.
    """
    parquet = _needed("pyarrow.parquet", "parquet")
    target, count = Path(path), 0
    if target.exists() and not overwrite:
        raise FileExistsError(EEXIST, "the file exists", str(path))
    with replacing(target) as whole, parquet.ParquetWriter(whole, _schema(long), compression="zstd") as writer:
        for batch in _batches(run, long):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _needed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f"this needs {package}: pip install 'rubrics[{extra}]' ({error})") from None


def _schema(long: bool) -> pyarrow.Schema:
    pyarrow = _needed("pyarrow", "parquet")
    kinds = {"list<float64>": pyarrow.list_(pyarrow.float64())}
    columns = _NODES if long else _ROWS
    return pyarrow.schema([(name, kinds.get(kind) or pyarrow.type_for_alias(kind)) for name, kind in columns.items()])


def _batches(run: str | Path | Iterable[Row], long: bool) -> Iterator[pyarrow.RecordBatch]:
    pyarrow = _needed("pyarrow", "parquet")
    schema = _schema(long)
    records: Callable[[Row], Iterable[tuple[Any, ...]]] = _of_nodes if long else _of_row
    rows = iter(read_rows(run) if isinstance(run, str | Path) else run)
    while some := list(islice(rows, _BATCH)):
        columns = list(zip(*(record for row in some for record in records(row)), strict=True))
        columns = columns or [()] * len(schema)
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _of_row(row: Row) -> Iterator[tuple[Any, ...]]:
    usage = row.usage or {}
    values = row.step_rewards and [_number(value) for value in row.step_rewards["values"]]
    yield (
        _text(row.id),
        row.status,
        _number(row.reward),
        _number(row.recorded_reward),
        row.end,
        row.steps,
        None if row.group is None else _text(str(row.group)),
        _text(row.reason),
        values,
        _json(row.components),
        usage.get("calls"),
        usage.get("total_tokens"),
        _number(usage.get("cost")),
        row.content,
        row.rubric,
        _json(row.source),
    )


def _of_nodes(row: Row) -> Iterator[tuple[Any, ...]]:
    last = None if row.status == "error" else row.steps
    steps = enumerate(row.evaluations, start=1) if row.evaluations else [(last, row.evaluation)]
    for step, evaluation in steps:
        for node in evaluation.nodes() if evaluation is not None else ():
            yield _text(row.id), step, *_of_node(node)


def _of_node(node: Evaluation) -> tuple[Any, ...]:
    cost = node.own_usage.cost if node.own_usage else None
    texts = _text(node.path), _text(node.kind), node.status
    return *texts, _number(node.score), _text(node.reason), node.duration, _number(cost), _json(node.metadata or None)


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _text(value: str | None) -> str | None:
    """Text that a table can hold: half a surrogate pair is spelled out."""
    return value if value is None else value.encode(errors="backslashreplace").decode()


def _json(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return orjson.dumps(value, repr).decode()
    except TypeError:  # half a surrogate pair, numbers of more than 64 bits, keys that are no text
        return json_line(finite(jsonable(value, repr), [])).decode().rstrip()
