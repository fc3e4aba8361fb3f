"""Text and values from outside, as they may be shown to people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_ITEMS = 200  # shown of a list or an object, at most
_DEPTH = 16
_SAFE = 2**53  # greater numbers lose digits in JavaScript


def printable(text: str) -> str:
    """Text as a terminal may be given it: it obeys control characters."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


class Cut:
    """Makes values of any kind small enough to be shown, as JSON values.

    Args:
        longest: characters of a text that are kept, at most.

    Attributes:
        texts: number of texts that were cut.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.texts = 0

    def text(self, text: str) -> str:
        """The text, with a note in its middle of how many characters were left out."""
        if (over := len(text) - self.longest) <= 0:
            return text
        self.texts += 1
        tail = self.longest // 4
        return f"{text[: self.longest - tail]}\n[… {over:,} characters are left out here …]\n{text[-tail:]}"

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON; what JSON does not know is written as Python does."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return value if abs(value) < _SAFE else self.text(str(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth < _DEPTH and isinstance(value, Mapping):
            items = list(dict(value).items())
            shown = {self.text(str(key)): self.value(item, depth + 1) for key, item in items[:_ITEMS]}
            return {**shown, **({"…": f"{len(items) - _ITEMS:,} more are left out"} if len(items) > _ITEMS else {})}
        if depth < _DEPTH and isinstance(value, list | tuple):
            more = [f"… {len(value) - _ITEMS:,} more are left out"] if len(value) > _ITEMS else []
            return [*(self.value(item, depth + 1) for item in value[:_ITEMS]), *more]
        return self.text(repr(value))
