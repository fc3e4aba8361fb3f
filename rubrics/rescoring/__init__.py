"""Scoring recorded trajectories again, offline.

    rubric = load_rubric("legal.py:make_rubric")
    for row in rescore(read("runs.jsonl"), rubric):
        print(row.id, row.recorded_reward, row.reward, row.status)

`rubrics rescore` on the command line does the same and writes the rows to a file. What moved between two such files,
`compare` says (`rubrics diff`).
"""

from rubrics.modules import LoadError
from rubrics.rescoring.comparing import DiffError, compare, compare_recorded
from rubrics.rescoring.content import content_hash
from rubrics.rescoring.diff import Change, Diff, NodeChange
from rubrics.rescoring.job import Finished, rescore_files
from rubrics.rescoring.load import load_any_rubric, load_rubric, load_types
from rubrics.rescoring.output import OutputError
from rubrics.rescoring.plan import DryRun, plan_files
from rubrics.rescoring.ranks import GroupChange
from rubrics.rescoring.reaggregation import reaggregate
from rubrics.rescoring.replay import Method, prepared
from rubrics.rescoring.report import Page, write_page
from rubrics.rescoring.row_file import RowFile
from rubrics.rescoring.rows import Row, read_rows
from rubrics.rescoring.run import (
    AssumedEnd,
    rescore,
    rescore_async,
    rescore_one,
    rescore_one_async,
)
from rubrics.rescoring.summary import Summary
from rubrics.rescoring.tables import MissingExtraError, to_arrow, to_pandas, to_polars, write_parquet
from rubrics.rescoring.types import Types
from rubrics.rescoring.where import ConditionError, condition

__all__ = [
    "AssumedEnd",
    "Change",
    "ConditionError",
    "Diff",
    "DiffError",
    "DryRun",
    "Finished",
    "GroupChange",
    "LoadError",
    "Method",
    "MissingExtraError",
    "NodeChange",
    "OutputError",
    "Page",
    "Row",
    "RowFile",
    "Summary",
    "Types",
    "compare",
    "compare_recorded",
    "load_any_rubric",
    "load_rubric",
    "condition",
    "content_hash",
    "load_types",
    "plan_files",
    "prepared",
    "read_rows",
    "reaggregate",
    "rescore",
    "rescore_async",
    "rescore_files",
    "rescore_one",
    "rescore_one_async",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "write_page",
    "write_parquet",
]
