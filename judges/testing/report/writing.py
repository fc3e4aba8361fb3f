"""Reports as files: the ending of the name says in which form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from errno import EEXIST
from pathlib import Path

from judges.testing.golden import GoldenError
from judges.testing.report.assessed import Assessed, assess
from judges.testing.report.data import to_dict
from judges.testing.report.html import page_parts
from judges.testing.report.markdown import to_markdown
from judges.testing.results import SuiteReport
from rubrics.pages import written

ENDINGS = (".json", ".md", ".html")


def check_ending(path: str | Path) -> str:
    """The ending of a report's name, which says its form.

    Raises:
        GoldenError: it is none of `.json`, `.md` and `.html`.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise GoldenError(f"{path}: a report is written as JSON, Markdown or HTML: end its name in .json, .md or .html")
    return ending


def write_report(
    reports: Sequence[SuiteReport | Assessed],
    path: str | Path,
    baseline: Sequence[SuiteReport] | None = None,
    overwrite: bool = True,
) -> Path:
    """Write reports to a file: `.json` (which `read_reports` reads back), `.md` or `.html`. It appears when complete.

    Args:
        reports: of the suites, assessed or not (see `assess`).
        path: the file; its folder is made where it is not there.
        baseline: the reports of an earlier run, to which they are compared.
        overwrite: replace a file that is there.

    Raises:
        GoldenError: the name ends in something else, or a threshold is of no figure of its suite.
        FileExistsError: there is such a file, and `overwrite` is false.
        OSError: it cannot be written.
    """
    path = Path(path)
    ending = check_ending(path)
    if path.exists() and not overwrite:
        raise FileExistsError(EEXIST, "the file exists", str(path))
    assessed = assess(reports, baseline)
    path.parent.mkdir(parents=True, exist_ok=True)
    if ending == ".json":
        written(path, [json.dumps(to_dict(assessed), allow_nan=False), "\n"])
    elif ending == ".md":
        written(path, [to_markdown(assessed)])
    else:
        written(path, page_parts(assessed))
    return path
