"""Ready-made leaves: what people check again and again, each usable in code and from a file."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {}  # name -> module of this package; resolved on first use, so that the import stays light


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"rubrics.criteria.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rubrics.criteria' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted(_HOMES)
