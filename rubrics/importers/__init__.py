"""Rubrics that exist elsewhere, as trees: one file a source.

```python
tree = paperbench("rubric.json")                                # nobody has graded it: each leaf is unscored
tree = paperbench("rubric.json", grades="graded.json")          # by the grades of people
tree = paperbench("rubric.json", leaf=judged_by(model="…"))     # by a judge (judges.judged_by)
```

Every function takes a path, or the data itself, and returns a tree. Its leaves are `Requirement`s, or what `leaf` makes
of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "ImporterError": "source",
    "Passed": "requirement",
    "Requirement": "requirement",
    "healthbench": "points",
    "inspect_grading": "grading_text",
    "paperbench": "paperbench_tree",
    "requirements": "points",
    "rewardkit": "rewardkit_toml",
    "verifiers": "verifiers_criteria",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rubrics.importers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rubrics.importers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted(_HOMES)
