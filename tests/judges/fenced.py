"""What stands in the fences of a prompt, and what outside: for tests that must know which is which."""

from __future__ import annotations

import re

_FENCE = re.compile(r"<<<UNTRUSTED (\w+)\n(.*?)\n\1 UNTRUSTED>>>", re.DOTALL)


def inside(text: str) -> list[str]:
    """The fenced values, in order."""
    return [value for _, value in _FENCE.findall(text)]


def outside(text: str) -> str:
    """The text without its fenced values."""
    return _FENCE.sub("[value]", text)
