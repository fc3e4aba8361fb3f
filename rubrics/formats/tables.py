"""Tables as records: Parquet files, Arrow files and streams (which is what a saved Hugging Face dataset is made of).

A row is a record, and its number is the line. A table has every key in every row, so a null in it, at any depth, mostly
says that there was no such key: such keys are left out, and absent stays absent. Messages with text here and parts
there fit into no column, so they are stored as JSON text; it is decoded in columns of the names below, and nowhere
else, since a text that looks like JSON may be what somebody wrote. Dates become text as ISO 8601, bytes Base64.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rubrics.formats.parsing import FormatError, Parsed, finite, json_line

if TYPE_CHECKING:
    import pyarrow

    from rubrics.trajectory import Trajectory

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_ROWS = 64  # made into Python objects at a time

_OURS = ("task", "initial", "steps", "source", "metadata")  # columns of `write_parquet`, which may hold any JSON
# fmt: off
_LISTS = frozenset({
    "messages", "prompt", "completion", "traj", "trajectory", "history", "steps", "nodes", "traces", "tool_trace",
    "events", "choices", "tools", "output", "simulations", "ticks", "tool_calls",
})
_OBJECTS = frozenset({
    "task", "info", "metadata", "metrics", "rewards", "scores", "components", "environment", "env", "agent", "extra",
    "verify_metrics", "artifacts", "test_result", "instance", "issue", "responses_create_params", "response", "initial",
    "source", "final_metrics", "reward_info", "attributes", "context",
})
# fmt: on


def is_table(head: bytes) -> bool:
    """Whether a file that starts with these bytes is a table."""
    return head.startswith((_PARQUET, _ARROW, _STREAM))


def rows(file: io.BufferedReader) -> Iterator[Parsed | FormatError]:
    """The rows of the table in `file`, one batch of them in memory at a time; an error for one that cannot be read.

    Raises FormatError where pyarrow is missing, or the table, or the rest of it, cannot be read.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise FormatError(
            f"the file is a table of Parquet or Arrow, which needs pyarrow ({error}); pip install 'rubrics[parquet]'"
        ) from error
    number = 0
    try:
        for batch in _batches(file):
            ours = _written_by_us(batch.schema)
            for start in range(0, batch.num_rows, _ROWS):
                for row in _objects(batch.slice(start, _ROWS)):
                    number += 1
                    if isinstance(row, Exception):
                        yield FormatError(f"the row cannot be read: {row}", number)
                    else:
                        yield _record(row, number, ours)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        behind = f" behind row {number}" if number else ""
        raise FormatError(
            f"the table cannot be read{behind}: {error or type(error).__name__}", number or None
        ) from error


def _objects(batch: pyarrow.RecordBatch) -> list[dict[str, Any] | Exception]:
    """The rows as dicts; for a row with a value that Python cannot hold, such as text that is not UTF-8, the error."""
    try:
        return list(batch.to_pylist())
    except (ValueError, LookupError, ArithmeticError) as error:
        if batch.num_rows == 1:
            return [error]
        return [row for index in range(batch.num_rows) for row in _objects(batch.slice(index, 1))]


def _batches(file: io.BufferedReader) -> Iterator[pyarrow.RecordBatch]:
    from pyarrow import ipc, parquet

    head = file.peek(8)
    source: BinaryIO = file if file.seekable() else io.BytesIO(file.read())
    if head.startswith(_PARQUET):
        yield from parquet.ParquetFile(source).iter_batches(batch_size=_ROWS)
        return
    if head.startswith(_ARROW):
        stored = ipc.open_file(source)
        batches = map(stored.get_batch, range(stored.num_record_batches))
    else:
        batches = iter(ipc.open_stream(source))
    for batch in batches:
        batch.validate(full=True)  # else damaged offsets may end the process
        yield batch


def _written_by_us(schema: pyarrow.Schema) -> bool:
    """Whether this is a table of `write_parquet`: what may be any JSON is text in all of its columns."""
    from pyarrow import types

    kinds = [schema.field(name).type for name in _OURS if name in schema.names]
    texts = [types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) for kind in kinds]
    return len(kinds) == len(_OURS) and all(texts)


def _record(row: dict[str, Any], number: int, ours: bool) -> Parsed:
    places: list[str] = []
    record = {}
    for name, value in row.items():
        if value is None:
            continue
        if isinstance(value, str):
            decoded = _decoded(name, value, ours)
            record[name] = value if decoded is None else finite(decoded, places, name)
        else:
            record[name] = _plain(value, places, name)
    return Parsed(number, record, places)


def _decoded(name: str, text: str, ours: bool) -> Any:
    """What the JSON text in a column stands for, None for any other text."""
    any_json = ours and name in _OURS
    start = text.lstrip()[:1]
    if not (any_json or (start == "[" and name in _LISTS) or (start == "{" and name in _OBJECTS)):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    objects = isinstance(value, dict) or (isinstance(value, list) and all(isinstance(v, dict | list) for v in value))
    return value if any_json or objects else None


def _plain(value: Any, places: list[str], place: str) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item, places, f"{place}.{key}") for key, item in value.items() if item is not None}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):  # a map
            return _plain({str(key): item for key, item in value}, places, place)
        return [_plain(item, places, f"{place}.{index}") for index, item in enumerate(value)]
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        places.append(place)
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, str | int | float) or value is None else str(value)


def dataset_files(folder: Path) -> list[Path] | None:
    """The files of a Hugging Face dataset that was saved to this folder, in order; None for any other folder.

    The folder may hold files of its cache too, with copies of the same rows.
    """
    try:
        with (folder / "state.json").open("rb") as file:
            files = json.load(file)["_data_files"]
        return [folder / entry["filename"] for entry in files]
    except (FileNotFoundError, IsADirectoryError):
        return None
    except (ValueError, LookupError, TypeError, RecursionError):  # somebody else's state.json
        return None


# --- writing ---------------------------------------------------------------------------------------------------------

_GROUP_BYTES = 1 << 25  # of a row group, before compression


def write_parquet(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Writes trajectories as a Parquet file, a row group at a time, and returns their number.

    Columns are those of our JSONL: `id`, `end` and `reduction` are text, `reward` is a number, null where there is
    none; `task`, `initial`, `steps`, `source` and `metadata` are JSON text. `read` gives the same trajectories back.
    What is not finite becomes null and is listed in the metadata under "not_finite".

    Raises:
        FileExistsError: rather than overwrite a file.
        TypeError, ValueError: naming the trajectory and the place, JSON cannot hold something.
        ImportError: pyarrow is missing.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"Parquet needs pyarrow ({error}); pip install 'rubrics[parquet]'") from error
    from rubrics.formats.jsonl import trajectory_record  # brings pydantic

    columns = ("id", "task", "initial", "steps", "end", "reward", "reduction", "source", "metadata")
    schema = pyarrow.schema([(name, pyarrow.float64() if name == "reward" else pyarrow.string()) for name in columns])
    count = size = 0
    group: list[dict[str, Any]] = []
    with Path(path).open("xb") as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for trajectory in trajectories:
            row = trajectory_record(trajectory)
            for name in _OURS:
                if row[name] is not None:
                    row[name] = json_line(row[name]).decode().rstrip()
                    size += len(row[name])
            try:
                row["id"].encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"the id {row['id']!r} is half a character, which Parquet cannot hold") from error
            group.append(row)
            count += 1
            if size >= _GROUP_BYTES:
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                group, size = [], 0
        if group or not count:
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
    return count
