"""Ready-made leaves: what people check again and again, each usable in code and from a file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SUBJECTS = {
    "text": ("Exact", "Contains", "Regex", "Length", "Overlong", "Repetition", "Tags", "Language"),
    "citations": ("Citations",),
    "overlap": ("Fuzzy", "TokenOverlap", "Bleu", "Chrf", "Rouge"),
    "numbers": ("NumericEqual", "InRange", "MathEqual"),
    "choice": ("MultipleChoice",),
    "structure": ("ParsesJson", "MatchesSchema", "ValueIs", "ParsesXml", "ParsesYaml", "ParsesSql", "Markdown"),
    "code": ("ParsesPython", "ImportsAllowed", "RuffClean"),
    "unit_tests": ("UnitTests",),
    "tools": (
        *("Called", "NeverCalled", "CalledInOrder", "AtMostCalls", "NoRepeatedCalls", "ArgumentsMatch"),
        *("RecoversFromErrors", "WithinBudget", "SideEffect"),
    ),
    "reward_model": ("RewardModel",),
    "embeddings": ("EmbeddingSimilarity",),
    "base": ("TextCheck", "ReferenceCheck"),
}
_HOMES = {name: module for module, names in _SUBJECTS.items() for name in names}  # imported when they are named
_BASES = ("TextCheck", "ReferenceCheck")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rubrics.criteria.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rubrics.criteria' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


KINDS = sorted(set(_HOMES) - set(_BASES))
"""The names of the leaves, which are kinds of files of rubrics as well."""

__all__ = sorted(_HOMES)
