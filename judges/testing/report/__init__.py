"""Reports of judge tests: for a terminal, as JSON, as Markdown for a pull request, and as one page of HTML.

All of them take the reports of suites, and those of a baseline to compare them to. `assess` works out what follows from
the reports once, so that several forms of them cost no more than one.
"""

from judges.testing.report.assessed import Assessed, assess
from judges.testing.report.data import to_dict
from judges.testing.report.html import page_parts
from judges.testing.report.markdown import to_markdown
from judges.testing.report.terminal import Line, summary, summary_lines
from judges.testing.report.writing import check_ending, write_report

__all__ = [
    "Assessed",
    "Line",
    "assess",
    "check_ending",
    "page_parts",
    "summary",
    "summary_lines",
    "to_dict",
    "to_markdown",
    "write_report",
]
